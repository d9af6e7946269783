/* Registers the operators of ExecuTorch's Cortex-M backend, and those that Deuteron adds, when this library is loaded.
 *
 * The runtime aborts the process if a name is registered twice. Names that it already has are therefore skipped: they
 * belong to another copy of this library, or to an application with its own operators. */
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/log.h>

#include <cstring>

#include "deuteron/cortex_m.h"
#include "operators.h"

namespace deuteron
{
namespace
{

using executorch::runtime::Error;
using executorch::runtime::Kernel;
using Kernels = executorch::runtime::Span<const Kernel>;

#define DTN_NAME(name) "cortex_m::" #name ".out"

/* A row of DTN_CM_FORMER_NAMES, and of DTN_CM_ADDED, as a kernel. */
#define DTN_FORMER(former, name, inputs, outputs)                                                                      \
    Kernel("deuteron::" #former ".out", [](Context &context, Stack stack) {                                            \
        Call(context, "deuteron::" #former, stack, (inputs) + 2 + (outputs))                                           \
            .run_added(dtn_cm_##name, inputs, outputs);                                                                \
    }),
#define DTN_ADDED(name, inputs, outputs) DTN_FORMER(name, name, inputs, outputs)

const Kernel kKernels[] = {
    Kernel(DTN_NAME(quantize_per_tensor), quantize_per_tensor),
    Kernel(DTN_NAME(dequantize_per_tensor), dequantize_per_tensor),
    Kernel(DTN_NAME(quantized_add), quantized_add),
    Kernel(DTN_NAME(quantized_mul), quantized_mul),
    Kernel(DTN_NAME(quantized_div), quantized_div),
    Kernel(DTN_NAME(quantized_activation), quantized_activation),
    Kernel(DTN_NAME(minimum), minimum),
    Kernel(DTN_NAME(maximum), maximum),
    Kernel(DTN_NAME(softmax), softmax),
    Kernel(DTN_NAME(transpose), transpose),
    Kernel(DTN_NAME(pad), pad),
    Kernel(DTN_NAME(quantized_linear), quantized_linear),
    Kernel(DTN_NAME(quantized_batch_matmul), quantized_batch_matmul),
    Kernel(DTN_NAME(quantized_conv2d), quantized_conv2d<false>),
    Kernel(DTN_NAME(quantized_conv2d_nhwc), quantized_conv2d<true>),
    Kernel(DTN_NAME(quantized_depthwise_conv2d), quantized_depthwise_conv2d<false>),
    Kernel(DTN_NAME(quantized_depthwise_conv2d_nhwc), quantized_depthwise_conv2d<true>),
    Kernel(DTN_NAME(quantized_transpose_conv2d), quantized_transpose_conv2d<false>),
    Kernel(DTN_NAME(quantized_transpose_conv2d_nhwc), quantized_transpose_conv2d<true>),
    Kernel(DTN_NAME(quantized_avg_pool2d), quantized_avg_pool2d<false>),
    Kernel(DTN_NAME(quantized_avg_pool2d_nhwc), quantized_avg_pool2d<true>),
    Kernel(DTN_NAME(quantized_max_pool2d), quantized_max_pool2d<false>),
    Kernel(DTN_NAME(quantized_max_pool2d_nhwc), quantized_max_pool2d<true>),
    /* For a channels-last int8 output, which is listed twice: as an argument and as the result. */
    Kernel("aten::cat.out", "v1/1;0,2,3,1|1;0,2,3,1", cat_channels_last),
};

const Kernel kAdded[] = {DTN_CM_ADDED(DTN_ADDED) DTN_CM_FORMER_NAMES(DTN_FORMER)};

/* True if the runtime has a kernel of this name for the same types and orders. */
bool is_registered(const Kernel &kernel)
{
    for (const Kernel &known : executorch::runtime::get_registered_kernels()) {
        if (std::strcmp(known.name_, kernel.name_) == 0 && known.kernel_key_ == kernel.kernel_key_) {
            return true;
        }
    }
    return false;
}

bool register_missing(Kernels kernels)
{
    bool good = true;
    for (const Kernel &kernel : kernels) {
        if (is_registered(kernel)) {
            continue;
        }
        if (executorch::runtime::register_kernels({&kernel, 1}) != Error::Ok) {
            ET_LOG(Error, "%s cannot be registered", kernel.name_);
            good = false;
        }
    }
    return good;
}

const bool registered = register_missing(kKernels) && register_missing(kAdded);

} // namespace
} // namespace deuteron

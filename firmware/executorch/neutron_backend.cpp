/* `NeutronBackend` for ExecuTorch's runtime: runs the partitions of a .pte through the driver in this process.
 *
 * The payload is ExecuTorch's own (payload.h); the driver API is the one that ExecuTorch's NXP delegate calls, so
 * either delegate works with this driver. All memory is from the runtime's allocators, except on a host the repacked
 * weights for faster kernels, which are optional.
 *
 * Header and microcode are copied when a method is loaded, because an operator of a damaged program could change them
 * after their check. On a host the weights are copied too; on a device they stay in place: for any weights, kernels
 * write only their outputs.
 *
 * Temporary memory of a delegate call: the buffer tables, the scratch, profile, debug and prefetch bytes of the
 * payload, and each transposed tensor. The port's copy needs another block for the largest of these if it is larger
 * than the scratch memory. Each block is aligned to 16.
 */
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/platform.h>

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <new>

#include "deuteron/errors.h"
#include "layout.h"
#include "NeutronDriver.h"
#include "payload.h"
#include "profile.h"
#ifdef DEUTERON_DELEGATE_HOST
#include <cstdlib>

#include "deuteron/levels.h"
#include "observer.h"
#endif

namespace deuteron
{
namespace
{

using executorch::aten::Tensor;
using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

constexpr uint32_t kTimeoutSeconds = 60;

#ifdef DEUTERON_DELEGATE_HOST
constexpr bool kCopiesWeights = true;
#else
constexpr bool kCopiesWeights = false;
#endif

/* Format of logged driver errors: its text, then the command or kernel number. */
#define NEUTRON_ERROR_FORMAT "%s (error 0x%08" PRIX32 ", detail %" PRIu32 ")"
#define NEUTRON_ERROR_ARGS(error) dtn_error_string(error), static_cast<uint32_t>(error), DTN_ERROR_DETAIL(error)

/* State that outlives a call: one per delegate of a loaded method. */
struct Handle {
    Bytes bytes;
    Payload payload;
    NeutronModelHandle model;
#ifdef DEUTERON_DELEGATE_HOST
    void *panels = nullptr;
#endif
};

/* Memory for `count` objects from the temporary allocator, nullptr if there is none. */
template <typename T> T *allocate(BackendExecutionContext &context, size_t count)
{
    return static_cast<T *>(context.allocate(count * sizeof(T), alignof(T)));
}

/* The buffers of one run, all from the temporary allocator, which the runtime empties after each delegate call. */
struct Run {
    Binding *inputs;
    Binding *outputs;
    const void **input_pointers;
    void **output_pointers; /* outputs, then scratch, profile, debug */
    void *scratch;
    void *staging; /* for copies of transposed tensors: the scratch memory, if it is large enough */
    void *profile;
    void *debug;
    void *prefetch;
};

Error allocate_block(BackendExecutionContext &context, const char *what, size_t bytes, void **out)
{
    *out = bytes == 0 ? nullptr : context.allocate(bytes, kAlignment);
    ET_CHECK_OR_RETURN_ERROR(*out != nullptr || bytes == 0, MemoryAllocationFailed, "No %zu bytes for the NPU's %s",
                             bytes, what);
    return Error::Ok;
}

Error allocate_run(BackendExecutionContext &context, const Payload &payload, Run *run)
{
    ET_CHECK_OR_RETURN_ERROR(context.get_temp_allocator() != nullptr, MemoryAllocationFailed,
                             "The runtime has no temporary allocator, which the NPU's scratch memory comes from");
    run->inputs = allocate<Binding>(context, payload.inputs());
    run->outputs = allocate<Binding>(context, payload.outputs());
    run->input_pointers = allocate<const void *>(context, payload.inputs());
    run->output_pointers = allocate<void *>(context, payload.outputs() + 3);
    const bool complete = (run->inputs != nullptr && run->input_pointers != nullptr) || payload.inputs() == 0;
    ET_CHECK_OR_RETURN_ERROR(complete && run->output_pointers != nullptr &&
                                 (run->outputs != nullptr || payload.outputs() == 0),
                             MemoryAllocationFailed, "No memory for the buffer table of %zu inputs and %zu outputs",
                             payload.inputs(), payload.outputs());
    ET_CHECK_OK_OR_RETURN_ERROR(allocate_block(context, "scratch memory", payload.scratch_bytes, &run->scratch));
    ET_CHECK_OK_OR_RETURN_ERROR(allocate_block(context, "profile", payload.profile_bytes, &run->profile));
    ET_CHECK_OK_OR_RETURN_ERROR(allocate_block(context, "debug memory", payload.debug_bytes, &run->debug));
    return allocate_block(context, "prefetch area", payload.prefetch_bytes, &run->prefetch);
}

Error bind_tensor(BackendExecutionContext &context, EValue *value, Side side, size_t index, size_t bytes,
                  bool channels_last, Binding *binding)
{
    ET_CHECK_OR_RETURN_ERROR(value->isTensor(), InvalidArgument, "%s %zu is not a tensor",
                             side == Side::kInput ? "Input" : "Output", index);
    return (new (binding) Binding())->bind(context, value->toTensor(), side, index, bytes, channels_last);
}

Error bind_run(BackendExecutionContext &context, const Handle &handle, Span<EValue *> args, Run *run)
{
    const Payload &payload = handle.payload;
    ET_CHECK_OR_RETURN_ERROR(args.size() == payload.input_args + payload.outputs(), InvalidProgram,
                             "Payload has %zu arguments and %zu outputs, the program passes %zu", payload.input_args,
                             payload.outputs(), args.size());
    for (size_t i = 0; i < payload.inputs(); i++) {
        const size_t arg = payload.input_map[i];
        ET_CHECK_OK_OR_RETURN_ERROR(bind_tensor(context, args[arg], Side::kInput, i, payload.input_bytes(i),
                                                payload.input_formats[i] == 1, &run->inputs[i]));
        run->input_pointers[i] = run->inputs[i].buffer();
    }
    for (size_t i = 0; i < payload.outputs(); i++) {
        const size_t arg = payload.input_args + payload.output_map[i];
        ET_CHECK_OK_OR_RETURN_ERROR(bind_tensor(context, args[arg], Side::kOutput, i, payload.output_bytes(i),
                                                payload.output_formats[i] == 1, &run->outputs[i]));
        run->output_pointers[i] = run->outputs[i].buffer();
    }
    ET_CHECK_OK_OR_RETURN_ERROR(check_no_overlap(handle.bytes, Bindings(run->inputs, payload.inputs()),
                                                 Bindings(run->outputs, payload.outputs())));
    void **const extra = run->output_pointers + payload.outputs();
    extra[0] = run->scratch;
    extra[1] = run->profile;
    extra[2] = run->debug;
    return Error::Ok;
}

Error allocate_staging(BackendExecutionContext &context, const Payload &payload, Run *run)
{
    size_t bytes = 0;
    for (size_t i = 0; i < payload.inputs(); i++) {
        bytes = run->inputs[i].transposes() ? std::max(bytes, run->inputs[i].memory().size()) : bytes;
    }
    for (size_t i = 0; i < payload.outputs(); i++) {
        bytes = run->outputs[i].transposes() ? std::max(bytes, run->outputs[i].memory().size()) : bytes;
    }
    run->staging = run->scratch;
    return bytes <= payload.scratch_bytes ? Error::Ok : allocate_block(context, "copies", bytes, &run->staging);
}

#ifdef DEUTERON_DELEGATE_HOST
void (*observer_fn)(void *, const deuteron_delegate_call *) = nullptr;
void *observer_ctx = nullptr;

Error observe(BackendExecutionContext &context, const Handle &handle, const Run &run)
{
    if (observer_fn == nullptr) {
        return Error::Ok;
    }
    const Payload &payload = handle.payload;
    size_t *const sizes = allocate<size_t>(context, payload.inputs() + payload.outputs());
    ET_CHECK_OR_RETURN_ERROR(sizes != nullptr, MemoryAllocationFailed, "No memory for the observer's record");
    for (size_t i = 0; i < payload.inputs(); i++) {
        sizes[i] = payload.input_bytes(i);
    }
    for (size_t i = 0; i < payload.outputs(); i++) {
        sizes[payload.inputs() + i] = payload.output_bytes(i);
    }
    deuteron_delegate_call call = {};
    call.payload = handle.bytes.data();
    call.payload_bytes = handle.bytes.size();
    call.microcode = payload.microcode.data();
    call.microcode_bytes = payload.microcode.size();
    call.inputs = payload.inputs();
    call.input_data = run.input_pointers;
    call.input_bytes = sizes;
    call.outputs = payload.outputs();
    call.output_data = run.output_pointers;
    call.output_bytes = sizes + payload.inputs();
    observer_fn(observer_ctx, &call);
    return Error::Ok;
}
#endif

#ifdef DEUTERON_DELEGATE_HOST
/* On a host this library starts the driver. On a device the application does, as with ExecuTorch's own delegate: it
 * knows when clocks run, and installs its copy hook afterwards. */
const NeutronError started = neutronInit();

/* Repacked weights of the model while it is prepared; runs are slower without memory for them. */
void use_panels(Handle *handle)
{
    const size_t bytes = dtn_panel_bytes(handle->model);
    handle->panels = bytes == 0 ? nullptr : std::malloc(bytes);
    if (handle->panels != nullptr) {
        dtn_use_panels(handle->model, handle->panels, bytes);
    }
}
#endif

class NeutronBackend final : public BackendInterface
{
  public:
    bool is_available() const override
    {
#ifdef DEUTERON_DELEGATE_HOST
        return started == ENONE;
#else
        return true;
#endif
    }

    Result<DelegateHandle *> init(BackendInitContext &context, FreeableBuffer *processed,
                                  ArrayRef<CompileSpec> /*compile_specs*/) const override
    {
        executorch::runtime::MemoryAllocator *const allocator = context.get_runtime_allocator();
        Handle *const memory = allocator->allocateInstance<Handle>();
        const size_t context_bytes = neutronGetModelContextSize();
        void *const model = allocator->allocate(context_bytes, kAlignment);
        ET_CHECK_OR_RETURN_ERROR(memory != nullptr && model != nullptr, MemoryAllocationFailed,
                                 "No %zu bytes for the NPU's model context", sizeof(Handle) + context_bytes);
        Handle *const handle = new (memory) Handle();
        handle->bytes = Bytes(static_cast<const uint8_t *>(processed->data()), processed->size());
        ET_CHECK_OK_OR_RETURN_ERROR(parse_payload(handle->bytes, &handle->payload));
        const Bytes trusted = handle->payload.trusted(kCopiesWeights);
        void *const copy = allocator->allocate(trusted.size(), kAlignment);
        ET_CHECK_OR_RETURN_ERROR(copy != nullptr, MemoryAllocationFailed, "No %zu bytes for a copy of the microcode",
                                 trusted.size());
        std::memcpy(copy, trusted.data(), trusted.size());
        handle->payload.move(trusted, static_cast<const uint8_t *>(copy));

        NeutronModelConfig config = {};
        config.microcode = handle->payload.microcode.data();
        config.weights = handle->payload.weights.data();
        config.kernels = handle->payload.kernels.data();
        config.timeoutSeconds = kTimeoutSeconds;
        handle->model = model;
        const NeutronError error = neutronModelPrepare(&config, &handle->model);
        ET_CHECK_OR_RETURN_ERROR(error == ENONE, InvalidProgram,
                                 "The NPU driver rejected the model: " NEUTRON_ERROR_FORMAT, NEUTRON_ERROR_ARGS(error));
#ifdef DEUTERON_DELEGATE_HOST
        use_panels(handle);
#endif
        return handle;
    }

    Error execute(BackendExecutionContext &context, DelegateHandle *opaque, Span<EValue *> args) const override
    {
        const Handle &handle = *static_cast<const Handle *>(opaque);
        const Payload &payload = handle.payload;
        /* Maximum: the arguments, every input, the run and every output. */
        const size_t phase_count = payload.inputs() + payload.outputs() + 2;
        const bool logged = context.event_tracer() != nullptr && context.get_temp_allocator() != nullptr;
        Phases phases(logged ? allocate<Phase>(context, phase_count) : nullptr);
        Run run = {};
        ET_CHECK_OK_OR_RETURN_ERROR(allocate_run(context, payload, &run));
        ET_CHECK_OK_OR_RETURN_ERROR(bind_run(context, handle, args, &run));
        ET_CHECK_OK_OR_RETURN_ERROR(allocate_staging(context, payload, &run));
        phases.end(kArguments);
        for (size_t i = 0; i < payload.inputs(); i++) {
            if (run.inputs[i].transposes()) {
                ET_CHECK_OK_OR_RETURN_ERROR(run.inputs[i].load(run.staging));
                phases.end(kTransposeIn, i);
            }
        }

        NeutronDataConfig data = {};
        data.inputs = run.input_pointers;
        data.outputs = run.output_pointers;
        data.scratch = run.scratch;
        data.scratchWeights = run.prefetch;
        const NeutronError error = neutronRunBlocking(handle.model, &data);
        phases.end(kRun);
        ET_CHECK_OR_RETURN_ERROR(error == ENONE, Internal, "The NPU run failed: " NEUTRON_ERROR_FORMAT,
                                 NEUTRON_ERROR_ARGS(error));

        for (size_t i = 0; i < payload.outputs(); i++) {
            if (run.outputs[i].transposes()) {
                ET_CHECK_OK_OR_RETURN_ERROR(run.outputs[i].store(run.staging));
                phases.end(kTransposeOut, i);
            }
        }
        phases.log(context.event_tracer(), Bytes(static_cast<const uint8_t *>(run.profile), payload.profile_bytes));
#ifdef DEUTERON_DELEGATE_HOST
        ET_CHECK_OK_OR_RETURN_ERROR(observe(context, handle, run));
#endif
        return Error::Ok;
    }

    void destroy(DelegateHandle *opaque) const override
    {
        if (opaque != nullptr) {
            neutronModelUnprepare(static_cast<Handle *>(opaque)->model);
#ifdef DEUTERON_DELEGATE_HOST
            std::free(static_cast<Handle *>(opaque)->panels);
#endif
        }
    }
};

NeutronBackend backend;
/* If a second copy of this library is loaded, the name is already registered; the first one is used. */
const Error registered = executorch::runtime::register_backend({"NeutronBackend", &backend});

} // namespace
} // namespace deuteron

#ifdef DEUTERON_DELEGATE_HOST
extern "C" void deuteron_set_observer(void (*fn)(void *ctx, const struct deuteron_delegate_call *call), void *ctx)
{
    deuteron::observer_fn = fn;
    deuteron::observer_ctx = ctx;
}
#endif

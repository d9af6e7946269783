/* `EthosUBackend` for ExecuTorch's runtime on hosts: executes the command streams of a .pte's partitions on the CPU, as
 * the NPU would. Its partitions are those of ExecuTorch's own Ethos-U backend (blob.h).
 *
 * The places of tensors in scratch memory are copied when a method is loaded, because an operator of a damaged program
 * could change them in the payload after their check. Commands are checked in every run.
 */
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/platform.h>

#include <cinttypes>
#include <cstring>
#include <new>

#include "../copy.h"
#include "../observer.h"
#include "../overlap.h"
#include "blob.h"
#include "deuteron/ethosu.h"
#include "profile.h"

namespace deuteron
{
namespace ethosu
{

void (*observer_fn)(void *, const deuteron_delegate_call *) = nullptr;
void *observer_ctx = nullptr;

namespace
{

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::EventTracer;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

/* Regions of the commands. */
enum { kWeights = 0, kScratch = 1, kFastScratch = 2 };

/* Partitions do not contain the size of the fast scratch memory, which Vela uses for feature maps in separate memory.
 * This is more than in any memory mode of Vela. */
constexpr size_t kFastScratchBytes = size_t{4} << 20;

/* Format of logged faults. */
#define FAULT_FORMAT "%s (command at byte 0x%" PRIx32 ", opcode 0x%03x, detail 0x%" PRIx64 ")"
#define FAULT_ARGS(fault, event) dtn_ethosu_message(fault), (event).offset, (event).opcode, (event).detail

using MutableBytes = Span<uint8_t>;

/* State that outlives a call: one per delegate of a loaded method. */
struct Handle {
    Bytes payload;
    Blob blob;
    Span<Tensor> inputs;
    Span<Tensor> outputs;
    const dtn_ethosu_config_t *config;
    size_t workspace_bytes;
    size_t fast_scratch_bytes; /* 0 if no command uses it */
    dtn_ethosu_t machine;
};

/* The memories of a run without their bytes: only the constants are set, read-only. */
dtn_ethosu_memory_t memory_of(const Handle &handle)
{
    const Blob &blob = handle.blob;
    dtn_ethosu_memory_t memory = {};
    memory.regions[kWeights] = {const_cast<uint8_t *>(blob.weights.data()), blob.weights.size(), true};
    memory.regions[kScratch] = {nullptr, blob.scratch_bytes, false};
    memory.regions[kFastScratch] = {nullptr, handle.fast_scratch_bytes, false};
    return memory;
}

/* Checks a tensor of the program against the partition's, and returns its bytes. */
Error bytes_of(EValue *value, const char *side, size_t index, const Tensor &tensor, MutableBytes *bytes)
{
    ET_CHECK_OR_RETURN_ERROR(value->isTensor(), InvalidArgument, "%s %zu of the partition is not a tensor", side,
                             index);
    executorch::aten::Tensor at = value->toTensor();
    ET_CHECK_OR_RETURN_ERROR(
        static_cast<size_t>(at.element_size()) == tensor.element_bytes && at.nbytes() == tensor.bytes, InvalidArgument,
        "%s %zu has %zu bytes in elements of %zu, the partition has %zu in elements of %zu", side, index, at.nbytes(),
        static_cast<size_t>(at.element_size()), tensor.bytes, tensor.element_bytes);
    ET_CHECK_OR_RETURN_ERROR(at.const_data_ptr() != nullptr, InvalidArgument, "%s %zu has no memory", side, index);
    *bytes = MutableBytes(static_cast<uint8_t *>(at.mutable_data_ptr()), at.nbytes());
    return Error::Ok;
}

/* The bytes of a call's tensors, inputs first. Checks that no output shares memory with another tensor or with the
 * partition. */
Error bind(BackendExecutionContext &context, const Handle &handle, Span<EValue *> args, MutableBytes **bytes)
{
    const size_t inputs = handle.inputs.size();
    const size_t outputs = handle.outputs.size();
    ET_CHECK_OR_RETURN_ERROR(args.size() == inputs + outputs, InvalidProgram,
                             "The partition has %zu inputs and %zu outputs, the program passes %zu", inputs, outputs,
                             args.size());
    MutableBytes *const bound =
        static_cast<MutableBytes *>(context.allocate(args.size() * sizeof(MutableBytes), alignof(MutableBytes)));
    ET_CHECK_OR_RETURN_ERROR(bound != nullptr || args.size() == 0, MemoryAllocationFailed,
                             "No memory for a table of %zu tensors", args.size());
    for (size_t i = 0; i < args.size(); i++) {
        new (&bound[i]) MutableBytes();
        ET_CHECK_OK_OR_RETURN_ERROR(
            i < inputs ? bytes_of(args[i], "Input", i, handle.inputs[i], &bound[i])
                       : bytes_of(args[i], "Output", i - inputs, handle.outputs[i - inputs], &bound[i]));
    }
    const auto memory = [bound](size_t i) { return Bytes(bound[i].data(), bound[i].size()); };
    const auto output = [&](size_t i) { return memory(inputs + i); };
    ET_CHECK_OK_OR_RETURN_ERROR(check_no_overlap(handle.payload, inputs, memory, outputs, output));
    /* Weights may be elsewhere in the program. */
    ET_CHECK_OK_OR_RETURN_ERROR(check_no_overlap(handle.blob.weights, 0, memory, outputs, output));
    *bytes = bound;
    return check_no_overlap(handle.blob.commands, 0, memory, outputs, output);
}

Error allocate(BackendExecutionContext &context, const char *what, size_t bytes, uint8_t **memory)
{
    *memory = bytes == 0 ? nullptr : static_cast<uint8_t *>(context.allocate(bytes, kAlignment));
    ET_CHECK_OR_RETURN_ERROR(*memory != nullptr || bytes == 0, MemoryAllocationFailed, "No %zu bytes for the NPU's %s",
                             bytes, what);
    return Error::Ok;
}

Error allocate_all(BackendExecutionContext &context, const Handle &handle, dtn_ethosu_memory_t *memory)
{
    memory->shram_bytes = handle.config->shram_bytes;
    memory->workspace_bytes = handle.workspace_bytes;
    dtn_ethosu_region_t &scratch = memory->regions[kScratch];
    dtn_ethosu_region_t &fast = memory->regions[kFastScratch];
    ET_CHECK_OK_OR_RETURN_ERROR(allocate(context, "scratch memory", scratch.bytes, &scratch.data));
    ET_CHECK_OK_OR_RETURN_ERROR(allocate(context, "fast scratch memory", fast.bytes, &fast.data));
    ET_CHECK_OK_OR_RETURN_ERROR(allocate(context, "SHRAM", memory->shram_bytes, &memory->shram));
    return allocate(context, "workspace", memory->workspace_bytes, &memory->workspace);
}

/* Reports a finished run to the observer, if there is one, with the tensors in the program's memory order. */
Error observe(BackendExecutionContext &context, const Handle &handle, Span<EValue *> args)
{
    if (observer_fn == nullptr) {
        return Error::Ok;
    }
    const Blob &blob = handle.blob;
    const void **const data = static_cast<const void **>(context.allocate(args.size() * sizeof(void *)));
    size_t *const sizes = static_cast<size_t *>(context.allocate(args.size() * sizeof(size_t)));
    ET_CHECK_OR_RETURN_ERROR(data != nullptr && sizes != nullptr, MemoryAllocationFailed,
                             "No memory for the observer's record");
    for (size_t i = 0; i < args.size(); i++) {
        const executorch::aten::Tensor tensor = args[i]->toTensor();
        data[i] = tensor.const_data_ptr();
        sizes[i] = tensor.nbytes();
    }
    deuteron_delegate_call call = {};
    call.payload = handle.payload.data();
    call.payload_bytes = handle.payload.size();
    call.microcode = blob.commands.data();
    call.microcode_bytes = blob.commands.size();
    call.inputs = handle.inputs.size();
    call.input_data = data;
    call.input_bytes = sizes;
    call.outputs = handle.outputs.size();
    call.output_data = data + call.inputs;
    call.output_bytes = sizes + call.inputs;
    observer_fn(observer_ctx, &call);
    return Error::Ok;
}

class EthosUBackend final : public BackendInterface
{
  public:
    bool is_available() const override
    {
        return true;
    }

    Result<DelegateHandle *> init(BackendInitContext &context, FreeableBuffer *processed,
                                  ArrayRef<CompileSpec> /*compile_specs*/) const override
    {
        void *const place = context.get_runtime_allocator()->allocateInstance<Handle>();
        ET_CHECK_OR_RETURN_ERROR(place != nullptr, MemoryAllocationFailed, "No %zu bytes for the NPU's state",
                                 sizeof(Handle));
        Handle *const handle = new (place) Handle();
        const Error error = load(context, *processed, handle);
        if (error != Error::Ok) {
            destroy(handle);
            return error;
        }
        return handle;
    }

    Error execute(BackendExecutionContext &context, DelegateHandle *opaque, Span<EValue *> args) const override
    {
        Handle &handle = *static_cast<Handle *>(opaque);
        const size_t inputs = handle.inputs.size();
        ET_CHECK_OR_RETURN_ERROR(context.get_temp_allocator() != nullptr, MemoryAllocationFailed,
                                 "The runtime has no temporary allocator, which the NPU's scratch memory comes from");
        MutableBytes *bytes = nullptr;
        ET_CHECK_OK_OR_RETURN_ERROR(bind(context, handle, args, &bytes));
        dtn_ethosu_memory_t memory = memory_of(handle);
        ET_CHECK_OK_OR_RETURN_ERROR(allocate_all(context, handle, &memory));
        uint8_t *const scratch = memory.regions[kScratch].data;
        for (size_t i = 0; i < inputs; i++) {
            const TimeSpan copied(context.event_tracer());
            ET_CHECK_OK_OR_RETURN_ERROR(
                copy(scratch + handle.inputs[i].offset, bytes[i].data(), bytes[i].size(), "input", i));
            copied.end("copy in", i);
        }
        ET_CHECK_OK_OR_RETURN_ERROR(run(context.event_tracer(), handle, memory));
        for (size_t i = 0; i < handle.outputs.size(); i++) {
            const MutableBytes output = bytes[inputs + i];
            const TimeSpan copied(context.event_tracer());
            ET_CHECK_OK_OR_RETURN_ERROR(
                copy(output.data(), scratch + handle.outputs[i].offset, output.size(), "output", i));
            copied.end("copy out", i);
        }
        return observe(context, handle, args);
    }

    void destroy(DelegateHandle *opaque) const override
    {
        if (opaque != nullptr) {
            static_cast<Handle *>(opaque)->~Handle();
        }
    }

  private:
    static Error load(BackendInitContext &context, const FreeableBuffer &processed, Handle *handle)
    {
        const Bytes bytes(static_cast<const uint8_t *>(processed.data()), processed.size());
        handle->payload = bytes;
        ET_CHECK_OK_OR_RETURN_ERROR(parse_blob(bytes, context.get_named_data_map(), &handle->blob));
        ET_CHECK_OK_OR_RETURN_ERROR(keep(context, handle->blob.inputs, &handle->inputs));
        ET_CHECK_OK_OR_RETURN_ERROR(keep(context, handle->blob.outputs, &handle->outputs));
        const Bytes commands = handle->blob.commands;
        handle->config = dtn_ethosu_config_of(commands.data(), commands.size());
        ET_CHECK_OR_RETURN_ERROR(
            handle->config != nullptr, DelegateInvalidCompatibility,
            "The partition's commands are damaged, or for another NPU than Ethos-U55, -U65 and -U85");
        dtn_ethosu_event_t event = {};
        dtn_ethosu_fault_t fault = check(handle, &event);
        if (fault == DTN_ETHOSU_REGION && event.detail == kFastScratch) {
            handle->fast_scratch_bytes = kFastScratchBytes;
            fault = check(handle, &event);
        }
        ET_CHECK_OR_RETURN_ERROR(fault == DTN_ETHOSU_OK, InvalidProgram, "The partition's commands: " FAULT_FORMAT,
                                 FAULT_ARGS(fault, event));
        return Error::Ok;
    }

    /* Copies the records of tensors. */
    static Error keep(BackendInitContext &context, const Tensors &tensors, Span<Tensor> *kept)
    {
        Tensor *const memory = context.get_runtime_allocator()->allocateList<Tensor>(tensors.count());
        ET_CHECK_OR_RETURN_ERROR(memory != nullptr || tensors.count() == 0, MemoryAllocationFailed,
                                 "No memory for %zu tensors of the partition", tensors.count());
        for (size_t i = 0; i < tensors.count(); i++) {
            memory[i] = tensors[i];
        }
        *kept = Span<Tensor>(memory, tensors.count());
        return Error::Ok;
    }

    static dtn_ethosu_fault_t check(Handle *handle, dtn_ethosu_event_t *event)
    {
        const Bytes commands = handle->blob.commands;
        dtn_ethosu_memory_t memory = memory_of(*handle);
        const dtn_ethosu_fault_t fault =
            dtn_ethosu_check(&handle->machine, handle->config, commands.data(), commands.size(), &memory, event);
        handle->workspace_bytes = memory.workspace_bytes;
        return fault;
    }

    static Error copy(void *to, const void *from, size_t bytes, const char *side, size_t index)
    {
        ET_CHECK_OR_RETURN_ERROR(copy_tensor(to, from, bytes), Internal, "The copy of %s %zu failed", side, index);
        return Error::Ok;
    }

    static Error run(EventTracer *tracer, Handle &handle, const dtn_ethosu_memory_t &memory)
    {
        const Bytes commands = handle.blob.commands;
        dtn_ethosu_event_t event = {};
        dtn_ethosu_fault_t fault =
            dtn_ethosu_start(&handle.machine, handle.config, commands.data(), commands.size(), &memory);
        if (fault == DTN_ETHOSU_OK) {
            fault = run_logged(tracer, &handle.machine, &event);
        }
        ET_CHECK_OR_RETURN_ERROR(fault == DTN_ETHOSU_OK, Internal, "The NPU run failed: " FAULT_FORMAT,
                                 FAULT_ARGS(fault, event));
        return Error::Ok;
    }
};

EthosUBackend backend;
/* If a second copy of this library is loaded, the name is already registered; the first one is used. */
const Error registered = executorch::runtime::register_backend({"EthosUBackend", &backend});

} // namespace
} // namespace ethosu
} // namespace deuteron

extern "C" void deuteron_set_observer(void (*fn)(void *ctx, const struct deuteron_delegate_call *call), void *ctx)
{
    deuteron::ethosu::observer_fn = fn;
    deuteron::ethosu::observer_ctx = ctx;
}

#include "payload.h"

#include <cinttypes>
#include <cstring>
#include <initializer_list>

#include "deuteron/microcode.h"

namespace deuteron
{
namespace
{

using executorch::runtime::Error;

uint32_t word(Bytes block, size_t index)
{
    uint32_t value;
    std::memcpy(&value, block.data() + 4 * index, sizeof value);
    return value;
}

size_t align(size_t bytes)
{
    return (bytes + kAlignment - 1) & ~(kAlignment - 1);
}

/* Reads blocks from the front of a payload. */
class Reader
{
  public:
    explicit Reader(Bytes bytes) : bytes_(bytes)
    {
    }

    size_t left() const
    {
        return bytes_.size() - at_;
    }
    bool take(size_t count, Bytes *out)
    {
        if (count > left()) {
            return false;
        }
        *out = Bytes(bytes_.data() + at_, count);
        at_ += count;
        return true;
    }
    bool skip_to_alignment()
    {
        Bytes padding;
        return take(align(at_) - at_, &padding);
    }

  private:
    Bytes bytes_;
    size_t at_ = 0;
};

Error parse_header(Reader *reader, Payload *payload, uint8_t *version)
{
    Bytes counts;
    ET_CHECK_OR_RETURN_ERROR(reader->take(3, &counts), InvalidProgram, "Payload has %zu bytes, its header needs more",
                             reader->left());
    const size_t inputs = counts[0];
    const size_t outputs = counts[1];
    payload->input_args = counts[2];
    Bytes tail;
    const bool complete = reader->take(inputs, &payload->input_formats) &&
                          reader->take(outputs, &payload->output_formats) &&
                          reader->take(inputs, &payload->input_map) && reader->take(outputs, &payload->output_map) &&
                          reader->take(1, &tail) && reader->skip_to_alignment();
    ET_CHECK_OR_RETURN_ERROR(complete, InvalidProgram, "Payload ends inside its header of %zu inputs and %zu outputs",
                             inputs, outputs);
    *version = tail[0];
    ET_CHECK_OR_RETURN_ERROR(*version <= 1, DelegateInvalidCompatibility, "Payload has version %u, 0 and 1 are known",
                             *version);
    for (size_t i = 0; i < inputs; i++) {
        ET_CHECK_OR_RETURN_ERROR(payload->input_formats[i] <= 1, InvalidProgram,
                                 "Format of input %zu is %u, not 0 or 1", i, payload->input_formats[i]);
        ET_CHECK_OR_RETURN_ERROR(payload->input_map[i] < payload->input_args, InvalidProgram,
                                 "Input %zu is mapped to argument %u of %zu", i, payload->input_map[i],
                                 payload->input_args);
    }
    for (size_t i = 0; i < outputs; i++) {
        ET_CHECK_OR_RETURN_ERROR(payload->output_formats[i] <= 1, InvalidProgram,
                                 "Format of output %zu is %u, not 0 or 1", i, payload->output_formats[i]);
        ET_CHECK_OR_RETURN_ERROR(payload->output_map[i] < outputs, InvalidProgram, "Output %zu is mapped to %u of %zu",
                                 i, payload->output_map[i], outputs);
        for (size_t before = 0; before < i; before++) {
            ET_CHECK_OR_RETURN_ERROR(payload->output_map[before] != payload->output_map[i], InvalidProgram,
                                     "Outputs %zu and %zu are both mapped to %u", before, i, payload->output_map[i]);
        }
    }
    return Error::Ok;
}

Error parse_blocks(Reader *reader, uint8_t version, Payload *payload)
{
    Bytes head;
    const size_t tensors = payload->inputs() + payload->outputs();
    const size_t head_bytes = 4 * (DTN_HEADER_WORDS + tensors);
    Reader ahead = *reader;
    ET_CHECK_OR_RETURN_ERROR(ahead.take(head_bytes, &head), InvalidProgram,
                             "Payload ends inside the microcode header: %zu bytes of %zu", reader->left(), head_bytes);
    ET_CHECK_OR_RETURN_ERROR(word(head, DTN_HEADER_MAGIC) == DTN_MAGIC, InvalidProgram,
                             "Microcode starts with 0x%08" PRIX32 ", not 0x%08" PRIX32, word(head, DTN_HEADER_MAGIC),
                             DTN_MAGIC);
    ET_CHECK_OR_RETURN_ERROR(word(head, DTN_HEADER_DEUTERON_MAGIC) == DTN_DEUTERON_MAGIC, DelegateInvalidCompatibility,
                             "Microcode is not Deuteron's: word 1 is 0x%08" PRIX32,
                             word(head, DTN_HEADER_DEUTERON_MAGIC));
    const bool profiling = (word(head, DTN_HEADER_FLAGS) & DTN_FLAG_PROFILING) != 0;
    ET_CHECK_OR_RETURN_ERROR(profiling == (version == 1), InvalidProgram,
                             "Payload version %u does not go with microcode %s profiling", version,
                             profiling ? "with" : "without");

    const size_t microcode_bytes = word(head, DTN_HEADER_MICROCODE_BYTES);
    const size_t weights_bytes = word(head, DTN_HEADER_WEIGHTS_BYTES);
    ET_CHECK_OR_RETURN_ERROR(microcode_bytes >= head_bytes && microcode_bytes % kAlignment == 0, InvalidProgram,
                             "Microcode size %zu is below its header's %zu or not a multiple of %zu", microcode_bytes,
                             head_bytes, kAlignment);
    ET_CHECK_OR_RETURN_ERROR(weights_bytes % kAlignment == 0, InvalidProgram,
                             "Weights size %zu is not a multiple of %zu", weights_bytes, kAlignment);
    ET_CHECK_OR_RETURN_ERROR(reader->take(microcode_bytes, &payload->microcode), InvalidProgram,
                             "Microcode needs %zu bytes, the payload has %zu left", microcode_bytes, reader->left());
    ET_CHECK_OR_RETURN_ERROR(reader->take(weights_bytes, &payload->weights), InvalidProgram,
                             "Weights need %zu bytes, the payload has %zu left", weights_bytes, reader->left());

    Bytes count;
    ahead = *reader;
    ET_CHECK_OR_RETURN_ERROR(ahead.take(4, &count), InvalidProgram, "Payload ends before its kernel list");
    const uint64_t kernels_bytes = 4 * (uint64_t{1} + word(count, 0));
    const bool fits =
        kernels_bytes <= reader->left() && reader->take(static_cast<size_t>(kernels_bytes), &payload->kernels);
    ET_CHECK_OR_RETURN_ERROR(fits, InvalidProgram, "Kernel list needs %" PRIu64 " bytes, the payload has %zu left",
                             kernels_bytes, reader->left());

    payload->scratch_bytes = word(head, DTN_HEADER_SCRATCH_BYTES);
    payload->prefetch_bytes =
        profiling ? word(head, DTN_LAYOUT_B_PREFETCH_BYTES) : word(head, DTN_LAYOUT_A_PREFETCH_BYTES);
    payload->profile_bytes = profiling ? word(head, DTN_LAYOUT_B_PROFILE_BYTES) : 0;
    payload->debug_bytes = profiling ? word(head, DTN_LAYOUT_B_DEBUG_BYTES) : 0;
    const uint32_t inputs = profiling ? word(head, DTN_LAYOUT_B_INPUTS) : word(head, DTN_LAYOUT_A_INPUTS);
    const uint32_t outputs = profiling ? word(head, DTN_LAYOUT_B_OUTPUTS) : word(head, DTN_LAYOUT_A_OUTPUTS);
    ET_CHECK_OR_RETURN_ERROR(inputs == payload->inputs() && outputs == payload->outputs(), InvalidProgram,
                             "Payload has %zu inputs and %zu outputs, its microcode %" PRIu32 " and %" PRIu32,
                             payload->inputs(), payload->outputs(), inputs, outputs);
    return Error::Ok;
}

} // namespace

Bytes Payload::trusted(bool with_weights) const
{
    const Bytes last = with_weights ? weights : microcode;
    return Bytes(start, static_cast<size_t>(last.data() + last.size() - start));
}

void Payload::move(Bytes from, const uint8_t *to)
{
    for (Bytes *part : {&input_formats, &output_formats, &input_map, &output_map, &microcode, &weights}) {
        if (part->data() >= from.data() && part->data() + part->size() <= from.data() + from.size()) {
            *part = Bytes(to + (part->data() - from.data()), part->size());
        }
    }
    start = to;
}

uint32_t Payload::input_bytes(size_t index) const
{
    return word(microcode, DTN_HEADER_WORDS + index);
}

uint32_t Payload::output_bytes(size_t index) const
{
    return word(microcode, DTN_HEADER_WORDS + inputs() + index);
}

Error parse_payload(Bytes bytes, Payload *payload)
{
    ET_CHECK_OR_RETURN_ERROR(reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment == 0, InvalidProgram,
                             "Payload is at %p, which is not a multiple of %zu",
                             static_cast<const void *>(bytes.data()), kAlignment);
    Reader reader(bytes);
    payload->start = bytes.data();
    uint8_t version = 0;
    ET_CHECK_OK_OR_RETURN_ERROR(parse_header(&reader, payload, &version));
    return parse_blocks(&reader, version, payload);
}

} // namespace deuteron

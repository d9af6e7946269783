#include "blob.h"

#include <executorch/runtime/platform/log.h>

#include <cinttypes>
#include <cstring>
#include <new>
#include <utility>

namespace deuteron
{
namespace ethosu
{
namespace
{

using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Result;

constexpr size_t kHeaderBytes = 32;
constexpr size_t kNameBytes = 16;
constexpr size_t kKeyBytes = 64;
constexpr size_t kDimensions = 6;
constexpr size_t kRecordBytes = (kDimensions + 3) * sizeof(int32_t);
constexpr int32_t kScratchRegion = 1;

/* Maximum tensors of one side of a partition; bounds the work of comparing them. */
constexpr int32_t kMostTensors = 255;

/* A block: its name, padded with zeros, and its bytes. */
struct Block {
    char name[kNameBytes + 1];
    Bytes bytes;
    bool external;
};

int32_t number_at(Bytes bytes, size_t at)
{
    int32_t number;
    memcpy(&number, bytes.data() + at, sizeof number);
    return number;
}

bool is_named(const Block &block, const char *name)
{
    return strncmp(block.name, name, kNameBytes) == 0;
}

/* Replaces unprintable characters of a file's text by question marks, for logs. */
void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text < ' ' || *text > '~') {
            *text = '?';
        }
    }
}

/* Reads the block at `*at` and moves after it. */
Error next_block(Bytes bytes, size_t *at, Block *block)
{
    const size_t left = bytes.size() - *at;
    ET_CHECK_OR_RETURN_ERROR(left >= kHeaderBytes, InvalidProgram,
                             "The Ethos-U partition ends at byte %zu, before its last block", *at);
    memcpy(block->name, bytes.data() + *at, kNameBytes);
    block->name[kNameBytes] = '\0';
    make_printable(block->name);
    const size_t size = static_cast<uint32_t>(number_at(bytes, *at + kNameBytes));
    block->external = bytes[*at + kNameBytes + sizeof(uint32_t)] != 0;
    ET_CHECK_OR_RETURN_ERROR(size <= left - kHeaderBytes, InvalidProgram,
                             "Block `%s` of the Ethos-U partition leaves it: %zu bytes, %zu are left", block->name,
                             size, left - kHeaderBytes);
    block->bytes = Bytes(bytes.data() + *at + kHeaderBytes, size);
    const size_t padded = (size + kAlignment - 1) / kAlignment * kAlignment;
    *at += kHeaderBytes + (padded < left - kHeaderBytes ? padded : left - kHeaderBytes);
    return Error::Ok;
}

/* Returns the bytes of a block that are in the program's named data. */
Error load(const Block &block, const NamedDataMap *data, Blob *blob, Bytes *bytes)
{
    ET_CHECK_OR_RETURN_ERROR(data != nullptr && block.bytes.size() == kKeyBytes && blob->external.data() == nullptr,
                             InvalidProgram, "Block `%s` of the Ethos-U partition names data that are not there",
                             block.name);
    char key[kKeyBytes + 1];
    memcpy(key, block.bytes.data(), kKeyBytes);
    key[kKeyBytes] = '\0';
    Result<FreeableBuffer> loaded = data->get_data(key);
    make_printable(key);
    ET_CHECK_OR_RETURN_ERROR(loaded.ok(), InvalidProgram, "The program has no data `%s` for block `%s`", key,
                             block.name);
    /* The replaced buffer is empty. */
    new (&blob->external) FreeableBuffer(std::move(loaded.get()));
    *bytes = Bytes(static_cast<const uint8_t *>(blob->external.data()), blob->external.size());
    return Error::Ok;
}

Error read_tensors(const Block &block, Tensors *tensors)
{
    const Bytes bytes = block.bytes;
    const int32_t count = bytes.size() < sizeof(int32_t) ? -1 : number_at(bytes, 0);
    ET_CHECK_OR_RETURN_ERROR(count <= kMostTensors, InvalidProgram,
                             "Block `%s` of the Ethos-U partition has %" PRId32 " tensors, at most %" PRId32
                             " are possible",
                             block.name, count, kMostTensors);
    ET_CHECK_OR_RETURN_ERROR(count >= 0 && (bytes.size() - sizeof count) / kRecordBytes >= static_cast<size_t>(count),
                             InvalidProgram, "Block `%s` of the Ethos-U partition has no list of tensors", block.name);
    *tensors = Tensors(Bytes(bytes.data() + sizeof count, static_cast<size_t>(count) * kRecordBytes),
                       static_cast<size_t>(count));
    return Error::Ok;
}

/* Checks that the tensors are inside the scratch memory. */
Error check_tensors(const char *side, Bytes block, size_t count, size_t scratch_bytes)
{
    for (size_t i = 0; i < count; i++) {
        const size_t at = i * kRecordBytes;
        const int32_t element = number_at(block, at + kDimensions * sizeof(int32_t));
        const int32_t offset = number_at(block, at + (kDimensions + 1) * sizeof(int32_t));
        const int32_t region = number_at(block, at + (kDimensions + 2) * sizeof(int32_t));
        uint64_t bytes = element == 1 || element == 2 || element == 4 ? static_cast<uint64_t>(element) : 0;
        for (size_t d = 0; d < kDimensions; d++) {
            const int32_t dimension = number_at(block, at + d * sizeof(int32_t));
            ET_CHECK_OR_RETURN_ERROR(dimension > 0, InvalidProgram,
                                     "%s %zu of the Ethos-U partition has a dimension of %" PRId32, side, i, dimension);
            bytes *= static_cast<uint64_t>(dimension);
            ET_CHECK_OR_RETURN_ERROR(bytes <= scratch_bytes, InvalidProgram,
                                     "%s %zu of the Ethos-U partition is larger than its %zu bytes of scratch", side, i,
                                     scratch_bytes);
        }
        ET_CHECK_OR_RETURN_ERROR(region == kScratchRegion && offset >= 0 && bytes > 0 &&
                                     static_cast<size_t>(offset) <= scratch_bytes - bytes,
                                 InvalidProgram, "%s %zu of the Ethos-U partition leaves its %zu bytes of scratch",
                                 side, i, scratch_bytes);
    }
    return Error::Ok;
}

/* Checks that no two inputs overlap: all exist when a run starts. */
Error check_inputs_disjoint(const Tensors &inputs)
{
    for (size_t i = 0; i < inputs.count(); i++) {
        const Tensor tensor = inputs[i];
        for (size_t j = 0; j < i; j++) {
            const Tensor other = inputs[j];
            const bool apart =
                tensor.offset + tensor.bytes <= other.offset || other.offset + other.bytes <= tensor.offset;
            ET_CHECK_OR_RETURN_ERROR(apart, InvalidProgram,
                                     "Input %zu of the Ethos-U partition shares scratch memory with input %zu", i, j);
        }
    }
    return Error::Ok;
}

Error read_block(const Block &block, const NamedDataMap *data, Blob *blob)
{
    Bytes bytes = block.bytes;
    if (block.external && (is_named(block, "cmd_data") || is_named(block, "weight_data"))) {
        ET_CHECK_OK_OR_RETURN_ERROR(load(block, data, blob, &bytes));
    }
    if (is_named(block, "cmd_data")) {
        blob->commands = bytes;
    } else if (is_named(block, "weight_data")) {
        blob->weights = bytes;
    } else if (is_named(block, "scratch_size")) {
        ET_CHECK_OR_RETURN_ERROR(bytes.size() == sizeof(uint32_t), InvalidProgram,
                                 "The Ethos-U partition does not say how much scratch memory it needs");
        blob->scratch_bytes = static_cast<uint32_t>(number_at(bytes, 0));
    } else if (is_named(block, "inputs")) {
        return read_tensors(block, &blob->inputs);
    } else if (is_named(block, "outputs")) {
        return read_tensors(block, &blob->outputs);
    }
    return Error::Ok;
}

} // namespace

Tensor Tensors::operator[](size_t index) const
{
    const size_t at = index * kRecordBytes;
    const size_t element = static_cast<size_t>(number_at(records_, at + kDimensions * sizeof(int32_t)));
    size_t bytes = element;
    for (size_t d = 0; d < kDimensions; d++) {
        bytes *= static_cast<size_t>(number_at(records_, at + d * sizeof(int32_t)));
    }
    return {bytes, element, static_cast<size_t>(number_at(records_, at + (kDimensions + 1) * sizeof(int32_t)))};
}

executorch::runtime::Error parse_blob(Bytes bytes, const NamedDataMap *data, Blob *blob)
{
    size_t at = 0;
    Block block = {};
    ET_CHECK_OK_OR_RETURN_ERROR(next_block(bytes, &at, &block));
    ET_CHECK_OR_RETURN_ERROR(is_named(block, "vela_bin_stream"), InvalidProgram,
                             "The partition is not of ExecuTorch's Ethos-U backend");
    while (!is_named(block, "vela_end_stream")) {
        ET_CHECK_OK_OR_RETURN_ERROR(next_block(bytes, &at, &block));
        ET_CHECK_OK_OR_RETURN_ERROR(read_block(block, data, blob));
    }
    ET_CHECK_OR_RETURN_ERROR(blob->commands.size() > 0, InvalidProgram, "The Ethos-U partition has no commands");
    ET_CHECK_OK_OR_RETURN_ERROR(
        check_tensors("Input", blob->inputs.records(), blob->inputs.count(), blob->scratch_bytes));
    ET_CHECK_OK_OR_RETURN_ERROR(check_inputs_disjoint(blob->inputs));
    return check_tensors("Output", blob->outputs.records(), blob->outputs.count(), blob->scratch_bytes);
}

} // namespace ethosu
} // namespace deuteron

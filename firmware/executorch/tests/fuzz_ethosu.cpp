/* Takes apart, checks, watches and executes mutations of Ethos-U partitions under the sanitizers: fuzz_ethosu COUNT
 * FIRST_SEED FILE.. Each run depends on its seed and the files only, which are payloads of the delegate.
 *
 * Every block of memory is of just the size that the partition states, so that the address sanitizer sees an access
 * beyond. Mutated are headers and records of blocks, commands with their parameters and payloads, and any byte. The
 * watch of a stream and its check read the same commands. It is a finding if they refuse different ones, or if the
 * watch gets bytes that do not exist.
 */

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "../../tests/test.h"
#include "../ethosu/blob.h"
#include "deuteron/ethosu_watch.h"
#include "fatal_log.h"

namespace
{

using deuteron::ethosu::Blob;
using deuteron::ethosu::Bytes;
using deuteron::ethosu::kAlignment;
using executorch::runtime::Error;
using FileBytes = std::vector<uint8_t>;

/* Limits of a partition, for the fuzzer's time. */
constexpr size_t kMaxScratch = 1 << 18;
constexpr size_t kMaxWorkspace = 1 << 22;
constexpr uint64_t kMaxWork = 1 << 21;

/* Limit of a run, with repeated branches. */
constexpr uint64_t kMaxRepeated = 1 << 24;

/* Regions, and the fast scratch memory that every stream has. */
enum { kWeights = 0, kScratch = 1, kFast = 2 };
constexpr size_t kFastBytes = 1 << 14;

/* A block's header, and the position of its content's size. */
constexpr size_t kBlockHeader = 32;
constexpr size_t kSizeAt = 16;

enum Outcome { kRefused, kTooLarge, kFailed, kRan, kOutcomes };

/* Memory of just one size, freed at the end. */
class Memory
{
  public:
    explicit Memory(size_t bytes, const void *content = nullptr) : bytes_(bytes)
    {
        if (posix_memalign(&block_, kAlignment, bytes) != 0) {
            std::abort();
        }
        if (content != nullptr) {
            std::memcpy(block_, content, bytes);
        } else {
            std::memset(block_, 0x5A, bytes);
        }
    }
    ~Memory()
    {
        std::free(block_);
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    uint8_t *data() const
    {
        return static_cast<uint8_t *>(block_);
    }
    size_t size() const
    {
        return bytes_;
    }

  private:
    void *block_ = nullptr;
    size_t bytes_;
};

/* The bytes of a command exist, and fit the watch, or it is refused. */
void check_bytes(dtn_ethosu_fault_t fault, const dtn_ethosu_seen_t &seen)
{
    for (uint32_t i = 0; fault == DTN_ETHOSU_OK && i < seen.count; i++) {
        const dtn_ethosu_hazard_t &hazard = seen.hazards[i];
        if (hazard.kind == DTN_ETHOSU_HAZARD_FAULT &&
            (hazard.fault == DTN_ETHOSU_BOUNDS || hazard.fault == DTN_ETHOSU_WORKSPACE)) {
            std::fprintf(stderr, "watched: %s, of a command that is not refused\n",
                         dtn_ethosu_message(static_cast<dtn_ethosu_fault_t>(hazard.fault)));
            std::abort();
        }
    }
}

/* Watches a whole stream; the fault that ends it. */
dtn_ethosu_fault_t watched(const dtn_ethosu_config_t *config, const Memory &commands, const dtn_ethosu_memory_t &memory,
                           const Blob &blob)
{
    const Memory place(dtn_ethosu_watch_bytes(config, &memory));
    auto *const watch = reinterpret_cast<dtn_ethosu_watch_t *>(place.data());
    dtn_ethosu_fault_t fault =
        dtn_ethosu_watch_start(place.data(), place.size(), config, commands.data(), commands.size(), &memory);
    for (size_t i = 0; fault == DTN_ETHOSU_OK && i < blob.inputs.count(); i++) {
        dtn_ethosu_watch_input(watch, kScratch, blob.inputs[i].offset, blob.inputs[i].bytes);
    }
    dtn_ethosu_seen_t seen = {};
    seen.event.opcode = DTN_ETHOSU_OP_CONV;
    while (fault == DTN_ETHOSU_OK && seen.event.opcode != DTN_ETHOSU_OP_STOP) {
        fault = dtn_ethosu_watch_step(watch, &seen);
        check_bytes(fault, seen);
    }
    uint64_t unwritten = 0;
    uint64_t value = 0;
    for (size_t i = 0; fault == DTN_ETHOSU_OK && i < blob.outputs.count(); i++) {
        dtn_ethosu_watch_output(watch, kScratch, blob.outputs[i].offset, blob.outputs[i].bytes, &unwritten, &value);
    }
    return fault;
}

Outcome run(const FileBytes &bytes)
{
    const Memory file(bytes.size(), bytes.data());
    Blob blob = {};
    if (deuteron::ethosu::parse_blob(Bytes(file.data(), file.size()), nullptr, &blob) != Error::Ok) {
        return kRefused;
    }
    const Memory commands(blob.commands.size(), blob.commands.data());
    const dtn_ethosu_config_t *const config = dtn_ethosu_config_of(commands.data(), commands.size());
    if (config == nullptr) {
        return kRefused;
    }
    if (blob.scratch_bytes > kMaxScratch) {
        return kTooLarge;
    }
    const Memory weights(blob.weights.size(), blob.weights.data());
    const Memory scratch(blob.scratch_bytes);
    const Memory fast(kFastBytes);
    const Memory shram(config->shram_bytes);
    dtn_ethosu_memory_t memory = {};
    memory.regions[kWeights] = {weights.data(), weights.size(), true};
    memory.regions[kScratch] = {scratch.data(), scratch.size(), false};
    memory.regions[kFast] = {fast.data(), fast.size(), false};
    memory.shram = shram.data();
    memory.shram_bytes = shram.size();
    dtn_ethosu_t machine;
    dtn_ethosu_event_t event = {};
    dtn_ethosu_fault_t fault = dtn_ethosu_check(&machine, config, commands.data(), commands.size(), &memory, &event);
    if (machine.work > kMaxWork || memory.workspace_bytes > kMaxWorkspace) {
        return kTooLarge;
    }
    const dtn_ethosu_fault_t seen = watched(config, commands, memory, blob);
    if (seen != fault && seen != DTN_ETHOSU_UNSUPPORTED) {
        std::fprintf(stderr, "watched: %s; checked: %s\n", dtn_ethosu_message(seen), dtn_ethosu_message(fault));
        std::abort();
    }
    if (fault != DTN_ETHOSU_OK) {
        return kRefused;
    }
    const Memory workspace(memory.workspace_bytes);
    memory.workspace = workspace.data();
    fault = dtn_ethosu_start(&machine, config, commands.data(), commands.size(), &memory);
    if (fault == DTN_ETHOSU_OK) {
        machine.work = DTN_ETHOSU_MOST_WORK - kMaxRepeated;
        fault = dtn_ethosu_run(&machine, &event);
    }
    return fault == DTN_ETHOSU_OK ? kRan : kFailed;
}

/* ---- Mutations ---- */

uint32_t edge(uint64_t *state, uint32_t old)
{
    static const uint32_t edges[] = {0,    1,     2,     15,    16,      127,        128,        255,
                                     4096, 32767, 32768, 65535, 1 << 20, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    switch (test_between(state, 0, 3)) {
    case 0:
        return edges[test_between(state, 0, static_cast<int32_t>(sizeof edges / sizeof edges[0]) - 1)];
    case 1:
        return old ^ uint32_t{1} << test_between(state, 0, 31);
    case 2:
        return static_cast<uint32_t>(test_random(state));
    default:
        return old + static_cast<uint32_t>(test_between(state, -16, 16));
    }
}

/* Where the contents of blocks begin, and how long they are. */
struct Block {
    size_t at;
    size_t bytes;
};

std::vector<Block> blocks_of(const FileBytes &bytes)
{
    std::vector<Block> blocks;
    for (size_t at = 0; at + kBlockHeader <= bytes.size();) {
        uint32_t size;
        std::memcpy(&size, bytes.data() + at + kSizeAt, sizeof size);
        blocks.push_back({at + kBlockHeader, size});
        at += kBlockHeader + (size + kAlignment - 1) / kAlignment * kAlignment;
    }
    return blocks;
}

void change_word(uint64_t *state, FileBytes &bytes, size_t at)
{
    uint32_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    /* Mostly changes a command's parameter, its upper half. */
    const uint32_t changed = edge(state, word);
    const bool is_half = test_between(state, 0, 1) == 0;
    word = is_half ? (word & 0xFFFFU) | edge(state, word >> 16) << 16 : changed;
    std::memcpy(bytes.data() + at, &word, sizeof word);
}

void mutate(uint64_t *state, const std::vector<Block> &blocks, FileBytes &bytes)
{
    for (int32_t changes = test_between(state, 1, 3); changes > 0; changes--) {
        const Block &block = blocks[test_random(state) % blocks.size()];
        /* The commands are the second block. */
        const Block &chosen = test_between(state, 0, 3) > 0 && blocks.size() > 1 ? blocks[1] : block;
        const int32_t choice = test_between(state, 0, 39);
        if (choice == 0) {
            bytes.resize(test_random(state) % bytes.size());
            return;
        }
        if (choice < 4) {
            bytes[test_random(state) % bytes.size()] = static_cast<uint8_t>(test_random(state));
        } else if (choice < 6) {
            change_word(state, bytes, block.at - kBlockHeader + 4 * (test_random(state) % (kBlockHeader / 4)));
        } else if (chosen.bytes >= 4) {
            change_word(state, bytes, chosen.at + 4 * (test_random(state) % (chosen.bytes / 4)));
        }
    }
}

} // namespace

int main(int argc, char **argv)
{
    start_runtime();
    const uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
    const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    if (argc < 4) {
        std::printf("fuzz_ethosu COUNT FIRST_SEED FILE..\n");
        return 1;
    }
    std::vector<FileBytes> files;
    for (int i = 3; i < argc; i++) {
        std::ifstream stream(argv[i], std::ios::binary);
        files.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
        if (run(files.back()) != kRan) {
            std::printf("the partition `%s` does not run as it is\n", argv[i]);
            return 1;
        }
    }
    uint64_t outcomes[kOutcomes] = {};
    for (uint64_t seed = first; seed < first + count; seed++) {
        uint64_t state = (seed * UINT64_C(0x9E3779B97F4A7C15)) | 1U;
        FileBytes bytes = files[test_random(&state) % files.size()];
        mutate(&state, blocks_of(bytes), bytes);
        outcomes[run(bytes)]++;
    }
    std::printf("runs %" PRIu64 " refused %" PRIu64 " too_large %" PRIu64 " failed %" PRIu64 " ran %" PRIu64 "\n",
                count, outcomes[kRefused], outcomes[kTooLarge], outcomes[kFailed], outcomes[kRan]);
    /* Mutations that are all refused, or none, would test little. */
    return count < 1000 || (outcomes[kRan] * 20 > count && outcomes[kRefused] * 20 > count) ? 0 : 1;
}

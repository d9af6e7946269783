/* Runs mutations of programs (pte_mutations.h) in ExecuTorch's runtime, with our delegate and our Cortex-M operators
 * under the sanitizers: fuzz_pte COUNT FIRST_SEED FILE.. Each run depends on its seed and the files only.
 *
 * Programs that the runner's checks (runner/plan.h) accept run twice, because moves change the second run. It is a
 * finding if a byte of the file changes, or one round the planned memory.
 *
 * Before that each program runs with temporary memory that ends: after no allocation, after one, and so on.
 */
#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/extension/tensor/tensor_ptr.h>
#include <executorch/runtime/executor/program.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "../../tests/test.h"
#include "../runner/error.h"
#include "../runner/plan.h"
#include "fatal_log.h"
#include "pte_mutations.h"

namespace
{

using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::HierarchicalAllocator;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::MemoryManager;
using executorch::runtime::Program;
using executorch::runtime::Span;

/* Bytes that one allocation of a run may have; bounds the fuzzer's time. */
constexpr size_t kMaxBlock = 1 << 20;
/* Allocations from temporary memory that no program here needs. */
constexpr size_t kMostGrants = 100;

/* Bytes on either side of planned memory that nothing may change, and what they are. */
constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xA5;

/* Gives each allocation a separate block, for the sanitizers. */
class Blockwise final : public MemoryAllocator
{
  public:
    /* As many allocations as it grants. */
    explicit Blockwise(size_t grants = SIZE_MAX) : MemoryAllocator(0, nullptr), grants_(grants)
    {
    }
    ~Blockwise() override
    {
        Blockwise::reset();
    }
    void *allocate(size_t size, size_t alignment) override
    {
        void *block = nullptr;
        const size_t least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
        if (blocks_.size() >= grants_ || size > kMaxBlock || posix_memalign(&block, least, size) != 0) {
            return nullptr;
        }
        blocks_.push_back(block);
        return block;
    }
    void reset() override
    {
        for (void *block : blocks_) {
            std::free(block);
        }
        blocks_.clear();
    }

  private:
    size_t grants_;
    std::vector<void *> blocks_;
};

/* True if the runner would run a program. */
bool is_sound(const FileBytes &bytes)
{
    try {
        deuteron::runner::check_plans(bytes);
        return true;
    } catch (const deuteron::runner::Failure &) {
        return false;
    } catch (const std::out_of_range &) {
        return false;
    }
}

/* Memory that is planned, between guards. */
class Planned
{
  public:
    Planned(Blockwise &memory, size_t size) : size_(size)
    {
        start_ = static_cast<uint8_t *>(memory.allocate(size + 2 * kGuard, kAlignment));
        if (start_ != nullptr) {
            std::memset(start_, kGuardByte, size + 2 * kGuard);
            std::memset(start_ + kGuard, 0, size);
        }
    }
    /* No bytes where there is no memory. */
    Span<uint8_t> span() const
    {
        return start_ == nullptr ? Span<uint8_t>() : Span<uint8_t>(start_ + kGuard, size_);
    }
    bool is_whole() const
    {
        const auto same = [](uint8_t byte) { return byte == kGuardByte; };
        return start_ == nullptr || (std::all_of(start_, start_ + kGuard, same) &&
                                     std::all_of(start_ + kGuard + size_, start_ + 2 * kGuard + size_, same));
    }

  private:
    uint8_t *start_;
    size_t size_;
};

/* Ends the process, for this is a finding. */
void need(bool good, const char *what)
{
    if (!good) {
        std::fprintf(stderr, "finding: %s\n", what);
        std::abort();
    }
}

enum Outcome { kRefused, kTooLarge, kFailed, kRan, kOutcomes };

/* Loads and runs a program on inputs of zeros, with so many allocations from temporary memory for each call of a
 * delegate; its method is freed before its memory. */
Outcome run(const FileBytes &bytes, size_t grants = SIZE_MAX)
{
    /* The loader gives pointers into the file, which our delegate wants at a multiple of 16. */
    Blockwise file;
    void *const copy = file.allocate(bytes.size(), kAlignment);
    std::memcpy(copy, bytes.data(), bytes.size());
    executorch::extension::BufferDataLoader loader(copy, bytes.size());
    auto program = Program::load(&loader, Program::Verification::InternalConsistency);
    if (!program.ok() || !is_sound(bytes)) {
        return kRefused;
    }
    const auto meta = program->method_meta("forward");
    if (!meta.ok()) {
        return kRefused;
    }
    Blockwise method_memory;
    Blockwise temporary(grants);
    std::vector<Planned> memories;
    std::vector<Span<uint8_t>> spans;
    for (size_t i = 0; i < meta->num_memory_planned_buffers(); i++) {
        memories.emplace_back(method_memory, static_cast<size_t>(*meta->memory_planned_buffer_size(i)));
        spans.push_back(memories.back().span());
    }
    HierarchicalAllocator planned({spans.data(), spans.size()});
    MemoryManager manager(&method_memory, &planned, &temporary);
    auto method = program->load_method("forward", &manager);
    if (!method.ok()) {
        return kRefused;
    }
    std::vector<TensorPtr> inputs;
    for (size_t i = 0; i < meta->num_inputs(); i++) {
        const auto info = meta->input_tensor_meta(i);
        if (!info.ok() || info->nbytes() > kMaxBlock) {
            return kTooLarge;
        }
        inputs.push_back(executorch::extension::make_tensor_ptr(
            {info->sizes().begin(), info->sizes().end()}, std::vector<uint8_t>(info->nbytes()),
            {info->dim_order().begin(), info->dim_order().end()}, {}, info->scalar_type()));
    }
    Outcome outcome = kRan;
    for (int again = 0; again < 2 && outcome == kRan; again++) {
        for (size_t i = 0; i < inputs.size() && outcome == kRan; i++) {
            outcome = method->set_input(inputs[i], i) == Error::Ok ? kRan : again == 0 ? kRefused : kFailed;
        }
        if (outcome == kRan && method->execute() != Error::Ok) {
            outcome = kFailed;
        }
    }
    need(std::memcmp(copy, bytes.data(), bytes.size()) == 0, "a run changed the file");
    for (const Planned &memory : memories) {
        need(memory.is_whole(), "a run wrote outside of the memory that is planned");
    }
    return outcome;
}

/* Allocations that a program needs for a call; with each number below it the run must fail. */
size_t grants_of(const FileBytes &bytes)
{
    size_t grants = 0;
    while (grants < kMostGrants && run(bytes, grants) == kFailed) {
        grants++;
    }
    return grants;
}

/* True if a program fails with less temporary memory than it needs, and runs with enough: unchanged, and with the
 * tensors of its payload in the other order. `copies` becomes true where that takes a block for each of them and one
 * more. */
bool check_memory(const Subject &subject, size_t payload_at, bool *copies)
{
    FileBytes turned = subject.bytes;
    const size_t tensors = size_t{turned[payload_at]} + turned[payload_at + 1];
    for (size_t i = 0; i < tensors; i++) {
        turned[payload_at + kFormatsAt + i] = 1;
    }
    const size_t plain = grants_of(subject.bytes);
    const size_t most = grants_of(turned);
    *copies = *copies || most == plain + tensors + 1;
    return plain > 0 && run(subject.bytes, plain) == kRan && run(turned, most) == kRan;
}

} // namespace

int main(int argc, char **argv)
{
    start_runtime();
    const uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
    const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    if (argc < 4) {
        std::printf("fuzz_pte COUNT FIRST_SEED FILE..\n");
        return 1;
    }
    std::vector<Subject> subjects;
    bool copies = false;
    for (int i = 3; i < argc; i++) {
        subjects.push_back(subject_of(argv[i]));
        if (run(subjects.back().bytes) != kRan) {
            std::printf("the program `%s` does not run as it is\n", argv[i]);
            return 1;
        }
        for (const Microcode &microcode : subjects.back().microcodes) {
            if (!check_memory(subjects.back(), microcode.payload_at, &copies)) {
                std::printf("the program `%s` runs with less memory than it needs, or not with that\n", argv[i]);
                return 1;
            }
        }
    }
    if (!copies) {
        std::printf("no program needs memory for copies of what is transposed\n");
        return 1;
    }
    uint64_t outcomes[kOutcomes] = {};
    for (uint64_t seed = first; seed < first + count; seed++) {
        uint64_t state = (seed * UINT64_C(0x9E3779B97F4A7C15)) | 1U;
        const Subject &subject = subjects[test_random(&state) % subjects.size()];
        FileBytes bytes = subject.bytes;
        mutate(&state, subject, bytes);
        outcomes[run(bytes)]++;
    }
    std::printf("runs %" PRIu64 " refused %" PRIu64 " too_large %" PRIu64 " failed %" PRIu64 " ran %" PRIu64 "\n",
                count, outcomes[kRefused], outcomes[kTooLarge], outcomes[kFailed], outcomes[kRan]);
    /* Mutations that are all refused, or none, would test little. */
    return count < 1000 || (outcomes[kRan] * 20 > count && outcomes[kRefused] * 20 > count) ? 0 : 1;
}

/* Runs mutations of programs in ExecuTorch's runtime, with our delegate and our Cortex-M operators under the
 * sanitizers: fuzz_pte COUNT FIRST_SEED FILE.. Each run depends on its seed and the files only.
 *
 * ExecuTorch's own library is not under the sanitizers, and what it makes of offsets that lead nowhere is not ours to
 * test: the flatbuffer keeps its form, and the runtime verifies it. The mutations reach our code: segments and the
 * padding after them; types, sizes, orders and places of tensors, numbers and lists. Others change kinds of
 * instructions, arguments of calls, moves and jumps, these forwards only. The last change constants and payloads: their
 * header, the microcode's header, and sometimes any byte. The commands of the microcode behind their CRC are
 * fuzz_driver's.
 *
 * Programs that the runner's checks (runner/plan.h) accept run twice, because moves change the second run. That a byte
 * of the file is another one afterwards, or one round the planned memory, is a finding.
 *
 * Before that each program runs with temporary memory that ends: after no allocation, after one, and so on.
 */
#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/extension/tensor/tensor_ptr.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>

#include "../../tests/test.h"
#include "../runner/error.h"
#include "../runner/flatbuffer.h"
#include "../runner/plan.h"
#include "deuteron/microcode.h"

extern "C" {
#include "deuteron/crc32.h"
}

namespace
{

using deuteron::runner::FileBytes;
using deuteron::runner::read;
using deuteron::runner::Table;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::HierarchicalAllocator;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::MemoryManager;
using executorch::runtime::Program;
using executorch::runtime::Span;

/* Bytes that one allocation of a run may have; bounds the fuzzer's time. */
constexpr size_t kMaxBlock = 1 << 20;
constexpr size_t kAlignment = 16;
/* Allocations from temporary memory that no program here needs. */
constexpr size_t kMostGrants = 100;

/* Members of unions, and slots, of ExecuTorch's schema/program.fbs. */
enum { kInt = 2, kDouble = 4, kTensor = 5, kIntList = 7, kTensorList = 10 };
enum { kKernelCall = 1, kDelegateCall = 2, kMove = 3, kJumpFalse = 4, kFree = 5 };
enum { kPlans = 1, kBuffers = 2, kDelegateData = 3, kSegments = 4, kConstants = 5 };
/* Fields of the header after the flatbuffer's identifier. */
constexpr size_t kProgramBytesAt = 16;
constexpr size_t kSegmentsStartAt = 24;
constexpr size_t kHeaderMagicAt = 8;
constexpr uint32_t kHeaderMagic = 0x30306865;
/* Where a payload has the orders of its tensors. */
constexpr size_t kFormatsAt = 3;
enum { kValues = 2, kChains = 5, kOperators = 6, kDelegates = 7 };
enum { kTensorType = 0, kTensorSizes = 2, kTensorOrder = 3, kTensorBuffer = 5, kTensorPlace = 6, kPlaceOffset = 1 };

/* The kind of a field, which determines its new values. */
enum Kind { kIndex, kType, kSize, kOrder, kOffset, kNumber, kReal, kWord, kByte, kCall, kJump, kSegment, kKinds };

/* `count` items of the same kind side by side. */
struct Field {
    size_t at;
    size_t count;
    uint32_t bound; /* of indices and jumps */
    uint32_t least; /* of jumps */
};

/* Bytes on either side of planned memory that nothing may change, and what they are. */
constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xA5;

/* The positions of a payload and its microcode. */
struct Microcode {
    size_t payload_at;
    size_t at;
    size_t bytes;
};

/* A program and where it can be changed. */
struct Subject {
    FileBytes bytes;
    std::vector<Field> fields[kKinds];
    std::vector<Microcode> microcodes;

    void add(Kind kind, size_t at, size_t count = 1, uint32_t bound = 0, uint32_t least = 0)
    {
        if (at != 0 && count != 0) {
            fields[kind].push_back({at, count, bound, least});
        }
    }
    void add(Kind kind, std::pair<size_t, size_t> vector, uint32_t bound = 0)
    {
        add(kind, vector.first, vector.second, bound);
    }
};

void add_value(Subject &subject, const Table &value, uint32_t values, uint32_t constants)
{
    switch (value.scalar<uint8_t>(0)) {
    case kInt:
        subject.add(kNumber, value.table(1).field(0));
        break;
    case kDouble:
        subject.add(kReal, value.table(1).field(0));
        break;
    case kIntList:
        /* Indices of 64 bits, of which the upper half is 0. */
        for (size_t i = 0; i < value.table(1).vector(0).second; i++) {
            subject.add(kIndex, value.table(1).vector(0).first + 8 * i, 1, values);
        }
        break;
    case kTensorList:
        subject.add(kIndex, value.table(1).vector(0), values);
        break;
    case kTensor: {
        const Table tensor = value.table(1);
        subject.add(kType, tensor.field(kTensorType));
        subject.add(kSize, tensor.vector(kTensorSizes));
        subject.add(kOrder, tensor.vector(kTensorOrder));
        subject.add(kIndex, tensor.field(kTensorBuffer), 1, constants);
        if (tensor.field(kTensorPlace) != 0) {
            subject.add(kOffset, tensor.table(kTensorPlace).field(kPlaceOffset));
        }
        break;
    }
    default:
        break;
    }
}

void add_plan(Subject &subject, const Table &plan, uint32_t constants)
{
    const std::vector<Table> values = plan.tables(kValues);
    const auto value_count = static_cast<uint32_t>(values.size());
    for (const Table &value : values) {
        add_value(subject, value, value_count, constants);
    }
    for (const Table &chain : plan.tables(kChains)) {
        const std::vector<Table> instructions = chain.tables(2);
        for (uint32_t i = 0; i < instructions.size(); i++) {
            const Table member = instructions[i].table(1);
            switch (const uint8_t type = instructions[i].scalar<uint8_t>(0); type) {
            case kKernelCall:
            case kDelegateCall: {
                const size_t callees = plan.vector(type == kKernelCall ? kOperators : kDelegates).second;
                subject.add(kCall, instructions[i].field(0));
                subject.add(kIndex, member.field(0), 1, static_cast<uint32_t>(callees));
                subject.add(kIndex, member.vector(1), value_count);
                break;
            }
            case kMove:
                subject.add(kIndex, member.field(1), 1, value_count);
                subject.add(kIndex, member.field(0), 1, value_count);
                break;
            case kJumpFalse:
                subject.add(kJump, member.field(1), 1, static_cast<uint32_t>(instructions.size()), i + 1);
                subject.add(kIndex, member.field(0), 1, value_count);
                break;
            default:
                subject.add(kIndex, member.field(0), 1, value_count);
                break;
            }
        }
    }
}

/* The header of a payload, in bytes, and that of its microcode, in words. */
void add_payload(Subject &subject, std::pair<size_t, size_t> payload)
{
    const size_t at = payload.first;
    const size_t tensors = size_t{subject.bytes[at]} + subject.bytes[at + 1];
    const size_t header = 4 + 2 * tensors;
    const size_t microcode = at + (header + kAlignment - 1) / kAlignment * kAlignment;
    subject.add(kByte, at, header);
    subject.add(kByte, payload);
    subject.add(kWord, microcode, DTN_HEADER_WORDS + tensors);
    subject.microcodes.push_back(
        {at, microcode, read<uint32_t>(subject.bytes, microcode + 4 * DTN_HEADER_MICROCODE_BYTES)});
}

Subject subject_of(const char *path)
{
    std::ifstream stream(path, std::ios::binary);
    Subject subject;
    subject.bytes.assign(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    const Table root = Table::root(subject.bytes);
    size_t constant_count = root.vector(kBuffers).second;
    const std::vector<Table> segments = root.tables(kSegments);
    if (root.field(kConstants) != 0 && !segments.empty()) {
        const Table constants = root.table(kConstants);
        constant_count = constants.vector(1).second;
        const Table segment = segments.at(constants.scalar<uint32_t>(0));
        if (segment.scalar<uint64_t>(1) != 0) {
            subject.add(kByte, read<uint64_t>(subject.bytes, kSegmentsStartAt) + segment.scalar<uint64_t>(0),
                        segment.scalar<uint64_t>(1));
        }
    }
    for (const Table &segment : segments) {
        subject.add(kSegment, segment.field(0));
        subject.add(kSegment, segment.field(1));
    }
    if (read<uint32_t>(subject.bytes, kHeaderMagicAt) == kHeaderMagic) {
        subject.add(kSegment, kProgramBytesAt);
        subject.add(kSegment, kSegmentsStartAt);
    }
    for (const Table &plan : root.tables(kPlans)) {
        add_plan(subject, plan, static_cast<uint32_t>(constant_count));
    }
    for (const Table &data : root.tables(kDelegateData)) {
        add_payload(subject, data.vector(0));
    }
    return subject;
}

/* A number on an edge, or near the old one. */
int64_t edge(uint64_t *state, int64_t old)
{
    static const int64_t edges[] = {0,    1,     -1,    2,       127,       128,       -128,     255,
                                    4096, 32767, 32768, 1 << 20, INT32_MAX, INT32_MIN, INT64_MAX};
    switch (test_between(state, 0, 3)) {
    case 0:
        return edges[test_between(state, 0, static_cast<int32_t>(sizeof edges / sizeof edges[0]) - 1)];
    case 1:
        return old ^ (int64_t{1} << test_between(state, 0, 31));
    case 2:
        return static_cast<int64_t>(test_random(state) >> test_between(state, 0, 63));
    default:
        return static_cast<int64_t>(static_cast<uint64_t>(old) + static_cast<uint64_t>(test_between(state, -2, 2)));
    }
}

double real_edge(uint64_t *state, double old)
{
    static const double edges[] = {0.0, -1.0, 1e-45, 1e-38, 1e38, 1e300, INFINITY, NAN};
    const int32_t choice = test_between(state, 0, 11);
    return choice < 8 ? edges[choice] : old * test_between(state, -1, 4);
}

template <typename T> void write(FileBytes &bytes, size_t at, T value)
{
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

/* Changes one item of a field of a subject. */
void change(uint64_t *state, const Subject &subject, FileBytes &bytes, Kind kind, const Field &field)
{
    const std::vector<Field> &same = subject.fields[kind];
    const Field &other = same[test_random(state) % same.size()];
    static const uint8_t types[] = {0, 1, 2, 3, 4, 5, 6, 7, 11, 15};
    const size_t index = test_random(state) % field.count;
    const size_t word = field.at + 4 * index;
    switch (kind) {
    case kIndex:
        write(bytes, word, static_cast<uint32_t>(test_random(state) % field.bound));
        break;
    case kType:
        bytes[field.at] = types[test_between(state, 0, sizeof types - 1)];
        break;
    case kOrder:
        bytes[field.at + index] = static_cast<uint8_t>(test_between(state, 0, static_cast<int32_t>(field.count)));
        break;
    case kNumber:
        write(bytes, field.at, edge(state, read<int64_t>(bytes, field.at)));
        break;
    case kReal:
        write(bytes, field.at, real_edge(state, read<double>(bytes, field.at)));
        break;
    case kOffset:
        /* Mostly at another tensor, or near it. */
        write(bytes, word,
              static_cast<uint32_t>(test_between(state, 0, 3) != 0
                                        ? read<int32_t>(subject.bytes, other.at) + 4 * test_between(state, -4, 4)
                                        : edge(state, read<int32_t>(bytes, word))));
        break;
    case kCall:
        bytes[field.at] = static_cast<uint8_t>(bytes[field.at] ^ kKernelCall ^ kDelegateCall);
        break;
    case kJump:
        write(bytes, field.at,
              static_cast<uint32_t>(field.least + test_random(state) % (field.bound - field.least + 1)));
        break;
    case kSegment:
        write(bytes, field.at, edge(state, read<int64_t>(subject.bytes, other.at)));
        break;
    case kByte:
        bytes[field.at + index] = static_cast<uint8_t>(test_random(state));
        break;
    default:
        write(bytes, word, static_cast<uint32_t>(edge(state, read<int32_t>(bytes, word))));
        break;
    }
}

/* Makes the CRC of the microcode right where its size still is: a payload whose header alone has changed. */
void seal(FileBytes &bytes, const Microcode &microcode)
{
    const size_t crc_at = microcode.at + 4 * DTN_HEADER_CRC;
    write(bytes, crc_at, uint32_t{0});
    write(bytes, crc_at, dtn_crc32(0, bytes.data() + microcode.at, microcode.bytes));
}

void mutate(uint64_t *state, const Subject &subject, FileBytes &bytes)
{
    for (int32_t changes = test_between(state, 1, 3); changes > 0;) {
        const auto kind = static_cast<Kind>(test_between(state, 0, kKinds - 1));
        const std::vector<Field> &fields = subject.fields[kind];
        if (!fields.empty()) {
            change(state, subject, bytes, kind, fields[test_random(state) % fields.size()]);
            changes--;
        }
    }
    if (test_between(state, 0, 3) == 0) {
        bytes.resize(bytes.size() + static_cast<size_t>(test_between(state, 1, 4096)));
    }
    for (const Microcode &microcode : subject.microcodes) {
        if (test_between(state, 0, 3) != 0) {
            seal(bytes, microcode);
        }
    }
}

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

/* Refusals are what most runs end with: the runtime's words about them are dropped, but for those before an abort. */
void show_fatal(et_timestamp_t, et_pal_log_level_t level, const char *filename, const char *, size_t line,
                const char *message, size_t length)
{
    if (level == kFatal) {
        std::fprintf(stderr, "%s:%zu: %.*s\n", filename, line, static_cast<int>(length), message);
    }
}

} // namespace

int main(int argc, char **argv)
{
    executorch::runtime::register_pal(executorch::runtime::PalImpl::create(show_fatal, __FILE__));
    executorch::runtime::runtime_init();
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

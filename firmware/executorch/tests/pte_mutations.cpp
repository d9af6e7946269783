#include "pte_mutations.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "../../tests/test.h"
#include "deuteron/microcode.h"

extern "C" {
#include "deuteron/crc32.h"
}

namespace
{

using deuteron::runner::read;
using deuteron::runner::Table;

/* Members of unions, and slots, of ExecuTorch's schema/program.fbs. */
enum { kInt = 2, kDouble = 4, kTensor = 5, kIntList = 7, kTensorList = 10 };
enum { kKernelCall = 1, kDelegateCall = 2, kMove = 3, kJumpFalse = 4, kFree = 5 };
enum { kPlans = 1, kBuffers = 2, kDelegateData = 3, kSegments = 4, kConstants = 5 };
/* Fields of the header after the flatbuffer's identifier. */
constexpr size_t kProgramBytesAt = 16;
constexpr size_t kSegmentsStartAt = 24;
constexpr size_t kHeaderMagicAt = 8;
constexpr uint32_t kHeaderMagic = 0x30306865;
enum { kValues = 2, kChains = 5, kOperators = 6, kDelegates = 7 };
enum { kTensorType = 0, kTensorSizes = 2, kTensorOrder = 3, kTensorBuffer = 5, kTensorPlace = 6, kPlaceOffset = 1 };

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

} // namespace

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

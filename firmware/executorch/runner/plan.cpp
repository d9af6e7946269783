#include "plan.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "error.h"
#include "operator_outputs.h"
#include "segments.h"

namespace deuteron::runner
{
namespace
{

/* Members of unions, and slots, of ExecuTorch's schema/program.fbs. */
enum { kTensor = 5, kTensorList = 10, kOptionalTensorList = 11 };
enum { kKernelCall = 1, kDelegateCall = 2, kMove = 3, kJumpFalse = 4, kFree = 5 };
enum { kPlans = 1, kInlineData = 3 };
enum { kValues = 2, kMethodInputs = 3, kMethodOutputs = 4, kChains = 5, kOperators = 6, kDelegates = 7 };
enum { kScalarType = 0, kSizes = 2, kBuffer = 5, kPlace = 6, kExtra = 9, kLocation = 2 };

/* Maximum tensors of one value, and average visits per value; both bound the work. */
constexpr size_t kMostTensors = 16;
constexpr size_t kLooks = 64;

constexpr uint64_t kMostBytes = uint64_t{1} << 62;

[[noreturn]] void refuse(const std::string &what)
{
    throw Failure(what, damaged());
}

void check(bool good, const std::string &what)
{
    if (!good) {
        refuse(what);
    }
}

/* Bytes of a tensor. Memories count from 1; negative ones are inputs and outputs of a method. */
struct Extent {
    int64_t memory;
    uint64_t start;
    uint64_t end;

    bool operator<(const Extent &other) const
    {
        return std::tie(memory, start, end) < std::tie(other.memory, other.start, other.end);
    }
    bool operator==(const Extent &other) const
    {
        return memory == other.memory && start == other.start && end == other.end;
    }
    bool overlaps(const Extent &other) const
    {
        return memory == other.memory && start < other.end && other.start < end;
    }
};

/* A value: a tensor, a list of tensors, or something else. */
struct Value {
    bool is_tensor = false;
    bool is_constant = false;
    bool has_content = false;
    bool is_placed = false;
    uint64_t bytes = 0;
    Extent place = {0, 0, 0};
    std::vector<int32_t> items;
};

/* A tensor that a value can hold: its index, and its extent; none for a constant. */
struct HeldTensor {
    int32_t index;
    std::optional<Extent> extent;
};

/* Effect of an instruction: values that it reads, writes and frees. */
struct Access {
    std::string what;
    std::vector<int32_t> reads;
    std::vector<int32_t> writes;
    bool exclusive; /* written values must not overlap others */
    std::vector<int32_t> frees;
    std::vector<int32_t> rebinds; /* values that get another tensor, or another's memory */
};

uint64_t item_bytes(int8_t type)
{
    switch (type) {
    case 0:
    case 1:
    case 11:
        return 1;
    case 2:
    case 5:
    case 15:
    case 27:
        return 2;
    case 3:
    case 6:
    case 28:
        return 4;
    case 4:
    case 7:
    case 29:
        return 8;
    default:
        refuse("a tensor has the unknown scalar type " + std::to_string(type));
    }
}

Value tensor_of(const Table &table)
{
    Value value;
    value.is_tensor = true;
    value.bytes = item_bytes(table.scalar<int8_t>(kScalarType));
    const std::vector<int32_t> sizes = table.numbers<int32_t>(kSizes);
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
        value.bytes = 0;
    }
    for (const int32_t size : sizes) {
        check(size >= 0 && (size == 0 || value.bytes <= kMostBytes / static_cast<uint64_t>(size)),
              "a tensor has a size of " + std::to_string(size));
        value.bytes *= static_cast<uint64_t>(size);
    }
    const bool external = table.field(kExtra) != 0 && table.table(kExtra).scalar<int8_t>(kLocation) != 0;
    value.has_content = external || table.scalar<uint32_t>(kBuffer) > 0;
    if (table.field(kPlace) != 0) {
        const Table place = table.table(kPlace);
        const uint64_t offset = place.scalar<uint32_t>(1) + (uint64_t{place.scalar<uint32_t>(2)} << 32);
        check(offset <= kMostBytes, "a tensor starts at byte " + std::to_string(offset) + " of its memory");
        value.is_placed = true;
        value.place = Extent{place.scalar<uint32_t>(0), offset, offset + value.bytes};
    } else {
        value.is_constant = value.has_content;
    }
    return value;
}

Value value_of(const Table &table)
{
    Value value;
    switch (table.scalar<uint8_t>(0)) {
    case kTensor:
        return tensor_of(table.table(1));
    case kTensorList:
    case kOptionalTensorList:
        for (const int32_t item : table.table(1).numbers<int32_t>(0)) {
            if (item != -1) {
                value.items.push_back(item);
            }
        }
        return value;
    default:
        return value;
    }
}

/* Number of a call's arguments that are inputs of a delegate, the others are outputs; none if unknown. */
std::optional<size_t> input_count(const std::string &id, const std::string &payload)
{
    if (id == "NeutronBackend") {
        return payload.size() > 2 ? std::optional<size_t>(static_cast<uint8_t>(payload[2])) : std::nullopt;
    }
    constexpr size_t header = 32;
    constexpr size_t name_bytes = 16;
    constexpr size_t alignment = 16;
    if (id != "EthosUBackend") {
        return std::nullopt;
    }
    for (size_t at = 0; at <= payload.size() && header <= payload.size() - at;) {
        uint32_t size;
        std::memcpy(&size, payload.data() + at + name_bytes, sizeof size);
        const size_t start = at + header;
        if (std::strncmp(payload.data() + at, "inputs", name_bytes) == 0) {
            int32_t count = -1;
            if (size >= sizeof count && size <= payload.size() - start) {
                std::memcpy(&count, payload.data() + start, sizeof count);
            }
            return count >= 0 ? std::optional<size_t>(static_cast<size_t>(count)) : std::nullopt;
        }
        at = start + (uint64_t{size} + alignment - 1) / alignment * alignment;
    }
    return std::nullopt;
}

/* The last writers of the bytes of a memory. */
class LastWriters
{
  public:
    /* The last writer of another extent to some of these bytes, "" if there is none. */
    std::string foreign(const Extent &extent) const
    {
        for (auto at = first_of(extent.start); at != sections_.end() && at->first < extent.end; ++at) {
            if (at->second.end > extent.start && !(at->second.extent == extent)) {
                return at->second.who;
            }
        }
        return "";
    }
    void take(const Extent &extent, const std::string &who)
    {
        split(extent.start);
        split(extent.end);
        sections_.erase(sections_.lower_bound(extent.start), sections_.lower_bound(extent.end));
        sections_[extent.start] = {extent.end, extent, who};
    }

  private:
    struct Section {
        uint64_t end;
        Extent extent;
        std::string who;
    };

    /* The last section that starts at or before a byte, or the first one. */
    std::map<uint64_t, Section>::const_iterator first_of(uint64_t byte) const
    {
        auto at = sections_.upper_bound(byte);
        return at == sections_.begin() ? at : std::prev(at);
    }
    /* Splits a section at a byte. */
    void split(uint64_t byte)
    {
        const auto at = sections_.upper_bound(byte);
        if (at == sections_.begin()) {
            return;
        }
        const auto before = std::prev(at);
        if (before->first < byte && before->second.end > byte) {
            sections_[byte] = before->second;
            before->second.end = byte;
        }
    }

    std::map<uint64_t, Section> sections_;
};

/* Checks one method. */
class PlanCheck
{
  public:
    PlanCheck(const FileBytes &file, const std::vector<Segment> &segments, const Table &plan)
        : file_(file), segments_(segments), plan_(plan), inputs_(plan.numbers<int32_t>(kMethodInputs)),
          outputs_(plan.numbers<int32_t>(kMethodOutputs))
    {
        for (const Table &value : plan.tables(kValues)) {
            values_.push_back(value_of(value));
        }
        for (const Table &table : plan.tables(kOperators)) {
            const std::string overload = table.bytes(1);
            operators_.push_back(table.bytes(0) + (overload.empty() ? "" : "." + overload));
        }
        for (const Table &chain : plan.tables(kChains)) {
            const std::vector<Table> instructions = chain.tables(2);
            for (const Table &instruction : instructions) {
                check_jump(instruction, instructions.size());
                instructions_.push_back(instruction);
            }
        }
        held_.resize(values_.size());
        freed_.resize(values_.size());
        given_.resize(values_.size());
        ends_.resize(values_.size());
        for (const std::vector<int32_t> &side : {inputs_, outputs_}) {
            for (const int32_t value : side) {
                ends_.at(index(value)) = true;
            }
        }
    }

    void run()
    {
        follow_moves();
        check_state();
        const std::vector<Access> accesses = all_accesses();
        size_t named = values_.size();
        for (const Value &value : values_) {
            named += value.items.size();
        }
        for (const Access &access : accesses) {
            named += access.reads.size() + access.writes.size();
        }
        left_ = kLooks * named;
        for (const Access &access : accesses) {
            check_access(access);
            free(access);
            for (const int32_t value : access.rebinds) {
                given_[index(value)] = true;
            }
        }
        freed_.assign(values_.size(), false);
        const bool jumps = std::any_of(instructions_.begin(), instructions_.end(),
                                       [](const Table &each) { return each.scalar<uint8_t>(0) == kJumpFalse; });
        if (!jumps) {
            check_order(accesses);
        }
    }

  private:
    size_t index(int32_t value) const
    {
        check(value >= 0 && static_cast<size_t>(value) < values_.size(),
              "argument of an instruction: index " + std::to_string(value) + " of " + std::to_string(values_.size()));
        return static_cast<size_t>(value);
    }

    /* Checks that no tensor but views has bytes of one that keeps its content between runs. */
    void check_state() const
    {
        std::vector<std::pair<Extent, size_t>> extents;
        for (size_t i = 0; i < values_.size(); ++i) {
            if (values_[i].is_placed && values_[i].bytes != 0) {
                extents.emplace_back(values_[i].place, i);
            }
        }
        std::sort(extents.begin(), extents.end());
        /* Of the earlier tensors without and with state, that with the last end. */
        std::array<std::optional<std::pair<Extent, size_t>>, 2> last;
        for (const auto &[extent, number] : extents) {
            const bool keeps = values_[number].has_content;
            for (const size_t other : {size_t{0}, size_t{1}}) {
                const bool shares = last.at(other) && last.at(other)->first.overlaps(extent);
                const bool is_view = shares && keeps && other == 1 && last.at(other)->first == extent;
                check(is_view || !shares || !(keeps || other == 1),
                      "values " + std::to_string(last.at(other) ? last.at(other)->second : 0) + " and " +
                          std::to_string(number) + " share memory, and a state must have its own");
            }
            auto &before = last.at(keeps ? 1 : 0);
            if (!before || std::tie(before->first.memory, before->first.end) < std::tie(extent.memory, extent.end)) {
                before = {extent, number};
            }
        }
    }

    /* The member of an instruction's union; the runtime rejects one without. */
    static Table content(const Table &instruction)
    {
        check(instruction.field(1) != 0, "an instruction has no content");
        return instruction.table(1);
    }

    /* Checks that a jump stays in its chain; the runtime does not check this. */
    static void check_jump(const Table &instruction, size_t count)
    {
        if (instruction.scalar<uint8_t>(0) == kJumpFalse) {
            const auto target = content(instruction).scalar<int32_t>(1);
            check(target >= 0 && static_cast<size_t>(target) < count,
                  "a jump leads to instruction " + std::to_string(target) + " of " + std::to_string(count));
        }
    }

    const std::string &operator_of(const Table &call) const
    {
        const auto number = call.scalar<int32_t>(0);
        check(number >= 0 && static_cast<size_t>(number) < operators_.size(),
              "an instruction calls operator " + std::to_string(number) + " of " + std::to_string(operators_.size()));
        return operators_[static_cast<size_t>(number)];
    }

    std::string payload_of(const Table &delegate) const
    {
        check(delegate.field(1) != 0, "a delegate has no data");
        const Table reference = delegate.table(1);
        const size_t number = reference.scalar<uint32_t>(1);
        if (reference.scalar<int8_t>(0) == 0) {
            return Table::root(file_).tables(kInlineData).at(number).bytes(0);
        }
        const Segment segment = segments_.at(number);
        return std::string(file_.begin() + static_cast<ptrdiff_t>(segment.start),
                           file_.begin() + static_cast<ptrdiff_t>(segment.end));
    }

    Access kernel_access(const std::string &what, const Table &call) const
    {
        const std::string &name = operator_of(call);
        const std::vector<int32_t> args = call.numbers<int32_t>(1);
        Access access = {what + " (`" + name + "`)", {}, {}, true, {}, {}};
        if (name == kView && !args.empty()) {
            access.rebinds.push_back(args.back());
        }
        const Outputs outputs = outputs_of(name, args.size());
        for (size_t i = 0; i < args.size(); i++) {
            if (outputs.contains(i)) {
                access.writes.push_back(args[i]);
            } else if (i + 1 < args.size() && name != kView) { /* the returned value repeats the outputs */
                access.reads.push_back(args[i]);
            }
        }
        return access;
    }

    Access delegate_access(const std::string &what, const Table &call) const
    {
        const std::vector<Table> delegates = plan_.tables(kDelegates);
        const auto number = call.scalar<int32_t>(0);
        check(number >= 0 && static_cast<size_t>(number) < delegates.size(),
              "an instruction calls delegate " + std::to_string(number) + " of " + std::to_string(delegates.size()));
        const Table &delegate = delegates[static_cast<size_t>(number)];
        const std::vector<int32_t> args = call.numbers<int32_t>(1);
        const std::string id = delegate.bytes(0);
        const std::optional<size_t> inputs = input_count(id, payload_of(delegate));
        const auto outputs = args.begin() + static_cast<ptrdiff_t>(std::min(inputs.value_or(0), args.size()));
        return {what + " (delegate `" + id + "`)",
                {args.begin(), outputs},
                {outputs, args.end()},
                inputs.has_value(),
                {},
                {}};
    }

    std::vector<Access> all_accesses() const
    {
        std::vector<Access> found = {{"the caller", {}, inputs_, false, {}, {}}};
        std::vector<int32_t> read = outputs_;
        for (size_t i = 0; i < values_.size(); i++) {
            if (values_[i].is_placed && values_[i].has_content) {
                found[0].writes.push_back(static_cast<int32_t>(i));
                read.push_back(static_cast<int32_t>(i));
            }
        }
        for (size_t i = 0; i < instructions_.size(); i++) {
            const std::string what = "instruction " + std::to_string(i);
            switch (instructions_[i].scalar<uint8_t>(0)) {
            case kKernelCall:
                found.push_back(kernel_access(what, content(instructions_[i])));
                break;
            case kDelegateCall:
                found.push_back(delegate_access(what, content(instructions_[i])));
                break;
            case kJumpFalse:
                index(content(instructions_[i]).scalar<int32_t>(0));
                break;
            case kFree:
                found.push_back({what, {}, {}, true, {content(instructions_[i]).scalar<int32_t>(0)}, {}});
                break;
            case kMove:
                found.push_back({what, {}, {}, true, {}, {content(instructions_[i]).scalar<int32_t>(1)}});
                break;
            default:
                break;
            }
        }
        found.push_back({"the caller", read, {}, true, {}, {}});
        return found;
    }

    /* Finds the tensors that values hold after moves and views. */
    void follow_moves()
    {
        std::map<size_t, std::vector<size_t>> targets;
        std::set<size_t> todo;
        for (const Table &instruction : instructions_) {
            const uint8_t kind = instruction.scalar<uint8_t>(0);
            if (kind != kMove && kind != kKernelCall) {
                continue;
            }
            const Table table = content(instruction);
            std::vector<int32_t> ends;
            if (kind == kMove) {
                ends = {table.scalar<int32_t>(0), table.scalar<int32_t>(1)};
            } else if (operator_of(table) == kView) {
                ends = table.numbers<int32_t>(1);
            }
            if (ends.size() >= 2) {
                const size_t source = index(ends.front());
                const size_t target = index(ends.back());
                targets[source].push_back(target);
                held_[target].insert(target);
                held_[target].insert(source);
                todo.insert(target);
            }
        }
        while (!todo.empty()) {
            const size_t value = *todo.begin();
            todo.erase(todo.begin());
            check(held_[value].size() <= kMostTensors, "moves and views give more than " +
                                                           std::to_string(kMostTensors) + " tensors to value " +
                                                           std::to_string(value));
            for (const size_t target : targets[value]) {
                const size_t before = held_[target].size();
                held_[target].insert(held_[value].begin(), held_[value].end());
                if (held_[target].size() != before) {
                    todo.insert(target);
                }
            }
        }
    }

    /* The values whose tensors a value can hold. */
    std::vector<size_t> slots(int32_t value) const
    {
        const std::set<size_t> &held = held_[index(value)];
        return held.empty() ? std::vector<size_t>{index(value)} : std::vector<size_t>(held.begin(), held.end());
    }

    /* The tensors that a value, or a list in it, can hold. */
    std::vector<HeldTensor> tensors(int32_t value)
    {
        std::vector<HeldTensor> found;
        for (const size_t slot : slots(value)) {
            add(slot, found);
            for (const int32_t item : values_[slot].items) {
                for (const size_t inner : slots(item)) {
                    add(inner, found);
                }
            }
        }
        return found;
    }

    void add(size_t at, std::vector<HeldTensor> &found)
    {
        check(left_-- > 0, "its instructions name values more than " + std::to_string(kLooks) + " times");
        const Value &value = values_[at];
        const auto number = static_cast<int32_t>(at);
        if (!value.is_tensor) {
            return;
        }
        if (value.is_placed) {
            found.push_back({number, value.place});
        } else if (value.is_constant) {
            found.push_back({number, std::nullopt});
        } else {
            /* The caller provides memory for inputs and outputs, a view for its result. */
            const bool given = value.bytes == 0 || ends_[at] || given_[at];
            check(given && !freed_[at], "an instruction uses value " + std::to_string(at) + ", which has no memory");
            if (ends_[at]) {
                found.push_back({number, Extent{-1 - int64_t{number}, 0, value.bytes}});
            }
        }
    }

    /* Checks that an instruction writes no constant and no bytes of its other arguments. */
    void check_access(const Access &access)
    {
        std::map<std::pair<Extent, size_t>, int32_t> extents;
        for (size_t i = 0; i < access.writes.size(); i++) {
            for (const HeldTensor &tensor : tensors(access.writes[i])) {
                check(tensor.extent.has_value(),
                      access.what + " writes value " + std::to_string(tensor.index) + ", which is a constant");
                if (access.exclusive && tensor.extent->end > tensor.extent->start) {
                    extents[{*tensor.extent, i}] = tensor.index;
                }
            }
        }
        std::vector<std::pair<Extent, int32_t>> outputs;
        for (const auto &[key, value] : extents) {
            outputs.emplace_back(key.first, value);
        }
        std::sort(outputs.begin(), outputs.end());
        for (size_t i = 1; i < outputs.size(); i++) {
            check(!outputs[i - 1].first.overlaps(outputs[i].first),
                  access.what + " writes values " + std::to_string(outputs[i - 1].second) + " and " +
                      std::to_string(outputs[i].second) + ", which share memory");
        }
        for (const int32_t read : outputs.empty() ? std::vector<int32_t>() : access.reads) {
            for (const HeldTensor &tensor : tensors(read)) {
                if (!tensor.extent) {
                    continue;
                }
                const std::pair<Extent, int32_t> behind = {{tensor.extent->memory, tensor.extent->end, 0}, 0};
                const auto after = std::lower_bound(outputs.begin(), outputs.end(), behind);
                const auto &output = after == outputs.begin() ? *after : *std::prev(after);
                check(!output.first.overlaps(*tensor.extent),
                      access.what + " writes value " + std::to_string(output.second) +
                          ", which shares memory with value " + std::to_string(tensor.index) + ", which it reads");
            }
        }
    }

    /* Records what an instruction frees; it must have its own memory. */
    void free(const Access &access)
    {
        for (const int32_t value : access.frees) {
            for (const size_t slot : slots(value)) {
                check(values_[slot].is_tensor,
                      access.what + " frees value " + std::to_string(value) + ", which is not a tensor");
            }
            for (const HeldTensor &tensor : tensors(value)) {
                check(tensor.extent && tensor.extent->memory < 0,
                      access.what + " frees value " + std::to_string(tensor.index) + ", whose memory is planned");
                freed_[static_cast<size_t>(tensor.index)] = true;
            }
        }
    }

    /* Checks that values keep their content until it is read. */
    void check_order(const std::vector<Access> &accesses)
    {
        std::map<int64_t, LastWriters> memories;
        for (const Access &access : accesses) {
            for (const int32_t read : access.reads) {
                std::vector<HeldTensor> found = tensors(read);
                found.erase(
                    std::remove_if(found.begin(), found.end(), [](const HeldTensor &each) { return !each.extent; }),
                    found.end());
                if (found.size() != 1 && !held_[index(read)].empty()) {
                    continue;
                }
                for (const HeldTensor &tensor : found) {
                    const std::string other = memories[tensor.extent->memory].foreign(*tensor.extent);
                    check(other.empty(), access.what + " reads value " + std::to_string(tensor.index) + ", which " +
                                             other + " overwrites before");
                }
            }
            for (const int32_t write : access.writes) {
                for (const HeldTensor &tensor : tensors(write)) {
                    if (tensor.extent && tensor.extent->end > tensor.extent->start) {
                        memories[tensor.extent->memory].take(*tensor.extent, access.what + ", writing value " +
                                                                                 std::to_string(tensor.index) + ",");
                    }
                }
            }
        }
    }

    const FileBytes &file_;
    const std::vector<Segment> &segments_;
    Table plan_;
    std::vector<int32_t> inputs_;
    std::vector<int32_t> outputs_;
    std::vector<Value> values_;
    std::vector<std::string> operators_;
    std::vector<Table> instructions_;
    std::vector<std::set<size_t>> held_; /* values whose tensors a moved value can hold; empty for others */
    std::vector<bool> freed_;
    std::vector<bool> given_; /* values that earlier moves and views changed */
    std::vector<bool> ends_;  /* inputs and outputs of the method */
    size_t left_ = 0;         /* remaining visits of values */
};

} // namespace

void check_plans(const FileBytes &file)
{
    const std::vector<Segment> segments = segments_of(file);
    for (const Table &plan : Table::root(file).tables(kPlans)) {
        PlanCheck(file, segments, plan).run();
    }
}

} // namespace deuteron::runner

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

#include "last_writers.h"
#include "operator_outputs.h"
#include "plan_values.h"
#include "segments.h"

namespace deuteron::runner
{
namespace
{

/* Members of a union, and slots, of ExecuTorch's schema/program.fbs. */
enum { kKernelCall = 1, kDelegateCall = 2, kMove = 3, kJumpFalse = 4, kFree = 5 };
enum { kPlans = 1, kInlineData = 3 };
enum { kValues = 2, kMethodInputs = 3, kMethodOutputs = 4, kChains = 5, kOperators = 6, kDelegates = 7 };

/* Maximum tensors of one value, and average visits per value; both bound the work. */
constexpr size_t kMostTensors = 16;
constexpr size_t kLooks = 64;

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
        /* The earlier tensors, without and with state, that end last. */
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

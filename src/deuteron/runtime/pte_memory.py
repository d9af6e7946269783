"""Checks the memory that the instructions of a method write: rejects what no plan of ExecuTorch does.

ExecuTorch's runtime writes to the memory of an instruction's outputs. A damaged plan could write to constants, which
share the file with the program and the payloads of delegates, or to memory that another value still needs.

Values hold tensors: a move puts a tensor of one value into another, and `et_view` makes a value share another's
memory, at any time and across runs. Each value therefore counts as holding all tensors that can reach it. Overwritten
bytes are tracked in methods without jumps only; all other checks apply to every method.

`firmware/executorch/runner/plan.cpp` makes the same checks for the runner.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from deuteron.runtime.operator_outputs import VIEW, written
from deuteron.runtime.program import (
    DelegateCall,
    Free,
    Instruction,
    JumpFalse,
    KernelCall,
    Method,
    Move,
    TensorList,
    TensorValue,
)
from deuteron.runtime.pte_values import Check

_MOST_TENSORS = 16
"""Number of tensors that one value may hold in the course of a method."""

_MAX_VISITS = 64
"""Average number of allowed visits per value and argument. Sound methods need less than ten; without a limit, calls
that all name one long list would make the work quadratic in the file's size."""


class Extent(NamedTuple):
    """Bytes of a tensor. Memories count from 1; negative ones are inputs and outputs of a method."""

    memory: int
    start: int
    end: int

    def overlaps(self, other: "Extent") -> bool:
        """Return true if both share a byte."""
        return self.memory == other.memory and self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class _Access:
    """Values that one instruction reads and writes.

    Attributes:
        what: the instruction in words.
        is_exclusive: true if the written values must not overlap any others.
        frees: values whose memory it frees.
        changes: values that get another tensor or another's memory.
    """

    what: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    is_exclusive: bool = True
    frees: tuple[int, ...] = ()
    changes: tuple[int, ...] = ()


def check_memory(method: Method, check: Check) -> None:
    """Check what the instructions of a method write; FormatError for the first that is not sound."""
    _MemoryCheck(method, check).run()


@dataclass(slots=True)
class _MemoryCheck:
    """Checks one method.

    Attributes:
        candidates: for each value that a move or view changes, the values whose tensors it can hold.
        visits_left: number of values that may still be visited.
        io_values: inputs and outputs of the method.
        freed: tensors that earlier instructions freed.
        changed: values that earlier moves and views changed.
    """

    method: Method
    check: Check
    candidates: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    visits_left: int = 0
    io_values: frozenset[int] = frozenset()
    freed: set[int] = field(default_factory=set[int])
    changed: set[int] = field(default_factory=set[int])

    def run(self) -> None:
        """Check all instructions."""
        method = self.method
        self.io_values = frozenset((*method.inputs, *method.outputs))
        self._follow_moves()
        self._check_state()
        kept = tuple(i for i, _ in method.state)
        inputs = _Access("the caller", (), (*method.inputs, *kept), is_exclusive=False)
        outputs = _Access("the caller", (*method.outputs, *kept), ())
        accesses = [inputs, *self._accesses(), outputs]
        items = sum(len(value.items) for value in method.values if isinstance(value, TensorList))
        named = sum(len(access.reads) + len(access.writes) for access in accesses)
        self.visits_left = _MAX_VISITS * (len(method.values) + items + named)
        for access in accesses:
            self._check_access(access)
            self._free(access)
            self.changed.update(access.changes)
        self.freed.clear()
        if not any(isinstance(instruction, JumpFalse) for _, instruction in self._instructions()):
            self._check_order(accesses)

    def _check_state(self) -> None:
        """Check that no tensor but views has bytes of one that keeps its content between runs."""
        extents: list[tuple[Extent, int, TensorValue]] = []
        for index, value in enumerate(self.method.values):
            if isinstance(value, TensorValue) and value.place and value.bytes:
                place = value.place
                extents.append((Extent(place.memory, place.offset, place.offset + value.bytes), index, value))
        extents.sort(key=lambda item: item[:2])
        # With state and without: the earlier tensor that ends last.
        last: dict[bool, tuple[Extent, int, TensorValue]] = {}
        for extent, index, value in extents:
            for is_state, (before, other, earlier) in last.items():
                is_view = is_state and value.is_state and before == extent
                message = f"values {other} and {index} share memory, and a state must have its own"
                self.check.that(is_view or not (is_state or value.is_state) or not before.overlaps(extent), message)
                if is_view and earlier.constant and value.constant:
                    message = f"values {other} and {index} are one state with two initial values"
                    self.check.that(earlier.constant.data == value.constant.data, message)
            before = last.get(value.is_state)
            if before is None or (before[0].memory, before[0].end) < (extent.memory, extent.end):
                last[value.is_state] = extent, index, value

    def _instructions(self) -> Iterator[tuple[str, Instruction]]:
        number = 0
        for chain in self.method.chains:
            for instruction in chain:
                yield f"instruction {number}", instruction
                number += 1

    def _accesses(self) -> Iterator[_Access]:
        """Yield the values that each instruction reads and writes."""
        for what, instruction in self._instructions():
            match instruction:
                case KernelCall(operator, args):
                    name = self.method.operators[operator]
                    positions = written(name, len(args))
                    # The returned value repeats the outputs.
                    reads = () if name == VIEW else args[:-1]
                    reads = tuple(arg for i, arg in enumerate(reads) if i not in positions)
                    changes = args[-1:] if name == VIEW else ()
                    yield _Access(f"{what} (`{name}`)", reads, tuple(args[i] for i in positions), changes=changes)
                case DelegateCall(delegate, args):
                    yield self._delegate_access(what, delegate, args)
                case Free(value):
                    yield _Access(what, (), (), frees=(value,))
                case Move(_, target):
                    yield _Access(what, (), (), changes=(target,))
                case JumpFalse():
                    pass

    def _delegate_access(self, what: str, index: int, args: tuple[int, ...]) -> _Access:
        from deuteron.npu.families import (
            family_of,
        )  # imported here because it loads NumPy, which the FVP programs do not need

        delegate = self.method.delegates[index]
        family = family_of(delegate.id)
        inputs = family.input_count(delegate.payload) if family and family.input_count else None
        what = f"{what} (delegate `{delegate.id}`)"
        if inputs is None:  # any argument may be an output
            return _Access(what, (), args, is_exclusive=False)
        return _Access(what, args[:inputs], args[inputs:])

    def _follow_moves(self) -> None:
        """Find the values that moves and views change."""
        sources: dict[int, list[int]] = {}
        targets: dict[int, list[int]] = {}
        for _, instruction in self._instructions():
            match instruction:
                case Move(source, target):
                    pass
                case KernelCall(operator, args) if self.method.operators[operator] == VIEW and len(args) >= 2:
                    source, target = args[0], args[-1]
                case _:
                    continue
            sources.setdefault(target, [target]).append(source)
            targets.setdefault(source, []).append(target)
        candidates = {value: set(into) for value, into in sources.items()}
        todo = list(candidates)
        while todo:
            value = todo.pop()
            message = f"moves and views give more than {_MOST_TENSORS} tensors to value {value}"
            self.check.that(len(candidates[value]) <= _MOST_TENSORS, message)
            for target in targets.get(value, ()):
                if not candidates[value] <= candidates[target]:
                    candidates[target] |= candidates[value]
                    todo.append(target)
        self.candidates = {value: tuple(sorted(into)) for value, into in candidates.items()}

    def _tensors(self, values: Sequence[int]) -> Iterator[tuple[int, Extent | None]]:
        """Yield the tensors and lists that the values can hold: the index, and the extent; None for a constant."""
        for value in values:
            for candidate in self.candidates.get(value, (value,)):
                match self.method.values[candidate]:
                    case TensorList(items):
                        for item in items:
                            if item is not None:
                                for inner in self.candidates.get(item, (item,)):
                                    yield from self._tensor(inner)
                    case _:
                        yield from self._tensor(candidate)

    def _tensor(self, index: int) -> Iterator[tuple[int, Extent | None]]:
        self.visits_left -= 1
        self.check.that(self.visits_left >= 0, f"its instructions name values more than {_MAX_VISITS} times")
        value = self.method.values[index]
        if not isinstance(value, TensorValue):
            return
        if value.place:
            yield index, Extent(value.place.memory, value.place.offset, value.place.offset + value.bytes)
        elif value.constant or value.external:
            yield index, None
        else:
            # The caller provides memory for inputs and outputs, a view for its result.
            has_memory = value.bytes == 0 or index in self.io_values or index in self.changed
            message = f"an instruction uses value {index}, which has no memory"
            self.check.that(has_memory and index not in self.freed, message)
            if index in self.io_values:
                yield index, Extent(-1 - index, 0, value.bytes)

    def _check_access(self, access: _Access) -> None:
        """Check that an instruction writes no constant and no bytes of its other arguments."""
        extents: dict[tuple[Extent, int], int] = {}
        for position, value in enumerate(access.writes):
            for index, extent in self._tensors((value,)):
                if extent is None:
                    raise self.check.error(f"{access.what} writes value {index}, which is a constant")
                if access.is_exclusive and extent.end > extent.start:
                    extents[extent, position] = index
        outputs = sorted((extent, index) for (extent, _), index in extents.items())
        for (first, one), (second, two) in pairwise(outputs):
            message = f"{access.what} writes values {one} and {two}, which share memory"
            self.check.that(not first.overlaps(second), message)
        for index, place in self._tensors(access.reads) if outputs else ():
            if place:
                at = bisect_left(outputs, (Extent(place.memory, place.end, 0), 0)) - 1
                written_over, output = outputs[max(at, 0)]
                message = f"{access.what} writes value {output}, which shares memory with value {index}, which it reads"
                self.check.that(not written_over.overlaps(place), message)

    def _free(self, access: _Access) -> None:
        """Record what an instruction frees; it must have its own memory."""
        for value in access.frees:
            candidates = (self.method.values[candidate] for candidate in self.candidates.get(value, (value,)))
            message = f"{access.what} frees value {value}, which is not a tensor"
            self.check.that(all(isinstance(each, TensorValue) for each in candidates), message)
        for index, extent in self._tensors(access.frees):
            owned = extent is not None and extent.memory < 0
            self.check.that(owned, f"{access.what} frees value {index}, whose memory is planned")
            self.freed.add(index)

    def _check_order(self, accesses: Sequence[_Access]) -> None:
        """Check that values keep their content until it is read."""
        memories: dict[int, _LastWriters] = {}
        for access in accesses:
            for value in access.reads:
                found = [(i, extent) for i, extent in self._tensors((value,)) if extent]
                if len(found) != 1 and value in self.candidates:
                    continue
                for index, extent in found:
                    other = memories.setdefault(extent.memory, _LastWriters()).other_writer(extent)
                    message = f"{access.what} reads value {index}, which {other or ''} overwrites before"
                    self.check.that(other is None, message)
            for index, extent in self._tensors(access.writes):
                if extent and extent.end > extent.start:
                    owner = f"{access.what}, writing value {index},"
                    memories.setdefault(extent.memory, _LastWriters()).record(extent, owner)


@dataclass(slots=True)
class _LastWriters:
    """The last writers of the bytes of a memory, as sections: start, end, written extent, and writer."""

    starts: list[int] = field(default_factory=list[int])
    sections: list[tuple[int, Extent, str]] = field(default_factory=list[tuple[int, Extent, str]])

    def other_writer(self, extent: Extent) -> str | None:
        """Return the last writer of another extent to any of these bytes, None if there is none."""
        for at in range(*self._range(extent)):
            _, other, who = self.sections[at]
            if other != extent:
                return who
        return None

    def record(self, extent: Extent, who: str) -> None:
        """Record a write to these bytes."""
        first, last = self._range(extent)
        starts, sections = [extent.start], [(extent.end, extent, who)]
        if first < last and self.starts[first] < extent.start:
            starts.insert(0, self.starts[first])
            sections.insert(0, (extent.start, *self.sections[first][1:]))
        if first < last and self.sections[last - 1][0] > extent.end:
            starts.append(extent.end)
            sections.append(self.sections[last - 1])
        self.starts[first:last], self.sections[first:last] = starts, sections

    def _range(self, extent: Extent) -> tuple[int, int]:
        """Return the range of sections that have bytes of the extent."""
        first = bisect_right(self.starts, extent.start) - 1
        if first < 0 or self.sections[first][0] <= extent.start:
            first += 1
        last = first
        while last < len(self.starts) and self.starts[last] < extent.end:
            last += 1
        return first, last

"""Lets steps write tensors of the state directly, in place of a tensor that a copy moves there afterwards.

A copy is left out if the steps that write its source can write its target, and all readers of the source can read the
target: from the first such write on, no step uses the old content of the target, and nothing writes it again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from deuteron.board.bundle import Step, StepKind, Value
from deuteron.board.memory_check import copied

_COPY = "dtn_cm_copy"


class DirectWrites:
    """The steps of a bundle, from which copies to the state are left out where that is possible.

    Attributes:
        steps: the remaining steps.
        values: the values, with those at new places added.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        values: Sequence[Value],
        operators: Sequence[str],
        outputs: Iterable[int],
        memory: int,
    ) -> None:
        """Leave out copies; `outputs` are those of the program, `memory` is that of the state."""
        self.values = list(values)
        self._outputs = [values[index] for index in outputs]
        self._state = memory
        kept: list[Step | None] = list(steps)
        for at, step in enumerate(steps):
            if step.kind is StepKind.OPERATOR and operators[step.index] == _COPY:
                self._leave_out(kept, at)
        self.steps = [step for step in kept if step is not None]

    def _leave_out(self, kept: list[Step | None], at: int) -> None:
        """Leave out the copy `at`, if that is possible."""
        copy = kept[at]
        if copy is None:
            return
        source, target = self.values[copy.inputs[0]], self.values[copy.outputs[0]]
        is_whole = source.bytes == target.bytes and all(
            np.array_equal(moved, np.arange(source.bytes)) for moved in copied(copy)
        )
        if not is_whole or target.memory != self._state or source.memory == self._state:
            return
        first = self._first_write(kept, at, source)
        if first is None or any(_overlap(source, output) for output in self._outputs):
            return
        others = [step for i, step in enumerate(kept) if step is not None and i >= first and i != at]
        if any(_overlap(target, self.values[index]) for step in others for index in (*step.inputs, *step.outputs)):
            return
        moved = dict.fromkeys(self._places(kept, first, at, source), target)
        if not moved:
            return
        kept[at] = None
        for i in range(first, len(kept)):
            step = kept[i]
            if step is not None:
                inputs, outputs = (tuple(self._moved(x, moved) for x in side) for side in (step.inputs, step.outputs))
                kept[i] = replace(step, inputs=inputs, outputs=outputs)

    def _first_write(self, kept: Sequence[Step | None], at: int, source: Value) -> int | None:
        """Return the first step that writes what the copy reads; None if its steps also write other bytes."""
        for i in range(at - 1, -1, -1):
            written = [index for index in (kept[i].outputs if kept[i] else ()) if _overlap(source, self.values[index])]
            if written:
                if not _is_same_place(source, self.values[written[0]]):
                    return None
                return next(j for j, step in enumerate(kept) if step is not None and written[0] in step.outputs)
        return None

    def _places(self, kept: Sequence[Step | None], first: int, at: int, source: Value) -> set[int]:
        """Return the values at the source's place from the first write on; none if other steps use bytes of it."""
        found: set[int] = set()
        for i in range(first, len(kept)):
            step = kept[i]
            for index in (*step.inputs, *step.outputs) if step else ():
                if _overlap(source, self.values[index]):
                    if not _is_same_place(source, self.values[index]):
                        return set()
                    found.add(index)
        written = {index for step in kept[first:] if step for index in step.outputs if index in found}
        earlier = [index for step in kept[:first] if step for index in (*step.inputs, *step.outputs)]
        last = max(i for i, step in enumerate(kept) if step and not written.isdisjoint(step.outputs))
        return found if len(written) == 1 and last < at and found.isdisjoint(earlier) else set()

    def _moved(self, index: int, moved: dict[int, Value]) -> int:
        """Return the value at its new place."""
        if index not in moved:
            return index
        value = replace(self.values[index], memory=moved[index].memory, offset=moved[index].offset)
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)


def _overlap(one: Value, other: Value) -> bool:
    are_apart = one.offset + one.bytes <= other.offset or other.offset + other.bytes <= one.offset
    return one.memory == other.memory and not are_apart


def _is_same_place(one: Value, other: Value) -> bool:
    return (one.memory, one.offset, one.bytes) == (other.memory, other.offset, other.bytes)

"""Bundles in which all that their plan says is free is painted before each step, and must be so after it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from deuteron.board.arena import Arena
from deuteron.board.bundle import ALIGNMENT, Bundle, ElementType, Step, StepKind, Value

OPERATORS = Path(__file__).with_name("painted.c")
"""The operators that the painted bundle calls."""

PAINT, UNTOUCHED = "dtn_op_full", "dtn_op_clamp"
BEYOND = 64
"""Bytes behind the memory, free all the time."""
MOST = 8
"""`DTN_MAX_OPERATOR_VALUES`."""


def painted(arena: Arena) -> Bundle:
    """The bundle with steps around its own."""
    bundle, count = arena.bundle, len(arena.bundle.operators)
    memory = replace(bundle.memories[0], bytes=arena.memory.nbytes + BEYOND)
    values, steps = list(bundle.values), list[Step]()
    for at, step in enumerate(bundle.steps):
        free = list(_free(arena, at + 1))
        before, after = list[Step](), list[Step]()
        for some in (free[i : i + MOST] for i in range(0, len(free), MOST)):
            used = range(len(values), len(values) + len(some))
            values += (_value(*each) for each in some)
            skipped = tuple(first % ALIGNMENT for first, _ in some)
            before.append(_step(count, (), used, skipped, PAINT))
            after.append(_step(count + 1, used, (), skipped, UNTOUCHED))
        steps += (*before, step, *after)
    return replace(
        bundle,
        values=tuple(values),
        steps=tuple(steps),
        memories=(memory, *bundle.memories[1:]),
        operators=(*bundle.operators, PAINT, UNTOUCHED),
    )


def _free(arena: Arena, time: int) -> Iterator[tuple[int, int]]:
    """First and last of the bytes between what lives, and of those behind the memory."""
    end = 0
    for block in sorted(arena.memory.blocks, key=lambda each: each.offset):
        if block.first <= time <= block.last:
            if end < block.offset:
                yield end, block.offset
            end = max(end, block.offset + block.nbytes)
    yield end, arena.memory.nbytes + BEYOND


def _value(first: int, last: int) -> Value:
    start = first // ALIGNMENT * ALIGNMENT
    return Value(0, start, last - start, ElementType.U8, (last - start,), (0,), "free memory")


def _step(index: int, inputs: Sequence[int], outputs: Sequence[int], params: tuple[int, ...], title: str) -> Step:
    return Step(StepKind.OPERATOR, index, tuple(inputs), tuple(outputs), params, title, "", 0)

"""Which value each operand of a program is, as its addresses tell: for programs whose record nobody has.

A value of the scratch memory is what one call, or several side by side, have written and some call reads as one. What a
call reads is taken for what lies there when it runs: where a program finds the wrong value, this says nothing of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deuteron.npu.dataflow import Constant, Dataflow, Use
from deuteron.npu.neutron.microcode.decode import Call, Decoded, Fetch
from deuteron.operators.access_footprint import Ints, reached_by
from deuteron.operators.regions import Place, Region

_WEIGHTS = "weights"
"""What all constants are called together."""
_NOTHING = -1
_FETCHED = -2
"""What writes bytes of scratch that no call does."""


def traced(decoded: Decoded) -> Dataflow:
    """The values of a program."""
    inputs, outputs = (
        tuple(f"{side} {i}" for i in range(len(sizes)))
        for side, sizes in (("input", decoded.input_bytes), ("output", decoded.output_bytes))
    )
    weights = decoded.header.weights_bytes
    constants = (Constant(_WEIGHTS, 0, weights),) if weights else ()
    return Dataflow(inputs, outputs, constants, tuple(_Trace(decoded).calls()))


@dataclass(frozen=True, slots=True)
class _Part:
    """An operand in scratch: bytes of the value that this write began, or others with it, at an offset of scratch."""

    write: int
    offset: int


class _Trace:
    """The scratch memory of a run: which write each byte is of, and which writes are of one value."""

    def __init__(self, decoded: Decoded) -> None:
        self._decoded = decoded
        self._writer = np.full(decoded.header.scratch_bytes, _NOTHING, np.int64)
        self._values: list[int] = []
        """For each write the first one of its value, or another on the way there."""
        self._starts: list[int] = []
        self._names: list[str] = []

    def calls(self) -> Iterator[tuple[str, ...]]:
        """The use that each operand of each call makes, as text."""
        fetches: list[Fetch] = []
        calls: list[list[Use | _Part]] = []
        for command in self._decoded.commands:
            if isinstance(command, Fetch):
                fetches.append(command)
                if command.region is Region.SCRATCH:
                    self._writer[command.target : command.target + command.nbytes] = _FETCHED
            elif isinstance(command, Call):
                calls.append(self._uses(command, len(calls), fetches))
        for uses in calls:
            yield tuple(str(self._use(use) if isinstance(use, _Part) else use) for use in uses)

    def _uses(self, call: Call, number: int, fetches: Sequence[Fetch]) -> list[Use | _Part]:
        reached, reads = reached_by(call.params), len(call.kernel.reads)
        uses: list[Use | _Part] = []
        for at, operand in enumerate(call.operands):
            if operand.region is not Region.SCRATCH:
                uses.append(_elsewhere(operand, fetches))
                continue
            where = reached.get(at, np.arange(operand.nbytes)) + operand.offset
            where = where[where < len(self._writer)]
            if at < reads and len(where) and (self._writer[where] == _FETCHED).all():
                uses.append(_elsewhere(operand, fetches))
                continue
            name = f"{call.kernel.operands[at]} of call {number}"
            write = self._read(where) if at < reads else self._write(where, name)
            uses.append(_Part(write, operand.offset) if write != _NOTHING else Use("nothing", operand.offset))
        return uses

    def _write(self, where: Ints, name: str) -> int:
        write = len(self._values)
        self._values.append(write)
        self._starts.append(int(where.min(initial=len(self._writer))))
        self._names.append(name)
        self._writer[where] = write
        return write

    def _read(self, where: Ints) -> int:
        """The value there: whatever writes are read together are one; _NOTHING where there is none."""
        writers = [int(writer) for writer in np.unique(self._writer[where]) if writer != _FETCHED]
        first, *others = map(self._value, writers or [_NOTHING])
        if first == _NOTHING and others:
            first, *others = others
        for other in others:
            self._values[other] = first
            self._starts[first] = min(self._starts[first], self._starts[other])
        return first

    def _value(self, write: int) -> int:
        """The write that stands for the value that a write is of."""
        while write != _NOTHING and self._values[write] != write:
            write = self._values[write]
        return write

    def _use(self, part: _Part) -> Use:
        value = self._value(part.write)
        return Use(self._names[value], part.offset - self._starts[value])


def _elsewhere(operand: Place, fetches: Sequence[Fetch]) -> Use:
    """The use of an operand that no call has written; one in SRAM is what was fetched there last."""
    if operand.region in (Region.PREFETCH, Region.SCRATCH):
        fetch = next((fetch for fetch in reversed(fetches) if fetch.written.overlaps(operand)), None)
        return Use(_WEIGHTS, operand.offset + (fetch.source - fetch.target if fetch else 0))
    if operand.region is Region.WEIGHTS:
        return Use(_WEIGHTS, operand.offset)
    return Use(f"{operand.region.name.lower()} {operand.index}", operand.offset)

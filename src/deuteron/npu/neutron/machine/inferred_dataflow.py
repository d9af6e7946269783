"""Infers the dataflow of programs without a record from their addresses.

A value in scratch is written by one call or several, and read as one operand. An operand is assumed to be the value at
its address when the call runs, so that a wrong value is not detected.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deuteron.npu.dataflow import Constant, Dataflow, Use
from deuteron.npu.neutron.microcode.decode import Call, Decoded, Fetch
from deuteron.operators.access_footprint import Ints, reached_by
from deuteron.operators.regions import Place, Region

_WEIGHTS = "weights"
"""Name of all constants."""
_NOTHING = -1
_FETCHED = -2
"""The writer of bytes that no call writes."""


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
    """An operand in scratch: bytes at an offset of the value that this write is a part of."""

    write: int
    offset: int


class _Trace:
    """Scratch during a run: the write of each byte, and the writes of each value (union-find)."""

    def __init__(self, decoded: Decoded) -> None:
        self._decoded = decoded
        self._writer = np.full(decoded.header.scratch_bytes, _NOTHING, np.int64)
        self._values: list[int] = []
        """Parents of writes; the root is the first write of the value."""
        self._starts: list[int] = []
        self._names: list[str] = []

    def calls(self) -> Iterator[tuple[str, ...]]:
        """Return the use of each operand of each call, as text."""
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
        """Return the value at an address, and merge writes that are read together; _NOTHING if there is none."""
        writers = [int(writer) for writer in np.unique(self._writer[where]) if writer != _FETCHED]
        first, *others = map(self._value, writers or [_NOTHING])
        if first == _NOTHING and others:
            first, *others = others
        for other in others:
            self._values[other] = first
            self._starts[first] = min(self._starts[first], self._starts[other])
        return first

    def _value(self, write: int) -> int:
        """Return the root write of a value."""
        while write != _NOTHING and self._values[write] != write:
            write = self._values[write]
        return write

    def _use(self, part: _Part) -> Use:
        value = self._value(part.write)
        return Use(self._names[value], part.offset - self._starts[value])


def _elsewhere(operand: Place, fetches: Sequence[Fetch]) -> Use:
    """Return the use of an operand that no call has written: an input, a constant or the last fetch to its place."""
    if operand.region in (Region.PREFETCH, Region.SCRATCH):
        fetch = next((fetch for fetch in reversed(fetches) if fetch.written.overlaps(operand)), None)
        return Use(_WEIGHTS, operand.offset + (fetch.source - fetch.target if fetch else 0))
    if operand.region is Region.WEIGHTS:
        return Use(_WEIGHTS, operand.offset)
    return Use(f"{operand.region.name.lower()} {operand.index}", operand.offset)

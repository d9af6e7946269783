"""Infers values and a lower bound of time from a command stream, for partitions without Vela's files."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from deuteron.arch.engine import Engine
from deuteron.npu.dataflow import Dataflow, Use
from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.estimates import peak_bytes
from deuteron.npu.ethosu.stream import FeatureMap, Operation, Stream
from deuteron.npu.schedule import Block, Memory, Schedule, Step

_SCRATCH = "scratch"
LEAST = "Deuteron"
"""Name of the estimator of the lower bound, in place of Vela."""


@dataclass(frozen=True, slots=True)
class _Value:
    """Bytes of a memory from the operation that writes them, -1 for an input, to the last that reads them."""

    name: str
    memory: str
    start: int
    stop: int
    first: int


@dataclass(slots=True)
class _LastWritten:
    """The value that was last written to each byte of a memory; each entry ends where the next one starts."""

    starts: list[int] = field(default_factory=list[int])
    values: list[_Value | None] = field(default_factory=list["_Value | None"])

    def write(self, value: _Value) -> None:
        """Let a value replace what its bytes had."""
        if value.start >= value.stop:
            return
        begin, end = bisect_left(self.starts, value.start), bisect_left(self.starts, value.stop)
        behind = self.values[end - 1] if end else None
        ends_here = self.starts[end : end + 1] == [value.stop]
        self.starts[begin:end] = [value.start] if ends_here else [value.start, value.stop]
        self.values[begin:end] = [value] if ends_here else [value, behind]

    def at(self, offset: int) -> _Value | None:
        """Return the value of a byte."""
        index = bisect_right(self.starts, offset) - 1
        return self.values[index] if index >= 0 else None


def traced(blob: Blob, stream: Stream) -> Dataflow:
    """Return the dataflow: an operand is the value that was last written to its place, or an input, or a constant."""
    inputs, outputs = (
        tuple(f"{side} {i}" for i in range(len(tensors)))
        for side, tensors in (("input", blob.inputs), ("output", blob.outputs))
    )
    return Dataflow(inputs, outputs, calls=tuple(tuple(map(str, uses)) for uses, _ in _walk(blob, stream)))


def least(blob: Blob, stream: Stream, engine: Engine) -> Schedule:
    """Return a lower bound: multiply-accumulates at full rate, inputs and results once through the SRAM port.

    Copies are free. The memories contain the results up to their last use.
    """
    macs_per_cycle, port = engine.rows * engine.columns, stream.config.sram_port
    steps = tuple(_step(i, operation, macs_per_cycle, port) for i, operation in enumerate(stream.operations))
    system = "the array and the SRAM port at their full rates, a lower bound"
    return Schedule(LEAST, system, engine.clock, steps, tuple(_memories(blob, stream)))


def _step(number: int, operation: Operation, macs_per_cycle: int, port: int) -> Step:
    if operation.output is None:
        return Step((number,), 0, 0, 0, 0, 0, 0)
    nbytes = operation.output.nbytes + sum(tensor.nbytes for tensor in operation.inputs)
    compute, sram = -(-operation.macs // macs_per_cycle), -(-nbytes // port)
    return Step((number,), max(compute, sram), compute, sram, 0, operation.macs, nbytes)


def _walk(blob: Blob, stream: Stream) -> Iterator[tuple[tuple[Use, ...], tuple[_Value | None, ...]]]:
    """Return for each operation except copies the uses of its operands, result last, and their values."""
    known = defaultdict[str, _LastWritten](_LastWritten)
    for i, tensor in enumerate(blob.inputs):
        known[_SCRATCH].write(_Value(f"input {i}", _SCRATCH, tensor.offset, tensor.offset + tensor.nbytes, 0))
    calls = 0
    for number, operation in enumerate(stream.operations):
        output = operation.output
        if output is None:
            continue
        values = [known[operand.memory].at(operand.offset) for operand in operation.inputs]
        name = f"result of call {calls}"
        result = _Value(name, output.memory, output.offset, output.offset + output.nbytes, number)
        known[output.memory].write(result)
        operands = [*zip(operation.inputs, values, strict=True), (output, result)]
        yield tuple(_use(*pair) for pair in operands), (*values, result)
        calls += 1


def _use(operand: FeatureMap, value: _Value | None) -> Use:
    return Use(value.name, operand.offset - value.start) if value else Use(operand.memory, operand.offset)


def _memories(blob: Blob, stream: Stream) -> Iterator[Memory]:
    numbers = [number for number, operation in enumerate(stream.operations) if operation.output is not None]
    lasts: dict[_Value, int] = {}
    for number, (_, values) in zip(numbers, _walk(blob, stream), strict=True):
        lasts |= {value: number for value in values if value is not None}
    for memory in dict.fromkeys(value.memory for value in lasts):
        own = [(value, last) for value, last in lasts.items() if value.memory == memory]
        blocks = tuple(Block(v.name, v.start, v.stop - v.start, v.first, last) for v, last in own)
        nbytes = blob.scratch_bytes if memory == _SCRATCH else max(value.stop for value, _ in own)
        yield Memory(memory, nbytes, peak_bytes(blocks), blocks)

"""Dataflow record of a command stream, with the names of tensors in the TOSA graph."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deuteron.npu.dataflow import Dataflow, Use
from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.origins import Scheduled
from deuteron.npu.ethosu.stream import FeatureMap, Stream
from deuteron.npu.ethosu.tosa import Graph
from deuteron.npu.schedule import Block, Memory

_SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class _Tensor:
    """Bytes of a memory that hold a value."""

    name: str
    memory: str
    start: int
    stop: int

    def has(self, operand: FeatureMap) -> bool:
        """Return True if an operand starts in it."""
        return self.memory == operand.memory and self.start <= operand.offset < self.stop


def dataflow(
    blob: Blob, stream: Stream, graph: Graph, scheduled: Sequence[Scheduled], memories: Iterable[Memory]
) -> Dataflow:
    """Return for each operation except copies the values that it reads, then the one that it writes.

    An operation of Vela's schedule writes one tensor, by one or more operations of the stream. An operand is the value
    that was last written to its place, or an input, or else a constant with the name of its place. `memories` are those
    of Vela's plan.
    """
    planned = {name: block for memory in memories for block in memory.blocks for name in block.names}
    written: dict[int, _Tensor] = {}
    for one in scheduled:
        outputs = [output for i in one.operations if (output := stream.operations[i].output) is not None]
        if outputs:
            start = min(output.offset for output in outputs)
            block = planned.get(one.result, Block(one.result, start, 1, 0, 0))
            tensor = _Tensor(one.result, outputs[-1].memory, block.offset, block.offset + block.nbytes)
            written |= dict.fromkeys(one.operations, tensor)
    known = [
        _Tensor(name, _SCRATCH, tensor.offset, tensor.offset + tensor.nbytes)
        for name, tensor in zip(graph.inputs, blob.inputs, strict=True)
    ]
    calls: list[tuple[str, ...]] = []
    for number, operation in enumerate(stream.operations):
        if operation.output is None:
            continue
        result = written[number]
        uses = [_use(operand, known) for operand in operation.inputs]
        calls.append((*map(str, uses), str(Use(result.name, operation.output.offset - result.start))))
        if not known or known[-1] != result:
            known.append(result)
    return Dataflow(graph.inputs, graph.outputs, calls=tuple(calls))


def _use(operand: FeatureMap, known: Sequence[_Tensor]) -> Use:
    tensor = next((tensor for tensor in reversed(known) if tensor.has(operand)), None)
    return Use(tensor.name, operand.offset - tensor.start) if tensor else Use(operand.memory, operand.offset)

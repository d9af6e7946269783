"""Compares the intermediate tensors of an Ethos-U in memory with TOSA's, operator by operator."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deuteron.builds.manifest import Partition
from deuteron.errors import counted
from deuteron.npu.ethosu import blob as blobs
from deuteron.npu.ethosu import tosa
from deuteron.npu.ethosu.materialised_tensors import MaterialisedTensor, seen
from deuteron.npu.ethosu.stream import decode
from deuteron.runtime.ethosu_steps import Steps
from deuteron.views.compare.result_counts import Array, by_kind, count, steps_apart
from deuteron.views.compare.tosa import TosaModel


@dataclass(slots=True)
class TensorResult:
    """The result of one TOSA operator in memory; `mismatches` of `elements` differ; none may.

    Attributes:
        partition: index of the partition.
        index: index of the operator in its TOSA file.
        op: its name in the file.
        output: the tensor.
        source: source line of the model, empty if unknown.
        elements: values compared.
        mismatches: values that differ.
        largest: the largest difference.
    """

    partition: int
    index: int
    op: str
    output: str
    source: str
    elements: int = 0
    mismatches: int = 0
    largest: int = 0


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of computing operators of a partition, and of those that can be compared.

    Attributes:
        operators: number of operators.
        compared: operators whose whole result is in memory at once.
        parted: operators whose result is never whole in memory, or in an unknown layout.
    """

    operators: int = 0
    compared: int = 0
    parted: int = 0

    def __add__(self, other: "Coverage") -> "Coverage":
        return Coverage(self.operators + other.operators, self.compared + other.compared, self.parted + other.parted)


NO_COVERAGE = Coverage()
"""Coverage of a partition with another comparison."""


class TosaIntermediates:
    """A partition in TOSA, and its commands, which are executed one by one.

    Attributes:
        results: results of each compared tensor, in the order of writing.
        coverage: coverage of its operators.
    """

    def __init__(self, index: int, entry: Partition, payload: bytes, path: Path) -> None:
        where = str(path)
        data = path.read_bytes()
        blob = blobs.parse(payload, where)
        graph = tosa.read(data, where)
        what = seen(decode(blob.command_data, where), graph, entry.kernels, entry.dataflow)
        self._kept = what.kept
        self._outputs = graph.outputs
        self._more = tuple(dict.fromkeys(tensor.name for tensor in what.kept if tensor.name not in graph.outputs))
        self._model = TosaModel(tosa.with_outputs(data, self._more, where), where)
        self._steps = Steps(blob, where)
        self._graph, self._data, self._where = graph, data, where
        self.coverage = Coverage(len(what.computed), len({tensor.op for tensor in what.kept}), len(what.parted))
        self.results = [_result(index, entry, graph, tensor) for tensor in what.kept]

    def check(self, inputs: Sequence[Array]) -> list[Array]:
        """Compare the memory of one run with TOSA's results, and return TOSA's outputs."""
        wanted = dict(zip((*self._outputs, *self._more), self._model.run(inputs), strict=True))
        after: dict[int, list[tuple[MaterialisedTensor, TensorResult]]] = {}
        for tensor, result in zip(self._kept, self.results, strict=True):
            after.setdefault(tensor.after, []).append((tensor, result))
        for number in self._steps.run([value.tobytes() for value in inputs]):
            for tensor, result in after.get(number, ()):
                ours = tensor.values(self._steps.read(tensor.place))
                count(result, steps_apart(ours, wanted[tensor.name]))
        return [wanted[name] for name in self._outputs]

    def computed(self, inputs: Sequence[Array]) -> Iterator[tuple[int, Array]]:
        """Yield the index of each operator that computes activations, and its result in TOSA."""
        names = {
            op.outputs[0]: index
            for index, op in enumerate(self._graph.operators)
            if op.name not in tosa.CONSTANTS and self._graph.dtypes.get(op.outputs[0]) in ("int8", "int16")
        }
        data = tosa.with_outputs(self._data, tuple(names), self._where)
        results = TosaModel(data, self._where).run(inputs)[len(self._outputs) :]
        yield from zip(names.values(), results, strict=True)


def _result(partition: int, entry: Partition, graph: tosa.Graph, tensor: MaterialisedTensor) -> TensorResult:
    source = entry.source_of(tensor.op)
    name = graph.operators[tensor.op].name
    return TensorResult(partition, tensor.op, name, tensor.name, str(source) if source else "")


def failures(results: Iterable[TensorResult], definition: str) -> Iterator[str]:
    """Yield for each partition a sentence about the first tensor that differs, if one does."""
    reported: set[int] = set()
    for result in results:
        if result.mismatches and result.partition not in reported:
            reported.add(result.partition)
            line = f", {result.source}" if result.source else ""
            yield (
                f"partition {result.partition}, op {result.index} {result.op}{line}: {result.mismatches:,} of "
                f"{result.elements:,} results in memory differ from {definition}; all earlier ones are equal"
            )


def lines(results: Iterable[TensorResult], coverage: Coverage) -> Iterator[str]:
    """Yield counts by kind of operator, and the number of operators that are not visible."""
    yield "  intermediate tensors in memory"
    yield f"  {'operator':<20}{'tensors':>9}{'results':>14}{'differ':>9}{'largest':>9}"
    for kind, same in by_kind(results).items():
        yield (
            f"  {kind:<20}{len(same):>9}{sum(r.elements for r in same):>14,}"
            f"{sum(r.mismatches for r in same):>9,}{max(r.largest for r in same):>9}"
        )
    inside = coverage.operators - coverage.compared - coverage.parted
    yield (
        f"  {coverage.compared} of {counted(coverage.operators, 'operator')} are compared; {inside} results stay "
        f"inside the NPU, {coverage.parted} are in memory in parts only"
    )

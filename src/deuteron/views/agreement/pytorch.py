"""A build against the quantised PyTorch model: every delegate call, every operator, every output.

Three comparisons, each on the same inputs:

1. What the NPU computed in ExecuTorch's runtime equals the IR interpreter on the partition's TFLite file, bit for bit;
   where it is an Ethos-U, TOSA's reference model on the partition in TOSA, and so is what its operators leave in
   memory on the way.
2. For the Neutron, operator by operator, each on the interpreter's own inputs: the interpreter gives the exact value
   correctly rounded, and PyTorch's float32 evaluation gives the same but for ties, where float32's own error decides
   (`spec/rounding.md`). Where nothing is delegated, the operators of the CPU, each on the program's own values.
3. End to end, no output is further than `MAX_STEPS` quantisation steps from PyTorch's, or `MAX_WIDE_STEPS` where TOSA
   computes in int16, or as many as PyTorch's own outputs move when values near a rounding tie fall to the other side
   (`spread.py`), but never more than `MAX_TIED_STEPS`. Where it holds the scores of classes, the best of each row is
   the same, or one that PyTorch has at most a step below its best, or no further below than ties move these two.

A program with its ETRecord is compared in the same way, with the edge program there; of its partitions nothing says
what they are to compute.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from deuteron.arch import targets
from deuteron.builds import manifest as manifests
from deuteron.builds.options import Activations
from deuteron.errors import FormatError, InputError, counted
from deuteron.frontend import saved
from deuteron.npu.neutron.ir import interpret, ops, ties
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.tflite import reader
from deuteron.runtime import pte
from deuteron.runtime.host import HostRunner
from deuteron.runtime.observer import DelegateCall
from deuteron.runtime.partitions import partitions_of
from deuteron.runtime.results import operator_results
from deuteron.views.agreement import on_cpu, on_the_way
from deuteron.views.agreement.counting import Array, BoundedComparison, Progress, by_kind, count, steps_apart
from deuteron.views.agreement.on_cpu import CpuResult, OnCpu
from deuteron.views.agreement.on_the_way import NO_COVERAGE, Coverage, OnTheWay, TensorResult
from deuteron.views.agreement.opinion import opinion
from deuteron.views.agreement.spread import Moves, rounded_twice, spread

AskedMoves = Callable[[], Moves]
Real = npt.NDArray[np.float64]

MAX_STEPS = 2
"""How many quantisation steps an output may be from PyTorch's."""

MAX_WIDE_STEPS = 128
"""How many it may be where an Ethos-U computes in int16: half a step of int8, what int8 loses by rounding an output.

TOSA scales sums of 48 bits by numbers of 15 bits, so that each operator may be off by 2^-15 of its value, a whole step
at the ends of int16, and its tables have 513 entries with straight lines between; PyTorch has neither. Later operators
add up what earlier ones are off.
"""

MAX_TIED_STEPS = 16
"""How many steps ties may explain, where the bound is not that large anyway.

They explain that many where the model magnifies its own roundings, as a softmax does: what it gives is then as far from
the float model as from this one, and no comparison with it says that a build is right.
"""


@dataclass(slots=True)
class PartitionResult:
    """The NPU against what defines its results; `mismatches` of `elements` outputs differ and none may."""

    index: int
    calls: int = 0
    elements: int = 0
    mismatches: int = 0
    largest: int = 0


@dataclass(slots=True)
class OperatorResult:
    """One TFLite operator.

    Attributes:
        partition: index of the partition.
        index: index of the operator in its TFLite file.
        op: its name there.
        output: the tensor it writes.
        elements: results compared.
        ties: those that lie so close to half-way that float32 may round them to either side.
        mismatches: those where PyTorch's float32 result differs.
        beyond: mismatches that are no ties, or larger than 1; none is allowed.
        misrounded: results that are not the float64 value correctly rounded; none is allowed.
        largest: the largest difference to PyTorch's float32 result.
    """

    partition: int
    index: int
    op: str
    output: str
    elements: int = 0
    ties: int = 0
    mismatches: int = 0
    beyond: int = 0
    misrounded: int = 0
    largest: int = 0


@dataclass(slots=True)
class OutputResult:
    """One output of the model against PyTorch's.

    Attributes:
        index: which output.
        scores: True where each row is the scores of classes.
        bound: how many steps it may be from PyTorch's in any case.
        allowed: the same, or the most that ties allow of a sample, where they had to be asked for.
        step: its quantisation step, or the 255th part of its range where the CPU computes it in float.
        integer: True where the CPU computes integers or bools, which have no step and must be equal.
        tied: integers that differ by no more than ties alone move them in PyTorch, such as where one of equals is.
        elements: values compared.
        unlike: those where one is NaN or infinite and the other is not the same; none is allowed.
        mismatches: those that differ by more than half a step.
        largest: the largest difference, in steps.
        rows: rows of scores, but for those with a NaN.
        top1: rows whose best score is at the same place, or shares its value with the one that is.
        worse: rows whose best score is more than a step below PyTorch's best, and than ties explain; none may be.
        beyond: the largest difference of a sample that is more than its bound; 0 if none is.
        broken: that bound.
        explained: how many steps ties explain of that sample.
    """

    index: int
    scores: bool = False
    bound: int = MAX_STEPS
    allowed: int = MAX_STEPS
    step: float = 0.0
    integer: bool = False
    tied: int = 0
    elements: int = 0
    unlike: int = 0
    mismatches: int = 0
    largest: float = 0.0
    rows: int = 0
    top1: int = 0
    worse: int = 0
    beyond: float = 0.0
    broken: int = 0
    explained: float = 0.0


@dataclass(frozen=True, slots=True)
class PytorchComparison(BoundedComparison):
    """The result; `passed` tells whether all bounds hold, `definition` what the NPU is compared with.

    Of `unseen` delegates nothing is known that says what they are to compute.
    """

    samples: int
    partitions: tuple[PartitionResult, ...]
    operators: tuple[OperatorResult, ...]
    outputs: tuple[OutputResult, ...]
    definition: str = "the interpreter"
    tensors: tuple[TensorResult, ...] = ()
    coverage: Coverage = NO_COVERAGE
    on_cpu: tuple[CpuResult, ...] = ()
    on_cpu_computing: int = 0
    unseen: int = 0

    def failures(self) -> tuple[str, ...]:
        """One sentence for each bound that is broken."""
        broken = [
            f"partition {p.index}: {p.mismatches} of {p.elements} results of the NPU differ from {self.definition}"
            for p in self.partitions
            if p.mismatches
        ]
        broken += [
            f"partition {p.index}: ran {counted(p.calls, 'time')} on {counted(self.samples, 'sample')}"
            for p in self.partitions
            if p.calls != self.samples
        ]
        broken += on_the_way.failures(self.tensors, self.definition)
        broken += on_cpu.failures(self.on_cpu)
        for op in self.operators:
            name = f"partition {op.partition}, op {op.index} {op.op}"
            if op.beyond:
                broken.append(f"{name}: {op.beyond} of {op.elements} results differ from PyTorch's beyond ties")
            if op.misrounded:
                broken.append(f"{name}: {op.misrounded} of {op.elements} results are not correctly rounded")
        is_exact = self.partitions and not broken
        exact = f"; the NPU's own results are those of {self.definition}, bit for bit" if is_exact else ""
        for out in self.outputs:
            if out.unlike:
                broken.append(
                    f"output {out.index}: {out.unlike} of {out.elements} values are NaN or infinite unlike PyTorch's"
                )
            if out.integer and out.mismatches > out.tied:
                ties = f", and ties explain {out.tied}" if out.tied else ""
                broken.append(
                    f"output {out.index}: {out.mismatches} of {out.elements} integers differ from PyTorch's{ties}"
                )
            elif not out.integer and out.beyond:
                steps = f"{out.beyond:g} steps from PyTorch's, at most {out.broken} are allowed"
                tied = f", though ties explain {out.explained:.0f}" if out.explained > out.broken else ""
                broken.append(f"output {out.index}: {steps}{tied}{exact}")
            if out.worse:
                best = f"another best score than PyTorch's in {out.worse} of {out.rows}"
                broken.append(f"output {out.index}: {best}, which no tie explains")
        return tuple(broken)

    def text(self) -> str:
        """The result as lines for a terminal."""
        lines = [f"compared on {counted(self.samples, 'sample')}", ""]
        if self.unseen:
            parts = counted(self.unseen, "delegate")
            lines += [
                f"of {parts} nothing but the outputs is compared: what they are to compute is in a build directory"
            ]
        else:
            lines += [f"NPU against {self.definition.removeprefix('the ')}, bit for bit"]
            lines += [
                f"  partition {p.index}: {p.mismatches:,} of {p.elements:,} results differ in {p.calls} calls"
                for p in self.partitions
            ] or ["  nothing was delegated"]
        lines += on_the_way.lines(self.tensors, self.coverage) if self.coverage.operators else []
        lines += ["", *_operator_table(self.operators)] if self.operators else []
        lines += ["", *on_cpu.lines(self.on_cpu, self.on_cpu_computing)] if self.on_cpu else []
        lines += ["", "end to end against quantised PyTorch"]
        lines += [_output_line(out) for out in self.outputs]
        return "\n".join([*lines, *self.verdict()])


def _output_line(out: OutputResult) -> str:
    if out.integer:
        ties = f", of which ties explain {out.tied:,}" if out.tied else ""
        return (
            f"  output {out.index}: {out.mismatches:,} of {out.elements:,} integers differ{ties}, the largest by "
            f"{out.largest:.0f}"
        )
    best = f"; best score the same in {out.top1} of {out.rows}" if out.scores else ""
    ties = f", of which ties explain {out.allowed}" if out.allowed > out.bound else ""
    return (
        f"  output {out.index}: {out.mismatches:,} of {out.elements:,} values differ, the largest by "
        f"{out.largest:.3g} steps of {out.step:.4g}{ties}{best}"
    )


def _operator_table(operators: Iterable[OperatorResult]) -> list[str]:
    """Counts by kind of operator."""
    lines = [
        "operator by operator against float32 PyTorch",
        f"  {'operator':<20}{'results':>14}{'ties %':>9}{'differ':>9}{'beyond':>9}{'misrounded':>12}{'largest':>9}",
    ]
    for kind, same in by_kind(operators).items():
        elements, tied = sum(o.elements for o in same), sum(o.ties for o in same)
        lines.append(
            f"  {kind:<20}{elements:>14,}{100 * tied / max(1, elements):>9.3f}{sum(o.mismatches for o in same):>9,}"
            f"{sum(o.beyond for o in same):>9,}{sum(o.misrounded for o in same):>12,}{max(o.largest for o in same):>9}"
        )
    return lines


def compare(
    directory: str | Path, samples: Sequence[Sequence[Array]], progress: Progress | None = None
) -> PytorchComparison:
    """The build in `directory` compared with the quantised PyTorch model on these inputs.

    Args:
        directory: what `deuteron build` wrote.
        samples: one array per input of the model, for each sample.
        progress: told the number of samples done and of all.

    Raises:
        FormatError: the directory is damaged: for example the program is not the one that the manifest describes.
        InputError: there are no samples, or they do not fit the model.
    """
    folder = Path(directory)
    manifest = manifests.read(folder)
    if not samples:
        raise InputError("there are no samples to compare on")
    is_recorded = manifests.ETRECORD in manifest.files and manifests.REFERENCE not in manifest.files
    if not is_recorded and not (folder / manifests.REFERENCE).is_file():
        raise InputError(
            f"`{directory}` holds no `{manifests.REFERENCE}` to compare with", hint="put it back, or build again"
        )
    reference = saved.recorded(folder / manifests.ETRECORD) if is_recorded else saved.load(folder / manifests.REFERENCE)
    runner = HostRunner(folder / manifests.PROGRAM)
    is_ethosu = isinstance(targets.load(manifest.target).npu, targets.EthosU)
    delegates = _delegates(folder)
    partitions = (
        [*(_in_tosa(manifest, folder) if is_ethosu else _in_tflite(manifest, folder))] if not is_recorded else []
    )
    batches = {info.shape[0] for info in manifest.inputs if info.shape}
    is_wide = is_ethosu and (reference.is_wide if is_recorded else manifest.options.activations is Activations.INT16)
    allowed = MAX_WIDE_STEPS if is_wide else MAX_STEPS
    twice = rounded_twice(manifest, reference)
    cpu = None if delegates else OnCpu(manifest, reference, twice)
    outputs = [
        OutputResult(i, _are_scores(info.shape, batches), allowed, allowed) for i, info in enumerate(manifest.outputs)
    ]
    with _one_thread():
        for done, sample in enumerate(samples):
            with runner.observe() as calls:
                actual = runner.run(sample)
            for call in () if is_recorded else calls:
                _partition_of(call, partitions).check(call)
            if cpu:
                cpu.check(_real_inputs(reference, sample), operator_results(folder / manifests.PROGRAM, sample))
            expected = _expected(reference, sample)
            moves = cache(partial(spread, reference, _real_inputs(reference, sample), twice))
            for result, ours, affine, wanted in zip(outputs, actual, reference.outputs, expected, strict=True):
                _check_output(result, ours, affine, wanted.numpy(), moves)
            if progress is not None:
                progress(done + 1, len(samples))
    return PytorchComparison(
        len(samples),
        tuple(p.result for p in partitions),
        tuple(op for p in partitions for op in p.operators.values()),
        tuple(outputs),
        _InTosa.definition if is_ethosu else _Partition.definition,
        tuple(tensor for p in partitions for tensor in p.tensors),
        sum((p.coverage for p in partitions), NO_COVERAGE),
        cpu.results if cpu else (),
        cpu.computing if cpu else 0,
        delegates if is_recorded else 0,
    )


def _delegates(folder: Path) -> int:
    """How many delegates a program has."""
    return sum(len(method.delegates) for method in pte.read((folder / manifests.PROGRAM).read_bytes()).methods)


@contextmanager
def _one_thread() -> Generator[None]:
    """PyTorch on one thread: most operators here are too small to share, and waiting costs more than they do."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _expected(reference: saved.Reference, sample: Sequence[Array]) -> tuple[torch.Tensor, ...]:
    """PyTorch's outputs; a build without quantising operators at its boundary takes stored values."""
    return reference.run(_real_inputs(reference, sample))


def _real_inputs(reference: saved.Reference, sample: Sequence[Array]) -> list[torch.Tensor]:
    inputs: list[torch.Tensor] = []
    for value, affine in zip(sample, reference.inputs, strict=True):
        tensor = torch.tensor(value)
        inputs.append(affine.real(tensor) if affine and tensor.dtype in (torch.int8, torch.int16) else tensor)
    return inputs


class _Partition(ABC):
    """A partition: what has been counted of it and of its operators, and what its results are compared with."""

    definition = "the interpreter"

    def __init__(self, index: int, entry: manifests.Partition) -> None:
        self.entry = entry
        self.result = PartitionResult(index)
        self.operators: dict[ops.Op, OperatorResult] = {}
        self.tensors: Sequence[TensorResult] = ()
        self.coverage = NO_COVERAGE

    @abstractmethod
    def check(self, call: DelegateCall) -> None:
        """Compare one run of the NPU."""


class _InTosa(_Partition):
    """One for an Ethos-U."""

    definition = "TOSA's reference model"

    def __init__(self, index: int, entry: manifests.Partition, payload: bytes, folder: Path) -> None:
        super().__init__(index, entry)
        self._way = OnTheWay(index, entry, payload, folder / manifests.tosa_name(index))
        self.tensors, self.coverage = self._way.results, self._way.coverage

    def check(self, call: DelegateCall) -> None:
        """Compare one run of the NPU, and what its operators leave in memory."""
        self.result.calls += 1
        for wanted, ours in zip(self._way.check(call.inputs), call.outputs, strict=True):
            count(self.result, steps_apart(ours.view(wanted.dtype), wanted))


def _in_tosa(manifest: manifests.Manifest, folder: Path) -> Iterator[_Partition]:
    """The partitions of a build for an Ethos-U."""
    program = pte.read((folder / manifests.PROGRAM).read_bytes())
    parts = [part for method in program.methods for part in partitions_of(method)]
    for i, (entry, part) in enumerate(zip(manifest.partitions, parts, strict=True)):
        yield _InTosa(i, entry, part.payload, folder)


class _InTflite(_Partition):
    """One for a Neutron."""

    def __init__(self, index: int, entry: manifests.Partition, folder: Path) -> None:
        super().__init__(index, entry)
        tflite = (folder / manifests.tflite_name(index)).read_bytes()
        self.graph = reader.read(tflite)
        names = reader.op_names(tflite)
        self.operators = {
            op: OperatorResult(index, op.origin[0], names[op.origin[0]], op.outputs[0]) for op in self.graph.ops
        }

    def check(self, call: DelegateCall) -> None:
        """Compare one run of the NPU, and each operator on the way."""
        values = interpret.run(
            self.graph, [_shaped(self.graph, n, a) for n, a in zip(self.graph.inputs, call.inputs, strict=True)]
        )
        self.result.calls += 1
        for name, ours in zip(self.graph.outputs, call.outputs, strict=True):
            count(self.result, steps_apart(values[name], ours))
        for op, result in self.operators.items():
            _check_operator(op, self.graph, values, result)


def _in_tflite(manifest: manifests.Manifest, folder: Path) -> Iterator[_Partition]:
    """The partitions of one for a Neutron."""
    return (_InTflite(i, entry, folder) for i, entry in enumerate(manifest.partitions))


def _partition_of(call: DelegateCall, partitions: Sequence[_Partition]) -> _Partition:
    """The partition of that payload; of several that are equal, the one whose turn it is."""
    equal = [partition for partition in partitions if partition.entry.payload_sha256 == call.payload_sha256]
    if not equal:
        raise FormatError(
            f"the program calls a delegate with SHA-256 {call.payload_sha256[:12]}, which the manifest does not list",
            hint="build the model again",
        )
    return min(equal, key=lambda partition: partition.result.calls)


def _shaped(graph: Graph, name: str, flat: Array) -> Array:
    return flat.reshape(graph.type(name).shape)


def _check_operator(op: ops.Op, graph: Graph, values: dict[str, Array], result: OperatorResult) -> None:
    """Adds what PyTorch thinks of one operator, on the interpreter's inputs, to its result."""
    stored = values[op.outputs[0]]
    view = opinion(op, graph, values)
    lowest, highest = ties.allowed_range(op, graph, values)
    difference = steps_apart(stored, view.quantised)
    count(result, difference)
    result.ties += int(np.count_nonzero(lowest != highest))
    result.beyond += int(np.count_nonzero((view.quantised < lowest) | (view.quantised > highest) | (difference > 1)))
    result.misrounded += int(np.count_nonzero(view.misrounded(stored)))


def _check_output(
    result: OutputResult, actual: Array, affine: saved.Affine | None, wanted: Array, moves: AskedMoves = lambda: ()
) -> None:
    """Adds one output of one sample to its result; `moves` tells by how much ties alone move PyTorch's outputs."""
    ours = actual.astype(np.float64)
    if affine is not None and actual.dtype.name in ("int8", "int16"):
        ours = (ours - affine.zero_point) * affine.scale
    reference = wanted.astype(np.float64)
    finite = np.isfinite(ours) & np.isfinite(reference)
    same = (ours == reference) | (np.isnan(ours) & np.isnan(reference))
    span = float(np.ptp(reference[finite])) if finite.any() else 0.0
    result.integer = affine is None and actual.dtype.kind in "iub"
    inexact = max(result.step, span / 255, float(np.finfo(np.float32).tiny))
    result.step = affine.scale if affine else 1.0 if result.integer else inexact

    def in_steps(values: Real) -> Real:
        steps = values / result.step
        return np.rint(steps) if affine else steps  # both are whole steps; only float32 stands between

    def explained() -> Real:
        none = np.zeros(ours.shape)
        return in_steps(dict(enumerate(moves())).get(result.index, none).reshape(ours.shape))

    steps = in_steps(np.abs(ours[finite] - reference[finite]))
    result.elements += ours.size
    result.unlike += int(np.count_nonzero(~finite & ~same))
    result.mismatches += int(np.count_nonzero(steps > 0.5))
    largest = float(steps.max(initial=0))
    if result.integer and largest:
        result.tied += int(np.count_nonzero((steps > 0.5) & (steps <= explained()[finite])))
    if largest > result.bound and not result.integer:
        of_ties = float(explained().max(initial=0))
        bound = max(result.bound, min(math.ceil(of_ties), MAX_TIED_STEPS))
        result.allowed = max(result.allowed, bound)
        if largest > max(bound, result.beyond):
            result.beyond, result.broken, result.explained = largest, bound, of_ties
    result.largest = max(result.largest, largest)
    if result.scores and not result.integer:
        width = ours.shape[-1]
        ranked = ~(np.isnan(ours) | np.isnan(reference)).reshape(-1, width).any(axis=1)
        rows, expected = ours.reshape(-1, width)[ranked], reference.reshape(-1, width)[ranked]
        is_same = _same_best(rows, expected)
        result.rows += len(rows)
        result.top1 += int(np.count_nonzero(is_same))
        below = in_steps(_below_best(rows, expected))
        if (is_far := ~is_same & (below > 1)).any():
            moved = explained().reshape(-1, width)[ranked]
            number = np.arange(len(rows))
            pair = moved[number, rows.argmax(axis=1)] + moved[number, expected.argmax(axis=1)]
            result.worse += int(np.count_nonzero(is_far & (below > pair)))


def _are_scores(shape: Sequence[int], batches: Collection[int]) -> bool:
    """True for [classes] and [samples, classes].

    The last dimension of an image, also of one of [height, width], or of a sequence holds no classes: where its largest
    value is says nothing, and one step moves it. So the first of two dimensions must be 1, or the first of an input.
    """
    samples, classes = (1, *shape)[-2:] if 1 <= len(shape) <= 2 else (0, 0)
    return classes > 1 and (samples == 1 or samples in batches)


def _below_best(ours: Real, wanted: Real) -> Real:
    """Per row: how far below its best the other's score is at the place of ours."""
    return wanted.max(axis=1) - wanted[np.arange(len(ours)), ours.argmax(axis=1)]


def _same_best(ours: Real, wanted: Real) -> npt.NDArray[np.bool_]:
    """Per row: the best is at the same place, or shares its value with the other's best."""
    rows = np.arange(len(ours))
    a, b = ours.argmax(axis=1), wanted.argmax(axis=1)
    return (ours[rows, b] == ours[rows, a]) | (wanted[rows, a] == wanted[rows, b])

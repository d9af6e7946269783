"""Compares a build with the quantized PyTorch model: every delegate call, every operator, every output.

Three comparisons, each on the same inputs:

1. The NPU's results in ExecuTorch's runtime equal the IR interpreter's on the partition's TFLite file, bit for bit. For
   an Ethos-U, they and intermediate tensors in memory equal those of TOSA's reference model on the partition in TOSA.
2. For the Neutron, operator by operator on the interpreter's own inputs: the interpreter gives the exact value
   correctly rounded, and PyTorch's float32 gives the same, except for ties, where float32's own error decides
   (`spec/rounding.md`). If nothing is delegated, the CPU's operators are compared, each on the program's own values.
   With partitions, so are the NPU's values and the CPU's operators together, if an output breaks the bound of (3).
3. End to end (`outputs.py`), no output differs from PyTorch's by more than `MAX_STEPS` quantization steps, or
   `MAX_INT16_STEPS` if TOSA computes in int16. More are allowed if PyTorch's own outputs move as far when values near a
   rounding tie round the other way (`rounding_spread.py`). Ties never explain more than `MAX_TIED_STEPS`, or
   `MAX_TIED_INT16_STEPS` for an int16 output of int8 values, unless operators compared on the program's own values
   lead to the output. For class scores, the best of each row is the same, or one
   that PyTorch has at most a step below its best, or no further below than ties move these two.

A program with its ETRecord is compared in the same way, with the record's edge program; its partitions have no
reference.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch

from deuteron.arch import targets
from deuteron.builds import manifest as manifests
from deuteron.builds.options import Activations
from deuteron.errors import FormatError, InputError, counted
from deuteron.frontend import saved
from deuteron.npu.neutron.ir import interpret, ops, rounding_tolerance
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.tflite import reader
from deuteron.runtime import pte
from deuteron.runtime.host import HostRunner
from deuteron.runtime.observer import DelegateCall
from deuteron.runtime.operator_results import operator_results
from deuteron.runtime.partitions import partitions_of
from deuteron.views.compare import cpu_programs, outputs, tosa_intermediates
from deuteron.views.compare.cpu_programs import CpuOperators, CpuResult, NpuValue, Uncompared
from deuteron.views.compare.outputs import OutputResult
from deuteron.views.compare.result_counts import Array, BoundedComparison, Progress, by_kind, count, steps_apart
from deuteron.views.compare.rounding_spread import rounded_twice, spread
from deuteron.views.compare.torch_oracle import oracle_result
from deuteron.views.compare.tosa_intermediates import NO_COVERAGE, Coverage, TensorResult, TosaIntermediates


@dataclass(slots=True)
class PartitionResult:
    """The NPU compared with the definition of its results: `mismatches` of `elements` outputs differ; none may."""

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
        op: its name in the file.
        output: the tensor that it writes.
        elements: results compared.
        ties: results so close to half-way that float32 may round them either way.
        mismatches: results that differ from PyTorch's float32 result.
        beyond: mismatches that are not ties, or larger than 1; none is allowed.
        misrounded: results that are not the correctly rounded float64 value; none is allowed.
        largest: the largest difference from PyTorch's float32 result.
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


@dataclass(frozen=True, slots=True)
class PytorchComparison(BoundedComparison):
    """Result of the comparison; `passed` is true if all bounds hold; `definition` is the NPU's reference.

    The `unseen` delegates have no reference.
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
    uncompared: tuple[Uncompared, ...] = ()
    unseen: int = 0

    def failures(self) -> tuple[str, ...]:
        """Return one sentence for each broken bound."""
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
        broken += tosa_intermediates.failures(self.tensors, self.definition)
        broken += cpu_programs.failures(self.on_cpu)
        for op in self.operators:
            name = f"partition {op.partition}, op {op.index} {op.op}"
            if op.beyond:
                broken.append(f"{name}: {op.beyond} of {op.elements} results differ from PyTorch's beyond ties")
            if op.misrounded:
                broken.append(f"{name}: {op.misrounded} of {op.elements} results are not correctly rounded")
        is_exact = self.partitions and not broken
        exact = f"; the NPU's own results are those of {self.definition}, bit for bit" if is_exact else ""
        for out in self.outputs:
            broken += out.failures(exact)
        return tuple(broken)

    def text(self) -> str:
        """Return the result as lines for a terminal."""
        lines = [f"compared on {counted(self.samples, 'sample')}", ""]
        if self.unseen:
            parts = counted(self.unseen, "delegate")
            lines += [f"{parts}: only outputs are compared; the reference of partitions is in a build directory"]
        else:
            lines += [f"NPU against {self.definition.removeprefix('the ')}, bit for bit"]
            lines += [
                f"  partition {p.index}: {p.mismatches:,} of {p.elements:,} results differ in {p.calls} calls"
                for p in self.partitions
            ] or ["  nothing was delegated"]
        lines += tosa_intermediates.lines(self.tensors, self.coverage) if self.coverage.operators else []
        lines += ["", *_operator_table(self.operators)] if self.operators else []
        lines += (
            ["", *cpu_programs.lines(self.on_cpu, self.on_cpu_computing, self.uncompared)]
            if self.on_cpu_computing
            else []
        )
        lines += ["", "end to end against quantized PyTorch"]
        lines += [out.line() for out in self.outputs]
        return "\n".join([*lines, *self.verdict()])


def _operator_table(operators: Iterable[OperatorResult]) -> list[str]:
    """Return counts by kind of operator."""
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
    """Compare the build in `directory` with the quantized PyTorch model on these inputs.

    Args:
        directory: a directory of `deuteron build`.
        samples: one array per input of the model, for each sample.
        progress: called with the number of finished samples and of all.

    Raises:
        FormatError: the directory is damaged: for example, it has another program than the manifest describes.
        InputError: there are no samples, or they do not fit the model.
    """
    folder = Path(directory)
    manifest = manifests.read(folder)
    if not samples:
        raise InputError("there are no samples to compare on")
    is_recorded, reference = reference_of(folder, manifest)
    runner = HostRunner(folder / manifests.PROGRAM)
    is_ethosu = isinstance(targets.load(manifest.target).npu, targets.EthosU)
    delegates = _delegates(folder)
    partitions = (
        [*(_in_tosa(manifest, folder) if is_ethosu else _in_tflite(manifest, folder))] if not is_recorded else []
    )
    is_int16 = is_ethosu and (reference.has_int16 if is_recorded else manifest.options.activations is Activations.INT16)
    twice = rounded_twice(manifest, reference)
    cpu = None if delegates and is_recorded else CpuOperators(manifest, reference, twice)
    results = outputs.results(manifest, reference.outputs, is_int16=is_int16)
    with one_thread():
        for done, sample in enumerate(samples):
            runner.reset()
            with runner.observe() as calls:
                actual = runner.run(sample)
            for call in () if is_recorded else calls:
                _partition_of(call, partitions).check(call)
            led = cache(partial(_led_to, cpu, folder, reference, sample, partitions))
            if not delegates:
                led()
            expected = _expected(reference, sample)
            moves = cache(partial(spread, reference, real_inputs(reference, sample), twice))
            several = zip(results, actual, reference.outputs, expected, strict=True)
            for i, (result, ours, affine, wanted) in enumerate(several):
                outputs.check(
                    result, ours, affine, wanted.numpy(), moves, lambda led=led, i=i: led()[i] if led() else None
                )
            if progress is not None:
                progress(done + 1, len(samples))
    return PytorchComparison(
        len(samples),
        tuple(p.result for p in partitions),
        tuple(op for p in partitions for op in p.operators.values()),
        tuple(results),
        _TosaPartition.definition if is_ethosu else _Partition.definition,
        tuple(tensor for p in partitions for tensor in p.tensors),
        sum((p.coverage for p in partitions), NO_COVERAGE),
        cpu.results if cpu and not delegates else (),
        cpu.computing if cpu and not delegates else 0,
        cpu.uncompared if cpu and not delegates else (),
        delegates if is_recorded else 0,
    )


def reference_of(folder: Path, manifest: manifests.Manifest) -> tuple[bool, saved.Reference]:
    """Return the quantized model of a build, and whether it is that of an ETRecord.

    Raises:
        InputError: the build has none.
    """
    is_recorded = manifests.ETRECORD in manifest.files and manifests.REFERENCE not in manifest.files
    if not is_recorded and not (folder / manifests.REFERENCE).is_file():
        raise InputError(
            f"`{folder}` has no `{manifests.REFERENCE}` to compare with", hint="restore it, or build again"
        )
    record = folder / (manifests.ETRECORD if is_recorded else manifests.REFERENCE)
    return is_recorded, saved.recorded(record) if is_recorded else saved.load(record)


def _delegates(folder: Path) -> int:
    """Return the number of delegates of a program."""
    return sum(len(method.delegates) for method in pte.read((folder / manifests.PROGRAM).read_bytes()).methods)


@contextmanager
def one_thread() -> Generator[None]:
    """Run PyTorch on one thread: most operators are too small for several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _led_to(
    cpu: CpuOperators | None,
    folder: Path,
    reference: saved.Reference,
    sample: Sequence[Array],
    partitions: Sequence["_Partition"],
) -> Sequence[Array]:
    """Return the outputs that the results of all operators lead to; none if an operator differs by more than ties."""
    if cpu is None:
        return ()
    on_npu = [value for partition in partitions for value in partition.values()]
    led = cpu.check(real_inputs(reference, sample), operator_results(folder / manifests.PROGRAM, sample), on_npu)
    return [value.numpy() for value in led] if cpu.are_exact else ()


def _expected(reference: saved.Reference, sample: Sequence[Array]) -> tuple[torch.Tensor, ...]:
    """Return PyTorch's outputs; a build without quantizing operators at its boundary has quantized inputs."""
    return reference.run(real_inputs(reference, sample))


def real_inputs(reference: saved.Reference, sample: Sequence[Array]) -> list[torch.Tensor]:
    """Return the inputs of a sample as the quantized model takes them."""
    inputs: list[torch.Tensor] = []
    for value, affine in zip(sample, reference.inputs, strict=True):
        tensor = torch.tensor(value)
        inputs.append(affine.real(tensor) if affine and tensor.dtype in (torch.int8, torch.int16) else tensor)
    return inputs


class _Partition(ABC):
    """A partition with the counts of its operators; `definition` names the reference of its results."""

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

    @abstractmethod
    def values(self) -> Iterator[NpuValue]:
        """Yield the values of that run."""

    def _value(self, op: int, value: Array) -> Iterator[NpuValue]:
        nodes = self.entry.ops[op].nodes
        if nodes:  # the last one computes the value
            yield NpuValue(nodes[-1], self.entry.ops[op].op, value)


class _TosaPartition(_Partition):
    """A partition for an Ethos-U."""

    definition = "TOSA's reference model"

    def __init__(self, index: int, entry: manifests.Partition, payload: bytes, folder: Path) -> None:
        super().__init__(index, entry)
        self._intermediates = TosaIntermediates(index, entry, payload, folder / manifests.tosa_name(index))
        self.tensors, self.coverage = self._intermediates.results, self._intermediates.coverage
        self._inputs: Sequence[Array] = ()

    def check(self, call: DelegateCall) -> None:
        """Compare one run of the NPU, and the intermediate tensors in memory."""
        self.result.calls += 1
        self._inputs = call.inputs
        for wanted, ours in zip(self._intermediates.check(call.inputs), call.outputs, strict=True):
            count(self.result, steps_apart(ours.view(wanted.dtype), wanted))

    def values(self) -> Iterator[NpuValue]:
        """Yield the results of all operators in TOSA."""
        for op, value in self._intermediates.computed(self._inputs):
            yield from self._value(op, value)


def _in_tosa(manifest: manifests.Manifest, folder: Path) -> Iterator[_Partition]:
    """Yield the partitions of a build for an Ethos-U."""
    program = pte.read((folder / manifests.PROGRAM).read_bytes())
    parts = [part for method in program.methods for part in partitions_of(method)]
    for i, (entry, part) in enumerate(zip(manifest.partitions, parts, strict=True)):
        yield _TosaPartition(i, entry, part.payload, folder)


class _TflitePartition(_Partition):
    """A partition for a Neutron."""

    def __init__(self, index: int, entry: manifests.Partition, folder: Path) -> None:
        super().__init__(index, entry)
        tflite = (folder / manifests.tflite_name(index)).read_bytes()
        self.graph = reader.read(tflite)
        self._values: dict[str, Array] = {}
        names = reader.op_names(tflite)
        self.operators = {
            op: OperatorResult(index, op.origin[0], names[op.origin[0]], op.outputs[0]) for op in self.graph.ops
        }

    def check(self, call: DelegateCall) -> None:
        """Compare one run of the NPU, and each operator in it."""
        values = interpret.run(
            self.graph, [_shaped(self.graph, n, a) for n, a in zip(self.graph.inputs, call.inputs, strict=True)]
        )
        self.result.calls += 1
        for name, ours in zip(self.graph.outputs, call.outputs, strict=True):
            count(self.result, steps_apart(values[name], ours))
        self._values = values
        for op, result in self.operators.items():
            _check_operator(op, self.graph, values, result)

    def values(self) -> Iterator[NpuValue]:
        """Yield the results of all operators in the interpreter."""
        for op in self.graph.ops:
            yield from self._value(op.origin[0], self._values[op.outputs[0]])


def _in_tflite(manifest: manifests.Manifest, folder: Path) -> Iterator[_Partition]:
    """Yield the partitions of a build for a Neutron."""
    return (_TflitePartition(i, entry, folder) for i, entry in enumerate(manifest.partitions))


def _partition_of(call: DelegateCall, partitions: Sequence[_Partition]) -> _Partition:
    """Return the partition with that payload; of several equal ones, the next in turn."""
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
    """Add PyTorch's results of one operator, on the interpreter's inputs, to its counts."""
    stored = values[op.outputs[0]]
    view = oracle_result(op, graph, values)
    lowest, highest = rounding_tolerance.allowed_range(op, graph, values)
    difference = steps_apart(stored, view.quantized)
    count(result, difference)
    result.ties += int(np.count_nonzero(lowest != highest))
    result.beyond += int(np.count_nonzero((view.quantized < lowest) | (view.quantized > highest) | (difference > 1)))
    result.misrounded += int(np.count_nonzero(view.misrounded(stored)))

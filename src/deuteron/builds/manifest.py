"""`build.json`: what a build directory holds and where every part of it came from; free of PyTorch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from deuteron.arch.cores import Work
from deuteron.builds.options import BuildOptions
from deuteron.builds.quality import NOT_MEASURED, Quality
from deuteron.errors import counted
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.provenance import Cascade as Cascade
from deuteron.npu.provenance import KernelOrigin, cascades
from deuteron.npu.schedule import NO_SCHEDULE, Schedule
from deuteron.records import FileEntry, RecordFile
from deuteron.records import Source as Source
from deuteron.records import entry_of as entry_of

NAME = "build.json"
PROGRAM = "model.pte"
REFERENCE = "reference.pt2"
ETRECORD = "etrecord.bin"
SAMPLES = "samples.npz"
TFLITE = "model.tflite"
"""The TFLite file that a build was made from, if it was made from one."""
KEPT = "kept on the CPU by"
"""How `Node.why` begins where an option of the build says so; the option follows."""

FILE = RecordFile(NAME, 8, "deuteron build MODEL -o DIR", "build the model again")


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output: `dtype` in numpy's spelling; `name` where it has one."""

    shape: tuple[int, ...]
    dtype: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class PartitionOp:
    """One operator of a partition's TFLite file, with the edge nodes and source lines that it stands for."""

    index: int
    op: str
    outputs: tuple[str, ...]
    nodes: tuple[str, ...]
    source: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """One delegate call of the program: sizes in bytes, and what is in it.

    `prefetch_bound` are cycles that no plan which fetches the same pieces is faster than, `whole_scratch_bytes` what
    the scratch would be if no chain of calls ran depth first, 0 where none does. Of a run with such chains,
    `planned_cycles` and `cycles_bound` are its cycles and those that no plan in the same memory is faster than, 0 where
    none are known.
    """

    payload_sha256: str
    microcode_bytes: int
    weights_bytes: int
    kernels_bytes: int
    scratch_bytes: int
    scratch_proven_optimal: bool
    prefetch_bytes: int
    prefetch_bound: int
    prefetch_proven_optimal: bool
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    ops: tuple[PartitionOp, ...]
    kernels: tuple[KernelOrigin, ...]
    dataflow: Dataflow
    schedule: Schedule = NO_SCHEDULE
    whole_scratch_bytes: int = 0
    planned_cycles: int = 0
    cycles_bound: int = 0

    def source_of(self, op: int) -> Source | None:
        """The first line of the model that a TFLite operator comes from, if any is known."""
        return next(iter(self.ops[op].source), None)

    def origin(self, call: int, *, rows: bool = True) -> str:
        """The operators that a kernel call computes, the first line of the model of each, and which `rows`, if not all.

        Empty at the end.
        """
        if call >= len(self.kernels):
            return ""
        kernel = self.kernels[call]
        return f"{self.origins(kernel.ops)}{f', {kernel.stripe}' if rows and kernel.stripe else ''}"

    def origins(self, ops: Iterable[int]) -> str:
        """The names of operators, and the first line of the model of each."""
        names: list[str] = []
        for index in ops:
            names.append(self.ops[index].op)
            if source := self.source_of(index):
                names.append(source.short)
        return " ".join(dict.fromkeys(names))

    @property
    def chained(self) -> Mapping[str, Cascade]:
        """The chain that each node of the model is part of, if it runs depth first."""
        chains = cascades(self.kernels, [0] * len(self.kernels))
        return {name: chain for chain in chains for op in chain.ops for name in self.ops[op].nodes}

    def depth_first(self, macs: Sequence[int]) -> Iterator[str]:
        """The chains of calls that run depth first, given the multiply-accumulates of each call, if there are any."""
        chains = cascades(self.kernels, macs)
        if chains:
            yield (
                f"depth first: {self.scratch_bytes:,} B of scratch instead of {self.whole_scratch_bytes:,} B, "
                f"{sum(chain.again for chain in chains):,} MACs again{self.gap()}"
            )
        for chain in chains:
            ends = [self.origins((chain.ops[at],)) for at in (0, -1)]
            stripes = f"{chain.stripes} stripes of up to {counted(chain.height, 'row')}"
            yield (
                f"  chain {chain.number}: {chain.calls} calls in {stripes}, halo {chain.halo}, "
                f"{chain.copies} copies of kept rows, {chain.again:,} MACs again; {' to '.join(dict.fromkeys(ends))}"
            )

    def gap(self) -> str:
        """How much slower than any plan one with these chains is at most, as an ending; empty where it is not known."""
        if not self.cycles_bound:
            return ""
        if self.planned_cycles <= self.cycles_bound:
            return ", time proven optimal"
        return f", at most {self.planned_cycles / self.cycles_bound - 1:.1%} slower than any plan"


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the model, and who runs it.

    Attributes:
        name: of the node in the edge program, before anything was lowered for a processor.
        op: the edge operator.
        quantised: the node's name when it was quantised, which is the same in every build of a model; may be empty.
        partition: where on the NPU it runs, None on the CPU.
        why: why not on the NPU, a sentence; empty there.
        work: what it does, if the CPU does it.
        elements: how many, as `work` counts them.
        terms: the same.
        nbytes: of the tensors that it reads and writes; None where nobody has counted, its MACs neither.
    """

    name: str
    op: str
    quantised: str
    source: tuple[Source, ...]
    partition: int | None
    why: str
    work: Work
    elements: int
    terms: int
    nbytes: int | None

    @property
    def macs(self) -> int:
        """Its multiply-accumulates, as far as they are counted."""
        return self.terms if self.work.multiplies else 0

    @property
    def is_kept(self) -> bool:
        """Whether it is on the CPU because an option says so."""
        return self.why.startswith(KEPT)


@dataclass(frozen=True, slots=True)
class CpuOp:
    """One operator of the program that runs on the CPU.

    Attributes:
        computes: name of the node of the model that it computes; empty for what lowering has added.
        why: why it is there and not on the NPU, a sentence.
        work: what it does, if lowering has added it; else that stands with the node.
        elements: how many.
        instructions: those of the program that call it, by number; none where planning the memory leaves nothing to
            do, as it does of views.
    """

    op: str
    node: str
    source: tuple[Source, ...]
    computes: str
    why: str
    work: Work
    elements: int
    instructions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model by the name it was built from."""

    name: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of `build.json`."""

    deuteron: str
    executorch: str
    torch: str
    target: str
    converter: str
    options: BuildOptions
    model: ModelInfo
    files: Mapping[str, FileEntry]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    nodes: tuple[Node, ...]
    partitions: tuple[Partition, ...]
    cpu_ops: tuple[CpuOp, ...]
    warnings: tuple[str, ...] = ()
    quality: Quality = NOT_MEASURED

    def to_json(self) -> str:
        """The text of `build.json`."""
        return FILE.to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The manifest that `to_json` wrote; FormatError for any other text."""
        return FILE.from_json(text, cls)


def tflite_name(partition: int) -> str:
    """The file of a build that holds a partition as its compiler got it."""
    return f"npu_{partition}.tflite"


def tosa_name(partition: int) -> str:
    """The file of a build that holds a partition for an Ethos-U as Vela got it."""
    return f"npu_{partition}.tosa"


def database_name(partition: int) -> str:
    """The file of a build that holds what Vela says of a partition."""
    return f"npu_{partition}.xml"


def tflites(directory: Path, manifest: Manifest) -> tuple[bytes, ...]:
    """The TFLite file of each partition of the build in a directory that `read` has checked."""
    return tuple((directory / tflite_name(i)).read_bytes() for i in range(len(manifest.partitions)))


def read(directory: Path) -> Manifest:
    """The manifest of a build directory, with every file that it lists unaltered.

    All are present, but for `reference.pt2`, `samples.npz` and `model.tflite`: only comparisons need these, and the
    first is much larger than the program.

    Raises:
        InputError: when this is no build directory.
        FormatError: when the manifest or a file is damaged.
    """
    return FILE.read(directory, Manifest, optional=(REFERENCE, SAMPLES, TFLITE))

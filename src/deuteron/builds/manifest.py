"""`build.json`: the content of a build directory and the origin of every part; free of PyTorch."""

import math
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
"""Start of `Node.why` if a build option keeps the node there; the option follows."""

FILE = RecordFile(NAME, 9, "deuteron build MODEL -o DIR", "build the model again")


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output: `dtype` is numpy's name; `name` may be empty."""

    shape: tuple[int, ...]
    dtype: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class PartitionOp:
    """One operator of a partition's TFLite file, with its edge nodes and source lines."""

    index: int
    op: str
    outputs: tuple[str, ...]
    nodes: tuple[str, ...]
    source: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """One delegate call of the program, with sizes in bytes.

    `prefetch_bound` is a lower bound in cycles for any plan that fetches the same pieces. `whole_scratch_bytes` is the
    scratch without depth-first chains, 0 if there are none. For a run with such chains, `planned_cycles` are its cycles
    and `cycles_bound` is a lower bound for any plan in the same memory; 0 if unknown.
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
        """Return the first source line of a TFLite operator, if it is known."""
        return next(iter(self.ops[op].source), None)

    def origin(self, call: int, *, rows: bool = True) -> str:
        """Return the operators of a kernel call with their first source lines, and its `rows`, if not all."""
        if call >= len(self.kernels):
            return ""
        kernel = self.kernels[call]
        return f"{self.origins(kernel.ops)}{f', {kernel.stripe}' if rows and kernel.stripe else ''}"

    def origins(self, ops: Iterable[int]) -> str:
        """Return the names of operators, and the first source line of each."""
        names: list[str] = []
        for index in ops:
            names.append(self.ops[index].op)
            if source := self.source_of(index):
                names.append(source.short)
        return " ".join(dict.fromkeys(names))

    @property
    def chained(self) -> Mapping[str, Cascade]:
        """Return the depth-first chain of each node of the model that is in one."""
        chains = cascades(self.kernels, [0] * len(self.kernels))
        return {name: chain for chain in chains for op in chain.ops for name in self.ops[op].nodes}

    def depth_first(self, macs: Sequence[int]) -> Iterator[str]:
        """Yield the depth-first chains of calls, given the multiply-accumulates of each call, if there are any."""
        chains = cascades(self.kernels, macs)
        if chains:
            yield (
                f"depth first: {self.scratch_bytes:,} B of scratch instead of {self.whole_scratch_bytes:,} B, "
                f"{sum(chain.again for chain in chains):,} MACs recomputed{self.gap()}"
            )
        for chain in chains:
            ends = [self.origins((chain.ops[at],)) for at in (0, -1)]
            stripes = f"{chain.stripes} stripes of up to {counted(chain.height, 'row')}"
            yield (
                f"  chain {chain.number}: {chain.calls} calls in {stripes}, halo {chain.halo}, "
                f"{chain.copies} copies of kept rows, {chain.again:,} MACs recomputed; "
                f"{' to '.join(dict.fromkeys(ends))}"
            )

    def gap(self) -> str:
        """Return the maximum slowdown against any plan, as the end of a sentence; empty if it is unknown."""
        if not self.cycles_bound:
            return ""
        if self.planned_cycles <= self.cycles_bound:
            return ", time proven optimal"
        return f", at most {self.planned_cycles / self.cycles_bound - 1:.1%} slower than any plan"


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the model, and its processor.

    Attributes:
        name: name of the node in the edge program, before it was lowered for a processor.
        op: the edge operator.
        quantised: the node's name at quantization, which is the same in every build of a model; may be empty.
        partition: its NPU partition, None on the CPU.
        why: reason why it is not on the NPU, a sentence; else empty.
        work: kind of work, if it runs on the CPU.
        elements: number of elements, as `work` counts them.
        terms: terms per element, as `work` counts them.
        nbytes: bytes of the tensors that it reads and writes; None if unknown, as are its MACs.
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
        """Return its multiply-accumulates, as far as they are known."""
        return self.terms if self.work.multiplies else 0

    @property
    def is_kept(self) -> bool:
        """Return true if a build option keeps it on the CPU."""
        return self.why.startswith(KEPT)


@dataclass(frozen=True, slots=True)
class CpuOp:
    """One operator of the program that runs on the CPU.

    Attributes:
        computes: name of the node of the model that it computes; empty for operators that lowering added.
        why: reason why it is not on the NPU, a sentence.
        work: kind of work, if lowering added it; otherwise the node has it.
        elements: number of elements.
        instructions: numbers of the program's instructions that call it; none if memory planning removed them, as for
            views.
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
class DeadChannels:
    """Channels of a layer that were removed ahead of placement.

    `node` is the layer's output. `constant` channels have one value for every input; other values do not depend on
    `unread` ones. `macs` are multiply-accumulates before the removal, `macs_left` after it.
    """

    op: str
    node: str
    channels: int
    constant: int
    unread: int
    macs: int
    macs_left: int


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model and the name it was built by."""

    name: str


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A program for each hop of new frames, and the model of a window that it was made from.

    Attributes:
        axis: the dimension of time of the inputs.
        window: the number of frames of the window.
        hop: the number of new frames in each run.
        runs: the number of runs that end the first window.
        latency: how many frames late outputs are, because layers look ahead.
        window_macs: multiply-accumulates for a window.
        macs: multiply-accumulates in each run.
        window_bytes: int8 values that live at once for a window, a lower bound of its SRAM.
        state_bytes: int8 values that live from run to run.
        hop_bytes: int8 values that live at once in a run, with the state: a lower bound of its SRAM.
        outputs: for each output the dimension of time, and the frames of the first runs that precede the window's; -1
            and 0 for an output for the whole window.
        inputs: the inputs that have frames; others are the same for each run.
    """

    axis: int
    window: int
    hop: int
    runs: int
    latency: int
    window_macs: int
    macs: int
    window_bytes: int
    state_bytes: int
    hop_bytes: int = 0
    outputs: tuple[tuple[int, int], ...] = ()
    inputs: tuple[int, ...] = (0,)

    @property
    def text(self) -> str:
        """Return a sentence with the figures."""
        late = f", {counted(self.latency, 'frame')} late" if self.latency else ""
        return (
            f"stream: {counted(self.hop, 'new frame')} in each run{late}; {self._work} for the window of {self.window} "
            f"frames; SRAM {self.hop_bytes:,} B or more, of which {self.state_bytes:,} B are state, in place of "
            f"{self.window_bytes:,} B or more for the window"
        )

    @property
    def _work(self) -> str:
        if not self.window_macs:
            return "no multiply-accumulates, as"
        ratio = self.window_macs / self.macs if self.macs else math.inf
        fewer = f" ({ratio:.1f} times fewer)" if 1 < ratio < math.inf else ""
        return f"{self.macs:,} multiply-accumulates{fewer} in place of {self.window_macs:,}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return sentences on figures that a stream does not lower."""
        hint = "operators that read whole windows, and all behind them, are computed anew in each run"
        found: list[str] = []
        if self.macs > self.window_macs:
            found.append(
                f"`--stream`: a run needs {self.macs:,} multiply-accumulates, and the whole window "
                f"{self.window_macs:,}; {hint}; a longer hop, or no stream, takes less"
            )
        elif self.macs == self.window_macs and self.macs and self.hop < self.window:
            found.append(f"`--stream`: a run needs all multiply-accumulates of the window; {hint}")
        if self.hop_bytes > self.window_bytes:
            found.append(
                f"`--stream`: a run needs {self.hop_bytes:,} B of SRAM or more, and the whole window "
                f"{self.window_bytes:,} B: an operator reads the last frames of a large tensor; pool or narrow it first"
            )
        return tuple(found)


@dataclass(frozen=True, slots=True)
class StripedSegment:
    """Operators that were cut into stripes of rows before another compiler got them.

    Attributes:
        operators: the nodes of the model, in their order.
        stripes: number of stripes.
        height: rows of the last operator in a stripe.
        halo: largest number of rows of one operator that two neighbouring stripes compute.
        macs: multiply-accumulates that are computed again.
        kept: bytes of rows that are copied from one stripe for the next.
        sram_before: bytes of SRAM of the program in which nothing is cut.
        sram: bytes of SRAM of this program.
        cycles_before: the compiler's estimate of the cycles of the program in which nothing is cut.
        cycles: that of this program.
    """

    operators: tuple[str, ...]
    stripes: int
    height: int
    halo: int
    macs: int
    kept: int
    sram_before: int
    sram: int
    cycles_before: int
    cycles: int

    def __str__(self) -> str:
        """Return one line for reports."""
        first, last = self.operators[0], self.operators[-1]
        return (
            f"`{first}` to `{last}` in {counted(self.stripes, 'stripe')} of {counted(self.height, 'row')}: "
            f"halo {counted(self.halo, 'row')}, {self.macs:,} MACs again, {self.kept:,} B of rows kept; SRAM "
            f"{self.sram_before:,} -> {self.sram:,} B, estimated cycles {self.cycles_before:,} -> {self.cycles:,}"
        )


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of `build.json`."""

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
    dead_channels: tuple[DeadChannels, ...] = ()
    stream: StreamInfo | None = None
    stripes: tuple[StripedSegment, ...] = ()

    def stripe_lines(self) -> Iterator[str]:
        """Yield the segments that were cut before another compiler got them, if there are any."""
        if self.stripes:
            yield "cut into stripes of rows before Vela; outputs stay the same:"
        yield from (f"  {segment}" for segment in self.stripes)

    def to_json(self) -> str:
        """Return the text of `build.json`."""
        return FILE.to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the manifest of a text of `to_json`; FormatError for any other text."""
        return FILE.from_json(text, cls)


def tflite_name(partition: int) -> str:
    """Return the name of a partition's TFLite file, the input of its compiler."""
    return f"npu_{partition}.tflite"


def tosa_name(partition: int) -> str:
    """Return the name of an Ethos-U partition's TOSA file, the input of Vela."""
    return f"npu_{partition}.tosa"


def database_name(partition: int) -> str:
    """Return the name of the file with Vela's data on a partition."""
    return f"npu_{partition}.xml"


def tflites(directory: Path, manifest: Manifest) -> tuple[bytes, ...]:
    """Return the TFLite file of each partition of a checked build directory."""
    return tuple((directory / tflite_name(i)).read_bytes() for i in range(len(manifest.partitions)))


def read(directory: Path) -> Manifest:
    """Return the manifest of a build directory, and check that every file that it lists is unaltered.

    All files must exist, except `reference.pt2`, `samples.npz` and `model.tflite`: only comparisons need these, and the
    first is much larger than the program.

    Raises:
        InputError: this is not a build directory.
        FormatError: the manifest or a file is damaged.
    """
    return FILE.read(directory, Manifest, optional=(REFERENCE, SAMPLES, TFLITE))

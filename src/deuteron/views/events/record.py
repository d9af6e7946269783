"""`profile.json`: a profile with all data of a report, so that a report needs neither build nor PyTorch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from deuteron.errors import DeuteronError, FormatError, InputError, counted
from deuteron.npu.program import Block as Block
from deuteron.npu.program import Memory as Memory
from deuteron.records import RecordFile
from deuteron.records import Source as Source
from deuteron.views.events.events import Measure, SpanKind, Stream

NAME = "profile.json"
_WRITTEN = "give a profile of `deuteron profile DIR`"
FILE = RecordFile(NAME, 7, "deuteron profile DIR", "profile the build again")


@dataclass(frozen=True, slots=True)
class Op:
    """A TFLite operator of a partition, with its edge operators (nodes) and source lines."""

    index: int
    name: str
    nodes: tuple[str, ...]
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel call of a partition.

    Attributes:
        ops: indices of the TFLite operators that it computes.
        module: module of the model's operator with the most multiply-accumulates, else of the first; empty for the
            model.
        macs: multiply-accumulates.
        nbytes: bytes of its operands in SRAM.
        weight_bytes: bytes of these that are weights.
        cycles: minimum cycles of the NPU, by the cycle model (simulated) or its compiler (estimated).
        bound: their limit: `compute` or `SRAM`.
        output: names of the tensors that it writes.
        stripe: description of its rows if it runs depth first; else empty.
    """

    index: int
    name: str
    ops: tuple[int, ...]
    module: str
    macs: int
    nbytes: int
    weight_bytes: int
    cycles: int
    bound: str
    output: tuple[str, ...]
    stripe: str = ""


@dataclass(frozen=True, slots=True)
class ProfiledPartition:
    """A part of the model that runs on the NPU; `depth_first`: sentences about its depth-first chains, if any."""

    payload_sha256: str
    ops: tuple[Op, ...]
    kernels: tuple[Kernel, ...]
    memories: tuple[Memory, ...]
    depth_first: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CpuOp:
    """One operator on the CPU, and the reason why the NPU does not run it (empty if unknown).

    Attributes:
        macs: multiply-accumulates of the model that it computes.
        nbytes: bytes of the tensors that it reads and writes.
        stripes: number of stripes and the chain if it runs depth first, as text; else empty.
    """

    index: int
    name: str
    node: str
    sources: tuple[Source, ...]
    why: str
    macs: int = 0
    nbytes: int = 0
    stripes: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated length of a kernel call, of a whole partition, or of an operator on the CPU.

    Attributes:
        partition: the partition; -1 for an operator on the CPU.
        index: number of the kernel call or operator; -1 for the whole partition.
        ticks: of the stream's clock.
    """

    partition: int
    index: int
    ticks: int


@dataclass(frozen=True, slots=True)
class Section:
    """Bytes of a part of the firmware: a section, a module or a kernel."""

    group: str
    name: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class LayerLoss:
    """Rounding loss of a layer, in dB of signal to noise: its operator alone, and all up to it."""

    op: str
    name: str
    own: float
    total: float
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Quality:
    """Distance of the program from the float model: the subject of the figures, outputs as text, and layers."""

    title: str
    lines: tuple[str, ...]
    layers: tuple[LayerLoss, ...]


NOT_MEASURED = Quality("", (), ())


@dataclass(frozen=True, slots=True)
class Profile:
    """Times of a build.

    Attributes:
        on: `host`, `sim` or the board.
        program_sha256: hash of the `.pte` that ran.
        versions: versions of Deuteron, ExecuTorch and PyTorch.
        options: options of the build, as in `build.json`.
        files: SHA-256 of the build's files.
        stream: the events.
        npu_macs_per_cycle: MACs per cycle of the array, for utilisation; 0 without an NPU.
        npu_hz: clock of the NPU.
        sections: sizes of the firmware, none without firmware.
        basis: assumptions of simulated and estimated times, and of `estimates`; none without these.
        npu_measure: origin of the cycles of kernel calls; a compiler that estimates them also estimates MACs and bytes.
        quality: the build's quality figures of its program.
        depth_first: sentences about depth-first chains of CPU operators in firmware, if any.
        state: the tensors that last from one run to the next, with their sizes.
        estimates: of what a board measured or counted.
    """

    model: str
    target: str
    on: str
    program_sha256: str
    versions: Mapping[str, str]
    options: Mapping[str, str]
    files: Mapping[str, str]
    npu_macs_per_cycle: int
    npu_hz: int
    stream: Stream
    partitions: tuple[ProfiledPartition, ...]
    cpu_ops: tuple[CpuOp, ...]
    sections: tuple[Section, ...]
    basis: tuple[str, ...] = ()
    npu_measure: Measure = Measure.SIMULATED
    quality: Quality = NOT_MEASURED
    depth_first: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    estimates: tuple[Estimate, ...] = ()


def read(path: Path) -> Profile:
    """Read the profile in a file or a directory.

    Raises:
        InputError: there is none.
        FormatError: it is damaged, or another version's.
    """
    file = path / NAME if path.is_dir() else path
    if path.is_dir() and not file.exists():
        siblings = sorted(str(other.parent) for other in path.glob(f"*/{NAME}"))
        hint = f"give {' or '.join(f'`{name}`' for name in siblings)}" if siblings else _WRITTEN
        raise InputError(f"`{path}` has no `{NAME}`", hint=hint)
    try:
        profile = FILE.from_json(file.read_text(encoding="utf-8"), Profile)
        _check(profile)
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"`{file}` cannot be read as a profile", hint=_WRITTEN) from e
    except DeuteronError as e:
        message = e.message.replace(f"`{NAME}`", f"`{file.name}`")
        raise type(e)(message, where=str(file), hint=e.hint or _WRITTEN) from e
    return profile


def _check(profile: Profile) -> None:
    """Raise FormatError if parts of the profile contradict each other."""
    wrong = next(chain(_wrong_numbers(profile), _wrong_events(profile), _wrong_partitions(profile)), None)
    if wrong is not None:
        raise FormatError(f"`{NAME}` has {wrong}", hint=FILE.again)


def _wrong_numbers(profile: Profile) -> Iterator[str]:
    """Yield impossible counts and sizes."""
    stream = profile.stream
    if stream.clock.hz < 1:
        yield f"a clock of {stream.clock.hz} Hz"
    numbers = [("NPU clock", profile.npu_hz), ("MACs per cycle", profile.npu_macs_per_cycle)]
    numbers.append(("lost events", stream.lost))
    for partition in profile.partitions:
        for kernel in partition.kernels:
            work = {"MACs": kernel.macs, "bytes": kernel.nbytes, "cycles": kernel.cycles}
            work["bytes of weights"] = kernel.weight_bytes
            numbers += ((f"{title} of kernel call {kernel.index}", value) for title, value in work.items())
        for memory in partition.memories:
            sizes = [memory.nbytes, memory.bound, *(n for block in memory.blocks for n in (block.offset, block.nbytes))]
            numbers += ((f"a size in memory `{memory.name}`", value) for value in sizes)
    for op in profile.cpu_ops:
        numbers += [(f"MACs of `{op.name}`", op.macs), (f"bytes of `{op.name}`", op.nbytes)]
    numbers += ((f"ticks of the estimate for {e.index} of npu {e.partition}", e.ticks) for e in profile.estimates)
    numbers += ((f"bytes of section `{section.name}`", section.nbytes) for section in profile.sections)
    yield from (f"{value} as {title}" for title, value in numbers if value < 0)


def _wrong_events(profile: Profile) -> Iterator[str]:
    """Yield events of unknown objects, and runs that are not recorded exactly once."""
    stream, partitions = profile.stream, profile.partitions
    for event in stream.events:
        if not -1 <= event.partition < len(partitions):
            yield f"an event of npu {event.partition}, of {len(partitions)}"
        elif not 0 <= event.run < stream.runs:
            yield f"an event of run {event.run}, of {stream.runs}"
        elif event.start < 0 or event.nbytes < 0:
            yield f"an event that starts at {event.start} and moves {event.nbytes} bytes"
        elif event.stop < event.start:
            yield f"an event that stops at {event.stop}, before it starts at {event.start}"
        elif event.kind is SpanKind.KERNEL and not (
            event.partition >= 0 and 0 <= event.index < len(partitions[event.partition].kernels)
        ):
            yield f"an event of kernel call {event.index} of npu {event.partition}, which has no such call"
        elif event.kind is SpanKind.OPERATOR and event.index >= len(profile.cpu_ops):
            yield f"an event of operator {event.index} on the CPU, of {len(profile.cpu_ops)}"
    for counted_by_npu in stream.npu_cycles:
        if not 0 <= counted_by_npu.partition < len(partitions) or not 0 <= counted_by_npu.run < stream.runs:
            yield f"cycles of npu {counted_by_npu.partition} in run {counted_by_npu.run}, which is not there"
        elif counted_by_npu.cycles < 0:
            yield f"{counted_by_npu.cycles} cycles of npu {counted_by_npu.partition}"
    for count in stream.npu_counts:
        if not 0 <= count.partition < len(partitions) or not 0 <= count.run < stream.runs:
            yield f"a count of npu {count.partition} in run {count.run}, which is not there"
        elif count.what < 0 or count.count < 0:
            yield f"{count.count} of event {count.what} of npu {count.partition}"
    runs = [event.run for event in stream.events if event.kind is SpanKind.RUN]
    if not 0 < stream.runs == len(runs) == len(set(runs)):
        yield f"{counted(stream.runs, 'run')}, of which {len(set(runs))} are recorded"


def _wrong_partitions(profile: Profile) -> Iterator[str]:
    """Yield kernel calls and memory blocks that do not fit their partition."""
    for number, partition in enumerate(profile.partitions):
        calls, ops = len(partition.kernels), len(partition.ops)
        for place, kernel in enumerate(partition.kernels):
            if kernel.index != place:
                yield f"kernel call {kernel.index} of npu {number} in the place of call {place}"
            if not all(0 <= op < ops for op in kernel.ops):
                yield f"kernel call {kernel.index} of npu {number}, which computes operators that are not there"
        for block in (block for memory in partition.memories for block in memory.blocks):
            if not 0 <= block.first <= block.last < calls:
                yield f"a block from kernel call {block.first} to {block.last} of npu {number}, which has {calls}"

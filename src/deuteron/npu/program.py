"""What runs on an NPU for one partition, as every view of a build sees it, whichever family's it is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from deuteron.arch.engine import Engine
from deuteron.arch.memory import DepthFirst, MemoryOptions
from deuteron.errors import CapacityError, DeuteronError
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.provenance import KernelOrigin
from deuteron.npu.schedule import NO_SCHEDULE, Schedule
from deuteron.npu.schedule import Block as Block
from deuteron.npu.schedule import Memory as Memory
from deuteron.npu.timeline import Hazard, Timeline, Totals

PREFETCH_AREA = "prefetch area"
"""Name of the memory that weights are fetched to."""

NO_SRAM = frozenset({"Dram", "OnChipFlash", "OffChipFlash"})
"""Memories that are something else than SRAM, by Vela's names for them."""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A call of a kernel.

    Attributes:
        kernel: its name.
        op: the first TFLite operator that it computes, if the program itself says so.
        weight_bytes: of its operands, weights.
        results: which of its operands it writes, by position; working memory is not among them.
        result_bytes: what these have together.
    """

    kernel: str
    op: int | None = None
    weight_bytes: int = 0
    results: tuple[int, ...] = ()
    result_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Command:
    """What the driver does at a time: it calls a kernel, starts a fetch of some bytes, or waits."""

    call: KernelCall | None = None
    fetched: int = 0


@dataclass(frozen=True, slots=True)
class Content:
    """What a block holds: `what` of the kernel calls at these commands.

    Attributes:
        what: `result`, `workspace` or `weights`; or `input`, which is of no call.
        commands: their numbers.
        is_resident: whether it stays from run to run.
    """

    what: str
    commands: tuple[int, ...]
    is_resident: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """A memory, and the content of each of its blocks by name."""

    memory: Memory
    contents: Mapping[str, Content]


@dataclass(frozen=True, slots=True)
class Fetching:
    """The fetches of weights; times in cycles.

    Attributes:
        streamed: bytes of each that every run makes.
        resident: bytes of each that the first run makes besides.
        bound: no order of these fetches, with the same resident bytes, is faster.
        serial: each fetch, resident or not, made in every run and waited for before its call.
    """

    streamed: tuple[int, ...]
    resident: tuple[int, ...]
    bound: int
    serial: int


class NpuProgram(ABC):
    """The program of a partition, decoded and checked; a family whose programs fetch no weights need not say so.

    Attributes:
        operators: what listings call the operators that its compiler got.
        inputs: bytes of each input.
        outputs: bytes of each output.
        commands: what the driver does, in order.
        weights_bytes: of its constants.
        linked_bytes: of these, those that lie in SRAM all the time, because nothing fetches them.
        resident_bytes: of these, those that are fetched once and stay.
        records: whether a run records when its kernel calls start and stop.
        has_io_in_scratch: whether inputs and outputs may lie in its working memory.
        has_branches: whether a run may leave kernel calls out or repeat them, so that boards do not record them.
        advice: about hazards that another's compiler may leave in a sound file; empty where they mean damage.
    """

    operators: str = "tflite op"
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    commands: tuple[Command, ...]
    weights_bytes: int = 0
    linked_bytes: int = 0
    resident_bytes: int = 0
    records: bool = False
    has_io_in_scratch: bool = False
    has_branches: bool = False
    advice: str = ""

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        """The kernel calls, in order."""
        return tuple(command.call for command in self.commands if command.call)

    @property
    def calls_before(self) -> tuple[int, ...]:
        """How many kernel calls come before each command, which is the number of a call, and before the end."""
        return tuple(accumulate((command.call is not None for command in self.commands), initial=0))

    def scheduled(self, schedule: Schedule) -> Self:
        """The program, that knows what its compiler tells beside it; it itself in families that need nothing."""
        del schedule
        return self

    @abstractmethod
    def lines(self, name: str, origins: Sequence[str]) -> Iterator[str]:
        """A listing for readers that begins with the partition's name; `origins` are words for each kernel call."""

    @abstractmethod
    def to_json(self, name: str, origins: Sequence[str]) -> dict[str, object]:
        """The same as plain values: `name`, `origins`, and whatever the family tells."""

    @abstractmethod
    def timeline(self, engine: Engine, *, keep_resident: bool = True) -> Timeline:
        """One run, simulated; `keep_resident` where resident weights are there from the run before."""

    def totals(self, engine: Engine, *, keep_resident: bool = True) -> Totals:
        """What `timeline` adds up to; families that know it without the events are faster here."""
        return self.timeline(engine, keep_resident=keep_resident).totals()

    def hazards(self, values: Dataflow) -> tuple[Hazard, ...] | None:
        """Everything that would make the program compute something else than `values` says; none in a sound one.

        None where the family does not look.
        """
        del values
        return None

    def traced(self) -> Dataflow:
        """Its values as far as the program itself tells them, for one whose record nobody has.

        Without more in a family, a call has results, called by its number, and nobody knows what it reads.
        """
        calls = (
            tuple(f"call {number}+0" for _ in range(max(call.results, default=-1) + 1))
            for number, call in enumerate(self.calls)
        )
        inputs, outputs = (
            tuple(f"{side} {i}" for i in range(len(sizes)))
            for side, sizes in (("input", self.inputs), ("output", self.outputs))
        )
        return Dataflow(inputs, outputs, calls=tuple(calls))

    def least(self, engine: Engine) -> Schedule:
        """A schedule that no run is faster than, where its compiler would have told one and nobody has it."""
        del engine
        return NO_SCHEDULE

    def placements(self, values: Dataflow) -> tuple[Placement, ...]:
        """The memories that the program has, whose blocks live from command to command."""
        del values
        return ()

    def fetching(self, engine: Engine) -> Fetching | None:
        """Its fetches, if it has any."""
        del engine
        return None


@dataclass(frozen=True, slots=True)
class ReplanRequest:
    """The partitions of a build, to be compiled again for any number of other memories.

    Attributes:
        tflites: their TFLite files.
        target: the build's.
        profiling: whether the programs shall record when each kernel starts and stops.
        tensors: bytes of SRAM that inputs, outputs and what the CPU computes may have, in the order to try them in.
        placed: the error of a partition, given its number, with what the caller knows of the place.
        is_alone: whether the program is one partition, beside whose inputs and outputs there are no tensors.
    """

    tflites: tuple[bytes, ...]
    target: str
    profiling: bool
    tensors: Callable[[DepthFirst], Iterable[int]]
    placed: Callable[[int, CapacityError], DeuteronError]
    is_alone: bool = False


@dataclass(frozen=True, slots=True)
class Replanned:
    """A partition that was compiled again: its program, the record of its kernel calls and values, and its scratch.

    `whole_scratch_bytes` is what the scratch would be without chains that run depth first, 0 where there are none, of
    which `planned_cycles` and `cycles_bound` say how good they are, as in a manifest.
    """

    program: NpuProgram
    kernels: tuple[KernelOrigin, ...]
    dataflow: Dataflow
    scratch_bytes: int = 0
    whole_scratch_bytes: int = 0
    planned_cycles: int = 0
    cycles_bound: int = 0


Replanner = Callable[[MemoryOptions], tuple[Replanned, ...]]
"""Gives the partitions of a `ReplanRequest` as they are with these memories.

Raises:
    CapacityError: they do not fit.
    UnsupportedError: one computes nothing when it is compiled again.
"""

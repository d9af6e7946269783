"""The program of a partition for views, independent of the NPU family."""

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
"""Memories other than SRAM, by Vela's names."""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A call of a kernel.

    Attributes:
        kernel: its name.
        op: the first TFLite operator that it computes, if the program contains it.
        weight_bytes: bytes of its operands that are weights.
        results: positions of the operands that it writes, without working memory.
        result_bytes: their total size.
    """

    kernel: str
    op: int | None = None
    weight_bytes: int = 0
    results: tuple[int, ...] = ()
    result_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the driver: it calls a kernel, starts a fetch of some bytes, or waits."""

    call: KernelCall | None = None
    fetched: int = 0


@dataclass(frozen=True, slots=True)
class Content:
    """Content of a block: `what` of the kernel calls at these commands.

    Attributes:
        what: `result`, `workspace` or `weights`; or `input`, without a call.
        commands: their numbers.
        is_resident: whether it stays from run to run.
    """

    what: str
    commands: tuple[int, ...]
    is_resident: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """A memory, and the content of its blocks by name."""

    memory: Memory
    contents: Mapping[str, Content]


@dataclass(frozen=True, slots=True)
class Fetching:
    """The fetches of weights; times in cycles.

    Attributes:
        streamed: bytes of each fetch of every run.
        resident: bytes of each further fetch of the first run.
        bound: lower bound of all orders of these fetches with the same resident bytes.
        serial: cycles if each fetch, resident or not, is made in every run and waited for before its call.
    """

    streamed: tuple[int, ...]
    resident: tuple[int, ...]
    bound: int
    serial: int


class NpuProgram(ABC):
    """The program of a partition, decoded and checked.

    Attributes:
        operators: name of the compiler's input operators in listings.
        inputs: bytes of each input.
        outputs: bytes of each output.
        commands: commands of the driver in order.
        weights_bytes: bytes of its constants.
        linked_bytes: bytes of constants that are always in SRAM, because they are not fetched.
        resident_bytes: bytes of constants that are fetched once and stay.
        records: whether a run records when its kernel calls start and stop.
        has_io_in_scratch: whether inputs and outputs may be in its working memory.
        has_branches: whether a run may skip or repeat kernel calls, so that boards do not record them.
        advice: hint for hazards that another compiler may leave in a valid file; empty if they mean damage.
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
        """Number of kernel calls before each command, which is the index of a call, and before the end."""
        return tuple(accumulate((command.call is not None for command in self.commands), initial=0))

    def scheduled(self, schedule: Schedule) -> Self:
        """Return the program with the schedule of its compiler; the program itself in families without one."""
        del schedule
        return self

    @abstractmethod
    def lines(self, name: str, origins: Sequence[str]) -> Iterator[str]:
        """Return a listing that starts with the partition's name; `origins` describe each kernel call."""

    @abstractmethod
    def to_json(self, name: str, origins: Sequence[str]) -> dict[str, object]:
        """Return the listing as plain values: `name`, `origins`, and fields of the family."""

    @abstractmethod
    def timeline(self, engine: Engine, *, keep_resident: bool = True) -> Timeline:
        """Return the timeline of one run; `keep_resident` if an earlier run has fetched resident weights."""

    def totals(self, engine: Engine, *, keep_resident: bool = True) -> Totals:
        """Return the totals of `timeline`; families may compute them without the events."""
        return self.timeline(engine, keep_resident=keep_resident).totals()

    def hazards(self, values: Dataflow) -> tuple[Hazard, ...] | None:
        """Return all hazards that make the program compute other values than `values`; none in a valid program.

        None if the family has no such check.
        """
        del values
        return None

    def traced(self) -> Dataflow:
        """Return the dataflow that can be inferred from the program, for programs without a record.

        By default, a call has results that are named by its index, and unknown inputs.
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
        """Return a lower bound of the schedule, if the compiler's own schedule is missing."""
        del engine
        return NO_SCHEDULE

    def placements(self, values: Dataflow) -> tuple[Placement, ...]:
        """Return the memories of the program; lifetimes of blocks are in commands."""
        del values
        return ()

    def fetching(self, engine: Engine) -> Fetching | None:
        """Return its fetches, if it has any."""
        del engine
        return None


@dataclass(frozen=True, slots=True)
class ReplanRequest:
    """The partitions of a build that are compiled again for other memories.

    Attributes:
        tflites: their TFLite files.
        target: target of the build.
        profiling: whether the programs record when each kernel starts and stops.
        tensors: candidates for the bytes of SRAM of inputs, outputs and CPU tensors, in the order of trial.
        placed: adds the place to the error of a partition, given its number.
        is_alone: whether the program is one partition, without tensors other than its inputs and outputs.
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

    `whole_scratch_bytes` is the scratch without depth-first execution, 0 if no chain runs depth first.
    `planned_cycles` and `cycles_bound` are as in a manifest.
    """

    program: NpuProgram
    kernels: tuple[KernelOrigin, ...]
    dataflow: Dataflow
    scratch_bytes: int = 0
    whole_scratch_bytes: int = 0
    planned_cycles: int = 0
    cycles_bound: int = 0


Replanner = Callable[[MemoryOptions], tuple[Replanned, ...]]
"""Compiles the partitions of a `ReplanRequest` for these memories.

Raises:
    CapacityError: they do not fit.
    UnsupportedError: a partition computes nothing when it is compiled again.
"""

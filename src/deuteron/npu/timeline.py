"""Timeline of a run of a partition on NPU, CPU and flash, simulated or estimated."""

from dataclasses import dataclass
from enum import Enum

from deuteron.arch.engine import Engine


class Track(Enum):
    """A unit that is busy; the value is its name in reports."""

    CPU = "cpu"
    NPU = "npu"
    FLASH = "flash"


class Measure(Enum):
    """Kind of a number: counted, simulated or estimated; reports never mix kinds in a column.

    The value is its name in reports. An emulator counts instructions exactly, which is no time of any chip. Simulated
    numbers come from our model of the hardware, estimated ones from the compiler of the program.
    """

    MEASURED = "measured"
    COUNTED = "counted"
    SIMULATED = "simulated"
    ESTIMATED = "estimated"


class Activity(Enum):
    """Kind of an event; the value is its name in reports."""

    DISPATCH = "dispatch"
    KERNEL = "kernel"
    SETUP = "fetch setup"
    TRANSFER = "transfer"
    STALL = "stall"


@dataclass(frozen=True, slots=True)
class Cost:
    """A call: multiply-accumulates, cycles of computing, bytes through the SRAM port and their cycles."""

    macs: int
    compute: int
    sram_bytes: int
    sram: int

    @property
    def cycles(self) -> int:
        """Cycles of the call on the NPU."""
        return max(self.compute, self.sram)

    @property
    def bound(self) -> str:
        """The limit of these cycles: `compute` or `SRAM`."""
        return "compute" if self.compute >= self.sram else "SRAM"


@dataclass(frozen=True, slots=True)
class Event:
    """One span of cycles on a track, for command `command`.

    Attributes:
        name: name of the kernel, or of the fetched weights.
        cost: cost of a kernel.
        nbytes: bytes of a transfer.
    """

    track: Track
    activity: Activity
    command: int
    start: int
    stop: int
    name: str
    cost: Cost | None = None
    nbytes: int = 0

    @property
    def cycles(self) -> int:
        """Length of the event."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Totals:
    """Total cycles of a run.

    Attributes:
        cycles: length of the run.
        macs: multiply-accumulates of all kernels.
        compute: cycles of compute-bound kernels.
        sram: cycles of kernels that are bound by the SRAM port.
        stall: cycles of waiting for weights.
        dispatch: cycles of the CPU for calls.
        setup: cycles of the CPU for fetches.
        transfer: cycles in which the flash is busy.
    """

    cycles: int
    macs: int
    compute: int
    sram: int
    stall: int
    dispatch: int
    setup: int
    transfer: int

    @property
    def bound(self) -> str:
        """The largest share: compute, SRAM, flash or dispatch."""
        shares = {
            "compute": self.compute,
            "SRAM": self.sram,
            "flash": self.stall,
            "dispatch": self.dispatch + self.setup,
        }
        return max(shares, key=lambda name: shares[name])


@dataclass(frozen=True, slots=True)
class Timeline:
    """The events of one run in order of their start, its length in cycles, and the kind of these numbers."""

    engine: Engine
    events: tuple[Event, ...]
    cycles: int
    measure: Measure = Measure.SIMULATED

    def total(self, activity: Activity) -> int:
        """Cycles of all events of a kind."""
        return sum(event.cycles for event in self.events if event.activity is activity)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all kernels."""
        return sum(event.cost.macs for event in self.events if event.cost)

    @property
    def utilisation(self) -> float:
        """Share of the multiply-accumulates that the array could do in the run: MAC utilisation."""
        possible = self.engine.rows * self.engine.columns * self.cycles
        return self.macs / possible if possible else 0.0

    @property
    def microseconds(self) -> float:
        """Length of the run."""
        return self.engine.microseconds(self.cycles)

    def totals(self) -> Totals:
        """Totals of all events."""
        compute, sram = (
            sum(event.cycles for event in self.events if event.cost and event.cost.bound == bound)
            for bound in ("compute", "SRAM")
        )
        return Totals(
            self.cycles,
            self.macs,
            compute,
            sram,
            self.total(Activity.STALL),
            self.total(Activity.DISPATCH),
            self.total(Activity.SETUP),
            self.total(Activity.TRANSFER),
        )

    def bound(self) -> str:
        """The largest share: compute, SRAM, flash or dispatch."""
        return self.totals().bound


@dataclass(frozen=True, slots=True)
class Hazard:
    """A hazard at command `command`; the end of the program counts as a command."""

    command: int
    message: str

    def __str__(self) -> str:
        return f"command {self.command}: {self.message}"

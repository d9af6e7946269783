"""When everything of a partition happens: NPU, CPU and flash side by side, as a family's simulator tells it."""

from dataclasses import dataclass
from enum import Enum

from deuteron.arch.engine import Engine


class Track(Enum):
    """Who is busy; the value is its name in reports."""

    CPU = "cpu"
    NPU = "npu"
    FLASH = "flash"


class Measure(Enum):
    """How numbers came to be; reports never mix kinds in a column. The value is its name in reports.

    An emulator counts instructions: they are exact, and no time of any chip. What is simulated comes from our model of
    the hardware, what is estimated from the compiler that made the program.
    """

    MEASURED = "measured"
    COUNTED = "counted"
    SIMULATED = "simulated"
    ESTIMATED = "estimated"


class Activity(Enum):
    """What an event is; the value is its name in reports."""

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
        """What limits these cycles: `compute` or `SRAM`."""
        return "compute" if self.compute >= self.sram else "SRAM"


@dataclass(frozen=True, slots=True)
class Event:
    """One span of cycles on a track, for command `command`.

    Attributes:
        name: the kernel's name, or what is fetched.
        cost: of a kernel.
        nbytes: of a transfer.
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
        """Its length."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Totals:
    """What a run takes in all, in cycles.

    Attributes:
        cycles: its length.
        macs: multiply-accumulates of all kernels.
        compute: of kernels that computing limits.
        sram: of kernels that the SRAM port limits.
        stall: that somebody waits for weights.
        dispatch: of the CPU, for calls.
        setup: of the CPU, for fetches.
        transfer: that the flash is busy.
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
        """What takes the largest share: compute, SRAM, flash or dispatch."""
        shares = {
            "compute": self.compute,
            "SRAM": self.sram,
            "flash": self.stall,
            "dispatch": self.dispatch + self.setup,
        }
        return max(shares, key=lambda name: shares[name])


@dataclass(frozen=True, slots=True)
class Timeline:
    """The events of one run in order of their start, its length in cycles, and how these came to be."""

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
        """Share of the array's multiply-accumulates that the run's length would have allowed."""
        possible = self.engine.rows * self.engine.columns * self.cycles
        return self.macs / possible if possible else 0.0

    @property
    def microseconds(self) -> float:
        """Length of the run."""
        return self.engine.microseconds(self.cycles)

    def totals(self) -> Totals:
        """What all of it takes."""
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
        """What takes the largest share: compute, SRAM, flash or dispatch."""
        return self.totals().bound


@dataclass(frozen=True, slots=True)
class Hazard:
    """What goes wrong at command `command`; the end of the program counts as a command."""

    command: int
    message: str

    def __str__(self) -> str:
        return f"command {self.command}: {self.message}"

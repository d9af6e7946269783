"""When everything happens: NPU, CPU and fetch channel side by side, from microcode and the numbers of a target.

The CPU runs the driver and starts each kernel and each fetch; it waits for a kernel to end before it goes on, and for
a fetch where the microcode says so. All channels share one flash, whose transfers run one after the other.
"""

from dataclasses import dataclass
from enum import Enum

from deuteron.arch.engine import Engine
from deuteron.npu.neutron.kernels.cost import Cost, cost
from deuteron.npu.neutron.microcode.decode import Call, Decoded, Fetch, Wait


class Track(Enum):
    """Who is busy; the value is its name in reports."""

    CPU = "cpu"
    NPU = "npu"
    FLASH = "flash"


class Activity(Enum):
    """What an event is; the value is its name in reports."""

    DISPATCH = "dispatch"
    KERNEL = "kernel"
    SETUP = "fetch setup"
    TRANSFER = "transfer"
    STALL = "stall"


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
class Timeline:
    """The events of one run in order of their start, and its length in cycles."""

    engine: Engine
    events: tuple[Event, ...]
    cycles: int

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

    def bound(self) -> str:
        """What takes the largest share: compute, SRAM, flash or dispatch."""
        kernels = [event for event in self.events if event.cost]
        shares = {
            **{name: sum(e.cycles for e in kernels if e.cost and e.cost.bound == name) for name in ("compute", "SRAM")},
            "flash": self.total(Activity.STALL),
            "dispatch": self.total(Activity.DISPATCH) + self.total(Activity.SETUP),
        }
        return max(shares, key=lambda name: shares[name])


def simulate(decoded: Decoded, engine: Engine, *, keep_resident: bool = True) -> Timeline:
    """The timeline of one run.

    Args:
        decoded: the microcode.
        engine: the numbers of the target.
        keep_resident: the prefetch area is as the run before left it, so that resident bytes are not fetched again.
    """
    events: list[Event] = []
    now = free = 0
    done: dict[int, int] = {}
    for index, command in enumerate(decoded.commands):
        match command:
            case Call():
                price, name = cost(command.params, engine), command.kernel.name
                start = now + engine.call_dispatch
                events.append(Event(Track.CPU, Activity.DISPATCH, index, now, start, name))
                now = start + price.cycles
                events.append(Event(Track.NPU, Activity.KERNEL, index, start, now, name, price))
            case Fetch():
                if command.resident and keep_resident:
                    continue
                start = now + engine.fetch_setup
                name = f"weights {command.source}"
                events.append(Event(Track.CPU, Activity.SETUP, index, now, start, name))
                now, begun = start, max(start, free)
                free = begun + engine.fetch_latency + engine.transfer(command.nbytes)
                events.append(Event(Track.FLASH, Activity.TRANSFER, index, begun, free, name, nbytes=command.nbytes))
                done[command.channel] = free
            case Wait():
                arrived = max(now, done.get(command.channel, 0))
                if arrived > now:
                    events.append(Event(Track.CPU, Activity.STALL, index, now, arrived, f"channel {command.channel}"))
                now = arrived
    return Timeline(engine, tuple(sorted(events, key=lambda event: (event.start, event.stop))), max(now, free))

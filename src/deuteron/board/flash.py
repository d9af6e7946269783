"""Model of the flash that weights are fetched from; a timer of the emulator simulates it."""

from dataclasses import dataclass, replace

from deuteron.arch import targets
from deuteron.arch.memory import MemoryOptions
from deuteron.arch.targets import MemoryKind
from deuteron.errors import OptionError


@dataclass(frozen=True, slots=True)
class Flash:
    """Timing of fetches.

    Attributes:
        latency_ns: time until the first byte of a fetch.
        bandwidth: bytes per second after that; 0 means that they take no time.
    """

    latency_ns: int
    bandwidth: int


@dataclass(frozen=True, slots=True)
class FlashOptions:
    """Requested timing of the flash; None keeps a figure."""

    latency_ns: int | None = None
    bandwidth: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("latency-ns", self.latency_ns), ("bandwidth", self.bandwidth)):
            if value is not None and not 0 <= value < 1 << 32:
                raise OptionError(f"`--flash-{name}` is {value:,}, it must be at least 0 and below 2^32")

    def of(self, flash: Flash) -> Flash:
        """Return that flash with the requested figures."""
        asked = {"latency_ns": self.latency_ns, "bandwidth": self.bandwidth}
        return replace(flash, **{name: value for name, value in asked.items() if value is not None})


def planned_for(target: str, memory: MemoryOptions) -> Flash:
    """Return the flash of a target, with the bandwidth of the build's plan; unknown figures take no time."""
    flash = next((memory for memory in targets.load(target).memories if memory.kind is MemoryKind.FLASH), None)
    latency, bandwidth = (flash.latency, flash.bandwidth) if flash else (None, None)
    known = Flash(latency.value if latency else 0, bandwidth.value if bandwidth else 0)
    return FlashOptions(bandwidth=memory.flash_bandwidth).of(known)

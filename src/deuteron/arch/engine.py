"""The numbers that the cycle model needs, taken from a target and what a user wants to change of it."""

from dataclasses import dataclass, replace

from deuteron.arch.targets import Arch, EthosU, MemoryKind
from deuteron.errors import OptionError

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Engine:
    """Rates and costs in cycles of the NPU's clock; one CPU cycle counts as one NPU cycle of the same length.

    Attributes:
        clock: Hz.
        rows: of the array: output positions computed at once.
        columns: of the array: filters computed at once.
        elementwise: elements per cycle of what needs no array.
        sram_port: bytes per cycle between NPU and SRAM.
        call_dispatch: cycles of the CPU per kernel call.
        fetch_setup: cycles of the CPU per fetch.
        fetch_latency: cycles before the first byte of a fetch arrives.
        flash_bandwidth: bytes per second.
    """

    clock: int
    rows: int
    columns: int
    elementwise: int
    sram_port: int
    call_dispatch: int
    fetch_setup: int
    fetch_latency: int
    flash_bandwidth: int

    def transfer(self, nbytes: int) -> int:
        """Cycles that `nbytes` take on the way from flash, without latency."""
        return -(-nbytes * self.clock // self.flash_bandwidth)

    def without_flash(self) -> "Engine":
        """The same for all flashes: what calls take depends on nothing else."""
        return replace(self, fetch_setup=0, fetch_latency=0, flash_bandwidth=1)

    def microseconds(self, cycles: int) -> float:
        """The time that `cycles` take."""
        return cycles * 1e6 / self.clock


def engine(
    arch: Arch, *, flash_bandwidth: int | None = None, flash_latency: int | None = None, clock: int | None = None
) -> Engine:
    """The engine of a target.

    Args:
        arch: the target.
        flash_bandwidth: bytes per second, instead of the target's.
        flash_latency: nanoseconds, instead of the target's.
        clock: Hz of NPU and CPU, instead of the target's.

    Raises:
        OptionError: for a rate that is not above 0, a latency below 0, or one that Vela alone decides; for a target
            that has no NPU, or of whose flash no rate is known.
    """
    npu = arch.need_npu()
    if isinstance(npu, EthosU):
        return _estimated(arch, npu, flash_bandwidth, flash_latency, clock)
    flash = arch.memory(MemoryKind.FLASH)
    hz = npu.clock.value if clock is None else clock
    rate = flash_bandwidth if flash_bandwidth is not None else flash.bandwidth.value if flash.bandwidth else None
    if rate is None:
        raise OptionError(f"no bandwidth is known of the flash of `{arch.name}`", hint="give `--flash-bandwidth`")
    for option, value in (("--flash-bandwidth", rate), ("--clock", hz)):
        if value <= 0:
            raise OptionError(f"`{option}` is {value}, it must be above 0")
    latency = flash_latency if flash_latency is not None else flash.latency.value if flash.latency else 0
    if latency < 0:
        raise OptionError(f"`--flash-latency` is {latency}, it must not be below 0")
    ratio = npu.clock.value / npu.driver.clock.value if clock is None else 1.0
    return Engine(
        clock=hz,
        rows=npu.pipelines.value,
        columns=npu.macs_per_pipeline.value,
        elementwise=npu.elementwise.value,
        sram_port=npu.sram_port.value,
        call_dispatch=round(npu.driver.call_dispatch.value * ratio),
        fetch_setup=round(npu.driver.fetch_setup.value * ratio),
        fetch_latency=-(-latency * hz // NANOSECONDS),
        flash_bandwidth=rate,
    )


def _estimated(
    arch: Arch, npu: EthosU, flash_bandwidth: int | None, flash_latency: int | None, clock: int | None
) -> Engine:
    """The array and the clock of an NPU whose times Vela estimates, with the memories that it was told of."""
    asked = (("--flash-bandwidth", flash_bandwidth), ("--flash-latency", flash_latency), ("--clock", clock))
    for option, value in asked:
        if value is not None:
            raise OptionError(
                f"`{option}` is for simulated times, Vela estimates those of `{arch.name}` when it compiles",
                hint="build the model again, with another `--vela-system-config` or `--memory-mode`",
            )
    return Engine(npu.clock.value, 1, npu.macs_per_cycle, 0, 0, 0, 0, 0, 0)

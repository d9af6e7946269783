"""Rates of the cycle model, from a target and options of the user."""

from dataclasses import dataclass, replace

from deuteron.arch.targets import Arch, EthosU, MemoryKind
from deuteron.errors import OptionError

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Engine:
    """Rates and costs in cycles of the NPU's clock; one CPU cycle counts as one NPU cycle of the same length.

    Attributes:
        clock: Hz.
        rows: rows of the array: output positions in parallel.
        columns: columns of the array: filters in parallel.
        elementwise: elements per cycle of kernels without the array.
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
        """Cycles of a transfer of `nbytes` from flash, without latency."""
        return -(-nbytes * self.clock // self.flash_bandwidth)

    def without_flash(self) -> "Engine":
        """The same rates for every flash; costs of calls do not depend on it."""
        return replace(self, fetch_setup=0, fetch_latency=0, flash_bandwidth=1)

    def microseconds(self, cycles: int) -> float:
        """The time that `cycles` take."""
        return cycles * 1e6 / self.clock


def engine(
    arch: Arch, *, flash_bandwidth: int | None = None, flash_latency: int | None = None, clock: int | None = None
) -> Engine:
    """Return the engine of a target.

    Args:
        arch: the target.
        flash_bandwidth: bytes per second, instead of the target's.
        flash_latency: nanoseconds, instead of the target's.
        clock: Hz of NPU and CPU, instead of the target's.

    Raises:
        OptionError: a rate is not above 0, a latency is below 0, or Vela decides the rate; or the target has no NPU, or
            its flash no known rate.
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
    """Return array and clock of an NPU whose times Vela estimates."""
    asked = (("--flash-bandwidth", flash_bandwidth), ("--flash-latency", flash_latency), ("--clock", clock))
    for option, value in asked:
        if value is not None:
            raise OptionError(
                f"`{option}` is for simulated times, Vela estimates those of `{arch.name}` when it compiles",
                hint="build the model again, with another `--vela-system-config` or `--memory-mode`",
            )
    return Engine(npu.clock.value, 1, npu.macs_per_cycle, 0, 0, 0, 0, 0, 0)

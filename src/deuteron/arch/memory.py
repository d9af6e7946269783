"""Memory options of a program."""

from dataclasses import dataclass, fields
from enum import Enum

from deuteron.arch.targets import Arch, MemoryKind
from deuteron.errors import OptionError
from deuteron.records import Partial

UNLIMITED = 1 << 40
"""SRAM budget without a limit, for callers that check the limit themselves."""


class FetchPolicy(Enum):
    """Programs that fetch their constants to SRAM; the value is its name as an option."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Effort(Enum):
    """Effort of the planner; the value is its name as an option."""

    FAST = "fast"
    EXACT = "exact"


class DepthFirst(Enum):
    """Programs with depth-first execution; the value is its name as an option."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class IoInScratch(Enum):
    """Programs with inputs and outputs in scratch; the value is its name as an option."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class SpeedForFlash(Enum):
    """Programs with layers that take more flash to be faster; the value is its name as an option."""

    AUTO = "auto"
    NEVER = "never"


class WeightsCompression(Enum):
    """Programs with compressed weights; the value is its name as an option."""

    AUTO = "auto"
    NEVER = "never"


_OF_VELA = ("sram_budget", "effort", "depth_first")
"""Options of programs that Vela compiles."""

_OF_CPU = ("flash_budget", "speed_for_flash", "weights_compression")
"""Options of programs for a CPU alone."""


@dataclass(frozen=True, slots=True)
class MemoryOptions(Partial):
    """How a program may use the memories of its target; None leaves the target's figure.

    Attributes:
        fetch_constants_to_sram: programs that fetch weights from flash while kernels run; `AUTO`: those that do not fit
            into SRAM otherwise.
        sram_budget: bytes of SRAM for weights and intermediate results of all partitions and, in a build, for inputs,
            outputs and CPU tensors, which ExecuTorch plans.
        weights_budget: largest prefetch area in bytes; weights in free scratch do not count.
        flash_bandwidth: bytes per second for the prefetch schedule.
        effort: effort of the planner.
        depth_first: programs that run chains of layers depth first; `AUTO`: those that do not fit otherwise, or are
            faster; `ALWAYS`: all, in the least memory that is found.
        io_in_scratch: programs of a single partition with inputs and outputs in scratch, whose memory is reused for
            other values; `AUTO`: those that run depth first, or do not fit, and gain by it.
        flash_budget: bytes of flash for the weights and other constants of a program for a CPU.
        speed_for_flash: programs for a CPU whose layers are faster with larger weights, or with more code and scratch
            memory; `AUTO`: within the flash budget, and in memory that is free.
        weights_compression: programs for a CPU with weights that a step decompresses to SRAM before they are read;
            `AUTO`: those that exceed the flash budget, or without one, all that get smaller.
    """

    fetch_constants_to_sram: FetchPolicy = FetchPolicy.AUTO
    sram_budget: int | None = None
    weights_budget: int | None = None
    flash_bandwidth: int | None = None
    effort: Effort = Effort.FAST
    depth_first: DepthFirst = DepthFirst.AUTO
    io_in_scratch: IoInScratch = IoInScratch.AUTO
    flash_budget: int | None = None
    speed_for_flash: SpeedForFlash = SpeedForFlash.AUTO
    weights_compression: WeightsCompression = WeightsCompression.NEVER

    def __post_init__(self) -> None:
        for name in ("sram_budget", "weights_budget", "flash_bandwidth", "flash_budget"):
            value: int | None = getattr(self, name)
            if value is not None and value <= 0:
                raise OptionError(f"`--{name.replace('_', '-')}` is {value}, it must be above 0")
        if self.weights_budget is not None and self.fetch_constants_to_sram is FetchPolicy.NEVER:
            raise OptionError(
                "`--weights-budget` is for weights that are fetched, `--fetch-constants-to-sram never` fetches none",
                hint="leave out one of the two; `--sram-budget` limits intermediate results and weights together",
            )

    def check(self, arch: Arch) -> None:
        """Check that the options are valid for a target and within its memory.

        Raises:
            OptionError: naming the option.
        """
        if arch.npu is None or not arch.npu.plans_sram:
            for option in fields(self):
                allowed = ("sram_budget", "depth_first", *_OF_CPU) if arch.npu is None else _OF_VELA
                if getattr(self, option.name) != option.default and option.name not in allowed:
                    raise self._refused(f"--{option.name.replace('_', '-')}", arch)
            is_searched = self.sram_budget is not None or self.depth_first is DepthFirst.ALWAYS
            if self.effort is not Effort.FAST and not is_searched:
                raise OptionError(
                    f"`--effort` is for a search within a budget, and `{arch.name}` has none here",
                    hint="give `--sram-budget` too, or leave it out",
                )
            return
        for option in fields(self):
            if option.name in _OF_CPU and getattr(self, option.name) != option.default:
                raise OptionError(
                    f"`--{option.name.replace('_', '-')}` is for targets without an NPU, `{arch.name}` has one",
                    hint="leave it out, or choose another target: `deuteron targets` lists them",
                )
        has = arch.memory(MemoryKind.SRAM).size.value
        if self.sram_budget is not None and self.sram_budget > has:
            raise OptionError(
                f"`--sram-budget` is {self.sram_budget:,} bytes, the SRAM of `{arch.name}` only {has:,}",
                hint="give less, or leave it out to use all of it",
            )
        self.sram(arch)

    @staticmethod
    def _refused(option: str, arch: Arch) -> OptionError:
        """Return the error for an option that is not valid for a target."""
        if arch.npu is None:
            return OptionError(
                f"`{option}` is for an NPU's program, `{arch.name}` has no NPU",
                hint="leave it out, or choose another target: `deuteron targets` lists them",
            )
        return OptionError(
            f"`{option}` is for programs that Deuteron plans, Vela plans those for `{arch.name}`",
            hint="give `--sram-budget`, or tell Vela by `--memory-mode`, `--optimise` and `--arena-cache-size`",
        )

    def sram(self, arch: Arch) -> int:
        """Return the bytes of SRAM that a program may use on a target.

        Raises:
            OptionError: the budget of weights is larger.
        """
        has = arch.memory(MemoryKind.SRAM).size.value
        sram = has if self.sram_budget is None else self.sram_budget
        if self.weights_budget is not None and self.weights_budget > sram:
            whole = f"the SRAM of `{arch.name}`" if self.sram_budget is None else "`--sram-budget`"
            raise OptionError(
                f"`--weights-budget` is {self.weights_budget:,} bytes, {whole} only {sram:,}",
                hint="weights and intermediate results share the SRAM budget: lower one or raise the other",
            )
        return sram

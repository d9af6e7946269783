"""What a user may say about a program's memory."""

from dataclasses import dataclass, fields
from enum import Enum

from deuteron.arch.targets import Arch, MemoryKind, Neutron
from deuteron.errors import OptionError
from deuteron.records import Partial

UNLIMITED = 1 << 40
"""A budget of SRAM that nothing exceeds, for callers who check by themselves what there is."""


class FetchPolicy(Enum):
    """Which programs fetch their constants to SRAM; the value is its spelling as an option."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Effort(Enum):
    """How hard the planner tries; the value is its spelling as an option."""

    FAST = "fast"
    EXACT = "exact"


class DepthFirst(Enum):
    """Which programs compute chains of layers some rows at a time; the value is its spelling as an option."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class IoInScratch(Enum):
    """Which programs have their inputs and outputs in scratch; the value is its spelling as an option."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class MemoryOptions(Partial):
    """How a program may use the memories of its target; None leaves the target's figure.

    Attributes:
        fetch_constants_to_sram: which programs fetch weights from flash while kernels run; `AUTO`: those that do not
            fit into SRAM otherwise.
        sram_budget: bytes of SRAM for weights and intermediate results of all partitions and, in a build, for what
            ExecuTorch plans: inputs, outputs and tensors on the CPU.
        weights_budget: bytes of SRAM for weights at most, scratch that takes them while it is free not counted.
        flash_bandwidth: bytes per second that the prefetch schedule is made for.
        effort: how hard the planner tries.
        depth_first: which programs compute chains of layers some rows at a time; `AUTO`: those that do not fit
            otherwise, or are faster so; `ALWAYS`: all, in as little memory as is found.
        io_in_scratch: which programs of one partition alone have inputs and outputs in its scratch, where their memory
            is used for other values, too; `AUTO`: those that run depth first, or do not fit, and gain by it.
    """

    fetch_constants_to_sram: FetchPolicy = FetchPolicy.AUTO
    sram_budget: int | None = None
    weights_budget: int | None = None
    flash_bandwidth: int | None = None
    effort: Effort = Effort.FAST
    depth_first: DepthFirst = DepthFirst.AUTO
    io_in_scratch: IoInScratch = IoInScratch.AUTO

    def __post_init__(self) -> None:
        for name in ("sram_budget", "weights_budget", "flash_bandwidth"):
            value: int | None = getattr(self, name)
            if value is not None and value <= 0:
                raise OptionError(f"`--{name.replace('_', '-')}` is {value}, it must be above 0")
        if self.weights_budget is not None and self.fetch_constants_to_sram is FetchPolicy.NEVER:
            raise OptionError(
                "`--weights-budget` is for weights that are fetched, `--fetch-constants-to-sram never` fetches none",
                hint="leave out one of the two; `--sram-budget` limits intermediate results and weights together",
            )

    def check(self, arch: Arch) -> None:
        """Check that the options mean something for a target, and ask for no more than it has.

        Raises:
            OptionError: naming the option.
        """
        if not isinstance(arch.npu, Neutron):
            for option in fields(self):
                of_cpu = arch.npu is None and option.name in ("sram_budget", "depth_first")
                if getattr(self, option.name) != option.default and not of_cpu:
                    raise self._refused(f"--{option.name.replace('_', '-')}", arch)
            return
        has = arch.memory(MemoryKind.SRAM).size.value
        if self.sram_budget is not None and self.sram_budget > has:
            raise OptionError(
                f"`--sram-budget` is {self.sram_budget:,} bytes, the SRAM of `{arch.name}` only {has:,}",
                hint="give less, or leave it out to use all of it",
            )
        self.sram(arch)

    @staticmethod
    def _refused(option: str, arch: Arch) -> OptionError:
        """The error for an option that means nothing for a target."""
        if arch.npu is None:
            return OptionError(
                f"`{option}` is for an NPU's program, `{arch.name}` has no NPU",
                hint="leave it out, or choose another target: `deuteron targets` lists them",
            )
        return OptionError(
            f"`{option}` is for programs that Deuteron plans, Vela plans those for `{arch.name}`",
            hint="tell Vela by `--memory-mode`, `--optimise` and `--arena-cache-size`",
        )

    def sram(self, arch: Arch) -> int:
        """Bytes of SRAM that a program may use on a target.

        Raises:
            OptionError: when weights alone may use more.
        """
        has = arch.memory(MemoryKind.SRAM).size.value
        sram = has if self.sram_budget is None else self.sram_budget
        if self.weights_budget is not None and self.weights_budget > sram:
            whole = f"the SRAM of `{arch.name}`" if self.sram_budget is None else "`--sram-budget`"
            raise OptionError(
                f"`--weights-budget` is {self.weights_budget:,} bytes, {whole} only {sram:,}",
                hint="weights have their place in the SRAM budget, beside intermediate results: lower the one or raise "
                "the other",
            )
        return sram

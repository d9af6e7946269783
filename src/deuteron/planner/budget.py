"""How much memory a plan may take, and what is fetched from flash."""

from dataclasses import dataclass

from deuteron.arch.engine import Engine, engine
from deuteron.arch.memory import DepthFirst, Effort, FetchPolicy, MemoryOptions
from deuteron.arch.targets import Arch, MemoryKind


@dataclass(frozen=True, slots=True)
class Budget:
    """What a plan may use.

    Attributes:
        engine: rates that the prefetch schedule is made for.
        sram: bytes of SRAM for scratch and for weights.
        weights: bytes of SRAM for weights at most, where they are fetched; None for what scratch leaves of `sram`.
        policy: `AUTO` fetches when scratch and weights together do not fit into `sram`.
        effort: `EXACT` proves what it can.
        target: bytes of SRAM that the target has; None when there is no target.
        beside: what else lies in the same SRAM all the time: bytes, and what has them.
        depth_first: `AUTO` cuts chains of calls into stripes when they do not fit, or are faster so.
        keeps: weights may stay in SRAM from run to run, as a runtime lets them where nothing else uses that memory.
    """

    engine: Engine
    sram: int
    weights: int | None = None
    policy: FetchPolicy = FetchPolicy.AUTO
    effort: Effort = Effort.FAST
    target: int | None = None
    keeps: bool = True
    beside: tuple[tuple[int, str], ...] = ()
    depth_first: DepthFirst = DepthFirst.AUTO

    @property
    def taken(self) -> int:
        """Bytes that lie beside."""
        return sum(nbytes for nbytes, _ in self.beside)


def budget(arch: Arch, options: MemoryOptions) -> Budget:
    """The budget of a target, as far as the options do not set another.

    Raises:
        OptionError: when the options ask for more weights than there is SRAM.
    """
    return Budget(
        engine(arch, flash_bandwidth=options.flash_bandwidth),
        options.sram(arch),
        options.weights_budget,
        options.fetch_constants_to_sram,
        options.effort,
        arch.memory(MemoryKind.SRAM).size.value,
        depth_first=options.depth_first,
    )

"""How much memory a plan may take, and what is fetched from flash."""

from dataclasses import dataclass

from deuteron.arch.engine import Engine, engine
from deuteron.arch.memory import Effort, FetchPolicy, MemoryOptions
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
    """

    engine: Engine
    sram: int
    weights: int | None = None
    policy: FetchPolicy = FetchPolicy.AUTO
    effort: Effort = Effort.FAST


def budget(arch: Arch, options: MemoryOptions) -> Budget:
    """The budget of a target, as far as the options do not set another."""
    sram = arch.memory(MemoryKind.SRAM).size.value if options.sram_budget is None else options.sram_budget
    rates = engine(arch, flash_bandwidth=options.flash_bandwidth)
    return Budget(rates, sram, options.weights_budget, options.fetch_constants_to_sram, options.effort)

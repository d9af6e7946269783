"""How much memory a plan may take, and what is fetched from flash."""

from dataclasses import dataclass
from enum import Enum

from deuteron.arch.engine import Engine


class FetchPolicy(Enum):
    """Which programs fetch their constants to SRAM; the value is its spelling as an option."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Effort(Enum):
    """How hard the planner tries; the value is its spelling as an option."""

    FAST = "fast"
    EXACT = "exact"


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

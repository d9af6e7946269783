"""How much memory a plan may take, and what is fetched from flash."""

from dataclasses import dataclass

from deuteron.arch.engine import Engine
from deuteron.arch.memory import DepthFirst, Effort, FetchPolicy
from deuteron.planner.processor_model import FetchingProcessor


@dataclass(frozen=True, slots=True)
class Budget:
    """What a plan may use.

    Attributes:
        processor: rules and costs of the calls, and the flash that the prefetch schedule is made for.
        sram: bytes of SRAM for scratch and for weights.
        weights: bytes of SRAM for weights at most, where they are fetched; None for what scratch leaves of `sram`.
        policy: `AUTO` fetches when scratch and weights together do not fit into `sram`.
        effort: `EXACT` proves what it can.
        target: bytes of SRAM that the target has; None when there is no target.
        beside: what else lies in the same SRAM all the time: bytes, and what has them.
        depth_first: `AUTO` cuts chains of calls into stripes when they do not fit, or are faster so.
        keeps: weights may stay in SRAM from run to run, as a runtime lets them where nothing else uses that memory.
    """

    processor: FetchingProcessor
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

    @property
    def engine(self) -> Engine:
        """Rates of the processor and of its flash."""
        return self.processor.engine

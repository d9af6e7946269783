"""Memory budget and options of a plan."""

from dataclasses import dataclass

from deuteron.arch.engine import Engine
from deuteron.arch.memory import DepthFirst, Effort, FetchPolicy
from deuteron.planner.processor_model import FetchingProcessor


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits and options of a plan.

    Attributes:
        processor: rules and costs of the calls, and the flash that the prefetch schedule is made for.
        sram: bytes of SRAM for scratch and weights.
        weights: largest prefetch area in bytes; None for what scratch leaves of `sram`.
        policy: `AUTO` fetches when scratch and weights together do not fit into `sram`.
        effort: `EXACT` searches longer and proves optimality where it can.
        target: bytes of SRAM that the target has; None when there is no target.
        other_uses: other permanent contents of the same SRAM: bytes and description.
        depth_first: `AUTO` cuts chains of calls into stripes if they do not fit otherwise, or are faster.
        keep_resident: weights may stay in SRAM from run to run, because nothing else uses that memory.
    """

    processor: FetchingProcessor
    sram: int
    weights: int | None = None
    policy: FetchPolicy = FetchPolicy.AUTO
    effort: Effort = Effort.FAST
    target: int | None = None
    keep_resident: bool = True
    other_uses: tuple[tuple[int, str], ...] = ()
    depth_first: DepthFirst = DepthFirst.AUTO

    @property
    def other_bytes(self) -> int:
        """Bytes of the other contents."""
        return sum(nbytes for nbytes, _ in self.other_uses)

    @property
    def engine(self) -> Engine:
        """Rates of the processor and of its flash."""
        return self.processor.engine

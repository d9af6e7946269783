"""Commands that copy weights from flash to SRAM."""

from dataclasses import dataclass

from deuteron.operators.regions import Place, Region


@dataclass(frozen=True, slots=True)
class Fetch:
    """Start of a copy of `nbytes` bytes from `source` in the weights block to `target` in the prefetch area or scratch.

    A resident fetch may be skipped if an earlier run has left the area intact; fetches to scratch are never resident.
    """

    channel: int
    source: int
    target: int
    nbytes: int
    resident: bool = False
    region: Region = Region.PREFETCH

    @property
    def read(self) -> Place:
        """The source."""
        return Place(Region.WEIGHTS, 0, self.source, self.nbytes)

    @property
    def written(self) -> Place:
        """The destination."""
        return Place(self.region, 0, self.target, self.nbytes)


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for the last fetch on a channel."""

    channel: int


Transfer = Fetch | Wait

"""Commands that bring weights from flash to SRAM."""

from dataclasses import dataclass

from deuteron.operators.regions import Place, Region


@dataclass(frozen=True, slots=True)
class Fetch:
    """Start of a copy of `nbytes` bytes from `source` in the weights block to `target` in the prefetch area or scratch.

    A resident one may be left out while the area is kept as a run before has left it; none to scratch is resident.
    """

    channel: int
    source: int
    target: int
    nbytes: int
    resident: bool = False
    region: Region = Region.PREFETCH

    @property
    def read(self) -> Place:
        """The bytes that are copied."""
        return Place(Region.WEIGHTS, 0, self.source, self.nbytes)

    @property
    def written(self) -> Place:
        """Where they are copied to."""
        return Place(self.region, 0, self.target, self.nbytes)


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for the last fetch on a channel."""

    channel: int


Transfer = Fetch | Wait

"""Published times of silicon beside simulated ones: how far apart they have been, told with every simulated time.

The points stand in `silicon.toml`, by family of NPU. A family without published points has no band.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from deuteron.arch.preset import Table
from deuteron.arch.targets import Arch


@dataclass(frozen=True, slots=True)
class Published:
    """A time that somebody has published of a chip, and what the cycle model says.

    Attributes:
        network: its name in benches/anchor.py.
        title: for people.
        target: a name of a target.
        clock: of the NPU on that chip, in Hz.
        microseconds: quoted.
        cycles: simulated.
        software: that ran it, by its version.
        source: where it was found.
    """

    network: str
    title: str
    target: str
    clock: int
    microseconds: int
    cycles: int
    software: str
    source: str

    @property
    def simulated(self) -> float:
        """Microseconds that the cycle model says."""
        return self.cycles * 1e6 / self.clock

    @property
    def ratio(self) -> float:
        """How many times the simulated time the chip has taken."""
        return self.microseconds / self.simulated


@dataclass(frozen=True, slots=True)
class Band:
    """How many times the simulated time silicon has taken: at least, at most, and by the geometric mean."""

    least: float
    most: float
    mean: float
    points: int

    def __str__(self) -> str:
        return (
            f"silicon has taken {self.least:.2f} to {self.most:.2f} times such times, {self.mean:.2f} by the geometric "
            f"mean of {self.points} published"
        )


def band_of(ratios: Sequence[float]) -> Band:
    """The band of some ratios; there is at least one."""
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return Band(min(ratios), max(ratios), mean, len(ratios))


@cache
def published(family: str) -> tuple[Published, ...]:
    """The points of a family of NPUs, none of one that nobody has published of.

    Raises:
        FormatError: an entry is missing, unknown or of the wrong type.
    """
    return parse((resources.files("deuteron.arch") / "silicon.toml").read_text("utf-8"), family)


def parse(text: str, family: str) -> tuple[Published, ...]:
    """The points of a family in a file's text; FormatError as `published`."""
    table = Table.parse(text, "silicon.toml")
    return tuple(map(_point, table.tables(family))) if table.has(family) else ()


def _point(table: Table) -> Published:
    point = Published(
        network=table.text("network"),
        title=table.text("title"),
        target=table.text("target"),
        clock=table.number("clock"),
        microseconds=table.number("microseconds"),
        cycles=table.number("cycles"),
        software=table.text("software"),
        source=table.text("source"),
    )
    table.finish()
    return point


def band(arch: Arch) -> Band | None:
    """The band of the family of a target's NPU; None where nothing is published, and for a target without one."""
    points = published(arch.npu.family) if arch.npu is not None else ()
    return band_of([point.ratio for point in points]) if points else None

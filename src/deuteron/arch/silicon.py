"""Published times of real chips and simulated ones; every simulated time is reported with their ratio.

`silicon.toml` has the measurements by family of NPU. A family without measurements has no band.
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
    """A published time of a chip, and the cycles of our model.

    Attributes:
        network: its name in benches/published_times.py.
        title: name in reports.
        target: name of the target.
        clock: clock of the NPU on that chip, in Hz.
        microseconds: published time.
        cycles: simulated cycles.
        software: software and version on the chip.
        source: source of the publication.
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
        """Simulated microseconds."""
        return self.cycles * 1e6 / self.clock

    @property
    def ratio(self) -> float:
        """Ratio of the published time to the simulated one."""
        return self.microseconds / self.simulated


@dataclass(frozen=True, slots=True)
class Band:
    """Ratios of published to simulated times: smallest, largest, geometric mean."""

    least: float
    most: float
    mean: float
    points: int

    def __str__(self) -> str:
        return (
            f"real chips took {self.least:.2f} to {self.most:.2f} times the simulated time, {self.mean:.2f} by the "
            f"geometric mean of {self.points} published measurements"
        )


def band_of(ratios: Sequence[float]) -> Band:
    """Return the band of at least one ratio."""
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return Band(min(ratios), max(ratios), mean, len(ratios))


@cache
def published(family: str) -> tuple[Published, ...]:
    """Return the measurements of a family of NPUs.

    Raises:
        FormatError: an entry is missing, unknown or of the wrong type.
    """
    return parse((resources.files("deuteron.arch") / "silicon.toml").read_text("utf-8"), family)


def parse(text: str, family: str) -> tuple[Published, ...]:
    """Parse the measurements of a family; FormatError as `published`."""
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
    """Return the band of a target's NPU; None without measurements or without an NPU."""
    points = published(arch.npu.family) if arch.npu is not None else ()
    return band_of([point.ratio for point in points]) if points else None

"""Compares two profiles: differences in time per row."""

from collections.abc import Iterator
from dataclasses import dataclass

from deuteron.errors import InputError
from deuteron.views.events.events import Measure
from deuteron.views.events.record import Profile
from deuteron.views.events.tables import TABLES, left_out, total
from deuteron.views.events.text import title, unit

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Change:
    """A row of both tables, in microseconds or in counted instructions; None if one has no such row."""

    name: str
    before: float | None
    after: float | None

    @property
    def change(self) -> float:
        """Return the increase from the first to the second."""
        return (self.after or 0.0) - (self.before or 0.0)


@dataclass(frozen=True, slots=True)
class ProfileChanges:
    """The rows of two tables, largest changes first.

    Attributes:
        models: their models.
        places: where they ran.
        left_out: number of CPU operators without times in each.
    """

    by: str
    unit: str
    titles: tuple[str, str]
    totals: tuple[float, float]
    models: tuple[str, str]
    places: tuple[str, str]
    left_out: tuple[int, int]
    changes: tuple[Change, ...]

    def lines(self, top: int | None = None) -> Iterator[str]:
        """Yield the changes as text."""
        digits = ".1f" if self.unit == "us" else ".0f"
        for letter, titled, whole in zip("AB", self.titles, self.totals, strict=True):
            yield f"{letter}: {titled}, {whole:,{digits}} {self.unit}"
        before, after = self.totals
        share = f" ({after / before - 1:+.1%})" if before else ""
        yield f"{after - before:+,{digits}} {self.unit}{share}"
        if self.models[0] != self.models[1]:
            yield f"A is `{self.models[0]}`, B is `{self.models[1]}`: rows of equal name may differ in meaning"
        if self.places[0] != self.places[1]:
            yield f"A ran on {self.places[0]}, B on {self.places[1]}: differences include those of the places"
        if self.left_out[0] != self.left_out[1]:
            yield (
                f"times do not include operators on the CPU, which are not simulated: {self.left_out[0]} in A and "
                f"{self.left_out[1]} in B"
            )
        yield ""
        yield f"{f'A {self.unit}':>12} {f'B {self.unit}':>12} {'change':>12} {self.by}"
        changed = [row for row in self.changes if row.change]
        for row in changed[:top]:
            sides = (f"{'-' if value is None else f'{value:,{digits}}':>12}" for value in (row.before, row.after))
            yield f"{' '.join(sides)} {row.change:>+12,{digits}} {row.name}"
        if others := changed[len(changed) if top is None else top :]:
            # Modules contain each other: their changes must not be summed.
            rest = "" if self.by == "module" else f"{sum(row.change for row in others):+,{digits}}"
            yield f"{'':>25} {rest:>12} [{len(others)} others]"
        yield f"{len(self.changes) - len(changed)} rows are the same in both"

    def to_json(self) -> dict[str, object]:
        """Return the changes as plain values."""
        return {
            "schema": SCHEMA,
            "by": self.by,
            "unit": self.unit,
            "profiles": list(self.titles),
            "totals": list(self.totals),
            "models": list(self.models),
            "places": list(self.places),
            "left_out": list(self.left_out),
            "rows": [
                {"name": row.name, "before": row.before, "after": row.after, "change": row.change}
                for row in self.changes
            ],
        }


def changes(before: Profile, after: Profile, by: str) -> ProfileChanges:
    """Compare two profiles, row by row of the table `by`.

    Raises:
        InputError: their times have different units.
    """
    kinds = [profile.stream.measure.value for profile in (before, after)]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"the first profile is {kinds[0]}, the second {kinds[1]}: their times are not comparable",
            hint="compare two profiles of the same place: `deuteron profile DIR --on PLACE`",
        )
    mine, theirs = (_rows(profile, by) for profile in (before, after))
    names = {row.key: row.name for profile in (after, before) for row in TABLES[by](profile)}
    rows = [Change(names[key], mine.get(key), theirs.get(key)) for key in dict.fromkeys((*mine, *theirs))]
    return ProfileChanges(
        by,
        unit(before),
        (title(before), title(after)),
        (_amount(before, total(before)), _amount(after, total(after))),
        (before.model, after.model),
        (before.on, after.on),
        (left_out(before), left_out(after)),
        tuple(sorted(rows, key=lambda row: -abs(row.change))),
    )


def _rows(profile: Profile, by: str) -> dict[tuple[str, ...], float]:
    """Return the time of each row by its key; rows with one key are summed."""
    times: dict[tuple[str, ...], float] = {}
    for row in TABLES[by](profile):
        times[row.key] = times.get(row.key, 0.0) + _amount(profile, row.ticks)
    return times


def _amount(profile: Profile, ticks: int) -> float:
    return ticks if profile.stream.measure is Measure.COUNTED else profile.stream.clock.microseconds(ticks)

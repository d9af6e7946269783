"""Verifies the prefetch schedule independently of the planner."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from deuteron.errors import InternalError
from deuteron.operators.limits import ALIGNMENT, round_up
from deuteron.operators.program import Program
from deuteron.operators.regions import Place, Region
from deuteron.operators.transfers import Fetch, Transfer
from deuteron.planner.lifetimes import live_ranges

Ints = npt.NDArray[np.int64]

Units = Mapping[str, tuple[Ints, Ints]]
"""First and last call that uses each unit of a buffer; a unit is ALIGNMENT bytes."""


def units_in_use(program: Program) -> Units:
    """Return the units of each buffer in scratch; for units that no call uses, the last call is before the first."""
    sizes = {buffer.name: round_up(buffer.nbytes) // ALIGNMENT for buffer in program.buffers}
    units = {
        name: (np.full(sizes[name], len(program.calls)), np.full(sizes[name], -1)) for name in live_ranges(program)
    }
    for at, call in enumerate(program.calls):
        for ref in call.operands:
            if ref.buffer in units:
                first, last = units[ref.buffer]
                own = slice(ref.offset // ALIGNMENT, round_up(ref.offset + ref.nbytes) // ALIGNMENT)
                first[own] = np.minimum(first[own], at)
                last[own] = at
    for name in units.keys() & set(program.inputs):
        units[name][0][:] = 0
    for name in units.keys() & set(program.outputs):
        units[name][1][:] = len(program.calls) - 1
    return units


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A fetch, the call that it precedes, and the last call that reads its bytes; all calls if it is resident."""

    fetch: Fetch
    first: int
    last: int

    def overlaps(self, first: int, last: int, place: Place) -> bool:
        """Return True if the fetch overlaps bytes that are in use from call `first` to call `last`."""
        return self.first <= last and first <= self.last and self.fetch.written.overlaps(place)

    def overlaps_units(self, first: Ints, last: Ints, place: Place) -> bool:
        """Return True if the fetch overlaps a unit of the buffer while both are in use; see `units_in_use`."""
        low = max((self.fetch.written.offset - place.offset) // ALIGNMENT, 0)
        high = (self.fetch.written.offset + self.fetch.written.nbytes - place.offset) // ALIGNMENT
        return high > low and bool(np.any((first[low:high] <= self.last) & (last[low:high] >= self.first)))


def check_fetches(
    program: Program,
    placements: Mapping[str, Place],
    constants: Mapping[str, int],
    transfers: Mapping[int, tuple[Transfer, ...]],
    units: Units,
) -> None:
    """Check that fetches overlap neither each other nor buffers of scratch, and that constants are where they are read.

    Args:
        program: the calls.
        placements: place of each buffer.
        constants: offset of each constant in the weights image.
        transfers: fetches and waits by the call that they precede.
        units: the result of `units_in_use`.

    Raises:
        InternalError: naming the fetches and buffer that overlap, or the constant.
    """
    if not transfers:
        return
    fetches = list(_fetches(program, placements, constants, transfers))
    for a, b in combinations(fetches, 2):
        if a.overlaps(b.first, b.last, b.fetch.written):
            raise InternalError(f"fetches before call {a.first} and call {b.first} overlap while both are in use")
    to_scratch = [fetched for fetched in fetches if fetched.fetch.region is Region.SCRATCH]
    for name, (first, last) in units.items():
        begins, ends = first.min(initial=len(program.calls)), last.max(initial=-1)
        for fetched in to_scratch:
            is_live = fetched.first <= ends and begins <= fetched.last
            if is_live and fetched.overlaps_units(first, last, placements[name]):
                what = f"buffer `{name}` and the fetch before call {fetched.first}"
                raise InternalError(f"{what} overlap while both are in use")


def _reads(program: Program, constants: Mapping[str, int]) -> dict[str, list[int]]:
    """Return the calls that read each constant."""
    reads: dict[str, list[int]] = {}
    for at, call in enumerate(program.calls):
        for ref in call.operands:
            if ref.buffer in constants:
                reads.setdefault(ref.buffer, []).append(at)
    return reads


def _fetches(
    program: Program,
    placements: Mapping[str, Place],
    constants: Mapping[str, int],
    transfers: Mapping[int, tuple[Transfer, ...]],
) -> Iterator[_Fetched]:
    """Yield each fetch with its calls; InternalError for a constant that is read before it is fetched."""
    waiting = _reads(program, constants)
    names = sorted(waiting, key=constants.__getitem__)
    sources = [constants[name] for name in names]
    for call in sorted(transfers, reverse=True):
        for fetch in reversed(transfers[call]):
            if isinstance(fetch, Fetch):
                first, last = (0, len(program.calls)) if fetch.resident else (call, call)
                end = fetch.source + fetch.nbytes
                for name in names[bisect_left(sources, fetch.source) : bisect_left(sources, end)]:
                    at = Place(fetch.region, 0, fetch.target + constants[name] - fetch.source, placements[name].nbytes)
                    if placements[name] == at and constants[name] + at.nbytes <= end:
                        last = max(last, *(read for read in waiting[name] if read >= call), call)
                        waiting[name] = [read for read in waiting[name] if read < call]
                yield _Fetched(fetch, first, last)
    for name, calls in waiting.items():
        if calls:
            raise InternalError(f"constant `{name}` is read by call {calls[0]}, and not fetched to its place before")

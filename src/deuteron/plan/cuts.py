"""How finely calls are cut: small pieces leave room for what comes next, but each costs the CPU another call."""

from dataclasses import dataclass, replace

from deuteron.arch.engine import Engine
from deuteron.arch.memory import Effort
from deuteron.kernels.program import Program
from deuteron.plan.prefetch import Prefetch, costs_of, prefetch, proven
from deuteron.plan.slices import cut, whole_name

SHARES = (1, 2, 4, 8, 16, 32, 64)
"""A piece has at most one part in so many of the area."""

FINALISTS = {Effort.FAST: 2, Effort.EXACT: 3}
"""Cuts that are looked at closely."""

ROUNDS = 3
"""How often pieces of calls whose weights are all resident are put together again."""

PROOF_EFFORT = 5.0
"""Limit of the solver per finalist, in its deterministic time."""


@dataclass(frozen=True, slots=True)
class Fetching:
    """A program whose calls may have been cut, and how its constants are fetched.

    Attributes:
        most: bytes of weights of a piece.
        program: the pieces.
        prefetch: the plan for them.
    """

    most: int
    program: Program
    prefetch: Prefetch

    @property
    def cycles(self) -> int:
        """Of a run."""
        return self.prefetch.schedule.cycles


def fetching(program: Program, engine: Engine, area: int, effort: Effort) -> Fetching | None:
    """The fastest that is found in an area of `area` bytes; None when not even the smallest pieces fit."""
    computing = sum(costs_of(program, (), engine).calls)
    cuts: dict[int, Fetching] = {}
    for most in (*(area // share for share in SHARES), 0):
        pieces = cut(program, most)
        if len(pieces.calls) not in cuts and (most > 0 or not cuts):
            found = prefetch(pieces, engine, area, improve=False)
            if found is not None:
                cuts[len(pieces.calls)] = Fetching(most, pieces, found)
                if found.schedule.cycles <= computing:
                    break  # nothing waits, and pieces take no less time than the call that they are cut from
    best = sorted(cuts.values(), key=lambda found: found.cycles)[: FINALISTS[effort]]
    finalists = [_improved(program, found, engine, area) for found in best]
    if effort is Effort.EXACT:
        finalists = [
            replace(found, prefetch=proven(found.program, found.prefetch, engine, area, PROOF_EFFORT))
            for found in finalists
        ]
    return min(finalists, key=lambda found: found.cycles, default=None)


def _improved(program: Program, found: Fetching, engine: Engine, area: int) -> Fetching:
    """The same cut looked at closely, but for calls whose weights stay in place: these are not cut."""
    names = {buffer.name for buffer in program.buffers}
    for _ in range(ROUNDS):
        kept = {name for index in found.prefetch.resident for name in found.prefetch.chunks[index].buffers}
        streamed = {b.name for b in found.program.buffers if b.data is not None} - kept
        whole = {whole_name(name, names) for name in kept} - {whole_name(name, names) for name in streamed}
        pieces = cut(program, found.most, whole)
        again = prefetch(pieces, engine, area, kept | whole)
        if again is None or again.schedule.cycles >= found.cycles:
            break
        found = Fetching(found.most, pieces, again)
    return found

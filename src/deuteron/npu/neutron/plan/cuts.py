"""How finely calls are cut: small pieces leave room for what comes next, but each costs the CPU another call."""

from dataclasses import dataclass, replace

from deuteron.arch.engine import Engine
from deuteron.arch.memory import Effort
from deuteron.npu.neutron.kernels.program import Program
from deuteron.npu.neutron.plan.chunks import chunks
from deuteron.npu.neutron.plan.prefetch import Prefetch, costs_of, prefetch, proven
from deuteron.npu.neutron.plan.slices import Pieces, cut, unshared

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
        pieces: the calls.
        prefetch: the plan for them.
    """

    most: int
    pieces: Pieces
    prefetch: Prefetch

    @property
    def program(self) -> Program:
        """The pieces as a program."""
        return self.pieces.program

    @property
    def cycles(self) -> int:
        """Of a run."""
        return self.prefetch.schedule.cycles


def fetching(program: Program, engine: Engine, area: int, effort: Effort, *, keeps: bool = True) -> Fetching | None:
    """The fastest that is found in an area of `area` bytes; None when not even the smallest pieces fit.

    Args:
        program: the calls.
        engine: what they and transfers take.
        area: bytes for all constants.
        effort: `EXACT` proves what it can.
        keeps: the area keeps its content from run to run.
    """
    if sum(chunk.nbytes for chunk in chunks(program)) > area:
        program = unshared(program)
    computing = sum(costs_of(program, (), engine).calls)
    cuts: dict[int, Fetching] = {}
    for most in (*(area // share for share in SHARES), 0):
        pieces = cut(program, most)
        # Cuts into as many pieces are the same, but for where two calls trade pieces.
        count = len(pieces.program.calls)
        if count not in cuts and (most > 0 or not cuts):
            prefetched = prefetch(pieces.program, engine, area, keeps=keeps, improve=False)
            if prefetched is not None:
                cuts[count] = Fetching(most, pieces, prefetched)
                if prefetched.schedule.cycles <= computing:
                    break  # nothing waits, and pieces take no less time than the call that they are cut from
    best = sorted(cuts.values(), key=lambda candidate: candidate.cycles)[: FINALISTS[effort]]
    finalists = [_improved(program, candidate, engine, area, keeps=keeps) for candidate in best]
    if effort is Effort.EXACT:
        finalists = [
            replace(
                candidate,
                prefetch=proven(candidate.program, candidate.prefetch, engine, area, PROOF_EFFORT, keeps=keeps),
            )
            for candidate in finalists
        ]
    return min(finalists, key=lambda candidate: candidate.cycles, default=None)


def _improved(program: Program, coarse: Fetching, engine: Engine, area: int, *, keeps: bool) -> Fetching:
    """The same cut looked at closely, but for calls whose weights stay in place: these are not cut."""
    for _ in range(ROUNDS):
        kept = {name for index in coarse.prefetch.resident for name in coarse.prefetch.chunks[index].buffers}
        streamed = {b.name for b in coarse.program.buffers if b.data is not None} - kept
        origin = coarse.pieces.whole
        whole = {origin.get(name, name) for name in kept} - {origin.get(name, name) for name in streamed}
        pieces = cut(program, coarse.most, whole)
        again = prefetch(pieces.program, engine, area, kept | whole, keeps=keeps)
        if again is None or again.schedule.cycles >= coarse.cycles:
            break
        coarse = Fetching(coarse.most, pieces, again)
    return coarse

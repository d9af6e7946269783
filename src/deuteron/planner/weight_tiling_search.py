"""How finely calls are cut: small pieces leave room for what comes next, but each costs the CPU another call."""

from dataclasses import dataclass, replace

from deuteron.arch.engine import Engine
from deuteron.arch.memory import Effort
from deuteron.npu.neutron.kernels.program import Program
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.packing import Packing, kept
from deuteron.planner.reserved_intervals import NO_SCRATCH, Scratch, scratch_of
from deuteron.planner.weight_chunks import chunks
from deuteron.planner.weight_residency import Prefetch, costs_of, prefetch, proven
from deuteron.planner.weight_tiling import Pieces, cut, unshared

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
        most: bytes of weights of a piece, of all calls alike or of each.
        pieces: the calls.
        prefetch: the plan for them.
    """

    most: int | tuple[int, ...]
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


def fetching(
    program: Program, engine: Engine, area: int, effort: Effort, packed: Packing | None = None, *, keeps: bool = True
) -> Fetching | None:
    """The fastest that is found in an area of `area` bytes; None when not even the smallest pieces fit.

    Args:
        program: the calls.
        engine: what they and transfers take.
        area: bytes for constants alone.
        effort: `EXACT` proves what it can.
        packed: scratch, where constants that do not stay may lie, too, while nothing else does; None for none.
        keeps: the area keeps its content from run to run.
    """
    if sum(chunk.nbytes for chunk in chunks(program)) > area:
        program = unshared(program)
    computing = sum(costs_of(program, (), engine).calls)
    cuts: dict[int, Fetching] = {}
    free = beside(program, packed).free(len(program.calls))
    rooms = ([area] * len(free), [area + nbytes for nbytes in free]) if any(free) else ([area] * len(free),)
    for most in (*(tuple(nbytes // share for nbytes in room) for room in rooms for share in SHARES), 0):
        pieces = cut(program, most)
        # Cuts into as many pieces are the same, but for where two calls trade pieces.
        count = len(pieces.program.calls)
        if count not in cuts and (most != 0 or not cuts):
            scratch = beside(pieces.program, packed)
            prefetched = prefetch(pieces.program, engine, area, scratch=scratch, keeps=keeps, improve=False)
            if prefetched is not None:
                cuts[count] = Fetching(most, pieces, prefetched)
                if prefetched.schedule.cycles <= computing:
                    break  # nothing waits, and pieces take no less time than the call that they are cut from
    best = sorted(cuts.values(), key=lambda candidate: candidate.cycles)[: FINALISTS[effort]]
    finalists = [_improved(program, candidate, engine, area, packed, keeps=keeps) for candidate in best]
    if effort is Effort.EXACT:
        finalists = [
            replace(
                candidate,
                prefetch=proven(
                    candidate.program,
                    candidate.prefetch,
                    engine,
                    PROOF_EFFORT,
                    beside(candidate.program, packed),
                    keeps=keeps,
                ),
            )
            for candidate in finalists
        ]
    return min(finalists, key=lambda candidate: candidate.cycles, default=None)


def beside(program: Program, packed: Packing | None) -> Scratch:
    """Scratch of a program in pieces, packed as that of the whole program."""
    return NO_SCRATCH if packed is None else scratch_of(kept(lifetimes(program), packed).offsets)


def _improved(
    program: Program, coarse: Fetching, engine: Engine, area: int, packed: Packing | None, *, keeps: bool
) -> Fetching:
    """The same cut looked at closely, but for calls whose weights stay in place: these are not cut."""
    for _ in range(ROUNDS):
        stays = {name for index in coarse.prefetch.resident for name in coarse.prefetch.chunks[index].buffers}
        streamed = {b.name for b in coarse.program.buffers if b.data is not None} - stays
        origin = coarse.pieces.whole
        whole = {origin.get(name, name) for name in stays} - {origin.get(name, name) for name in streamed}
        pieces = cut(program, coarse.most, whole)
        scratch = beside(pieces.program, packed)
        again = prefetch(pieces.program, engine, area, stays | whole, scratch, keeps=keeps)
        if again is None or again.schedule.cycles >= coarse.cycles:
            break
        coarse = Fetching(coarse.most, pieces, again)
    return coarse

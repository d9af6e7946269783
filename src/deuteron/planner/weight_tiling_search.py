"""Chooses the tile size of weights: small tiles leave memory for the next fetch, but each costs a call."""

from dataclasses import dataclass, replace

from deuteron.arch.memory import Effort
from deuteron.operators.program import Program
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.packing import Packing, transfer_offsets
from deuteron.planner.processor_model import FetchingProcessor
from deuteron.planner.reserved_intervals import NO_SCRATCH, Scratch, scratch_of
from deuteron.planner.weight_chunks import chunks
from deuteron.planner.weight_residency import Prefetch, costs_of, prefetch, prove
from deuteron.planner.weight_tiling import Pieces, tile, unshare_constants

SHARES = (1, 2, 4, 8, 16, 32, 64)
"""Tile sizes as fractions of the area: one over each of these."""

FINALISTS = {Effort.FAST: 2, Effort.EXACT: 3}
"""Number of tilings whose prefetch plan is improved."""

ROUNDS = 3
"""Rounds in which calls whose weights are all resident are made whole again."""

PROOF_EFFORT = 5.0
"""Limit of the solver per finalist, in its deterministic time."""


@dataclass(frozen=True, slots=True)
class TiledProgram:
    """A program with tiled calls and its prefetch plan.

    Attributes:
        most: bytes of weights of a piece, for all calls or for each.
        pieces: the tiled calls.
        prefetch: the prefetch plan.
    """

    most: int | tuple[int, ...]
    pieces: Pieces
    prefetch: Prefetch

    @property
    def program(self) -> Program:
        """The tiled program."""
        return self.pieces.program

    @property
    def cycles(self) -> int:
        """Cycles of a run."""
        return self.prefetch.schedule.cycles


def tile_weights(
    program: Program,
    processor: FetchingProcessor,
    area: int,
    effort: Effort,
    packed: Packing | None = None,
    *,
    keep_resident: bool = True,
) -> TiledProgram | None:
    """Return the fastest tiling that is found for an area of `area` bytes, or None if the smallest tiles do not fit.

    Args:
        program: the calls.
        processor: costs of calls and fetches.
        area: bytes of the prefetch area.
        effort: `EXACT` proves what it can.
        packed: packing of scratch, whose free intervals may hold weights; None to use the area only.
        keep_resident: whether the area keeps its content from run to run.
    """
    if sum(chunk.nbytes for chunk in chunks(program)) > area:
        program = unshare_constants(program)
    computing = sum(costs_of(program, (), processor).calls)
    cuts: dict[int, TiledProgram] = {}
    free = tiled_scratch(program, packed).free(len(program.calls))
    sizes = ([area] * len(free), [area + nbytes for nbytes in free]) if any(free) else ([area] * len(free),)
    for most in (*(tuple(nbytes // share for nbytes in own) for own in sizes for share in SHARES), 0):
        pieces = tile(program, most)
        # Tilings with equal numbers of pieces are almost always the same.
        count = len(pieces.program.calls)
        if count not in cuts and (most != 0 or not cuts):
            scratch = tiled_scratch(pieces.program, packed)
            prefetched = prefetch(
                pieces.program, processor, area, scratch=scratch, keep_resident=keep_resident, improve=False
            )
            if prefetched is not None:
                cuts[count] = TiledProgram(most, pieces, prefetched)
                if prefetched.schedule.cycles <= computing:
                    break  # no call waits, and tiles are no faster than whole calls
    best = sorted(cuts.values(), key=lambda candidate: candidate.cycles)[: FINALISTS[effort]]
    finalists = [
        _improved(program, candidate, processor, area, packed, keep_resident=keep_resident) for candidate in best
    ]
    if effort is Effort.EXACT:
        finalists = [
            replace(
                candidate,
                prefetch=prove(
                    candidate.program,
                    candidate.prefetch,
                    processor,
                    PROOF_EFFORT,
                    tiled_scratch(candidate.program, packed),
                    keep_resident=keep_resident,
                ),
            )
            for candidate in finalists
        ]
    return min(finalists, key=lambda candidate: candidate.cycles, default=None)


def tiled_scratch(program: Program, packed: Packing | None) -> Scratch:
    """Return the scratch of a tiled program with the packing of the whole program."""
    return NO_SCRATCH if packed is None else scratch_of(transfer_offsets(lifetimes(program), packed).offsets)


def _improved(
    program: Program,
    coarse: TiledProgram,
    processor: FetchingProcessor,
    area: int,
    packed: Packing | None,
    *,
    keep_resident: bool,
) -> TiledProgram:
    """Improve the prefetch plan of a tiling, without tiling calls whose weights are resident."""
    for _ in range(ROUNDS):
        stays = {name for index in coarse.prefetch.resident for name in coarse.prefetch.chunks[index].buffers}
        streamed = {b.name for b in coarse.program.buffers if b.data is not None} - stays
        origin = coarse.pieces.whole
        whole = {origin.get(name, name) for name in stays} - {origin.get(name, name) for name in streamed}
        pieces = tile(program, coarse.most, whole)
        scratch = tiled_scratch(pieces.program, packed)
        candidate = prefetch(pieces.program, processor, area, stays | whole, scratch, keep_resident=keep_resident)
        if candidate is None or candidate.schedule.cycles >= coarse.cycles:
            break
        coarse = TiledProgram(coarse.most, pieces, candidate)
    return coarse

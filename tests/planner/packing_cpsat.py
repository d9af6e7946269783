"""Packing blocks with a constraint solver: rectangles of fixed time and free address that may not overlap.

For where the library of search.py is not built, and what that one is tested against.
"""

from collections.abc import Mapping, Sequence

from ortools.sat.python import cp_model

from deuteron.operators.limits import ALIGNMENT, round_up
from deuteron.planner.lifetimes import Lifetime


def pack(
    blocks: Sequence[Lifetime], start: Mapping[Lifetime, int], bound: int, effort: float
) -> tuple[dict[Lifetime, int], bool]:
    """The smallest packing found, and whether nothing is smaller; at worst `start`.

    Args:
        blocks: what to pack.
        start: a packing to begin with.
        bound: bytes that no packing is smaller than.
        effort: limit in the solver's deterministic time.
    """
    model = cp_model.CpModel()
    end = max(start[block] + round_up(block.nbytes) for block in blocks) // ALIGNMENT
    peak = model.new_int_var(bound // ALIGNMENT, end, "peak")
    spans: list[cp_model.IntervalVar] = []
    extents: list[cp_model.IntervalVar] = []
    offsets: dict[Lifetime, cp_model.IntVar] = {}
    for index, block in enumerate(blocks):
        size = round_up(block.nbytes) // ALIGNMENT
        offset = offsets[block] = model.new_int_var(0, end - size, f"offset {index}")
        spans.append(model.new_fixed_size_interval_var(block.first, block.last + 1 - block.first, f"span {index}"))
        extents.append(model.new_fixed_size_interval_var(offset, size, f"extent {index}"))
        model.add(offset + size <= peak)
        model.add_hint(offset, start[block] // ALIGNMENT)
    model.add_no_overlap_2d(spans, extents)
    model.add_cumulative(spans, [round_up(block.nbytes) // ALIGNMENT for block in blocks], peak)
    model.minimize(peak)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = effort
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return dict(start), False
    return {block: solver.value(offset) * ALIGNMENT for block, offset in offsets.items()}, status == cp_model.OPTIMAL

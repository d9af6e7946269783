"""Lower bound of prefetch schedules by constraint programming (OR-tools CP-SAT), and the choices that reach it.

The model has constraints that every schedule obeys, and relaxes the others: the number of channels, the order of
transfers, and addresses unless requested. So its minimum is a lower bound:

- A chunk is either resident or fetched once: issued between two calls, at the latest before the first that reads it.
- A call starts after the previous call, and after the CPU has started the fetches that are issued between the two.
- Resident chunks, and others from their issue to the last call that reads them, fit into the area plus the unused bytes
  of scratch. Resident chunks fit into the area.
- There is one flash. Chunks that are issued after call k and needed by call i are transferred one after the other
  between the end of k and the start of i, after the setup of the first.
- With addresses: chunks that are in the area at the same time do not overlap, and resident ones are at its start. Only
  if nothing is fetched to scratch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add

from ortools.sat.python import cp_model

from deuteron.operators.limits import ALIGNMENT
from deuteron.planner.prefetch_schedule import FetchCosts, Issue, Schedule
from deuteron.planner.reserved_intervals import NO_SCRATCH, Scratch
from deuteron.planner.weight_chunks import Chunk


@dataclass(frozen=True, slots=True)
class Solution:
    """Result of the solver.

    Attributes:
        bound: lower bound in cycles of all schedules.
        resident: the resident chunks.
        issues: for each other chunk the call that its fetch precedes; ascending, then in order of first use.
        offsets: their addresses, if these were requested.
    """

    bound: int
    resident: frozenset[int]
    issues: Mapping[int, int]
    offsets: Mapping[int, int]


def solve(
    chunks: Sequence[Chunk],
    costs: FetchCosts,
    area: int,
    start: tuple[frozenset[int], Schedule],
    effort: float,
    scratch: Scratch = NO_SCRATCH,
    *,
    keep_resident: bool = True,
    addresses: bool = False,
) -> Solution | None:
    """Return the best choices that the solver finds, or None if it finds none in time.

    Args:
        chunks: the chunks in order of first use.
        costs: cycles of calls and transfers.
        area: bytes of the prefetch area.
        start: resident chunks and schedule of the best known plan.
        effort: limit in the solver's deterministic time.
        scratch: free intervals for chunks that are not resident.
        keep_resident: whether chunks can be resident.
        addresses: also find addresses, which takes longer.
    """
    model = _Model(chunks, costs, area, start[1].cycles, scratch)
    if not keep_resident:
        model.stream_all()
    offsets = model.addresses(area) if addresses else dict[int, cp_model.IntVar]()
    model.hint(*start, offsets)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_deterministic_time = effort
    if solver.solve(model.model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    last = {j: sum(map(solver.boolean_value, pending)) - 1 for j, pending in enumerate(model.pending)}
    issues = {j: last[j] for j in sorted(last, key=lambda j: (last[j], j)) if last[j] >= 0}
    return Solution(
        round(solver.best_objective_bound),
        frozenset(last.keys() - issues.keys()),
        issues,
        {j: solver.value(offset) * ALIGNMENT for j, offset in offsets.items() if j in issues},
    )


class _Model:
    """Constraint model; `pending[j][k]` is true if chunk j is fetched, and issued before call k or later."""

    def __init__(self, chunks: Sequence[Chunk], costs: FetchCosts, area: int, most: int, scratch: Scratch) -> None:
        self.model = cp_model.CpModel()
        self._chunks, self._costs = chunks, costs
        self._zero = self.model.new_constant(0)
        self.pending = [
            [self.model.new_bool_var(f"chunk {j} from {k}") for k in range(chunk.first + 1)]
            for j, chunk in enumerate(chunks)
        ]
        for earlier, later in (pair for own in self.pending for pair in pairwise(own)):
            self.model.add_implication(later, earlier)
        starts, ends = self._calls(most)
        for call, free in enumerate(scratch.free(len(costs.calls))):
            self._limit_memory(call, area + free)
        if scratch.nbytes:
            sizes = (chunk.nbytes // ALIGNMENT for chunk in chunks)
            stays = (size * (1 - own[0]) for size, own in zip(sizes, self.pending, strict=True))
            self.model.add(reduce(add, stays) <= area // ALIGNMENT)
        for call in sorted({chunk.first for chunk in chunks}):
            for after in range(call + 1):
                self._limit_transfers(after, call, ends[after], starts[call])
        self.model.minimize(ends[-1])

    def hint(self, resident: frozenset[int], schedule: Schedule, offsets: Mapping[int, cp_model.IntVar]) -> None:
        """Start the search at a plan."""
        issued = {step.chunk: step for step in schedule.steps if isinstance(step, Issue)}
        for j, own in enumerate(self.pending):
            for k, var in enumerate(own):
                self.model.add_hint(var, j not in resident and issued[j].call >= k)
        for j, offset in offsets.items():
            self.model.add_hint(offset, issued[j].offset // ALIGNMENT)

    def addresses(self, area: int) -> dict[int, cp_model.IntVar]:
        """Return variables for the addresses, in multiples of the alignment: chunks are disjoint rectangles."""
        calls, end = len(self._costs.calls), area // ALIGNMENT
        sizes = [chunk.nbytes // ALIGNMENT for chunk in self._chunks]
        start = reduce(add, (size * (1 - own[0]) for size, own in zip(sizes, self.pending, strict=True)))
        offsets: dict[int, cp_model.IntVar] = {}
        spans: list[cp_model.IntervalVar] = []
        extents: list[cp_model.IntervalVar] = []
        for j, (chunk, own) in enumerate(zip(self._chunks, self.pending, strict=True)):
            first = self.model.new_int_var(0, chunk.first, f"first {j}")
            stop = self.model.new_int_var(chunk.last + 1, calls, f"stop {j}")
            length = self.model.new_int_var(1, calls, f"length {j}")
            self.model.add(first == reduce(add, own[1:], self._zero))  # 0 when it is resident
            self.model.add(stop == chunk.last + 1 + (1 - own[0]) * (calls - chunk.last - 1))
            offset = offsets[j] = self.model.new_int_var(0, end - sizes[j], f"offset {j}")
            self.model.add(offset + end * (1 - own[0]) >= start)
            self.model.add(offset + sizes[j] <= start + end * own[0])
            spans.append(self.model.new_interval_var(first, length, stop, f"span {j}"))
            extents.append(self.model.new_fixed_size_interval_var(offset, sizes[j], f"extent {j}"))
        self.model.add_no_overlap_2d(spans, extents)
        return offsets

    def stream_all(self) -> None:
        """Forbid resident chunks."""
        for own in self.pending:
            self.model.add(own[0] == 1)

    def _from(self, chunk: int, call: int) -> cp_model.IntVar:
        """Return a variable: 1 if the chunk is issued before `call` or later."""
        return self.pending[chunk][call] if call <= self._chunks[chunk].first else self._zero

    def _calls(self, most: int) -> tuple[list[cp_model.IntVar], list[cp_model.LinearExpr]]:
        """Return the start of each call, and the end of the call before each; the last is the end of the program."""
        starts: list[cp_model.IntVar] = []
        ends: list[cp_model.LinearExpr] = [self._zero]
        before, total = 0, sum(self._costs.calls)
        for call, cycles in enumerate(self._costs.calls):
            start = self.model.new_int_var(before, most - total + before, f"start {call}")
            reached = [j for j, chunk in enumerate(self._chunks) if call <= chunk.first]
            fetches = reduce(add, (self._from(j, call) - self._from(j, call + 1) for j in reached), self._zero)
            self.model.add(start >= ends[-1] + fetches * self._costs.setup)
            starts.append(start)
            ends.append(start + cycles)
            before += cycles
        return starts, ends

    def _limit_memory(self, call: int, capacity: int) -> None:
        """Constrain the bytes of chunks in memory or in transfer during a call: those neither issued later nor dead."""
        live: list[cp_model.LinearExpr] = []
        for j, chunk in enumerate(self._chunks):
            absent = self._from(j, call + 1) if call <= chunk.last else self.pending[j][0]
            live.append((1 - absent) * (chunk.nbytes // ALIGNMENT))
        self.model.add(reduce(add, live) <= capacity // ALIGNMENT)

    def _limit_transfers(self, after: int, call: int, end: cp_model.LinearExpr, start: cp_model.IntVar) -> None:
        """Constrain the start of `call`: chunks it needs that are issued at `after` or later are transferred first."""
        needed = [j for j, chunk in enumerate(self._chunks) if after <= chunk.first <= call]
        load = reduce(add, (self._from(j, after) * self._costs.transfers[j] for j in needed))
        for j in needed:
            if self._chunks[j].first == call:
                self.model.add(start >= end + load + self._from(j, after) * self._costs.setup)

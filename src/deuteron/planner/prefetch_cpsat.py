"""The least that any schedule of some chunks takes, by a constraint solver, and the choices that reach it.

The solver sees what every schedule must obey and leaves out the rest (the number of channels, the order of transfers,
and addresses unless it is asked for them), so that nothing can be faster than what it proves:

- A chunk is resident, or fetched once: issued between two calls, no later than right before the first that reads it.
- A call starts after the call before it, and after the CPU has started the fetches that are issued between the two.
- Resident chunks, and all others from the call that they are issued before to the last one that reads them, never
  take more than the bytes of the area, and those of scratch that nothing else uses then. Resident ones fit into the
  area.
- There is one flash. What is issued after call k and needed by call i is transferred after the end of k and before the
  start of i, one after the other; before the first transfer comes the CPU's work to start it.
- With addresses: chunks that are in the area at once do not overlap, and resident ones lie at its start. Only where
  nothing is fetched to scratch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add

from ortools.sat.python import cp_model

from deuteron.npu.neutron.kernels.limits import ALIGNMENT
from deuteron.planner.prefetch_schedule import Costs, Issue, Schedule
from deuteron.planner.reserved_intervals import NO_SCRATCH, Scratch
from deuteron.planner.weight_chunks import Chunk


@dataclass(frozen=True, slots=True)
class Optimum:
    """What the solver found.

    Attributes:
        bound: cycles that no schedule is faster than.
        resident: the chunks that stay in place.
        issues: for each other chunk the call that its fetch is issued before, ascending, then in order of first use.
        offsets: where each of these goes; none unless the solver was asked for addresses.
    """

    bound: int
    resident: frozenset[int]
    issues: Mapping[int, int]
    offsets: Mapping[int, int]


def optimum(
    chunks: Sequence[Chunk],
    costs: Costs,
    area: int,
    start: tuple[frozenset[int], Schedule],
    effort: float,
    scratch: Scratch = NO_SCRATCH,
    *,
    keeps: bool = True,
    addresses: bool = False,
) -> Optimum | None:
    """The choices with the lowest bound that are found from `start` on; None when the solver finds none in time.

    Args:
        chunks: what is needed, in order of first use.
        costs: what calls and transfers take.
        area: bytes for chunks alone.
        start: resident chunks and schedule of the best plan that is known.
        effort: limit in the solver's deterministic time.
        scratch: where chunks that do not stay may lie, too.
        keeps: chunks can be resident.
        addresses: find them, too, which takes longer.
    """
    model = _Model(chunks, costs, area, start[1].cycles, scratch)
    if not keeps:
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
    return Optimum(
        round(solver.best_objective_bound),
        frozenset(last.keys() - issues.keys()),
        issues,
        {j: solver.value(offset) * ALIGNMENT for j, offset in offsets.items() if j in issues},
    )


class _Model:
    """The constraints; `pending[j][k]` says that chunk j is fetched, and issued before call k or later."""

    def __init__(self, chunks: Sequence[Chunk], costs: Costs, area: int, most: int, scratch: Scratch) -> None:
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
            self._room(call, area + free)
        if scratch.nbytes:
            sizes = (chunk.nbytes // ALIGNMENT for chunk in chunks)
            stays = (size * (1 - own[0]) for size, own in zip(sizes, self.pending, strict=True))
            self.model.add(reduce(add, stays) <= area // ALIGNMENT)
        for call in sorted({chunk.first for chunk in chunks}):
            for after in range(call + 1):
                self._load(after, call, ends[after], starts[call])
        self.model.minimize(ends[-1])

    def hint(self, resident: frozenset[int], schedule: Schedule, offsets: Mapping[int, cp_model.IntVar]) -> None:
        """Starts the search at a plan."""
        issued = {step.chunk: step for step in schedule.steps if isinstance(step, Issue)}
        for j, own in enumerate(self.pending):
            for k, var in enumerate(own):
                self.model.add_hint(var, j not in resident and issued[j].call >= k)
        for j, offset in offsets.items():
            self.model.add_hint(offset, issued[j].offset // ALIGNMENT)

    def addresses(self, area: int) -> dict[int, cp_model.IntVar]:
        """Where each chunk lies, in multiples of the alignment: a rectangle of calls and addresses of its own."""
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
        """Keeps nothing from run to run."""
        for own in self.pending:
            self.model.add(own[0] == 1)

    def _from(self, chunk: int, call: int) -> cp_model.IntVar:
        """1 when the chunk is issued before `call` or later."""
        return self.pending[chunk][call] if call <= self._chunks[chunk].first else self._zero

    def _calls(self, most: int) -> tuple[list[cp_model.IntVar], list[cp_model.LinearExpr]]:
        """Start of each call, and the end of the call before each, the program's end last."""
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

    def _room(self, call: int, room: int) -> None:
        """What is in place, or on its way, during a call has room: all but what is issued later or was read before."""
        held: list[cp_model.LinearExpr] = []
        for j, chunk in enumerate(self._chunks):
            absent = self._from(j, call + 1) if call <= chunk.last else self.pending[j][0]
            held.append((1 - absent) * (chunk.nbytes // ALIGNMENT))
        self.model.add(reduce(add, held) <= room // ALIGNMENT)

    def _load(self, after: int, call: int, end: cp_model.LinearExpr, start: cp_model.IntVar) -> None:
        """What is issued before call `after` or later, and needed by `call`, takes its time on the flash in between."""
        needed = [j for j, chunk in enumerate(self._chunks) if after <= chunk.first <= call]
        load = reduce(add, (self._from(j, after) * self._costs.transfers[j] for j in needed))
        for j in needed:
            if self._chunks[j].first == call:
                self.model.add(start >= end + load + self._from(j, after) * self._costs.setup)

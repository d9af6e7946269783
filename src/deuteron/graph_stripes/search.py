"""Chooses the segments of a TFLite model to cut, their stripes, and the rows to keep, for a limit of live bytes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from deuteron.graph_stripes.liveness import MOVES, Arena, arena_of, live_bytes, roots_of, views_of
from deuteron.graph_stripes.rows import RowGraph, Segment, Stripe, StripesError
from deuteron.graph_stripes.tflite_rows import check_operands, graph_of, nbytes
from deuteron.graph_stripes.tflite_writer import Cut, CutModel, TfliteWriter, cut, trial
from deuteron.tflite.flat_model import FlatModel

KEEP_FROM = (None, 0, 12, 48)
"""Multiply-accumulates per byte of a result from which on its rows are kept; None keeps none."""

_MOST_POINTS = 20
"""Ends of segments that are tried in a run of operators."""

_NUMBERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 112)
"""Numbers of stripes that are tried."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A model within a limit.

    Attributes:
        cut: the model.
        cuts: the segments.
        before: arena of the uncut model.
        after: arena of this one.
    """

    cut: CutModel
    cuts: tuple[Cut, ...]
    before: Arena
    after: Arena


@dataclass(frozen=True, slots=True)
class Tried:
    """One segment cut in one way: live bytes inside it, and its cost in multiply-accumulates and copied bytes."""

    cut: Cut
    live: int
    cost: int


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of stripes, in multiply-accumulates.

    Attributes:
        copied: a byte that is copied.
        operator: an operator that computes, and without `in_place` any operator.
        in_place: slices and concatenations copy nothing, as in Vela's programs; rows that are kept do. Between two
            layers a tensor need not exist as a whole, if nothing else reads it.
    """

    copied: int
    operator: int
    in_place: bool


RUNTIME = Costs(copied=1, operator=1000, in_place=False)
"""A runtime that runs TFLite operators one by one on a CPU."""

VELA = Costs(copied=64, operator=500_000, in_place=True)
"""Vela's program on an Ethos-U, which does about 64 multiply-accumulates per cycle, and copies a byte per cycle.

The cost of an operator is fitted to Vela's estimates of a U-Net in 2 to 16 stripes.
"""

_CASCADED = frozenset(("ADD", "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "MUL", "SUB"))
"""Operators between which Vela keeps only some rows of a tensor."""


class SegmentSearch:
    """The search over segments of a model, which remembers what it has tried.

    Args:
        model: the model.
        costs: of the runtime.
        allowed: operators that may be cut, by index; None for all.
        graph: the model by rows, if it is no TFLite model.
        writer: of stripes for estimates.

    Raises:
        FormatError: an operator lacks operands.
    """

    def __init__(
        self,
        model: FlatModel,
        costs: Costs = RUNTIME,
        allowed: frozenset[int] | None = None,
        *,
        graph: RowGraph | None = None,
        writer: type[TfliteWriter] = TfliteWriter,
    ) -> None:
        self.model, self.costs, self._writer = model, costs, writer
        if graph is None:
            check_operands(model)
            graph = graph_of(model)
        if allowed is not None:
            operators = tuple(op if op and op.at in allowed else None for op in graph.operators)
            graph = replace(graph, operators=operators)
        self.graph: RowGraph = graph
        self.before = arena_of(model)
        self._roots = {**(roots_of(model) if costs.in_place else {}), **views_of(model)}
        self.live = self._live(model)
        self._sizes = {i: 0 if t.has_values else nbytes(t) for i, t in enumerate(model.tensors)}
        self.bounds: dict[Cut, int] = {}
        self.tried: dict[Cut, Tried | None] = {}

    def within(self, limit: int) -> Shrunk | None:
        """Return the model with the least added work whose live bytes are within a limit; None if none is found."""
        cuts = self._cuts(limit, self.live, KEEP_FROM)
        if cuts is None:
            return None
        made = cut(self.model, cuts, graph=self.graph)
        return Shrunk(made, tuple(cuts), self.before, arena_of(made.model))

    def least(self, above: int) -> Shrunk | None:
        """Return the model with the least live bytes that is found, all of them above a limit that is too small."""
        low, high, best = above, self.before.nbytes, None
        while high - low > max(256, low // 64):
            middle = (low + high) // 2
            found = self.within(middle)
            low, high, best = (low, found.after.nbytes, found) if found else (middle, high, best)
        return best

    def _live(self, model: FlatModel) -> Sequence[int]:
        """Return the live bytes of the model or a trial, whose inputs may be in the memory of each other."""
        inputs = {tensor: self._root(tensor) for tensor in model.inputs if tensor in self._roots}
        return live_bytes(model, {**inputs, **(roots_of(model) if self.costs.in_place else {})})

    def _root(self, tensor: int) -> int:
        """Return the tensor whose memory has another one."""
        while tensor in self._roots:
            tensor = self._roots[tensor]
        return tensor

    def _count(self, model: FlatModel) -> int:
        free = MOVES if self.costs.in_place else ()
        return sum(op.name not in free for op in model.operators)

    def single(self, limit: int, thresholds: Sequence[int | None] = KEEP_FROM) -> None:
        """Try every segment alone within a limit, for `proposed`."""
        for first, last in self.segments(limit):
            self._best(first, last, limit, thresholds)

    def proposed(self, combined: Sequence[tuple[Tried, ...]]) -> list[tuple[Tried, ...]]:
        """Return these cuts and all single segments tried; for the same ends those that are Pareto-optimal."""
        singles = ((one,) for one in self.tried.values() if one is not None)
        ordered = sorted(
            (self.expected(each), cost_of(each), at, each) for at, each in enumerate((*combined, *singles))
        )
        least: dict[tuple[tuple[int, int], ...], int] = {}
        kept: list[tuple[Tried, ...]] = []
        for _, cost, _, each in ordered:
            ends = tuple((one.cut.first, one.cut.last) for one in each)
            if cost < least.get(ends, cost + 1):
                kept.append(each)
                least[ends] = cost
        return kept

    def expected(self, segments: Sequence[Tried]) -> int:
        """Return the bytes that Vela is expected to need: inside the segments, and where others exist as a whole."""
        cut = {at for one in segments for at in range(one.cut.first, one.cut.last)}
        outside = (nbytes for at, nbytes in enumerate(self.cascaded) if at not in cut)
        return max(max(outside, default=0), *(one.live for one in segments), 0)

    def fitting(self, limit: int, thresholds: Sequence[int | None] = KEEP_FROM) -> Iterator[tuple[Tried, ...]]:
        """Yield segments of least cost whose live bytes are within a limit; other operators run whole, or cascaded."""
        for live in (self.live, self.cascaded) if self.costs.in_place else (self.live,):
            cuts = self._cuts(limit, live, thresholds)
            if cuts:
                yield tuple(one for cut in cuts if (one := self.tried.get(cut)) is not None)

    @cached_property
    def cascaded(self) -> Sequence[int]:
        """Live bytes at each operator, of tensors that exist as a whole in Vela's cascades."""
        model, operators = self.model, self.model.operators
        readers: dict[int, list[str]] = {}
        for op in operators:
            for tensor in {*op.inputs}:
                readers.setdefault(tensor, []).append(op.name)
        rolled = {
            op.outputs[0]
            for op in operators
            if op.name in _CASCADED
            and len(names := readers.get(op.outputs[0], [])) == 1
            and names[0] in _CASCADED
            and op.outputs[0] not in model.outputs
        }
        empty = tuple(replace(t, shape=(0,)) if i in rolled else t for i, t in enumerate(model.tensors))
        return self._live(replace(model, tensors=empty))

    @cached_property
    def points(self) -> tuple[int, ...]:
        """Positions in the order of operators where few bytes are live: the ends of segments."""
        live, count = self.crossing, len(self.model.operators)
        return tuple(
            at
            for at in range(count + 1)
            if at in (0, count)
            or self.graph.operators[at - 1] is None
            or self.graph.operators[at] is None
            or (live[at] <= live[at - 1] and live[at] <= live[at + 1])
        )

    @cached_property
    def crossing(self) -> tuple[int, ...]:
        """Bytes of rows that are live between operators: written before and read after each position."""
        count = len(self.model.operators)
        written = dict.fromkeys(map(self._root, self.graph.inputs), 0)
        last: dict[int, int] = dict.fromkeys(map(self._root, self.graph.outputs), count)
        for at in range(count):
            written = dict.fromkeys(map(self._root, self.graph.writes[at]), at + 1) | written
            for tensor in map(self._root, self.graph.reads[at]):
                last[tensor] = max(at, last.get(tensor, 0))
        return tuple(
            sum(self._sizes[tensor] for tensor, begin in written.items() if begin <= at <= last.get(tensor, -1))
            for at in range(count + 1)
        )

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield the longest runs of operators that can be cut."""
        begin = 0
        for at, op in enumerate((*self.graph.operators, None)):
            if op is None:
                if at - begin > 1:
                    yield begin, at
                begin = at + 1

    def segments(self, limit: int) -> Iterator[tuple[int, int]]:
        """Yield the segments that hold an operator above the limit."""
        for begin, end in self.runs():
            above = [at for at in range(begin, end) if self.live[at] > limit]
            if not above:
                continue
            points = [at for at in self.points if begin <= at <= end]
            inside = sorted(points, key=lambda at: (self.crossing[at], at))[:_MOST_POINTS]
            inside = sorted({*inside, begin, end})
            for first in inside:
                for last in inside:
                    if last - first > 1 and any(first <= at < last for at in above):
                        yield first, last

    def _cuts(self, limit: int, live: Sequence[int], thresholds: Sequence[int | None]) -> list[Cut] | None:
        """Return the segments of least cost, by the shortest path over positions between operators.

        Operators outside of them have the given live bytes.
        """
        count = len(self.model.operators)
        found: dict[int, list[Tried]] = {}
        for first, last in self.segments(limit):
            if (best := self._best(first, last, limit, thresholds)) is not None:
                found.setdefault(last, []).append(best)
        cost: list[float] = [0] + [math.inf] * count
        step: list[Tried | None] = [None] * (count + 1)
        for at in range(1, count + 1):
            if live[at - 1] <= limit:
                cost[at] = cost[at - 1]
            for one in found.get(at, ()):
                if cost[one.cut.first] + one.cost < cost[at]:
                    cost[at], step[at] = cost[one.cut.first] + one.cost, one
        if math.isinf(cost[count]):
            return None
        cuts, at = list[Cut](), count
        while at > 0:
            one = step[at]
            cuts += [one.cut] if one else []
            at = one.cut.first if one else at - 1
        return cuts[::-1]

    def _best(self, first: int, last: int, limit: int, thresholds: Sequence[int | None]) -> Tried | None:
        """Return the way of least cost to cut a segment within a limit.

        With more stripes less is live, and more is computed or copied: for each choice of kept rows the first
        number of stripes that fits is taken.
        """
        segment = self.graph.segment(first, last)
        if segment is None or self._outside(segment, first, last) > limit:
            return None
        best: Tried | None = None
        for threshold in thresholds:
            for way in ways(segment, first, last, kept_from(segment, threshold)):
                one = self._try(segment, way, limit)
                if one is not None and one.live <= limit:
                    best = one if best is None or one.cost < best.cost else best
                    break
        return best

    def _outside(self, segment: Segment, first: int, last: int) -> int:
        """Return a lower bound of the live bytes of a cut segment: its outputs with their parts, and what stays."""
        outputs = sum(self._sizes[tensor] for tensor in segment.outputs)
        return (outputs if self.costs.in_place else 2 * outputs) + self._through(first, last)

    def _through(self, first: int, last: int) -> int:
        """Return the bytes that are live from before a segment to its end."""
        return sum(self._sizes[tensor] for tensor in self._staying(first, last))

    def _staying(self, first: int, last: int) -> frozenset[int]:
        """Return the tensors whose memory is live from before a segment to its end."""
        later = {tensor for reads in self.graph.reads[last:] for tensor in reads} | {*self.graph.outputs}
        before = {*self.graph.inputs, *(tensor for writes in self.graph.writes[:first] for tensor in writes)}
        return frozenset({*map(self._root, before)} & {*map(self._root, later & before)})

    def _bound(self, segment: Segment, stripes: Sequence[Stripe], staying: frozenset[int]) -> int:
        """Return a lower bound of the live bytes inside a segment, and of the tensors that stay live over it.

        Constants and moves in place need no bytes; a tensor that is read twice is there once, as are its views.
        """
        most = done = 0
        inner = {tensor for op in segment.operators for tensor in op.outputs}
        for stripe in stripes:
            for op in segment.operators:
                if (rows := stripe.operators.get(op.at)) is not None:
                    first, last = rows.computed
                    written = (last - first) * sum(segment.row_bytes[tensor] for tensor in op.outputs)
                    read: dict[int, int] = {}
                    for each, (low, high) in zip(op.reads, rows.reads, strict=True):
                        root = each.tensor if each.tensor in inner else self._root(each.tensor)
                        if self._sizes[each.tensor] and root not in staying:
                            read[root] = max(read.get(root, 0), (high - low) * each.window.nbytes)
                    is_moved = self.costs.in_place and self.model.operators[op.at].name in MOVES
                    live = max(written, *read.values(), 0) if is_moved else written + sum(read.values())
                    most = max(most, live + (0 if self.costs.in_place else done))
            done += sum((last - first) * segment.row_bytes[tensor] for tensor, (first, last) in stripe.outputs.items())
        return max(most, done) + sum(self._sizes[tensor] for tensor in staying)

    def _try(self, segment: Segment, way: Cut, limit: int) -> Tried | None:
        """Return a way with its live bytes; None for one that is impossible, or surely above the limit."""
        if way in self.tried:
            return self.tried[way]
        try:
            if way not in self.bounds:
                stripes = segment.stripes(way.height, way.kept)
                self.bounds[way] = self._bound(segment, stripes, self._staying(way.first, way.last))
            if self.bounds[way] > limit:
                return None
            made, work = trial(self.model, self.graph, segment, way, self._writer)
            copied = work.copied if self.costs.in_place else arena_of(made).copied
            added = self._count(made) - (way.last - way.first)
            cost = work.macs + self.costs.copied * copied + self.costs.operator * added
            self.tried[way] = Tried(way, max(self._live(made)), cost)
        except StripesError:
            self.tried[way] = None
        return self.tried[way]


def ways(segment: Segment, first: int, last: int, kept: frozenset[int]) -> Iterator[Cut]:
    """Yield the ways to cut a segment with given rows to keep, fewest stripes first."""
    heights = dict.fromkeys(-(-segment.count // number) for number in _NUMBERS if number <= segment.count)
    return (Cut(first, last, height, kept) for height in heights)


def cost_of(segments: Sequence[Tried]) -> int:
    """Return the cost of segments."""
    return sum(one.cost for one in segments)


def kept_from(segment: Segment, threshold: int | None) -> frozenset[int]:
    """Return the operators whose rows are kept: those with so many multiply-accumulates per byte of their result."""
    if threshold is None:
        return frozenset()
    return frozenset(
        op.at for op in segment.operators if op.macs >= threshold * op.count * max(1, segment.row_bytes[op.outputs[0]])
    )

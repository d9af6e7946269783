"""Cuts chains of calls into stripes of rows that run depth first: some rows of each call in turn, then the next rows.

Buffers between the calls of a chain have only the rows in memory that the next call needs. Rows of overlapping
windows are computed for each stripe, or cached for the next one. The inputs and the output of a chain stay whole.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deuteron.npu.provenance import Stripe
from deuteron.operators.program import Buffer, KernelCall, Program, Ref
from deuteron.operators.row_dependencies import Rows, Rowwise, Window
from deuteron.planner.processor_model import CallModel

_NONE: Rows = (0, 0)

_SWEEPS = 3
"""Passes over the calls that propagate row sizes: backward, forward, backward."""


@dataclass(frozen=True, slots=True)
class Cascade:
    """A chain of calls that runs depth first.

    Attributes:
        first: the first call.
        last: the call after the last.
        height: rows of the chain's output in a stripe.
        cache_halo: rows that the next stripe needs, too, are copied for it, not recomputed.
        refetch_weights: each stripe fetches its constants again, so that they need not stay in SRAM in between.
    """

    first: int
    last: int
    height: int
    cache_halo: bool = False
    refetch_weights: bool = False


@dataclass(frozen=True, slots=True)
class RowRead:
    """An operand that a call reads by rows: from row `start` of its buffer and `within` bytes into it."""

    operand: int
    buffer: str
    window: Window
    start: int
    within: int

    def needs(self, own: Rows) -> Rows:
        """Return the rows of the buffer that output rows `own` depend on."""
        first, last = self.window.rows(*own)
        return first + self.start, last + self.start


@dataclass(frozen=True, slots=True)
class ChainCall:
    """A call of a chain.

    Attributes:
        at: its index in the program.
        call: the whole call.
        rows: how output rows depend on input rows.
        nbytes: bytes of an output row.
        buffer: the output.
        start: row of the buffer at which the output starts.
        within: byte of that row.
        row_reads: the operands that it reads by rows.
    """

    at: int
    call: KernelCall
    rows: Rowwise
    nbytes: int
    buffer: str
    start: int
    within: int
    row_reads: tuple[RowRead, ...]

    def own(self, wanted: Rows) -> Rows:
        """Return the call's own output rows that belong to rows `wanted` of the buffer; empty if first equals last."""
        every, count = self.rows.every, self.rows.count
        first = -((self.start - wanted[0] + self.rows.high - 1) // every)
        last = -((self.start - wanted[1]) // every)
        first = min(max(first, 0), count)
        return first, max(first, min(last, count))


@dataclass(frozen=True, slots=True)
class Chain:
    """Calls that can be cut together.

    Attributes:
        calls: the calls in order.
        inner: bytes per row of each buffer that is never whole in memory.
        exit: the output buffer.
        count: rows of the output buffer.
        grains: number of rows of each written buffer that are computed together; stripes start at multiples.
    """

    calls: tuple[ChainCall, ...]
    inner: Mapping[str, int]
    exit: str
    count: int
    grains: Mapping[str, int]

    @property
    def grain(self) -> int:
        """Stripe heights are multiples of so many rows."""
        return self.grains[self.exit]

    def live_ranges(self) -> Mapping[str, Rows]:
        """Return for each inner buffer the first and last call that uses it, counted from the chain's first."""
        lives: dict[str, Rows] = {}
        for at, link in enumerate(self.calls):
            for name in (link.buffer, *(row_read.buffer for row_read in link.row_reads)):
                if name in self.inner:
                    lives[name] = lives.get(name, (at, at))[0], at
        return lives

    def stripes(self, height: int, *, cache_halo: bool) -> tuple["StripeRows", ...]:
        """Return the stripes of so many output rows, top first; without cached rows if some are read upwards."""
        sets: list[StripeRows] = []
        done: dict[str, int] = {}
        begun: dict[str, int] = {}
        for first in range(0, self.count, height):
            sets.append(self.stripe((first, min(first + height, self.count)), done if cache_halo else {}))
            for name, (low, last) in sets[-1].rows.items():
                if cache_halo and low < begun.get(name, low):  # rows that no earlier stripe has computed
                    return self.stripes(height, cache_halo=False)
                if sets[-1].new[name][0] > done.get(name, -1):
                    begun[name] = sets[-1].new[name][0]
                done[name] = last
        if cache_halo:
            following: dict[str, int] = {}
            for at in reversed(range(len(sets))):
                own = sets[at].rows
                rows = {name: (min(first, following.get(name, first)), last) for name, (first, last) in own.items()}
                kept = {name: (following[name], last) for name, (_, last) in rows.items() if name in following}
                kept = {name: own for name, own in kept.items() if own[0] < own[1]}
                sets[at] = replace(sets[at], rows=rows, kept=kept)
                following |= {name: first for name, (first, _) in rows.items() if name in self.inner}
        return tuple(sets)

    def stripe(self, rows: Rows, done: Mapping[str, int]) -> "StripeRows":
        """Return the stripe of these output rows; rows of each buffer before `done` are cached."""
        wanted, new = {self.exit: rows}, {self.exit: rows}
        for link in reversed(self.calls):
            if link.buffer not in new:
                continue
            own = link.own(new[link.buffer])
            if own[0] == own[1]:
                continue
            for row_read in link.row_reads:
                name = row_read.buffer
                if name in self.inner:
                    first, last = row_read.needs(own)
                    grain = self.grains[name]
                    first, last = first - first % grain, last + -last % grain
                    if name in wanted:
                        first, last = min(first, wanted[name][0]), max(last, wanted[name][1])
                    known = done.get(name, 0)  # cached, for this stripe or a later one
                    wanted[name] = first, max(last, known)
                    new[name] = max(first, known), max(last, known)
        return StripeRows(wanted, new, {})


@dataclass(frozen=True, slots=True)
class StripeRows:
    """The rows of one stripe.

    Attributes:
        rows: rows of each buffer in memory.
        new: those that the stripe computes; earlier ones are cached.
        kept: those that a later stripe needs as well.
    """

    rows: Mapping[str, Rows]
    new: Mapping[str, Rows]
    kept: Mapping[str, Rows]


class RowAnalysis:
    """Rows of the buffers of a program, and its calls that can be part of chains."""

    def __init__(self, program: Program, model: CallModel) -> None:
        self.program = program
        self._model = model
        self.nbytes = _row_sizes(program, model)
        self._sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
        self.chain_calls = [self._link(at, call) for at, call in enumerate(program.calls)]
        self._spans = _spans(program)
        self._callers = {*program.inputs, *program.outputs, *(b.name for b in program.buffers if b.data is not None)}

    def chain(self, first: int, last: int) -> Chain | None:
        """Return the calls `first` up to `last` as a chain, or None if they cannot be cut together."""
        links = [link for link in self.chain_calls[first:last] if link is not None]
        if len(links) < last - first:
            return None
        exit_ = links[-1].buffer
        written = {link.buffer for link in links}
        for name in written - {exit_}:
            inside = first <= self._spans[name][0] and self._spans[name][1] < last
            if not inside or name in self._callers:
                return None
        inner = {name: self.nbytes[name] for name in written - {exit_}}
        if self._spans[exit_][0] < first or not all(self._can_read(link, inner, exit_) for link in links):
            return None
        counts = {name: self._sizes[name] // self.nbytes[name] for name in written}
        grains = dict.fromkeys(written, 1)
        for link in links:
            grains[link.buffer] = math.lcm(grains[link.buffer], link.rows.grain)
        if any(counts[name] % grain for name, grain in grains.items()):
            return None
        return Chain(tuple(links), inner, exit_, counts[exit_], grains)

    def _can_read(self, link: ChainCall, inner: Mapping[str, int], exit_: str) -> bool:
        """Return True if the call reads the chain's buffers by rows only."""
        rows = {row_read.operand: row_read for row_read in link.row_reads}
        for at, ref in enumerate(link.call.operands[: len(link.call.kernel.reads)]):
            if ref.buffer == exit_:
                return False
            if ref.buffer in inner and (at not in rows or rows[at].window.nbytes != inner[ref.buffer]):
                return False
        return True

    def _link(self, at: int, call: KernelCall) -> ChainCall | None:
        """Return the call as part of a chain, or None if its output rows cannot be computed separately."""
        output = call.operands[len(call.kernel.reads)]
        nbytes = self.nbytes.get(output.buffer, 0)
        rows = self._model.rowwise(call.params, nbytes) if nbytes and self._sizes[output.buffer] % nbytes == 0 else None
        if rows is None:
            return None
        start, within = divmod(output.offset, nbytes)
        row = self._model.operand_bytes(rows.narrowed(0, 1))[len(call.kernel.reads)]
        if within + row > rows.high * nbytes or start % rows.grain + rows.high > max(rows.grain, rows.high):
            return None
        row_reads: list[RowRead] = []
        for operand, (ref, window) in enumerate(zip(call.operands, rows.reads, strict=False)):
            if window is not None:
                row_reads.append(RowRead(operand, ref.buffer, window, *divmod(ref.offset, window.nbytes)))
        return ChainCall(at, call, rows, nbytes, output.buffer, start, within, tuple(row_reads))


def _row_sizes(program: Program, model: CallModel) -> dict[str, int]:
    """Return the bytes per row of each buffer, propagated from windows to neighbouring calls; 0 if they conflict."""
    sizes: dict[str, int] = {}

    def set_size(name: str, nbytes: int) -> None:
        if sizes.setdefault(name, nbytes) != nbytes:
            sizes[name] = 0

    for call in program.calls:
        natural = model.natural_rows(call.params)
        rows = None if natural is None else model.rowwise(call.params, natural)
        if natural is not None and rows is not None:
            set_size(call.operands[len(call.kernel.reads)].buffer, natural)
            window = rows.reads[0]
            if window is not None:
                set_size(call.operands[0].buffer, window.nbytes)
    for sweep in range(_SWEEPS):
        for call in program.calls if sweep % 2 else reversed(program.calls):
            _propagate_rows(call, sizes, model)
    return sizes


def _propagate_rows(call: KernelCall, sizes: dict[str, int], model: CallModel) -> None:
    """Propagate the row size of a call's output to its inputs, or that of its first input to its output."""
    output = call.operands[len(call.kernel.reads)].buffer
    candidates = [sizes[ref.buffer] for ref in call.operands if sizes.get(ref.buffer)]
    nbytes = sizes.get(output) or next(iter(candidates), 0)
    rows = model.rowwise(call.params, nbytes) if nbytes else None
    if rows is None:
        return
    sizes.setdefault(output, nbytes)
    for ref, window in zip(call.operands, rows.reads, strict=False):
        if window is not None:
            sizes.setdefault(ref.buffer, window.nbytes)


def _spans(program: Program) -> dict[str, Rows]:
    """Return the first and last call of every buffer."""
    spans: dict[str, Rows] = {}
    for at, call in enumerate(program.calls):
        for ref in call.operands:
            spans[ref.buffer] = spans.get(ref.buffer, (at, at))[0], at
    return spans


def cut_into_stripes(program: Program, cascades: Sequence[Cascade], model: CallModel) -> Program | None:
    """Return the program with these chains cut, or None if the processor does not support a resulting call.

    Args:
        program: calls that are not cut yet.
        cascades: disjoint chains in order.
        model: rules of the calls.
    """
    analysis = RowAnalysis(program, model)
    made = _NewBuffers(program, model)
    calls: list[KernelCall] = []
    at = 0
    for number, cascade in enumerate(cascades):
        chain = analysis.chain(cascade.first, cascade.last)
        if chain is None or cascade.height % chain.grain:
            return None
        calls += program.calls[at : cascade.first]
        at = cascade.last
        cut = _StripeWriter(chain, made, number, refetch_weights=cascade.refetch_weights)
        for stripe in chain.stripes(cascade.height, cache_halo=cascade.cache_halo):
            cut.stripe(stripe)
        if not all(model.supports(call, made.anywhere) for call in cut.calls):
            return None
        calls += cut.calls
    calls += program.calls[at:]
    used = {ref.buffer for call in calls for ref in call.operands} | {*program.inputs, *program.outputs}
    kept = (buffer for buffer in program.buffers if buffer.name in used)
    return replace(program, buffers=(*kept, *made.buffers), calls=tuple(calls))


class _NewBuffers:
    """New buffers of stripes, with unique names."""

    def __init__(self, program: Program, model: CallModel) -> None:
        self.model = model
        self.buffers: list[Buffer] = []
        self.rows: dict[str, Rows] = {}
        self._taken = {buffer.name for buffer in program.buffers}
        self.data = {buffer.name: buffer.data for buffer in program.buffers if buffer.data is not None}
        self.anywhere = {*program.inputs, *program.outputs}

    def new(self, wanted: str, nbytes: int, data: bytes | None = None, part_of: Ref | None = None) -> str:
        """Add a buffer and return its name."""
        name = wanted
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        self.buffers.append(Buffer(name, nbytes, data, part_of))
        return name


class _StripeWriter:
    """Generates the calls of a chain, stripe by stripe."""

    def __init__(self, chain: Chain, made: _NewBuffers, number: int, *, refetch_weights: bool) -> None:
        self._chain, self._made, self._number, self._refetch_weights = chain, made, number, refetch_weights
        self._stripes = 0
        self._kept: dict[str, str] = {}
        self._ends: dict[int, list[str]] = {}
        for name, (_, last) in chain.live_ranges().items():
            self._ends.setdefault(last, []).append(name)
        self.calls: list[KernelCall] = []

    def stripe(self, stripe: StripeRows) -> None:
        """Append the calls of the next stripe."""
        parts = _Parts({}, stripe.rows)
        for at, link in enumerate(self._chain.calls):
            if link.buffer in stripe.rows and link.buffer in self._chain.inner and link.buffer not in parts.names:
                self._begin(link, parts)
            own = link.own(stripe.new.get(link.buffer, _NONE))
            if own[0] < own[1]:
                rows = own[0] * link.rows.grain, own[1] * link.rows.grain
                self._append(
                    link, rows, _call_for_rows(link, own, parts, self._made, refetch_weights=self._refetch_weights)
                )
            for name in self._ends.get(at, ()):
                if name in stripe.kept:
                    self._keep(link, name, parts, stripe.kept[name])
        self._stripes += 1

    def _begin(self, link: ChainCall, parts: "_Parts") -> None:
        """Create the buffer for the stripe's rows of a call's output, and copy cached rows into it."""
        name, nbytes = link.buffer, self._chain.inner[link.buffer]
        parts.names[name] = self._part(name, parts.rows[name])
        kept = self._kept.pop(name, None)
        if kept is not None:
            first, last = self._made.rows[kept]
            source = Ref(kept, 0, (last - first) * nbytes)
            self._copy(link, (first, last), source, parts.at(name, first, nbytes, 0, source.nbytes))

    def _keep(self, link: ChainCall, name: str, parts: "_Parts", rows: Rows) -> None:
        """Cache rows for a later stripe."""
        nbytes = self._chain.inner[name]
        kept = self._kept[name] = self._part(name, rows)
        size = (rows[1] - rows[0]) * nbytes
        writer = next(own for own in self._chain.calls if own.buffer == name)
        self._copy(writer, rows, parts.at(name, rows[0], nbytes, 0, size), Ref(kept, 0, size))

    def _part(self, name: str, rows: Rows) -> str:
        """Add a buffer for some rows of a value."""
        first, last = rows
        nbytes = self._chain.inner[name]
        part = self._made.new(
            f"{name}[{first}:{last}]",
            (last - first) * nbytes,
            part_of=Ref(name, first * nbytes, (last - first) * nbytes),
        )
        self._made.rows[part] = rows
        return part

    def _copy(self, link: ChainCall, rows: Rows, source: Ref, target: Ref) -> None:
        count = rows[1] - rows[0]
        kernel, params = self._made.model.copy(count, source.nbytes // count)
        self._append(link, rows, KernelCall(kernel, (source, target), params, link.call.origin), kept=True)

    def _append(self, link: ChainCall, rows: Rows, call: KernelCall, *, kept: bool = False) -> None:
        self.calls.append(replace(call, stripe=Stripe(self._number, self._stripes, link.at, *rows, kept)))


@dataclass(frozen=True, slots=True)
class _Parts:
    """The buffers of one stripe by the name of the whole buffer, and their rows."""

    names: dict[str, str]
    rows: Mapping[str, Rows]

    def at(self, buffer: str, row: int, nbytes: int, within: int, size: int) -> Ref:
        """Return `size` bytes from byte `within` of a row of `nbytes` bytes, in the stripe's or the whole buffer."""
        if buffer not in self.names:
            return Ref(buffer, row * nbytes + within, size)
        return Ref(self.names[buffer], (row - self.rows[buffer][0]) * nbytes + within, size)


def _call_for_rows(
    link: ChainCall, own: Rows, parts: _Parts, made: _NewBuffers, *, refetch_weights: bool
) -> KernelCall:
    """Return the call that computes output rows `own`."""
    call, params = link.call, link.rows.narrowed(*own)
    sizes, output = made.model.operand_bytes(params), len(call.kernel.reads)
    operands = list(call.operands)
    for at, ref in enumerate(call.operands):
        if at < output and refetch_weights and ref.buffer in made.data:
            data = made.data[ref.buffer][ref.offset : ref.offset + ref.nbytes]
            operands[at] = Ref(made.new(ref.buffer, ref.nbytes, data), 0, ref.nbytes)
        elif at > output:
            operands[at] = Ref(made.new(ref.buffer, sizes[at]), 0, sizes[at])
    for row_read in link.row_reads:
        at, row = row_read.operand, row_read.needs(own)[0]
        operands[at] = parts.at(row_read.buffer, row, row_read.window.nbytes, row_read.within, sizes[at])
    first = link.start + own[0] * link.rows.every
    operands[output] = parts.at(link.buffer, first, link.nbytes, link.within, sizes[output])
    return replace(call, operands=tuple(operands), params=params)

"""Chains of calls cut into stripes of rows, which run depth first: some rows of each call in turn, then the next ones.

What lies between the calls of a chain then never stands in memory as a whole, but only the rows that the next call
needs. Where windows overlap, rows that two stripes need are computed twice. What a chain reads from outside, and what
it leaves behind, stays whole.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deuteron.npu.neutron.kernels.program import Buffer, KernelCall, Program, Ref
from deuteron.npu.neutron.kernels.row_dependencies import Rows, Rowwise, Window
from deuteron.npu.provenance import Stripe
from deuteron.planner.processor_model import NEUTRON, Kernels

_NONE: Rows = (0, 0)

_SWEEPS = 3
"""How often rows are passed on between calls that take those of others: back, forth, and back to what was forth."""


@dataclass(frozen=True, slots=True)
class Cascade:
    """The calls `first` up to `last`, computed depth first, `height` rows of what the last of them writes at a time.

    Attributes:
        first: the first of the calls.
        last: the call after them.
        height: rows of a stripe.
        keeps: rows that the next stripe needs, too, are kept for it, not computed again.
        again: each stripe has constants of its own to fetch, so that they need not stay in SRAM in between.
    """

    first: int
    last: int
    height: int
    keeps: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """An operand of which a call reads rows: `within` bytes into them, from row `start` of its buffer on."""

    operand: int
    buffer: str
    window: Window
    start: int
    within: int

    def needs(self, own: Rows) -> Rows:
        """The rows of the buffer that rows of the call's output depend on."""
        first, last = self.window.rows(*own)
        return first + self.start, last + self.start


@dataclass(frozen=True, slots=True)
class Link:
    """A call of a chain.

    Attributes:
        at: its number in the program.
        call: the whole of it.
        rows: how rows of its output depend on those that it reads.
        nbytes: of a row of its output.
        buffer: what it writes.
        start: row of the buffer at which its output starts.
        within: bytes into a row at which it starts.
        readings: the operands of which it reads rows.
    """

    at: int
    call: KernelCall
    rows: Rowwise
    nbytes: int
    buffer: str
    start: int
    within: int
    readings: tuple[Reading, ...]

    def own(self, wanted: Rows) -> Rows:
        """The call's rows, counted from its first, that some rows of the buffer are of; none where ends meet."""
        every, count = self.rows.every, self.rows.count
        first = -((self.start - wanted[0] + self.rows.high - 1) // every)
        last = -((self.start - wanted[1]) // every)
        first = min(max(first, 0), count)
        return first, max(first, min(last, count))


@dataclass(frozen=True, slots=True)
class Chain:
    """Calls that can be cut together.

    Attributes:
        links: the calls, in order.
        inner: bytes of a row of each buffer that need never be whole.
        exit: the buffer that the chain leaves behind.
        count: rows of it.
        grains: of each buffer that a call writes, how many rows are computed together; stripes start at multiples.
    """

    links: tuple[Link, ...]
    inner: Mapping[str, int]
    exit: str
    count: int
    grains: Mapping[str, int]

    @property
    def grain(self) -> int:
        """Rows of which a stripe's height is a multiple."""
        return self.grains[self.exit]

    def lives(self) -> Mapping[str, Rows]:
        """For each inner buffer the first and the last of the calls, counted from the chain's first, that name it."""
        lives: dict[str, Rows] = {}
        for at, link in enumerate(self.links):
            for name in (link.buffer, *(reading.buffer for reading in link.readings)):
                if name in self.inner:
                    lives[name] = lives.get(name, (at, at))[0], at
        return lives

    def stripes(self, height: int, *, keeps: bool) -> tuple["Rowset", ...]:
        """The stripes of so many rows of the exit, top first; none are kept where some are read upwards."""
        sets: list[Rowset] = []
        done: dict[str, int] = {}
        begun: dict[str, int] = {}
        for first in range(0, self.count, height):
            sets.append(self.rowset((first, min(first + height, self.count)), done if keeps else {}))
            for name, (low, last) in sets[-1].rows.items():
                if keeps and low < begun.get(name, low):  # rows that no stripe before has computed
                    return self.stripes(height, keeps=False)
                if sets[-1].new[name][0] > done.get(name, -1):
                    begun[name] = sets[-1].new[name][0]
                done[name] = last
        if keeps:
            following: dict[str, int] = {}
            for at in reversed(range(len(sets))):
                own = sets[at].rows
                rows = {name: (min(first, following.get(name, first)), last) for name, (first, last) in own.items()}
                kept = {name: (following[name], last) for name, (_, last) in rows.items() if name in following}
                kept = {name: own for name, own in kept.items() if own[0] < own[1]}
                sets[at] = replace(sets[at], rows=rows, kept=kept)
                following |= {name: first for name, (first, _) in rows.items() if name in self.inner}
        return tuple(sets)

    def rowset(self, rows: Rows, done: Mapping[str, int]) -> "Rowset":
        """The stripe of these rows of the exit, where of each buffer the rows before those in `done` are kept."""
        wanted, new = {self.exit: rows}, {self.exit: rows}
        for link in reversed(self.links):
            if link.buffer not in new:
                continue
            own = link.own(new[link.buffer])
            if own[0] == own[1]:
                continue
            for reading in link.readings:
                name = reading.buffer
                if name in self.inner:
                    first, last = reading.needs(own)
                    grain = self.grains[name]
                    first, last = first - first % grain, last + -last % grain
                    if name in wanted:
                        first, last = min(first, wanted[name][0]), max(last, wanted[name][1])
                    known = done.get(name, 0)  # kept, whether this stripe reads it or a later one
                    wanted[name] = first, max(last, known)
                    new[name] = max(first, known), max(last, known)
        return Rowset(wanted, new, {})


@dataclass(frozen=True, slots=True)
class Rowset:
    """The rows of one stripe.

    Attributes:
        rows: of each buffer those that stand in memory.
        new: of these, those that the stripe computes; those before them were kept.
        kept: of these, those that a later stripe needs as well.
    """

    rows: Mapping[str, Rows]
    new: Mapping[str, Rows]
    kept: Mapping[str, Rows]


class Rowed:
    """A program whose buffers have rows, as far as its calls say what these are."""

    def __init__(self, program: Program, kernels: Kernels = NEUTRON) -> None:
        self.program = program
        self._kernels = kernels
        self.nbytes = _row_sizes(program, kernels)
        self._sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
        self.links = [self._link(at, call) for at, call in enumerate(program.calls)]
        self._spans = _spans(program)
        self._callers = {*program.inputs, *program.outputs, *(b.name for b in program.buffers if b.data is not None)}

    def chain(self, first: int, last: int) -> Chain | None:
        """The calls `first` up to `last` as a chain; None where they are none that can be cut."""
        links = [link for link in self.links[first:last] if link is not None]
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

    def _can_read(self, link: Link, inner: Mapping[str, int], exit_: str) -> bool:
        """True where all that the call reads of the chain's buffers are rows of them."""
        rows = {reading.operand: reading for reading in link.readings}
        for at, ref in enumerate(link.call.operands[: len(link.call.kernel.reads)]):
            if ref.buffer == exit_:
                return False
            if ref.buffer in inner and (at not in rows or rows[at].window.nbytes != inner[ref.buffer]):
                return False
        return True

    def _link(self, at: int, call: KernelCall) -> Link | None:
        """The call as one of a chain; None where its output has no rows that could be computed alone."""
        output = call.operands[len(call.kernel.reads)]
        nbytes = self.nbytes.get(output.buffer, 0)
        rows = (
            self._kernels.rowwise(call.params, nbytes) if nbytes and self._sizes[output.buffer] % nbytes == 0 else None
        )
        if rows is None:
            return None
        start, within = divmod(output.offset, nbytes)
        row = self._kernels.operand_bytes(rows.narrowed(0, 1))[len(call.kernel.reads)]
        if within + row > rows.high * nbytes or start % rows.grain + rows.high > max(rows.grain, rows.high):
            return None
        readings: list[Reading] = []
        for operand, (ref, window) in enumerate(zip(call.operands, rows.reads, strict=False)):
            if window is not None:
                readings.append(Reading(operand, ref.buffer, window, *divmod(ref.offset, window.nbytes)))
        return Link(at, call, rows, nbytes, output.buffer, start, within, tuple(readings))


def _row_sizes(program: Program, kernels: Kernels) -> dict[str, int]:
    """Bytes of a row of each buffer: as windows have them, and from these to what lies beside; 0 where they differ."""
    sizes: dict[str, int] = {}

    def says(name: str, nbytes: int) -> None:
        if sizes.setdefault(name, nbytes) != nbytes:
            sizes[name] = 0

    for call in program.calls:
        natural = kernels.natural_rows(call.params)
        rows = None if natural is None else kernels.rowwise(call.params, natural)
        if natural is not None and rows is not None:
            says(call.operands[len(call.kernel.reads)].buffer, natural)
            window = rows.reads[0]
            if window is not None:
                says(call.operands[0].buffer, window.nbytes)
    for sweep in range(_SWEEPS):
        for call in program.calls if sweep % 2 else reversed(program.calls):
            _pass_on(call, sizes, kernels)
    return sizes


def _pass_on(call: KernelCall, sizes: dict[str, int], kernels: Kernels) -> None:
    """Gives what a call reads the rows of its output, and its output those of the first operand that it reads."""
    output = call.operands[len(call.kernel.reads)].buffer
    candidates = [sizes[ref.buffer] for ref in call.operands if sizes.get(ref.buffer)]
    nbytes = sizes.get(output) or next(iter(candidates), 0)
    rows = kernels.rowwise(call.params, nbytes) if nbytes else None
    if rows is None:
        return
    sizes.setdefault(output, nbytes)
    for ref, window in zip(call.operands, rows.reads, strict=False):
        if window is not None:
            sizes.setdefault(ref.buffer, window.nbytes)


def _spans(program: Program) -> dict[str, Rows]:
    """First and last call of every buffer."""
    spans: dict[str, Rows] = {}
    for at, call in enumerate(program.calls):
        for ref in call.operands:
            spans[ref.buffer] = spans.get(ref.buffer, (at, at))[0], at
    return spans


def striped(program: Program, cascades: Sequence[Cascade], kernels: Kernels = NEUTRON) -> Program | None:
    """The program with these calls cut; None where some rows would start where kernels cannot read or write them.

    Nor can rows be apart that are computed together.

    Args:
        program: the calls, not cut before.
        cascades: in order, apart from each other.
        kernels: of the processor that runs them.
    """
    rowed = Rowed(program, kernels)
    made = _Made(program, kernels)
    calls: list[KernelCall] = []
    at = 0
    for number, cascade in enumerate(cascades):
        chain = rowed.chain(cascade.first, cascade.last)
        if chain is None or cascade.height % chain.grain:
            return None
        calls += program.calls[at : cascade.first]
        at = cascade.last
        cut = _Cutter(chain, made, number, again=cascade.again)
        for rowset in chain.stripes(cascade.height, keeps=cascade.keeps):
            cut.stripe(rowset)
        if not all(kernels.takes(call, made.anywhere) for call in cut.calls):
            return None
        calls += cut.calls
    calls += program.calls[at:]
    used = {ref.buffer for call in calls for ref in call.operands} | {*program.inputs, *program.outputs}
    kept = (buffer for buffer in program.buffers if buffer.name in used)
    return replace(program, buffers=(*kept, *made.buffers), calls=tuple(calls))


class _Made:
    """The buffers that stripes need, under names that the program does not have."""

    def __init__(self, program: Program, kernels: Kernels) -> None:
        self.kernels = kernels
        self.buffers: list[Buffer] = []
        self.rows: dict[str, Rows] = {}
        self._taken = {buffer.name for buffer in program.buffers}
        self.data = {buffer.name: buffer.data for buffer in program.buffers if buffer.data is not None}
        self.anywhere = {*program.inputs, *program.outputs}

    def new(self, wanted: str, nbytes: int, data: bytes | None = None, part_of: Ref | None = None) -> str:
        """The name of a new buffer."""
        name = wanted
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        self.buffers.append(Buffer(name, nbytes, data, part_of))
        return name


class _Cutter:
    """Writes the calls of a chain, stripe by stripe."""

    def __init__(self, chain: Chain, made: _Made, number: int, *, again: bool) -> None:
        self._chain, self._made, self._number, self._again = chain, made, number, again
        self._stripes = 0
        self._kept: dict[str, str] = {}
        self._ends: dict[int, list[str]] = {}
        for name, (_, last) in chain.lives().items():
            self._ends.setdefault(last, []).append(name)
        self.calls: list[KernelCall] = []

    def stripe(self, rowset: Rowset) -> None:
        """Appends the calls of the next stripe."""
        parts = _Parts({}, rowset.rows)
        for at, link in enumerate(self._chain.links):
            if link.buffer in rowset.rows and link.buffer in self._chain.inner and link.buffer not in parts.names:
                self._begin(link, parts)
            own = link.own(rowset.new.get(link.buffer, _NONE))
            if own[0] < own[1]:
                rows = own[0] * link.rows.grain, own[1] * link.rows.grain
                self._append(link, rows, _narrowed(link, own, parts, self._made, again=self._again))
            for name in self._ends.get(at, ()):
                if name in rowset.kept:
                    self._keep(link, name, parts, rowset.kept[name])
        self._stripes += 1

    def _begin(self, link: Link, parts: "_Parts") -> None:
        """Makes room for the stripe's rows of what the call writes, and puts those there that were kept."""
        name, nbytes = link.buffer, self._chain.inner[link.buffer]
        parts.names[name] = self._part(name, parts.rows[name])
        kept = self._kept.pop(name, None)
        if kept is not None:
            first, last = self._made.rows[kept]
            source = Ref(kept, 0, (last - first) * nbytes)
            self._copy(link, (first, last), source, parts.at(name, first, nbytes, 0, source.nbytes))

    def _keep(self, link: Link, name: str, parts: "_Parts", rows: Rows) -> None:
        """Keeps rows for a later stripe."""
        nbytes = self._chain.inner[name]
        kept = self._kept[name] = self._part(name, rows)
        size = (rows[1] - rows[0]) * nbytes
        writer = next(own for own in self._chain.links if own.buffer == name)
        self._copy(writer, rows, parts.at(name, rows[0], nbytes, 0, size), Ref(kept, 0, size))

    def _part(self, name: str, rows: Rows) -> str:
        """A new buffer for some rows of a value."""
        first, last = rows
        nbytes = self._chain.inner[name]
        part = self._made.new(
            f"{name}[{first}:{last}]",
            (last - first) * nbytes,
            part_of=Ref(name, first * nbytes, (last - first) * nbytes),
        )
        self._made.rows[part] = rows
        return part

    def _copy(self, link: Link, rows: Rows, source: Ref, target: Ref) -> None:
        count = rows[1] - rows[0]
        kernel, params = self._made.kernels.copy(count, source.nbytes // count)
        self._append(link, rows, KernelCall(kernel, (source, target), params, link.call.origin), kept=True)

    def _append(self, link: Link, rows: Rows, call: KernelCall, *, kept: bool = False) -> None:
        self.calls.append(replace(call, stripe=Stripe(self._number, self._stripes, link.at, *rows, kept)))


@dataclass(frozen=True, slots=True)
class _Parts:
    """The buffers of one stripe by what they are of, and which rows they hold."""

    names: dict[str, str]
    rows: Mapping[str, Rows]

    def at(self, buffer: str, row: int, nbytes: int, within: int, size: int) -> Ref:
        """`size` bytes from `within` bytes into a row of `nbytes` bytes on, in the stripe's part or in the whole."""
        if buffer not in self.names:
            return Ref(buffer, row * nbytes + within, size)
        return Ref(self.names[buffer], (row - self.rows[buffer][0]) * nbytes + within, size)


def _narrowed(link: Link, own: Rows, parts: _Parts, made: _Made, *, again: bool) -> KernelCall:
    """The call for some rows of its output."""
    call, params = link.call, link.rows.narrowed(*own)
    sizes, output = made.kernels.operand_bytes(params), len(call.kernel.reads)
    operands = list(call.operands)
    for at, ref in enumerate(call.operands):
        if at < output and again and ref.buffer in made.data:
            data = made.data[ref.buffer][ref.offset : ref.offset + ref.nbytes]
            operands[at] = Ref(made.new(ref.buffer, ref.nbytes, data), 0, ref.nbytes)
        elif at > output:
            operands[at] = Ref(made.new(ref.buffer, sizes[at]), 0, sizes[at])
    for reading in link.readings:
        at, row = reading.operand, reading.needs(own)[0]
        operands[at] = parts.at(reading.buffer, row, reading.window.nbytes, reading.within, sizes[at])
    first = link.start + own[0] * link.rows.every
    operands[output] = parts.at(link.buffer, first, link.nbytes, link.within, sizes[output])
    return replace(call, operands=tuple(operands), params=params)

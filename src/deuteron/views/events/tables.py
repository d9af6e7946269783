"""Tables of time: rows by kernel call, operator, line and module, each a share of the whole run.

A kernel that computes several operators or lines has one row for all of them, as the division of its time is unknown.
Waits right before a kernel and its dispatch are columns of its row; time that belongs to no kernel or operator has its
own rows, in brackets. The rows of every table add up to the run, except in the table of modules, where a module's row
includes its submodules. Tables of several runs show the median one. A kernel's own time is the same number in the
simulator, ExecuTorch's Inspector and Model Explorer.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import PurePath

from deuteron.views.events.events import Event, Measure, SpanKind, Track
from deuteron.views.events.record import Kernel, Op, Profile, Source

OVERHEAD: Mapping[SpanKind, str] = {
    SpanKind.DISPATCH: "[driver and runtime]",
    SpanKind.FETCH: "[start of fetches]",
    SpanKind.WAIT: "[waiting for weights]",
    SpanKind.TRANSPOSE: "[transposes]",
    SpanKind.COPY_IN: "[copies of inputs]",
    SpanKind.COPY_OUT: "[copies of outputs]",
    SpanKind.UNATTRIBUTED: "[not attributed]",
}
"""Rows of time that belongs to no kernel and no operator."""


Key = tuple[str, int, int]
"""Identity of a part: the same in every profile of a build."""


@dataclass(frozen=True, slots=True)
class Row:
    """Time of one kernel call, operator, line or module, in ticks.

    Attributes:
        name: its name.
        detail: its origin, as text.
        path: place in the tree of modules, of which the root has (); None outside of the tree.
        calls: number of kernel calls and operators.
        own: ticks of these.
        wait: ticks of waits for weights right before them.
        dispatch: ticks to start them.
        macs: multiply-accumulates.
        nbytes: bytes that kernels and operators read and write.
        cycles: minimum cycles of the NPU, by the cycle model.
        limits: ticks by their limit.
        parts: keys of the parts in it.
        estimate: estimated ticks of those kernels and operators that have an estimate.
        compared: own ticks of these.
    """

    name: str
    detail: str = ""
    path: tuple[str, ...] | None = None
    calls: int = 0
    own: int = 0
    wait: int = 0
    dispatch: int = 0
    macs: int = 0
    nbytes: int = 0
    cycles: int = 0
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    parts: tuple[Key, ...] = ()
    estimate: int = 0
    compared: int = 0

    @property
    def depth(self) -> int:
        """Return the depth in the tree of modules."""
        return len(self.path or ())

    @property
    def key(self) -> tuple[str, ...]:
        """Return the identity of a row in its table; a module sorts before its content."""
        return (self.name,) if self.path is None else self.path

    @property
    def ticks(self) -> int:
        """Return all its ticks."""
        return self.own + self.wait + self.dispatch

    @property
    def ratio(self) -> float | None:
        """Return the ratio of the ticks to their estimate; None without one."""
        return self.compared / self.estimate if self.estimate else None

    @property
    def bound(self) -> str:
        """Return the limit of most of its time; empty if no kernel or operator runs."""
        limits = {**self.limits, "flash": self.wait, "dispatch": self.dispatch}
        return max(limits, key=lambda name: limits[name]) if self.calls else ""

    def __add__(self, other: "Row") -> "Row":
        """Return both together, under the first one's name."""
        limits = dict(self.limits)
        for name, ticks in other.limits.items():
            limits[name] = limits.get(name, 0) + ticks
        return replace(
            self,
            calls=self.calls + other.calls,
            own=self.own + other.own,
            wait=self.wait + other.wait,
            dispatch=self.dispatch + other.dispatch,
            macs=self.macs + other.macs,
            nbytes=self.nbytes + other.nbytes,
            cycles=self.cycles + other.cycles,
            estimate=self.estimate + other.estimate,
            compared=self.compared + other.compared,
            limits=limits,
            parts=self.parts if self.parts == other.parts else (*self.parts, *other.parts),
        )


@dataclass(frozen=True, slots=True)
class TimedPart:
    """A kernel call, a CPU operator or a kind of overhead, with its time and origins.

    Attributes:
        key: its identity.
        row: its time.
        operators: names of the operators that it computes, with their nodes.
        sources: source lines.
        module: the module of the tree that its time counts for; None if it has none.
    """

    key: Key
    row: Row
    operators: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    module: str | None = None


def parts(profile: Profile) -> tuple[TimedPart, ...]:
    """Return all parts that take time in the median run, in order of their first event."""
    return _parts(profile, profile.stream.median().events)


def with_lines(profile: Profile) -> float | None:
    """Return the share of the time of kernels and operators with source lines; None if there are no lines."""
    timed = [part for part in parts(profile) if part.row.calls]
    whole, known = sum(part.row.own for part in timed), sum(part.row.own for part in timed if part.sources)
    return known / whole if whole and any(part.sources for part in timed) else None


def parts_of_all_runs(profile: Profile) -> tuple[TimedPart, ...]:
    """Return the parts of all runs together, including those that only some runs recorded."""
    return _parts(profile, profile.stream.events)


def _parts(profile: Profile, events: Iterable[Event]) -> tuple[TimedPart, ...]:
    by_key: dict[Key, TimedPart] = {}
    estimates = {(each.partition, each.index): each.ticks for each in profile.estimates}
    for event, overhead in with_overhead(events):
        part = part_of(profile, event)
        wait = sum(e.ticks for e in overhead if e.kind is SpanKind.WAIT)
        dispatch = sum(e.ticks for e in overhead if e.kind is SpanKind.DISPATCH)
        part = replace(part, row=replace(part.row, wait=wait, dispatch=dispatch, parts=(part.key,)))
        before = by_key.get(part.key)
        by_key[part.key] = part if before is None else replace(before, row=before.row + part.row)
    return tuple(_estimated(part, estimates.get(part.key[1:], 0)) for part in by_key.values())


def _estimated(part: TimedPart, estimate: int) -> TimedPart:
    """Return the part with its estimate, 0 for none; overhead has none."""
    if not estimate or not part.row.calls:
        return part
    return replace(part, row=replace(part.row, estimate=estimate, compared=part.row.own))


def with_overhead(events: Iterable[Event]) -> Iterator[tuple[Event, tuple[Event, ...]]]:
    """Yield each event with its own time; for a kernel also the waits and dispatches right before it.

    The next fetch may start between a wait and its kernel.
    """
    held: list[Event] = []
    for event in events:
        if event.kind in (SpanKind.RUN, SpanKind.DELEGATE, SpanKind.TRANSFER) or event.track is Track.FLASH:
            continue
        if event.kind in (SpanKind.WAIT, SpanKind.DISPATCH):
            held.append(event)
            continue
        if event.kind is SpanKind.FETCH:
            yield event, ()
            continue
        mine = [e for e in held if _is_for(e, event)]
        yield from ((e, ()) for e in held if e not in mine)
        held = []
        yield event, tuple(mine)
    yield from ((e, ()) for e in held)


def _is_for(overhead: Event, event: Event) -> bool:
    """Return true if a wait or dispatch that precedes an event is for it."""
    here = event.kind is SpanKind.KERNEL and (overhead.run, overhead.partition) == (event.run, event.partition)
    return here and (overhead.kind is SpanKind.WAIT or overhead.index == event.index)


def part_of(profile: Profile, event: Event) -> TimedPart:
    """Return the part of an event, with the event's time alone."""
    match event.kind:
        case SpanKind.KERNEL:
            partition = profile.partitions[event.partition]
            kernel = partition.kernels[event.index]
            ops = [partition.ops[op] for op in kernel.ops]
            sources = _unique(source for op in ops for source in op.sources)
            limit = "CPU" if event.track is Track.CPU else kernel.bound
            detail = ", ".join(filter(None, (_where(sources), kernel.stripe)))
            row = Row(f"npu {event.partition} #{event.index} {kernel.name}", detail)
            return TimedPart(
                ("kernel", event.partition, event.index),
                _measured(row, event, kernel, limit),
                tuple(_operators(list(same), nodes) for nodes, same in groupby(ops, key=lambda op: op.nodes)),
                sources,
                kernel.module if sources else None,
            )
        case SpanKind.OPERATOR if 0 <= event.index < len(profile.cpu_ops):
            op = profile.cpu_ops[event.index]
            row = Row(
                f"cpu {op.name}",
                ", ".join(filter(None, (_where(op.sources), op.stripes))),
                calls=1,
                own=event.ticks,
                macs=op.macs,
                nbytes=op.nbytes,
                limits={"CPU": event.ticks},
            )
            module = op.sources[0].module if op.sources else None
            return TimedPart(("operator", -1, event.index), row, (f"{op.name} ({op.node})",), op.sources, module)
        case SpanKind.OPERATOR:
            row = Row(f"cpu {event.name}", calls=1, own=event.ticks, limits={"CPU": event.ticks})
            return TimedPart((row.name, -1, -1), row, (event.name,))  # its name may be that of another kind of part
        case kind:
            name = OVERHEAD[kind]
            if kind is SpanKind.UNATTRIBUTED and event.partition >= 0:
                name = f"[not attributed in npu {event.partition}]"
            return TimedPart((name, -1, -1), Row(name, own=event.ticks))


def _measured(row: Row, event: Event, kernel: Kernel, limit: str) -> Row:
    return replace(
        row,
        calls=1,
        own=event.ticks,
        macs=kernel.macs,
        nbytes=kernel.nbytes,
        cycles=kernel.cycles,
        limits={limit: event.ticks},
    )


def _operators(ops: Sequence[Op], nodes: Sequence[str]) -> str:
    """Return the nodes that a kernel computes, as text."""
    return f"{' + '.join(op.name for op in ops)} ({', '.join(nodes) or 'added at an input or output of the partition'})"


def _unique(sources: Iterable[Source]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(sources))


def _where(sources: Iterable[Source]) -> str:
    return ", ".join(dict.fromkeys(s.short for s in sources))


def kernels(profile: Profile) -> tuple[Row, ...]:
    """Return a row per kernel call and per operator on the CPU."""
    return tuple(part.row for part in parts(profile))


def operators(profile: Profile) -> tuple[Row, ...]:
    """Return a row per operator, or per group of operators that one kernel computes."""
    return _grouped(parts(profile), lambda part: (" + ".join(part.operators), _where(part.sources)))


def lines(profile: Profile) -> tuple[Row, ...]:
    """Return a row per line of the model, or per group of lines that one kernel computes."""
    rows = parts(profile)
    names = _short_names({source.file for part in rows for source in part.sources if source.line})

    def title(part: TimedPart) -> tuple[str, str]:
        places = dict.fromkeys(
            f"{names[source.file]}:{source.line}" if source.line else str(source) for source in part.sources
        )
        return ", ".join(places), "; ".join(dict.fromkeys(source.code for source in part.sources))

    return _grouped(rows, title)


def _short_names(files: Collection[str]) -> dict[str, str]:
    """Return each file without its folders, or with as many as make it unique."""
    names: dict[str, str] = {}
    for file in files:
        whole = PurePath(file).parts
        tails = (whole[-count:] for count in range(1, len(whole) + 1))
        own = next(t for t in tails if sum(PurePath(other).parts[-len(t) :] == t for other in files) == 1)
        names[file] = str(PurePath(*own))
    return names


def modules(profile: Profile) -> tuple[Row, ...]:
    """Return the tree of modules, each row including its submodules.

    A kernel for several modules, such as a convolution with its activation, counts for the one with the most work.
    """
    totals: dict[tuple[str, ...], Row] = {}
    other: list[Row] = []
    for part in parts(profile):
        if part.module is None:
            other.append(replace(part.row, detail=""))
            continue
        path = tuple(part.module.split(".")) if part.module else ()
        for depth in range(len(path) + 1):
            name = ".".join(path[:depth]) or profile.model
            before = totals.get(path[:depth])
            row = replace(part.row, name=name, detail="", path=path[:depth])
            totals[path[:depth]] = row if before is None else before + row
    places = {path: i for i, path in enumerate(totals)}
    ordered = sorted(totals, key=lambda path: [places[path[: i + 1]] for i in range(len(path))])
    return (*(totals[path] for path in ordered), *other)


def _grouped(listed: Iterable[TimedPart], title: Callable[[TimedPart], tuple[str, str]]) -> tuple[Row, ...]:
    """Return the rows under new titles, summed by title; an empty title keeps the row's name."""
    rows: dict[str, Row] = {}
    for part in listed:
        name, detail = title(part)
        row = replace(part.row, name=name, detail=detail) if name else part.row
        rows[row.name] = rows[row.name] + row if row.name in rows else row
    return tuple(rows.values())


TABLES: Mapping[str, Callable[[Profile], tuple[Row, ...]]] = {
    "module": modules,
    "line": lines,
    "operator": operators,
    "kernel": kernels,
}
"""The tables of `--by`."""


def telling(profile: Profile) -> tuple[str, ...]:
    """Return the tables that say something: TFLite files have no lines, and programs for a CPU no kernels of an NPU."""
    found = parts(profile)
    has_sources, has_kernels = any(part.sources for part in found), any(part.key[0] == "kernel" for part in found)
    is_told = {"module": has_sources, "line": has_sources, "operator": True, "kernel": has_kernels}
    return tuple(name for name in TABLES if is_told[name])


def total(profile: Profile) -> int:
    """Return the ticks of the median run."""
    return sum(profile.stream.median().lengths().values())


def left_out(profile: Profile) -> int:
    """Return the number of CPU operators without times: all if only the NPU was simulated."""
    is_model = profile.stream.measure in (Measure.SIMULATED, Measure.ESTIMATED)
    return (
        len(profile.cpu_ops) if is_model and all(e.kind is not SpanKind.OPERATOR for e in profile.stream.events) else 0
    )


def utilisation(row: Row, profile: Profile) -> float | None:
    """Return the share of the array's multiply-accumulates used in the row's time; None if no NPU ran."""
    on_npu = any(name in row.limits for name in ("compute", "SRAM"))
    return _used(profile, row.macs, row.ticks) if on_npu else None


def whole_utilisation(profile: Profile) -> float | None:
    """Return the same for all time in the NPU's partitions."""
    events = profile.stream.median().events
    ticks = sum(event.ticks for event in events if event.kind is SpanKind.DELEGATE)
    npu = [event for event in events if event.track is Track.NPU and event.kind is SpanKind.KERNEL]
    macs = sum(profile.partitions[event.partition].kernels[event.index].macs for event in npu)
    return _used(profile, macs, ticks) if npu else None


def _used(profile: Profile, macs: int, ticks: int) -> float | None:
    possible = ticks * profile.npu_macs_per_cycle * profile.npu_hz / profile.stream.clock.hz
    return macs / possible if possible else None

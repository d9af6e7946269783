"""Data of the report page: the profile as plain values, with numbers that refer to parts.

A *part* is anything that takes time: a kernel call, an operator on the CPU, or a kind of overhead. Events, table rows,
memory blocks and all links from a kernel to a source line refer to parts, so that the page can highlight everything
that belongs together.
"""

from collections.abc import Iterable, Mapping

from deuteron.views.events import tables, text
from deuteron.views.events.events import Event, SpanKind
from deuteron.views.events.gaps import attributed
from deuteron.views.events.record import Memory, Profile, ProfiledPartition, Quality, Source
from deuteron.views.events.tables import Key, Row, TimedPart

Plain = dict[str, object]


def page_data(profile: Profile) -> Plain:
    """Return the JSON document in the page."""
    stream = profile.stream
    parts = tables.parts_of_all_runs(profile)
    numbers = {part.key: number for number, part in enumerate(parts)}
    return {
        "model": profile.model,
        "target": profile.target,
        "on": profile.on,
        "measure": stream.measure.value,
        "clock": {"id": stream.clock.id, "hz": stream.clock.hz, "tick": stream.clock.tick},
        "runs": stream.runs,
        "median": next(iter(stream.median().lengths()), 0),
        "ticks": tables.total(profile),
        "attributed": attributed(stream.median().events),
        "utilisation": tables.whole_utilisation(profile),
        "lost": stream.lost,
        "basis": [*profile.basis, *text.npu_counters(profile)],
        "depth_first": list(text.depth_first(profile)),
        "npu_measure": profile.npu_measure.value,
        "left_out": tables.left_out(profile),
        "parts": [_part(profile, part) for part in parts],
        "events": _events(profile, numbers),
        "tables": {
            name: [_row(profile, row, numbers) for row in rows(profile)] for name, rows in tables.TABLES.items()
        },
        "memories": [
            _memory(number, partition, memory, numbers)
            for number, partition in enumerate(profile.partitions)
            for memory in partition.memories
        ],
        "npu": [_operators(partition) for partition in profile.partitions],
        "cpu": [
            {"name": op.name, "node": op.node, "why": op.why, "sources": _sources(op.sources)}
            | _chosen([("operator", -1, op.index)], numbers)
            for op in profile.cpu_ops
        ],
        "sections": [{"group": s.group, "name": s.name, "bytes": s.nbytes} for s in profile.sections],
        "state": list(profile.state),
        "quality": _quality(profile.quality),
        "made": {
            "NPU": f"{profile.npu_macs_per_cycle} MACs per cycle, {profile.npu_hz / 1e6:g} MHz"
            if profile.npu_hz
            else "none",
            "clock of the events": f"{stream.clock.id}, {stream.clock.hz / 1e6:g} MHz, ticks are {stream.clock.tick}",
        },
        "versions": dict(profile.versions),
        "options": dict(profile.options),
        "files": {"program that ran": profile.program_sha256, **profile.files}
        | {f"payload of npu {i}": p.payload_sha256 for i, p in enumerate(profile.partitions)},
    }


def _quality(quality: Quality) -> Plain:
    """Return the quality figures of the build."""
    layers = [
        {"op": layer.op, "name": layer.name, "own": layer.own, "total": layer.total, "sources": _sources(layer.sources)}
        for layer in quality.layers
    ]
    return {"title": quality.title, "lines": list(quality.lines), "layers": layers}


def _part(profile: Profile, part: TimedPart) -> Plain:
    """Return a part, with the path from its kernel to its source lines."""
    kind, partition, index = part.key
    plain: Plain = {
        "name": part.row.name,
        "label": part.row.name,
        "kind": "overhead",
        "kernel": None,
        "ops": [],
        "nodes": [],
    }
    match kind:
        case "kernel":
            kernel = profile.partitions[partition].kernels[index]
            ops = [profile.partitions[partition].ops[op] for op in kernel.ops]
            plain |= {
                "label": f"{kernel.name} #{kernel.index}",
                "kind": "kernel",
                "kernel": {
                    "macs": kernel.macs,
                    "bytes": kernel.nbytes,
                    "weights": kernel.weight_bytes,
                    "cycles": kernel.cycles,
                    "bound": kernel.bound,
                    "output": list(kernel.output),
                    "stripe": kernel.stripe,
                },
                "ops": [f"{op.name} #{op.index} of npu {partition}" for op in ops],
                "nodes": list(dict.fromkeys(node for op in ops for node in op.nodes)),
            }
        case "operator":
            op = profile.cpu_ops[index]
            plain |= {"kind": "operator", "nodes": [op.node], "why": op.why}
        case _:
            if part.operators:  # the build does not list it
                plain["kind"] = "operator"
    return plain | {"sources": _sources(part.sources)}


def _sources(sources: Iterable[Source]) -> list[Plain]:
    return [{"file": s.file, "line": s.line, "code": s.code, "module": s.module} for s in sources]


def _events(profile: Profile, numbers: Mapping[Key, int]) -> list[Plain]:
    """Return the events; waits and dispatches belong to their kernel, if there is one.

    Kernels of zero ticks remain: the memories are drawn at the times of their calls.
    """
    owners: dict[int, int] = {}
    for event, overhead in tables.with_overhead(profile.stream.events):
        number = numbers[tables.part_of(profile, event).key]
        owners |= {id(one): number for one in (event, *overhead)}
    shown = (event for event in profile.stream.events if event.ticks or event.kind is SpanKind.KERNEL)
    return [_event(event, owners.get(id(event))) for event in shown]


def _event(event: Event, part: int | None) -> Plain:
    plain: Plain = {
        "kind": event.kind.value,
        "track": "delegate" if event.kind is SpanKind.DELEGATE else event.track.value,
        "start": event.start,
        "stop": event.stop,
        "name": event.name,
        "run": event.run,
        "partition": event.partition,
        "parts": [] if part is None else [part],
    }
    return (
        plain | ({"index": event.index} if event.index >= 0 else {}) | ({"bytes": event.nbytes} if event.nbytes else {})
    )


def _row(profile: Profile, row: Row, numbers: Mapping[Key, int]) -> Plain:
    """Return a row of a table, in ticks of the median run."""
    return {
        "name": row.name,
        "detail": row.detail,
        "depth": row.depth,
        "ticks": row.ticks,
        "own": row.own,
        "wait": row.wait,
        "dispatch": row.dispatch,
        "estimate": row.estimate,
        "ratio": row.ratio,
        "calls": row.calls,
        "macs": row.macs,
        "bytes": row.nbytes,
        "cycles": row.cycles,
        "used": tables.utilisation(row, profile),
        "bound": row.bound,
    } | _chosen(row.parts, numbers)


def _memory(number: int, partition: ProfiledPartition, memory: Memory, numbers: Mapping[Key, int]) -> Plain:
    """Return a memory; the parts of a block are the kernel calls that write it."""
    writers: dict[str, list[Key]] = {}
    for kernel in partition.kernels:
        for name in kernel.output:
            writers.setdefault(name, []).append(("kernel", number, kernel.index))
    blocks = [
        {"name": b.name, "offset": b.offset, "bytes": b.nbytes, "first": b.first, "last": b.last}
        | _chosen([key for name in b.names for key in writers.get(name, ())], numbers)
        for b in memory.blocks
    ]
    return {
        "partition": number,
        "name": memory.name,
        "bytes": memory.nbytes,
        "bound": memory.bound,
        "calls": len(partition.kernels),
        "blocks": blocks,
    }


def _operators(partition: ProfiledPartition) -> Plain:
    """Return the number of operators of each kind in a partition."""
    names = [op.name for op in partition.ops]
    return {"kernels": len(partition.kernels), "ops": {name: names.count(name) for name in sorted(set(names))}}


def _chosen(keys: Iterable[Key], numbers: Mapping[Key, int]) -> Plain:
    """Return the parts that took time."""
    return {"parts": sorted({numbers[key] for key in keys if key in numbers})}

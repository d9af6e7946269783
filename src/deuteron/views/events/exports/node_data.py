"""Writes times as node data of Model Explorer, which shows them on the graph of the edge program."""

import json

from deuteron.views.events.events import Measure, SpanKind
from deuteron.views.events.record import Profile

_GRAPH = "graph"
"""Model Explorer's name for the graph of an exported program."""


def node_data(profile: Profile) -> bytes:
    """Return the file: for each node of the edge program the time of its kernel calls in the median run.

    A call that computes several nodes counts for each, as the division of its time is unknown.
    """
    stream = profile.stream.median()
    times: dict[str, int] = {}
    for event in stream.events:
        if event.kind is SpanKind.KERNEL:
            partition = profile.partitions[event.partition]
            ops = (partition.ops[op] for op in partition.kernels[event.index].ops)
            nodes = [node for op in ops for node in op.nodes]
        elif event.kind is SpanKind.OPERATOR and event.index >= 0:
            nodes = [profile.cpu_ops[event.index].node]
        else:
            continue
        for node in dict.fromkeys(nodes):
            times[node] = times.get(node, 0) + event.ticks
    counted = stream.measure is Measure.COUNTED
    scale = 1 if counted else stream.clock.microseconds(1)
    data = {
        "name": f"{'instructions' if counted else 'us'} on {profile.on}, {stream.measure.value}",
        "results": {node: {"value": ticks * scale} for node, ticks in times.items()},
        "gradient": [{"stop": 0, "bgColor": "white"}, {"stop": 1, "bgColor": "orange"}],
    }
    return json.dumps({_GRAPH: data}, indent=2).encode()

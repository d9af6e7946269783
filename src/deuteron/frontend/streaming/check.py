"""Compares the graph of a hop with the graph of a window: every frame that both compute has to be equal."""

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, fx

from deuteron.errors import InternalError
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.eager.outputs import difference
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.quantize.rewrite_equivalence import Doubles
from deuteron.frontend.streaming.frame_alignment import Frames, Whole
from deuteron.frontend.streaming.frame_propagation import Plan
from deuteron.frontend.streaming.streaming_graph import Streamed

TOLERANCE = 1e-8
"""The allowed difference relative to the largest magnitude, of sums of float64 in another order."""

LEAST = 1e-12
"""A difference that is always allowed, for outputs near 0."""

_WINDOWS = 4
"""The number of windows that are compared in addition to the first."""


def check(model: fx.GraphModule, streamed: Streamed, plan: Plan, samples: Sequence[Inputs]) -> None:
    """Compare a stream of two samples, from its start, with the windows that begin with a hop.

    Raises:
        InternalError: a frame or an output of a window differs.
    """
    inputs = [node for node in model.graph.nodes if node.op == "placeholder"]
    outputs = [node for node in flat(model.graph.output_node().args[0]) if isinstance(node, fx.Node)]
    stream = _joined(inputs, plan, samples)
    hops = list(_hops(streamed, inputs, plan, stream))
    last = plan.window // plan.hop
    for start in sorted({0, 1, *(last * part // _WINDOWS for part in range(1, _WINDOWS + 1))}):
        window = tuple(
            _part(plan, node, x, start * plan.hop, plan.window) for node, x in zip(inputs, stream, strict=True)
        )
        wanted = _run(model, window)
        for index, node in enumerate(outputs):
            for ours, theirs in _pairs(plan, node, [hop[index] for hop in hops], wanted[index], start):
                if text := difference(ours, theirs, TOLERANCE, LEAST):
                    raise InternalError(
                        f"output {index} of the stream {text}, in the window from frame {start * plan.hop} on",
                        hint="report the model with its example inputs, and build it without `--stream`",
                    )


def _joined(inputs: Sequence[fx.Node], plan: Plan, samples: Sequence[Inputs]) -> Inputs:
    """Return the frames of a sample and of a changed one, one after the other; other inputs are changed, too."""
    first, second = samples[0], samples[min(1, len(samples) - 1)]
    generator = torch.Generator().manual_seed(0)
    return tuple(
        torch.cat([a, _changed(b, generator)], frames.axis)
        if isinstance(frames := plan.accounts[node], Frames)
        else _changed(a, generator)
        for node, a, b in zip(inputs, first, second, strict=True)
    )


def _changed(value: Tensor, generator: torch.Generator) -> Tensor:
    """Return floats with noise of their magnitude, integers in another order, and bools as they are."""
    if value.is_floating_point():
        scale = float(value.abs().max()) or 1.0
        return value + scale / 4 * torch.randn(value.shape, generator=generator).to(value.dtype)
    if value.dtype == torch.bool or not value.numel():
        return value
    return value.flatten()[torch.randperm(value.numel(), generator=generator)].reshape(value.shape)


def _part(plan: Plan, node: fx.Node, value: Tensor, start: int, count: int) -> Tensor:
    frames = plan.accounts[node]
    return value.narrow(frames.axis, start, count) if isinstance(frames, Frames) else value


def _hops(streamed: Streamed, inputs: Sequence[fx.Node], plan: Plan, stream: Inputs) -> Iterator[list[Tensor]]:
    """Yield the outputs of all hops."""
    states = [one.initial for one in streamed.variables]
    for hop in range(2 * plan.window // plan.hop):
        new = tuple(_part(plan, node, x, hop * plan.hop, plan.hop) for node, x in zip(inputs, stream, strict=True))
        values = _run(streamed.graph, (*new, *states))
        states = values[len(values) - len(states) :]
        yield values


def _run(graph: fx.GraphModule, inputs: Inputs) -> list[Tensor]:
    with torch.no_grad():
        return cast("list[Tensor]", flat(Doubles(graph).run(*copies(inputs))))


def _pairs(
    plan: Plan, node: fx.Node, hops: Sequence[Tensor], wanted: Tensor, start: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what the stream and a window that begins with hop `start` compute alike of an output."""
    account = plan.accounts[node]
    if isinstance(account, Whole) and start + plan.delay < len(hops) and (account.is_steady or start == 0):
        yield hops[start + plan.delay], wanted
    if isinstance(account, Frames):
        ours, axis = torch.cat(list(hops), account.axis), account.axis
        begin, count = start * plan.count(account) + account.lag, wanted.shape[axis]
        first, end = (account.head if start else account.inexact), count - account.tail
        end = min(end, ours.shape[axis] - begin)
        first = max(first, -begin)
        if first < end:
            yield ours.narrow(axis, begin + first, end - first), wanted.narrow(axis, first, end - first)
    if account is None:
        yield hops[start], wanted

"""Follows the frames of a stream through a graph, and refuses what a stream cannot compute."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from torch import fx

from deuteron.builds.options import StreamOptions
from deuteron.errors import OptionError, UnsupportedError, counted
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.operators import arguments_of, called
from deuteron.frontend.source_lines import source_of
from deuteron.frontend.streaming.frame_alignment import Account, Frames, Step, Whole, shape_of
from deuteron.frontend.streaming.rules import step_of


@dataclass(slots=True)
class Plan:
    """Says for each operator of a window's graph how the graph of a hop computes it.

    Attributes:
        window: the number of frames of the window.
        hop: the number of new frames in each run.
        accounts: of all tensors.
        steps: of the operators that compute new frames only.
        wholes: the frames that operators of a whole window read, by operator and operand.
        last_states: recurrent layers' states after the last frame.
        delay: the number of hops from the one with the first frame of a window to the one whose run ends it.
    """

    window: int
    hop: int
    accounts: dict[fx.Node, Account] = field(default_factory=dict[fx.Node, Account])
    steps: dict[fx.Node, Step] = field(default_factory=dict[fx.Node, Step])
    wholes: dict[tuple[fx.Node, fx.Node], Frames] = field(default_factory=dict[tuple[fx.Node, fx.Node], Frames])
    last_states: dict[fx.Node, Frames] = field(default_factory=dict[fx.Node, Frames])
    delay: int = 0

    def count(self, frames: Frames) -> int:
        """Return the number of new frames of a tensor in each run."""
        return self.hop // frames.stride

    def before(self, frames: Frames) -> int:
        """Return how many frames before the new ones the first of a window is."""
        return self.delay * self.count(frames) - frames.lag

    def earlier(self) -> dict[fx.Node, int]:
        """Return for each tensor the number of earlier frames that a run reads."""
        found: dict[fx.Node, int] = {}
        for step in self.steps.values():
            for operand, count in step.before.items():
                found[operand] = max(found.get(operand, 0), count)
        for (_, operand), frames in self.wholes.items():
            found[operand] = max(found.get(operand, 0), self.before(frames))
        return {operand: count for operand, count in found.items() if count > 0}

    @property
    def latency(self) -> int:
        """Return the number of input frames that an output is behind the one that it belongs to."""
        return max((one.tail * one.stride for one in self._outputs if isinstance(one, Frames)), default=0)

    @property
    def _outputs(self) -> Sequence[Account]:
        last = next(reversed(self.accounts)).graph.output_node()
        return [self.accounts[node] for node in flat(last.args[0]) if isinstance(node, fx.Node)]


def planned(graph: fx.Graph, stream: StreamOptions) -> Plan:
    """Return the plan of a graph.

    Raises:
        OptionError: no input has the dimension of time, or the hop does not fit the strides.
        UnsupportedError: an output needs frames after the window.
    """
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    window = _window(inputs, stream.axis)
    plan = Plan(window, stream.hop)
    for node in graph.nodes:
        if node.op == "output":
            continue
        if node.op == "placeholder":
            own = _dimension(node, stream.axis)
            plan.accounts[node] = Frames(own, window) if own is not None and shape_of(node)[own] == window else None
        else:
            plan.accounts[node] = _account(plan, node)
    outputs = [node for node in flat(graph.output_node().args[0]) if isinstance(node, fx.Node)]
    for index, node in enumerate(outputs):
        _check_output(plan, index, node, stream)
    if not any(plan.accounts[node] for node in outputs):
        raise OptionError(f"`--stream {stream}`: no output depends on the input with this dimension")
    _set_hop(plan, stream)
    for frames in (*plan.wholes.values(), *plan.last_states.values()):
        plan.delay = max(plan.delay, -(-(frames.length + frames.lag) // plan.count(frames)) - 1)
    for node, frames in plan.last_states.items():
        if plan.before(frames) + plan.count(frames) != frames.length:
            raise _refused(
                node,
                "reads the state after the last frame of a window, which is within a hop",
                f"use a window of a multiple of {plan.hop} frames, or the last frame of the layer's output",
            )
    return plan


def _dimension(node: fx.Node, axis: int) -> int | None:
    """Return the dimension of time of an input, or None if it has none; `axis` may count from the end."""
    count = len(shape_of(node))
    return axis % count if -count <= axis < count else None


def _window(inputs: Sequence[fx.Node], axis: int) -> int:
    """Return the number of frames, which is the same in all inputs that have this dimension."""
    owns = ((node, _dimension(node, axis)) for node in inputs)
    sizes = {shape_of(node)[own] for node, own in owns if own is not None and shape_of(node)[own] > 1}
    shapes = ", ".join(f"`{node.name}` {list(shape_of(node))}" for node in inputs)
    if len(sizes) > 1:
        raise OptionError(
            f"`--stream {axis}`: inputs have different sizes along dimension {axis}: {shapes}",
            hint="give all inputs with frames one number of them, and put no other size into this dimension",
        )
    for size in sizes:
        return size
    raise OptionError(
        f"`--stream {axis}`: no input has frames along dimension {axis}: {shapes}",
        hint="give the dimension of time of the window, counted from 0",
    )


def _account(plan: Plan, node: fx.Node) -> Account:
    """Return the account of an operator's result, and enter its step or the windows that it reads."""
    operands = {one: plan.accounts[one] for one in node.all_input_nodes}
    framed = {one: account for one, account in operands.items() if isinstance(account, Frames)}
    wholes = [account for account in operands.values() if isinstance(account, Whole)]
    if not framed:
        return Whole(all(one.is_steady for one in wholes)) if wholes else None
    if (layer := _recurrent_layer(plan, node)) is not None:
        if node.users:
            _need_whole(node, layer.frames, node)
            plan.last_states[node] = layer.frames
        return Whole(is_steady=False)
    step = None if wholes else step_of(node, framed)
    if step is not None:
        plan.steps[node] = step
        return step.frames
    for one, frames in framed.items():
        plan.wholes[node, one] = read = _selected(node, frames)
        _need_whole(one, read, node)
    return Whole(all(one.is_steady for one in wholes) and not any(plan.wholes[node, one].head for one in framed))


def _recurrent_layer(plan: Plan, node: fx.Node) -> Step | None:
    """Return the step of the recurrent layer of which a node is a state after the last frame."""
    if node.target is not operator.getitem or not isinstance(node.args[0], fx.Node):
        return None
    step = plan.steps.get(node.args[0])
    return step if step is not None and node.args[1] in step.states.values() else None


def _selected(node: fx.Node, frames: Frames) -> Frames:
    """Return those frames of an operand that an operator of a whole window reads."""
    if called(node) != "select":
        return frames
    index = int(cast(int, node.args[2])) % frames.length
    return frames.windows(node, 1, 1, stride=1, dilation=1, before=-index)


def _need_whole(node: fx.Node, frames: Frames, reader: fx.Node) -> None:
    """Check that a stream has all frames of a window."""
    if frames.tail:
        latency = frames.tail * frames.stride
        raise _refused(
            frames.looks_ahead or node,
            f"reads zeros in place of {counted(latency, 'frame')} after the window, and `{called(reader)}` reads all "
            "frames of its result",
            f"pad before the first frame alone, as causal layers do{_causal(frames.looks_ahead, frames.axis)}",
        )
    if frames.inexact:
        raise _refused(
            reader,
            "reads a whole window of frames, of which a layer with padding or a recurrent layer computes the first "
            f"{frames.inexact} after a layer without padding",
            "pad all layers before the first frame, by (kernel - 1) * dilation, or none",
        )


def _causal(node: fx.Node | None, axis: int) -> str:
    """Return how to write a layer with padding at both ends so that it is causal; nothing for another operator."""
    given = {} if node is None else arguments_of(node)
    weight = given.get("weight")
    if node is None or not isinstance(weight, fx.Node) or not (called(node) or "").startswith("conv"):
        return ""
    dims = len(shape_of(weight)) - 2
    at = axis - len(shape_of(node)) + dims
    padding, dilation = (_each(given.get(name), dims) for name in ("padding", "dilation"))
    if not 0 <= at < dims or not padding[at]:
        return ""
    before = (shape_of(weight)[at + 2] - 1) * dilation[at]
    pads = ", ".join(["0, 0"] * (dims - 1 - at) + [f"{before}, 0"])
    rest = tuple(0 if i == at else size for i, size in enumerate(padding))
    left = f"`padding={rest if any(rest) else 0}`"
    return f": `functional.pad(x, ({pads}))` before the layer, and {left} in it; then train it so"


def _each(value: object, count: int) -> list[int]:
    """Return a number for each dimension; zeros for a padding by name."""
    if isinstance(value, list | tuple):
        numbers = [int(cast(int, one)) for one in cast("Sequence[object]", value)]
        return numbers * count if len(numbers) == 1 else numbers
    return [value if isinstance(value, int) else 0] * count


def _check_output(plan: Plan, index: int, node: fx.Node, stream: StreamOptions) -> None:
    frames = plan.accounts[node]
    if not isinstance(frames, Frames):
        return
    latency = frames.tail * frames.stride
    if latency > stream.latency:
        raise _refused(
            frames.looks_ahead or node,
            f"is not causal: output {index} reads {counted(latency, 'frame')} of the input after its own",
            f"pad before the first frame alone, or allow this latency: `--stream {stream.axis}:HOP:{latency}`",
        )
    if frames.inexact >= frames.length - frames.tail:
        raise _refused(
            node,
            f"makes output {index}, of which each frame depends on padding: a stream has other frames there",
            "use a longer window, or pad before the first frame alone",
        )


def _set_hop(plan: Plan, stream: StreamOptions) -> None:
    """Set the number of frames of a hop: the given one, or the least."""
    strides: dict[int, fx.Node] = {}
    for node, account in plan.accounts.items():
        if isinstance(account, Frames):
            strides.setdefault(account.stride, node)
    least = math.lcm(*strides)
    plan.hop = stream.hop or least
    if plan.hop % least:
        node = strides[max(strides)]
        source = source_of(node)
        raise OptionError(
            f"`--stream {stream}`: a hop of {counted(plan.hop, 'frame')} does not fit the strides of the model, whose "
            f"product is {least}{f', at `{source.code}`' if source else ''}",
            hint=f"use a multiple of {least}, such as `--stream {stream.axis}:{-(-plan.hop // least) * least}`",
        )
    if plan.hop > plan.window:
        raise OptionError(
            f"`--stream {stream}`: a hop of {plan.hop} frames is longer than the window of {plan.window}",
            hint="use a shorter hop",
        )


def _refused(node: fx.Node, what: str, hint: str) -> UnsupportedError:
    source = source_of(node)
    return UnsupportedError(
        f"`{called(node) or node.name}` {what}{f', at `{source.code}`' if source else ''}",
        where=str(source) if source else None,
        hint=hint,
    )

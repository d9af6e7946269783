"""What makes a quantised model worse than it need be, as sentences: what, where, and what to do."""

from collections.abc import Iterator, Sequence

import torch
from torch import fx

from deuteron.frontend.operators import base_name, called
from deuteron.frontend.quality.measure import Constant, Measured, Output, constants, rounded_alone
from deuteron.frontend.source_lines import source_of

POOR = 10.0
"""An output with less signal to noise than that, in dB, says little of the float model's."""

_EQUAL = 0.9
"""An output of integers of which fewer equal the float model's says little of these."""

_CUT = 20.0
"""A range that cuts off so much that less signal to noise than that is left, in dB, is too narrow."""

_LOST = 20.0
"""A constant whose rounding leaves less signal to noise than that, in dB, is written in the wrong way."""

_FEW = 4
"""Samples too few to say that a channel never changes."""

_CHANGE = 1e-3
"""A channel that changes by less than this part of its largest magnitude is as good as constant in float, too."""

_LISTED = 4
"""How many channels a warning names."""

_SHARES = frozenset({"softmax", "_softmax", "log_softmax", "sigmoid", "tanh", "hardsigmoid", "hardtanh"})
"""Operators whose results have the same unit in all channels: one that stays at 0 says that it never was the one."""

_LAYERS = ("conv", "linear", "addmm", "lstm", "gru")


def findings(floats: fx.GraphModule, quantised: fx.GraphModule, measured: Measured) -> tuple[str, ...]:
    """A sentence for each finding about the model and its ranges."""
    return (
        *(text for i, output in sorted(measured.outputs.items()) for text in _dead(i, output, len(measured.samples))),
        *_vanished(floats, quantised, measured),
        *_cut_off(measured),
        *(text for i, output in sorted(measured.outputs.items()) for text in _poor(i, output, measured)),
        *_other_integers(measured),
    )


def _dead(index: int, output: Output, samples: int) -> Iterator[str]:
    """Channels that are one number whatever the input is, while the float model's change."""
    if samples < _FEW or output.affine is None or _is_share(output.node):
        return
    (low, high), (wanted_low, wanted_high) = output.spread.actual[0], output.spread.wanted[0]
    changes = wanted_high - wanted_low > _CHANGE * torch.maximum(wanted_low.abs(), wanted_high.abs())
    is_dead = (low == high) & changes
    dead = [channel for channel in range(len(low)) if is_dead[channel]]
    if len(low) == 1 and dead:
        dead_text = f"output {index} is"
    elif dead:
        dead_text = f"output {index}: {_channels(dead)} {'is' if len(dead) == 1 else 'are'}"
    else:
        return
    first = dead[0]
    yield _at(
        output.node,
        f"{dead_text} always {float(low[first]):.4g}, where the float model gives {float(wanted_low[first]):.4g} to "
        f"{float(wanted_high[first]):.4g}: one step of the whole output is {output.affine.scale:.4g}; return channels "
        "of unlike ranges as outputs of their own, or scale them alike and let the application undo that",
    )


def _vanished(floats: fx.GraphModule, quantised: fx.GraphModule, measured: Measured) -> Iterator[str]:
    """Constants of which too little is left, such as factors that become 0, where that can be seen behind them."""
    for constant in constants(floats, quantised):
        before, after, name = constant.before, constant.after, called(constant.node)
        if name.startswith(_LAYERS) or before.numel() < 2 or before.shape != after.shape:
            continue
        lost = int(((before != 0) & (after == 0)).sum()) if name.startswith(("mul", "div")) else 0
        is_one = bool((after == after.flatten()[0]).all()) and not bool((before == before.flatten()[0]).all())
        if (lost or is_one) and _matters(floats, constant, measured):
            what = (
                f"becomes {float(after.flatten()[0]):.4g} everywhere"
                if is_one
                else f"has {lost} of {before.numel()} values that become 0"
            )
            yield _at(
                constant.node,
                f"a constant of {float(before.min()):.4g} to {float(before.max()):.4g} {what} when it is quantised, "
                "with one step for all its values; write it with values of like size, or split it",
            )


def _matters(floats: fx.GraphModule, constant: Constant, measured: Measured) -> bool:
    """True if its operator loses much, or a channel of an output would by the rounding of this constant alone."""
    if any(layer.node is constant.node and layer.own.total() < _LOST for layer in measured.layers):
        return True
    return any(
        min((ratio.total(),) if _is_share(measured.outputs[i].node) else ratio.channels()) < _LOST
        for i, ratio in rounded_alone(floats, constant, measured).items()
    )


def _cut_off(measured: Measured) -> Iterator[str]:
    for layer in measured.layers:
        if layer.beyond and layer.clipped.total() < _CUT:
            affine = layer.affine
            ends = [float(affine.real(torch.tensor(end))) for end in (affine.least, affine.most)]
            yield _at(
                layer.node,
                f"the range of {_named(layer.node)}, {ends[0]:.4g} to {ends[1]:.4g}, cuts off "
                f"{100 * layer.beyond / layer.elements:.2g} % of its values by more than a step; calibrate with "
                "batches that have such values",
            )


def _poor(index: int, output: Output, measured: Measured) -> Iterator[str]:
    total = output.all.total()
    if total < POOR and not _is_constant(output):
        text = f"output {index} has {total:.1f} dB of signal to noise beside the float model"
        if worst := next(iter(measured.layer_qualities()), None):
            line = f", at {worst.source[0]}" if worst.source else ""
            text += f"; of the layers, `{worst.op}` loses most{line}: `deuteron explain` lists all"
        yield text


def _other_integers(measured: Measured) -> Iterator[str]:
    for index, quality in enumerate(measured.output_qualities()):
        if not quality.channels and quality.equal < _EQUAL:
            yield (
                f"output {index} has {quality.equal:.1%} of the float model's integers: what they are computed from is "
                "rounded; return that in their place, and let the application compute them"
            )


def _is_constant(output: Output) -> bool:
    low, high = output.spread.wanted[0]
    return bool((low == high).all())


def _is_share(node: fx.Node) -> bool:
    """True for what is a function with a range of its own, whatever moves its results."""
    source: object = node
    while isinstance(source, fx.Node):
        if called(source) in _SHARES:
            return True
        if len(source.all_input_nodes) != 1:
            return False
        source = source.all_input_nodes[0] if _moves(source) else None
    return False


def _moves(node: fx.Node) -> bool:
    return called(node) in {
        "dequantize_per_tensor",
        "quantize_per_tensor",
        "view",
        "reshape",
        "flatten",
        "squeeze",
        "unsqueeze",
        "permute",
        "transpose",
        "clone",
        "contiguous",
    }


def _channels(indices: Sequence[int]) -> str:
    if len(indices) == 1:
        return f"channel {indices[0]}"
    listed = ", ".join(map(str, indices[:_LISTED]))
    return f"channels {listed}{f' and {len(indices) - _LISTED} others' if len(indices) > _LISTED else ''}"


def _named(node: fx.Node) -> str:
    return f"input `{node.name}`" if node.op == "placeholder" else f"`{base_name(node.target)}`"


def _at(node: fx.Node, text: str) -> str:
    """The sentence with the line of the model that the node, or what it moves, comes from."""
    source = next((s for one in _before(node) if (s := source_of(one))), None)
    return f"{source}: {text}" if source else text


def _before(node: fx.Node) -> Iterator[fx.Node]:
    """A node, and the nodes before it along first inputs."""
    yield node
    while node.all_input_nodes:
        node = node.all_input_nodes[0]
        yield node

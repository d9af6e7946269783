"""Warns about avoidable quantization errors: what, where, and what to do."""

from collections.abc import Iterator, Sequence
from statistics import median

import torch
from torch import fx

from deuteron.builds.quality import CONSTANT, LITTLE, decibels
from deuteron.frontend.operators import base_name, called, is_dequantize, is_float
from deuteron.frontend.quality.measure import CHANGE, Measured, Output, RoundedConstant, constants, rounded_alone
from deuteron.frontend.source_lines import source_of

POOR = 10.0
"""The least useful signal-to-noise ratio of an output, in dB."""

_EQUAL = 0.9
"""The least useful share of integer outputs that equal the float model's."""

_CUT = 20.0
"""A range is too narrow if clamping alone leaves a signal-to-noise ratio below this one, in dB."""

_LOST = 20.0
"""A constant is quantized badly if its rounding leaves a signal-to-noise ratio below this one, in dB."""

_FEW = 4
"""With fewer samples, a constant channel is no finding."""

_LISTED = 4
"""The number of channels that a warning names."""

_SHARES = frozenset({"softmax", "_softmax", "log_softmax", "sigmoid", "tanh", "hardsigmoid", "hardtanh"})
"""Operators with bounded results of one unit, whose channels may stay near a constant."""

_JUMP = 30.0
"""A sample with so many times the median noise has other choices than the float model."""

_BELOW = 6.0
"""A quarter of the samples with so many dB less than all samples together is a finding."""

_STEPS = frozenset({"ceil", "floor", "heaviside", "round", "sgn", "sign", "trunc"})
"""Functions that jump between values."""

_LAYERS = ("conv", "linear", "addmm", "lstm", "gru")


def findings(floats: fx.GraphModule, quantized: fx.GraphModule, measured: Measured) -> tuple[str, ...]:
    """Return all warnings about the model and its ranges."""
    return (
        *(text for i, output in sorted(measured.outputs.items()) for text in _constant(i, output, measured)),
        *(text for i, output in sorted(measured.outputs.items()) for text in _dead(i, output, len(measured.samples))),
        *_vanished(floats, quantized, measured),
        *_cut_off(measured),
        *(text for i, output in sorted(measured.outputs.items()) for text in _poor(i, output, measured)),
        *(text for i, output in sorted(measured.outputs.items()) for text in _jumps(i, output)),
        *(text for i, output in sorted(measured.outputs.items()) for text in _uneven(i, output)),
        *_other_integers(measured),
    )


def _constant(index: int, output: Output, measured: Measured) -> Iterator[str]:
    """Warn about outputs that the float model computes alike for all samples."""
    if measured.is_constant(index):
        yield _at(
            output.node,
            f"output {index} {CONSTANT}: its signal-to-noise ratio says nothing; give samples that differ, or check "
            "the weights",
        )


def _dead(index: int, output: Output, samples: int) -> Iterator[str]:
    """Warn about output channels that are constant although the float model's change."""
    if samples < _FEW or output.affine is None or _is_share(output.node):
        return
    (low, high), (wanted_low, wanted_high) = output.spread.actual[0], output.spread.wanted[0]
    changes = wanted_high - wanted_low > CHANGE * torch.maximum(wanted_low.abs(), wanted_high.abs())
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
        "of unlike ranges as separate outputs, or scale them alike and let the application undo that",
    )


def _vanished(floats: fx.GraphModule, quantized: fx.GraphModule, measured: Measured) -> Iterator[str]:
    """Warn about constants that quantization changes too much, such as factors that become 0, if outputs show it."""
    for constant in constants(floats, quantized):
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
                f"a constant of {float(before.min()):.4g} to {float(before.max()):.4g} {what} when it is quantized, "
                "with one step for all its values; write it with values of like size, or split it",
            )


def _matters(floats: fx.GraphModule, constant: RoundedConstant, measured: Measured) -> bool:
    """True if the operator loses much, or rounding this constant alone spoils a channel of an output."""
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
        text = f"output {index} has {total:.1f} dB of signal to noise compared with the float model"
        if worst := next(iter(measured.layer_qualities()), None):
            line = f", at {worst.source[0]}" if worst.source else ""
            text += f"; of the layers, `{worst.op}` loses most{line}: `deuteron explain` lists all"
        yield text


def _jumps(index: int, output: Output) -> Iterator[str]:
    """Warn about choices that rounding changes in few samples, which the ratio of all samples hides."""
    middle = median(noise for _, noise in output.samples)
    ratios = [decibels(*one) for one in output.samples]
    turned = [ratio for ratio, (_, noise) in zip(ratios, output.samples, strict=True) if noise > _JUMP * middle]
    if not turned or min(turned) >= LITTLE or output.all.total() < POOR:
        return
    choice = next((node for node in _all_before(output.node) if _chooses(node)), None)
    if choice is not None:
        where = "its operand is near a jump" if called(choice) in _STEPS else "its operands are nearly equal"
        yield _at(
            choice,
            f"output {index} has {min(turned):.1f} dB in the worst of {len(ratios)} samples, and "
            f"{median(ratios):.1f} dB in the median one: rounding changes what `{called(choice)}` chooses where "
            f"{where}; blend with weights instead, as `torch.sigmoid` gives them, or let the "
            "application choose",
        )


def _uneven(index: int, output: Output) -> Iterator[str]:
    """Warn about outputs whose ratio is that of few large samples."""
    ratios = sorted(decibels(*one) for one in output.samples if one[0])
    if len(ratios) < _FEW:
        return
    total, low = output.all.total(), ratios[len(ratios) // 4]
    if total >= POOR and low < min(LITTLE, total - _BELOW):
        yield _at(
            output.node,
            f"output {index} has {total:.1f} dB in all {len(ratios)} samples together, but at most {low:.1f} dB in a "
            "quarter of them: the large values of few samples set the ranges, and small values have few steps; let the "
            "application scale the samples alike, or build with `--activations int16`",
        )


def _chooses(node: fx.Node) -> bool:
    """True for an operator that makes integers or bools of floats, and for a function that jumps."""
    value = node.meta.get("val")
    is_whole = isinstance(value, torch.Tensor) and not value.is_floating_point()
    reads_floats = any(is_dequantize(one) or is_float(one) for one in node.all_input_nodes)
    return called(node) in _STEPS or (is_whole and reads_floats)


def _all_before(node: fx.Node) -> Iterator[fx.Node]:
    """Yield a node and all nodes that it depends on, the nearest first."""
    found, waiting = {node}, [node]
    for one in waiting:
        yield one
        new = [other for other in one.all_input_nodes if other not in found]
        found.update(new)
        waiting += new


def _other_integers(measured: Measured) -> Iterator[str]:
    """Warn about integer outputs that differ; those of whole inputs must not, for these are exact."""
    least = _EQUAL if any(x.is_floating_point() for sample in measured.samples[:1] for x in sample) else 1.0
    for index, quality in enumerate(measured.output_qualities()):
        if not quality.channels and quality.equal < least:
            yield (
                f"output {index} has {quality.equal:.1%} of the float model's integers: what they are computed from is "
                "rounded; return that in their place, and let the application compute them"
            )


def _is_constant(output: Output) -> bool:
    low, high = output.spread.wanted[0]
    return bool((low == high).all())


def _is_share(node: fx.Node) -> bool:
    """True for functions with bounded results, also behind operators that move values."""
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
    """Add the line of the model of the node, or of the first node before it that has one."""
    source = next((s for one in _before(node) if (s := source_of(one))), None)
    return f"{source}: {text}" if source else text


def _before(node: fx.Node) -> Iterator[fx.Node]:
    """Yield a node and the nodes before it along first operands."""
    yield node
    while node.all_input_nodes:
        node = node.all_input_nodes[0]
        yield node

"""Elementwise functions of one int16 activation, which become tables with linear interpolation."""

from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m import refusals
from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import Array, Definition, LoweredCall, Patterns, clipped
from deuteron.frontend.cortex_m.elementwise import evaluate, operand, operators
from deuteron.frontend.quantize import decompositions
from deuteron.numerics import rne_shift
from deuteron.operators.int16 import TABLE_BITS, InterpolateS16Params

aten = torch.ops.aten

_CURVED = operators(
    "abs.default neg.default exp.default expm1.default sin.default cos.default erf.default relu.default relu6.default "
    "hardtanh.default clamp.default leaky_relu.default elu.default gelu.default sigmoid.default tanh.default "
    "silu.default hardsigmoid.default softplus.default mish.default pow.Tensor_Scalar add.Scalar sub.Scalar mul.Scalar "
    "div.Scalar add.Tensor sub.Tensor mul.Tensor div.Tensor minimum.default maximum.default atan.default asinh.default "
    "sinh.default cosh.default exp2.default erfc.default square.default selu.default celu.default log_sigmoid.default"
)
"""Functions without poles and jumps, which linear interpolation approximates well."""

_HARD_SWISHES = operators("hardswish.default")

_LEAST = -32768
_MOST_BITS, _LEAST_BITS = 9, 4
"""Segments are at most 512 and at least 16 steps wide."""

_HINT = "give this operator's input a narrower range, or build with int8 activations"


def write(model: fx.GraphModule) -> None:
    """Decompose hard swishes into products with hard sigmoids, whose bends are at ends of segments."""
    for node in list(model.graph.nodes):
        if node.target in _HARD_SWISHES:
            x = cast(fx.Node, node.args[0])
            gate = decompositions.call(node, aten.hardsigmoid.default, x)
            node.replace_all_uses_with(decompositions.call(node, aten.mul.Tensor, x, gate))
            model.graph.erase_node(node)
    model.recompile()


def interpolate(p: InterpolateS16Params, x: Array, table: Array) -> Array:
    """The definition of `interpolate_s16`."""
    place = x.astype(np.int64).clip(p.low, p.high) - p.low
    piece, rest, entries = place >> p.bits, place & ((1 << p.bits) - 1), table.astype(np.int64)
    values = (entries[piece] << np.int64(p.bits)) + (entries[piece + 1] - entries[piece]) * rest
    return clipped(rne_shift(values, p.bits + TABLE_BITS))


def takes(node: fx.Node) -> bool:
    """True for a function whose int16 results can be interpolated."""
    if node.target not in _CURVED or (x := operand(node)) is None:
        return False
    value: object = x.meta.get("val")
    if not isinstance(value, Tensor) or value.dtype != torch.float32:
        return False
    if str(node.target).startswith("aten.pow"):
        return node.args[1] in (1, 2, 3)
    return "div" not in str(node.target) or node.args[0] is x


def operands(node: fx.Node) -> list[fx.Node]:
    """The activation that a function depends on, in a list."""
    return [cast(fx.Node, operand(node))]


def call(quantize: fx.Node, reals: Tensor) -> LoweredCall:
    """Return the call for a function.

    Args:
        quantize: the quantize node of its results.
        reals: its results for all int16 values in order.

    Raises:
        UnsupportedError: interpolation with segments of 16 steps is off by more than a step.
    """
    before = cast(fx.Node, quantize.args[0])
    wanted = evaluate(quantize, {before: reals}).to(torch.int64)
    changes = (wanted[1:] != wanted[:-1]).nonzero()
    first, last = (int(changes[0]), int(changes[-1]) + 1) if len(changes) else (0, 1)
    steps = reals.double() / float(cast(float, quantize.args[1]))
    steps = steps.clamp(-(2.0**20), 2.0**20)
    for bits in range(_MOST_BITS, _LEAST_BITS - 1, -1):
        # If segments begin at a multiple of their width, zero is an end, where most functions bend.
        for begin in dict.fromkeys((first >> bits << bits, first)):
            table = _table(steps, begin, last, bits)
            off = (_interpolated(table, begin, last, bits) - wanted).abs()
            if int(off.max()) <= 1:
                elements = quantize.meta["val"].numel()
                params = InterpolateS16Params(elements, begin + _LEAST, last + _LEAST, bits)
                return LoweredCall("interpolate_s16", params, (table.to(torch.int32),))
    what = "curves too much for int16 activations: linear interpolation over 16 steps is off by more than a step"
    raise refusals.refusal(before, what, _HINT)


def _table(steps: Tensor, first: int, last: int, bits: int) -> Tensor:
    """Values at the ends of segments, in fractions of a step; the last one extrapolates the line through `last`."""
    width = 1 << bits
    table = steps[first : last + 1 : width]
    rest = (last - first) % width
    beyond = table[-1] + (steps[last] - table[-1]) * width / rest if rest else table[-1]
    return (torch.cat([table, beyond[None]]) * 2**TABLE_BITS).round().to(torch.int64)


def _interpolated(table: Tensor, first: int, last: int, bits: int) -> Tensor:
    """The operator's results for all int16 values."""
    every = torch.arange(_LEAST, -_LEAST)
    params = InterpolateS16Params(len(every), first + _LEAST, last + _LEAST, bits)
    result = interpolate(params, every.numpy(), table.numpy())
    return torch.from_numpy(result).to(torch.int64)  # pyright: ignore[reportUnknownMemberType]


PATTERNS: Patterns = {}

DEFINITIONS: Mapping[str, Definition] = {"interpolate_s16": Definition(interpolate, rounds=True, dtype=torch.int16)}

"""Functions of one activation of 16 bits, applied to each element: pieces of straight lines between a few values."""

from typing import cast

import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m import refusals
from deuteron.frontend.cortex_m.added.int16 import interpolate
from deuteron.frontend.cortex_m.added.lowering_pattern import Call
from deuteron.frontend.cortex_m.elementwise import call_on, operand, operators
from deuteron.frontend.quantise import decompositions
from deuteron.operators.int16 import TABLE_BITS, InterpolateS16Params

aten = torch.ops.aten

_CURVED = operators(
    "abs.default neg.default exp.default expm1.default sin.default cos.default erf.default relu.default relu6.default "
    "hardtanh.default clamp.default leaky_relu.default elu.default gelu.default sigmoid.default tanh.default "
    "silu.default hardsigmoid.default softplus.default mish.default pow.Tensor_Scalar add.Scalar sub.Scalar mul.Scalar "
    "div.Scalar add.Tensor sub.Tensor mul.Tensor div.Tensor minimum.default maximum.default atan.default asinh.default "
    "sinh.default cosh.default exp2.default erfc.default square.default selu.default celu.default log_sigmoid.default"
)
"""Functions without poles and jumps, which few straight lines come close to."""

_HARD_SWISHES = operators("hardswish.default")

_LEAST = -32768
_WIDEST, _NARROWEST = 9, 4
"""Pieces of at most 512 steps and at least 16."""

_HINT = "let it have a narrower range before this operator, or build with activations of int8"


def write(model: fx.GraphModule) -> None:
    """Write hard swishes as products: of their two bends one lies at no end of a piece, hard sigmoids end with them."""
    for node in list(model.graph.nodes):
        if node.target in _HARD_SWISHES:
            x = cast(fx.Node, node.args[0])
            gate = decompositions.call(node, aten.hardsigmoid.default, x)
            node.replace_all_uses_with(decompositions.call(node, aten.mul.Tensor, x, gate))
            model.graph.erase_node(node)
    model.recompile()


def takes(node: fx.Node) -> bool:
    """True for a function whose values at int16 numbers need no table of all."""
    if node.target not in _CURVED or (x := operand(node)) is None:
        return False
    value: object = x.meta.get("val")
    if not isinstance(value, Tensor) or value.dtype != torch.float32:
        return False
    if str(node.target).startswith("aten.pow"):
        return node.args[1] in (1, 2, 3)
    return "div" not in str(node.target) or node.args[0] is x


def operands(node: fx.Node) -> list[fx.Node]:
    """The activation that a function depends on."""
    return [cast(fx.Node, operand(node))]


def call(quantise: fx.Node, reals: Tensor) -> Call:
    """The call for a function.

    Args:
        quantise: what quantises its results.
        reals: its results for all numbers of int16, the least first.

    Raises:
        UnsupportedError: when straight lines between 4096 values are more than a step off.
    """
    before = cast(fx.Node, quantise.args[0])
    wanted = call_on(quantise, {before: reals}).to(torch.int64)
    changes = (wanted[1:] != wanted[:-1]).nonzero()
    first, last = (int(changes[0]), int(changes[-1]) + 1) if len(changes) else (0, 1)
    steps = reals.double() / float(cast(float, quantise.args[1]))
    steps = steps.clamp(-(2.0**20), 2.0**20)
    for bits in range(_WIDEST, _NARROWEST - 1, -1):
        # Beginning at a multiple of the piece's width lets zero be an end, where functions bend most.
        for begin in dict.fromkeys((first >> bits << bits, first)):
            table = _table(steps, begin, last, bits)
            off = (_interpolated(table, begin, last, bits) - wanted).abs()
            if int(off.max()) <= 1:
                elements = quantise.meta["val"].numel()
                params = InterpolateS16Params(elements, begin + _LEAST, last + _LEAST, bits)
                return Call("interpolate_s16", params, (table.to(torch.int32),))
    what = "bends too much for activations of 16 bits: lines between values 16 steps apart are off by more than a step"
    raise refusals.refusal(before, what, _HINT)


def _table(steps: Tensor, first: int, last: int, bits: int) -> Tensor:
    """Values at the ends of pieces, in fractions of a step; the last lies where its line leads to from `last`."""
    width = 1 << bits
    table = steps[first : last + 1 : width]
    rest = (last - first) % width
    beyond = table[-1] + (steps[last] - table[-1]) * width / rest if rest else table[-1]
    return (torch.cat([table, beyond[None]]) * 2**TABLE_BITS).round().to(torch.int64)


def _interpolated(table: Tensor, first: int, last: int, bits: int) -> Tensor:
    """What the operator gives for all numbers."""
    every = torch.arange(_LEAST, -_LEAST)
    params = InterpolateS16Params(len(every), first + _LEAST, last + _LEAST, bits)
    result = interpolate(params, every.numpy(), table.numpy())
    return torch.from_numpy(result).to(torch.int64)  # pyright: ignore[reportUnknownMemberType]

"""Broadcasting arithmetic of two tensors, comparisons, and `where`."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.custom_ops import layout
from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import (
    Array,
    Definition,
    LoweredCall,
    LoweringPattern,
    Patterns,
    Result,
    Site,
    clipped,
    stored,
    value_of,
)
from deuteron.frontend.cortex_m.elementwise import aten_operator
from deuteron.frontend.cortex_m.upstream import adds_or_multiplies
from deuteron.numerics import I64, requant, requants, rne_shift
from deuteron.operators.custom_ops import CompareParams, WhereParams
from deuteron.operators.int16 import AddS16Params, MulS16Params
from deuteron.operators.kernel_params import AddParams, Dims5, ExtremumParams, LutParams, MulParams

aten = torch.ops.aten

_PAIR = 2

_LESS, _AT_MOST, _EQUAL, _OTHER = range(4)

_COMPARES: Mapping[str, tuple[int, bool]] = {
    "lt": (_LESS, False),
    "le": (_AT_MOST, False),
    "gt": (_LESS, True),
    "ge": (_AT_MOST, True),
    "eq": (_EQUAL, False),
    "ne": (_OTHER, False),
}
"""The comparison of each operator, and whether its operands are exchanged."""


def _tensors(node: fx.Node) -> list[fx.Node]:
    """The float tensors that a node reads, including constants of more than one element."""
    floats = [arg for arg in node.all_input_nodes if value_of(arg).is_floating_point()]
    return [arg for arg in floats if arg.op != "get_attr" or value_of(arg).numel() > 1]


def _values(node: fx.Node) -> list[fx.Node]:
    """The values that `where` selects from."""
    return [arg for arg in node.args[1:3] if isinstance(arg, fx.Node)]


def _is_unsupported_upstream(node: fx.Node) -> bool:
    """True for arithmetic of two float tensors that ExecuTorch's Cortex-M backend does not support."""
    operands = [arg for arg in node.args[:2] if isinstance(arg, fx.Node) and value_of(arg).dtype == torch.float32]
    return len(operands) == 2 and not adds_or_multiplies(node)


def _takes_choice(node: fx.Node) -> bool:
    values = _values(node)
    return len(values) == 2 and all(value_of(arg).dtype == torch.float32 for arg in values)


def _sum(site: Site, *, sign: int) -> LoweredCall | None:
    if len(site.operands) != _PAIR or (dims := dims_of(site)) is None:
        return None
    (a, b), y, alpha = site.operands, site.result, cast(float, site.node.kwargs.get("alpha", 1))
    factors = [Fraction(a.scale) / Fraction(y.scale), abs(Fraction(alpha)) * Fraction(b.scale) / Fraction(y.scale)]
    (first, second), shift = requants(factors)
    second = second if (alpha > 0) == (sign > 0) else -second
    if site.dtype == torch.int16:
        return LoweredCall("broadcast_add_s16", AddS16Params(*dims, first, second, shift, *site.limits))
    params = AddParams(*dims, a.zero_point, b.zero_point, first, second, shift, y.zero_point, *site.limits)
    return LoweredCall("broadcast_add", params)


def _product(site: Site) -> LoweredCall | None:
    if len(site.operands) != _PAIR or (dims := dims_of(site)) is None:
        return None
    a, b = site.operands
    factor = requant(Fraction(a.scale) * Fraction(b.scale) / Fraction(site.result.scale))
    if site.dtype == torch.int16:
        return LoweredCall("broadcast_mul_s16", MulS16Params(*dims, factor.multiplier, factor.shift, *site.limits))
    numbers = (a.zero_point, b.zero_point, factor.multiplier, factor.shift, site.result.zero_point, *site.limits)
    return LoweredCall("broadcast_mul", MulParams(*dims, *numbers))


def _extremum(site: Site, *, maximum: int) -> LoweredCall | None:
    if len(site.operands) != _PAIR or (dims := dims_of(site)) is None:
        return None
    return LoweredCall("extremum_s16", ExtremumParams(*dims, maximum))


def dims_of(site: Site) -> tuple[Dims5, Dims5, Dims5] | None:
    """The dimensions of a result and the strides of two operands; None if the record has too few dimensions."""
    values = [value_of(arg) for arg in site.stored]
    dims = layout.broadcast(value_of(site.node).shape, values, last=site.is_channels_last)
    return cast("tuple[Dims5, Dims5, Dims5] | None", dims)


def _comparison(site: Site) -> LoweredCall | None:
    name: str = cast(Any, aten_operator(site.node.target)).overloadpacket.__name__
    kind, is_exchanged = _COMPARES[name]
    if len(site.stored) == _PAIR:
        operands = (site.stored[1], site.stored[0]) if is_exchanged else site.stored
        dims = layout.broadcast(
            value_of(site.node).shape, [value_of(arg) for arg in operands], last=site.is_channels_last
        )
        params = None if dims is None else CompareParams(*cast("tuple[Dims5, Dims5, Dims5]", dims), kind)
        return None if params is None else LoweredCall("compare", params, inputs=operands)
    (x,) = site.operands
    real = (torch.arange(-128, 128) - x.zero_point) * torch.tensor(x.scale)
    both = [_operand(site, arg, real) for arg in site.node.args[:2]]
    answers: Tensor = cast(Callable[..., Tensor], getattr(torch, name))(*both)
    return LoweredCall("compare_scalar", LutParams(value_of(site.stored[0]).numel()), (answers.to(torch.int8),))


def _operand(site: Site, arg: object, real: Tensor) -> object:
    """A number, or the real values of all stored values."""
    if not isinstance(arg, fx.Node):
        return arg
    return real if site.stored[0] in arg.all_input_nodes else site.constant(arg).reshape(())


def _choice(site: Site) -> LoweredCall | None:
    condition = cast(fx.Node, site.node.args[0])
    inputs = (condition, *site.stored)
    if len(site.stored) != _PAIR:
        return None
    shape = value_of(site.node).shape
    dims = layout.broadcast(shape, [value_of(arg) for arg in inputs], last=site.is_channels_last)
    return None if dims is None else LoweredCall("where", WhereParams(*cast(Any, dims)), inputs=inputs)


def spread(values: Array, strides: Dims5, dims: Dims5) -> I64:
    """Broadcast the elements of an operand to the dimensions of the result."""
    items = tuple(stride * values.itemsize for stride in strides)
    return np.lib.stride_tricks.as_strided(values, dims, items).astype(np.int64)


def _compute_sum(p: AddParams, a: Array, b: Array) -> Array:
    left, right = spread(a, p.a_strides, p.dims) - p.a_zp, spread(b, p.b_strides, p.dims) - p.b_zp
    return stored(rne_shift(left * p.a_mult + right * p.b_mult, p.shift) + p.out_zp)


def _compute_product(p: MulParams, a: Array, b: Array) -> Array:
    left, right = spread(a, p.a_strides, p.dims) - p.a_zp, spread(b, p.b_strides, p.dims) - p.b_zp
    return stored(rne_shift(left * right * p.mult, p.shift) + p.out_zp)


def _compute_comparison(p: CompareParams, a: Array, b: Array) -> Array:
    left, right = spread(a, p.a_strides, p.dims), spread(b, p.b_strides, p.dims)
    answers: tuple[npt.NDArray[np.bool_], ...] = (left < right, left <= right, left == right, left != right)
    return answers[p.kind]


def _compute_decision(_: LutParams, x: Array, table: Array) -> Array:
    return table[x.astype(np.int64) + 128] != 0


def _compute_choice(p: WhereParams, condition: Array, a: Array, b: Array) -> Array:
    chosen = spread(condition, p.condition_strides, p.dims) != 0
    return np.where(chosen, spread(a, p.a_strides, p.dims), spread(b, p.b_strides, p.dims)).astype(np.int8)


def _compute_int16_sum(p: AddS16Params, a: Array, b: Array) -> Array:
    left, right = spread(a, p.a_strides, p.dims), spread(b, p.b_strides, p.dims)
    return clipped(rne_shift(left * p.a_mult + right * p.b_mult, p.shift), p.act_min, p.act_max)


def _compute_int16_product(p: MulS16Params, a: Array, b: Array) -> Array:
    left, right = spread(a, p.a_strides, p.dims), spread(b, p.b_strides, p.dims)
    return clipped(rne_shift(left * right * p.mult, p.shift), p.act_min, p.act_max)


def _compute_extremum(p: ExtremumParams, a: Array, b: Array) -> Array:
    operands = spread(a, p.a_strides, p.dims), spread(b, p.b_strides, p.dims)
    return clipped(np.maximum(*operands) if p.maximum else np.minimum(*operands))


def _takes_pair(node: fx.Node) -> bool:
    """True for arithmetic of two tensors of more than one element each."""
    operands = [arg for arg in node.args[:2] if isinstance(arg, fx.Node)]
    return len(operands) == _PAIR and all(arg.op != "get_attr" or value_of(arg).numel() > 1 for arg in operands)


def _operands(node: fx.Node) -> list[fx.Node]:
    """The tensors of a sum or product."""
    return [arg for arg in node.args[:2] if isinstance(arg, fx.Node)]


def _patterns(
    takes: Callable[[fx.Node], bool], operands: Callable[[fx.Node], list[fx.Node]]
) -> Mapping[object, LoweringPattern]:
    """The patterns of arithmetic."""

    def pattern(call: Callable[[Site], LoweredCall | None], result: Result = Result.MEASURED) -> LoweringPattern:
        return LoweringPattern(call, result, takes, operands, any_order=True)

    add, sub = pattern(partial(_sum, sign=1)), pattern(partial(_sum, sign=-1))
    return {aten.add.Tensor: add, aten.sub.Tensor: sub, aten.mul.Tensor: pattern(_product)}


_COMPARISON = LoweringPattern(_comparison, Result.INTEGER, operands=_tensors, any_order=True)
_INT16 = _patterns(_takes_pair, _operands)

PATTERNS: Patterns = {
    torch.int8: {
        **_patterns(_is_unsupported_upstream, _tensors),
        **{
            getattr(getattr(aten, name), overload): _COMPARISON
            for name in _COMPARES
            for overload in ("Tensor", "Scalar")
        },
        aten.where.self: LoweringPattern(_choice, Result.SHARED, _takes_choice, _values, any_order=True),
    },
    torch.int16: {
        **_INT16,
        aten.add_.Tensor: _INT16[aten.add.Tensor],
        aten.sub_.Tensor: _INT16[aten.sub.Tensor],
        aten.mul_.Tensor: _INT16[aten.mul.Tensor],
        **{
            target: LoweringPattern(
                partial(_extremum, maximum=maximum), Result.SHARED, _takes_pair, _operands, any_order=True
            )
            for target, maximum in ((aten.maximum.default, 1), (aten.minimum.default, 0))
        },
    },
}

CLAMPED = frozenset({aten.add.Tensor, aten.add_.Tensor, aten.sub.Tensor, aten.sub_.Tensor, aten.mul.Tensor})
"""Operators with int16 results that can clamp them."""

DEFINITIONS: Mapping[str, Definition] = {
    "broadcast_add": Definition(_compute_sum, rounds=True),
    "broadcast_mul": Definition(_compute_product, rounds=True),
    "compare": Definition(_compute_comparison, rounds=False, dtype=torch.bool),
    "compare_scalar": Definition(_compute_decision, rounds=False, dtype=torch.bool),
    "where": Definition(_compute_choice, rounds=False),
    "broadcast_add_s16": Definition(_compute_int16_sum, rounds=True, dtype=torch.int16),
    "broadcast_mul_s16": Definition(_compute_int16_product, rounds=True, dtype=torch.int16),
    "extremum_s16": Definition(_compute_extremum, rounds=False, dtype=torch.int16),
}

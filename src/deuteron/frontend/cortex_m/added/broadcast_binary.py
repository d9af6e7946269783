"""Sums and products of tensors of which either repeats along any dimension, comparisons, and choices."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.added import layout
from deuteron.frontend.cortex_m.added.lowering_pattern import (
    Array,
    Call,
    Definition,
    Form,
    Result,
    Site,
    stored,
    value_of,
)
from deuteron.frontend.cortex_m.elementwise import aten_operator
from deuteron.frontend.cortex_m.upstream import adds_or_multiplies
from deuteron.npu.neutron.kernels.params import AddParams, Dims5, LutParams, MulParams
from deuteron.numerics import I64, requant, requants, rne_shift
from deuteron.operators.added import ChooseParams, CompareParams

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
"""What each operator compares for, and whether the other way round."""


def _tensors(node: fx.Node) -> list[fx.Node]:
    """The float tensors that a node reads, constants of more than one element among them."""
    floats = [arg for arg in node.all_input_nodes if value_of(arg).is_floating_point()]
    return [arg for arg in floats if arg.op != "get_attr" or value_of(arg).numel() > 1]


def _values(node: fx.Node) -> list[fx.Node]:
    """What a choice is made from."""
    return [arg for arg in node.args[1:3] if isinstance(arg, fx.Node)]


def _is_left(node: fx.Node) -> bool:
    """True for arithmetic of two float tensors that ExecuTorch's Cortex-M backend has not."""
    operands = [arg for arg in node.args[:2] if isinstance(arg, fx.Node) and value_of(arg).dtype == torch.float32]
    return len(operands) == 2 and not adds_or_multiplies(node)


def _takes_choice(node: fx.Node) -> bool:
    values = _values(node)
    return len(values) == 2 and all(value_of(arg).dtype == torch.float32 for arg in values)


def _sum(site: Site, *, sign: int) -> Call | None:
    if len(site.operands) != _PAIR or (dims := dims_of(site)) is None:
        return None
    (a, b), y, alpha = site.operands, site.result, cast(float, site.node.kwargs.get("alpha", 1))
    factors = [Fraction(a.scale) / Fraction(y.scale), abs(Fraction(alpha)) * Fraction(b.scale) / Fraction(y.scale)]
    (first, second), shift = requants(factors)
    second = second if (alpha > 0) == (sign > 0) else -second
    params = AddParams(*dims, a.zero_point, b.zero_point, first, second, shift, y.zero_point, -128, 127)
    return Call("broadcast_add", params)


def _product(site: Site) -> Call | None:
    if len(site.operands) != _PAIR or (dims := dims_of(site)) is None:
        return None
    a, b = site.operands
    factor = requant(Fraction(a.scale) * Fraction(b.scale) / Fraction(site.result.scale))
    numbers = (a.zero_point, b.zero_point, factor.multiplier, factor.shift, site.result.zero_point, -128, 127)
    return Call("broadcast_mul", MulParams(*dims, *numbers))


def dims_of(site: Site) -> tuple[Dims5, Dims5, Dims5] | None:
    """The dimensions of a result and the strides of two operands along them; None where records have too few."""
    values = [value_of(arg) for arg in site.stored]
    dims = layout.broadcast(value_of(site.node).shape, values, last=site.is_channels_last)
    return cast("tuple[Dims5, Dims5, Dims5] | None", dims)


def _comparison(site: Site) -> Call | None:
    name: str = cast(Any, aten_operator(site.node.target)).overloadpacket.__name__
    kind, is_turned = _COMPARES[name]
    if len(site.stored) == _PAIR:
        turned = (site.stored[1], site.stored[0]) if is_turned else site.stored
        dims = layout.broadcast(
            value_of(site.node).shape, [value_of(arg) for arg in turned], last=site.is_channels_last
        )
        params = None if dims is None else CompareParams(*cast("tuple[Dims5, Dims5, Dims5]", dims), kind)
        return None if params is None else Call("compare", params, inputs=turned)
    (x,) = site.operands
    real = (torch.arange(-128, 128) - x.zero_point) * torch.tensor(x.scale)
    both = [_operand(site, arg, real) for arg in site.node.args[:2]]
    answers: Tensor = cast(Callable[..., Tensor], getattr(torch, name))(*both)
    return Call("decide", LutParams(value_of(site.stored[0]).numel()), (answers.to(torch.int8),))


def _operand(site: Site, arg: object, real: Tensor) -> object:
    """A number, or what stands for every stored value."""
    if not isinstance(arg, fx.Node):
        return arg
    return real if site.stored[0] in arg.all_input_nodes else site.constant(arg).reshape(())


def _choice(site: Site) -> Call | None:
    condition = cast(fx.Node, site.node.args[0])
    inputs = (condition, *site.stored)
    if len(site.stored) != _PAIR:
        return None
    shape = value_of(site.node).shape
    dims = layout.broadcast(shape, [value_of(arg) for arg in inputs], last=site.is_channels_last)
    return None if dims is None else Call("choose", ChooseParams(*cast(Any, dims)), inputs=inputs)


def spread(values: Array, strides: Dims5, dims: Dims5) -> I64:
    """The elements of an operand, as many as the result has."""
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


def _compute_choice(p: ChooseParams, condition: Array, a: Array, b: Array) -> Array:
    chosen = spread(condition, p.condition_strides, p.dims) != 0
    return np.where(chosen, spread(a, p.a_strides, p.dims), spread(b, p.b_strides, p.dims)).astype(np.int8)


_COMPARISON = Form(_comparison, Result.INTEGER, operands=_tensors, any_order=True)

FORMS: Mapping[object, Form] = {
    aten.add.Tensor: Form(partial(_sum, sign=1), takes=_is_left, operands=_tensors, any_order=True),
    aten.sub.Tensor: Form(partial(_sum, sign=-1), takes=_is_left, operands=_tensors, any_order=True),
    aten.mul.Tensor: Form(_product, takes=_is_left, operands=_tensors, any_order=True),
    **{getattr(getattr(aten, name), overload): _COMPARISON for name in _COMPARES for overload in ("Tensor", "Scalar")},
    aten.where.self: Form(_choice, Result.SHARED, _takes_choice, _values, any_order=True),
}

DEFINITIONS: Mapping[str, Definition] = {
    "broadcast_add": Definition(_compute_sum, rounds=True),
    "broadcast_mul": Definition(_compute_product, rounds=True),
    "compare": Definition(_compute_comparison, rounds=False, dtype=torch.bool),
    "decide": Definition(_compute_decision, rounds=False, dtype=torch.bool),
    "choose": Definition(_compute_choice, rounds=False),
}

"""Decomposes composite operators before ranges are measured, so that each inner value has its own range.

ExecuTorch decomposes them after quantization, when inner values get no ranges.
"""

import importlib
import math
from collections.abc import Callable, Mapping
from functools import cache, partial, reduce
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from deuteron.frontend.cortex_m.refusals import refusal
from deuteron.frontend.operators import called, reads_inputs
from deuteron.frontend.quantize import linear_algebra, losses
from deuteron.frontend.quantize.decompositions import call, constant, replace

aten = torch.ops.aten

_COMPOSITES = """
addcdiv addcmul atleast_1d atleast_2d atleast_3d baddbmm binary_cross_entropy binary_cross_entropy_with_logits
block_diag chain_matmul channel_shuffle column_stack diff dstack fliplr flipud hstack huber_loss kl_div kron l1_loss
lerp linalg_multi_dot linalg_norm movedim mse_loss norm outer roll rot90 smooth_l1_loss soft_margin_loss tensordot
tile vstack
"""
NAMES = frozenset(_COMPOSITES.split())
"""Operators with suitable decompositions in PyTorch, by the names of its registry without overload."""

_OUTER_COMPOSITES = """
cartesian_prod cross cumulative_trapezoid det diag diagflat dsplit einsum frobenius_norm gradient
hsplit inverse linalg_cross linalg_det linalg_diagonal linalg_inv linalg_matmul linalg_matrix_norm
linalg_matrix_power linalg_solve linalg_vecdot masked_scatter matrix_power meshgrid mode msort mv
nanmean pad_sequence renorm special_ndtr sum_to_size trace triplet_margin_loss vsplit
"""
_OUTER = frozenset(_OUTER_COMPOSITES.split())
"""Composites of operators that other passes write differently, by the same names."""


def _log_of_sums(x: Any, dim: list[int], keepdim: bool = False) -> Any:
    largest = x.amax(dim, keepdim=True)
    sums = (x - largest).exp().sum(dim, keepdim=True).log() + largest
    return sums if keepdim else sums.squeeze(dim)


def _log_of_sum(x: Any, y: Any) -> Any:
    return torch.maximum(x, y) + (-(x - y).abs()).exp().log1p()


def _variance(x: Any, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
    dims = dim or [*range(x.dim())]
    squares = (x - x.mean(dims, keepdim=True)).square()
    count = math.prod(x.shape[one] for one in dims) - (1 if correction is None else correction)
    return squares.sum(dims, keepdim=keepdim) / max(count, 0)


def _variance_of_dims(x: Any, dim: list[int] | None = None, unbiased: bool = True, keepdim: bool = False) -> Any:
    return _variance(x, dim, correction=int(unbiased), keepdim=keepdim)


def _deviation(variance: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: variance(*args, **kwargs).sqrt()


def _product(x: Any, dim: int, keepdim: bool = False) -> Any:
    result = reduce(torch.mul, (x.select(dim, index) for index in range(x.shape[dim])))
    return result.unsqueeze(dim) if keepdim else result


def _bilinear(x: Any, y: Any, weight: Any, bias: Any = None) -> Any:
    rows = weight.permute(1, 0, 2).flatten(1)
    products = x.matmul(rows).unflatten(-1, (weight.shape[0], weight.shape[2])) * y.unsqueeze(-2)
    return products.sum(-1) if bias is None else products.sum(-1) + bias


def _distance(x: Any, y: Any, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> Any:
    return cast(Any, torch).linalg.vector_norm(x - y + eps, p, [-1], keepdim)


def _distances(x: Any, y: Any, p: float = 2, compute_mode: int | None = None) -> Any:
    del compute_mode
    return cast(Any, torch).linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, [-1])


def _nonzeros(x: Any, dim: list[int] | int | None = None) -> Any:
    return (x != 0).sum() if dim is None else (x != 0).sum(dim)


def _with_mean(variance: Callable[..., Any]) -> Callable[..., Any]:
    def both(x: Any, dim: list[int] | None = None, *args: Any, **kwargs: Any) -> Any:
        keeps = args[1] if len(args) > 1 else kwargs.get("keepdim", False)
        return variance(x, dim, *args, **kwargs), x.mean(dim or [*range(x.dim())], keepdim=keeps)

    return both


def _largest_so_far(x: Any, dim: int) -> Any:
    """Return the maximum of each element and all before it, in steps that double; the indices are unknown."""
    step, size = 1, x.shape[dim]
    while step < size:
        before, rest = x.narrow(dim, 0, size - step), x.narrow(dim, step, size - step)
        x = torch.cat([x.narrow(dim, 0, step), torch.maximum(before, rest)], dim)
        step *= 2
    return x, None


def _smallest_so_far(x: Any, dim: int) -> Any:
    largest, _ = _largest_so_far(-x, dim)
    return -largest, None


def _linalg_cross(x: Any, y: Any, *, dim: int = -1) -> Any:
    return linear_algebra.cross(x, y, dim)


def _trace(x: Any) -> Any:
    return x.diagonal().sum()


def _norm_of_difference(x: Any, y: Any, p: float = 2) -> Any:
    return cast(Any, torch).linalg.vector_norm(x - y, p)


def _count(x: Any, _: float, dim: list[int] | None = None, keepdim: bool = False) -> Any:
    return (x != 0).to(x.dtype).sum(dim or [*range(x.dim())], keepdim=keepdim)


def _divided(x: Any, y: Any, *, rounding_mode: str | None = "floor") -> Any:
    quotient = x / y
    if rounding_mode is None:
        return quotient
    return quotient.floor() if rounding_mode == "floor" else quotient.trunc()


def _is_nan(x: Any) -> Any:
    return x != x


def _is_infinite(x: Any) -> Any:
    return x.abs() == math.inf


def _is_finite(x: Any) -> Any:
    return x.abs() < math.inf


def _hypotenuse(x: Any, y: Any) -> Any:
    return (x * x + y * y).sqrt()


def _angle(y: Any, x: Any) -> Any:
    """Compute the angle of the octant, whose quotient is at most 1, and unfold it."""
    up, across = y.abs(), x.abs()
    quotient = torch.minimum(up, across) / torch.maximum(up, across).clamp_min(torch.finfo(torch.float32).tiny)
    angle = quotient.atan()
    angle = torch.where(up > across, math.pi / 2 - angle, angle)
    angle = torch.where(x < 0, math.pi - angle, angle)
    return torch.where(y < 0, -angle, angle)


def _heaviside(x: Any, at_zero: Any) -> Any:
    return torch.where(x > 0, 1.0, torch.where(x < 0, 0.0, at_zero))


def _with_sign(x: Any, y: Any) -> Any:
    if not isinstance(y, Tensor):
        return -x.abs() if math.copysign(1, y) < 0 else x.abs()
    return torch.where(y < 0, -x.abs(), x.abs())


def _is_below_zero(x: Any) -> Any:
    return x < 0


def _is_zero(x: Any) -> Any:
    return x == 0


def _are_equal(x: Any, y: Any) -> Any:
    return (x >= y) & (x <= y)


def _are_unequal(x: Any, y: Any) -> Any:
    return (x > y) | (x < y)


def _are_close(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    del equal_nan  # no int8 value is NaN
    return (x - y).abs() <= y.abs() * rtol + atol


def _logcumsumexp(x: Any, dim: int) -> Any:
    """Return the logarithm of the sum of powers of each element and all before it, in steps that double."""
    step, size = 1, x.shape[dim] if x.dim() else 1
    while step < size:
        before, rest = x.narrow(dim, 0, size - step), x.narrow(dim, step, size - step)
        x = torch.cat([x.narrow(dim, 0, step), _log_of_sum(before, rest)], dim)
        step *= 2
    return x


def _distances_of_pairs(x: Any, p: float = 2) -> Any:
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return cast(Any, torch).linalg.vector_norm(x[first] - x[second], p, [-1])


def _sum_without_nan(x: Any, dim: list[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return torch.where(x != x, 0.0, x).sum(dim or [*range(x.dim())], keepdim=keepdim, dtype=dtype)


def _powers(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803 - PyTorch's name
    count = x.shape[-1] if N is None else N
    powers = [x**exponent if exponent else torch.ones(x.shape) for exponent in range(count)]
    return torch.stack(powers if increasing else powers[::-1], -1)


def _trapezoids(x: Any, *, dx: float = 1, dim: int = -1) -> Any:
    ends = x.select(dim, 0) + x.select(dim, -1)
    return (x.sum(dim) - ends * 0.5) * dx


def _added_product(x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Any:
    return x * beta + a.matmul(b) * alpha


def _added_products(x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Any:
    return x * beta + a.bmm(b).sum(0) * alpha


def _added_vector(x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Any:
    return x * beta + a.mv(b) * alpha


def _added_outer_product(x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Any:
    return x * beta + a.unsqueeze(1) * b * alpha


def _slice_written(
    x: Any, source: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    places = range(x.shape[dim])[start:end:step]
    if step == 1:
        first, last = (places.start, places.stop) if places else (x.shape[dim], x.shape[dim])
        rest = x.narrow(dim, last, x.shape[dim] - last)
        return torch.cat([x.narrow(dim, 0, first), source, rest], dim)
    written = {place: source.narrow(dim, number, 1) for number, place in enumerate(places)}
    return torch.cat([written.get(place, x.narrow(dim, place, 1)) for place in range(x.shape[dim])], dim)


def _row_written(x: Any, source: Any, dim: int, index: int) -> Any:
    place = index % x.shape[dim]
    return _slice_written(x, source.unsqueeze(dim), dim, place, place + 1)


def _overwritten(x: Any, source: Any, non_blocking: bool = False) -> Any:
    del non_blocking
    return source.expand(x.shape)


def _filled(x: Any, value: float) -> Any:
    return torch.full(x.shape, value)


def _written_where(x: Any, mask: Any, source: Any) -> Any:
    """Write one element of the source after the other into the places of a mask."""
    shape = cast(Any, torch).broadcast_shapes(x.shape, mask.shape)
    places = mask.expand(shape).reshape(-1).to(torch.int64).cumsum(0) - 1
    return torch.where(mask, source.reshape(-1)[places.clamp(min=0)].reshape(shape), x)


def _most_frequent(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the smallest of the most frequent integers; the indices are unknown."""
    rows = x.transpose(dim, -1)
    counts = (rows.unsqueeze(-1) == rows.unsqueeze(-2)).to(torch.int64).sum(-1)
    is_most = counts == counts.amax(-1, keepdim=True)
    least = torch.where(is_most, rows, rows.amax(-1, keepdim=True)).amin(-1, keepdim=True).transpose(dim, -1)
    return least if keepdim else least.squeeze(dim), None


def _padded(
    sequences: list[Any], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    longest = max(one.shape[0] for one in sequences)
    parts: list[Any] = []
    for one in sequences:
        ends = [0, longest - one.shape[0]]
        padding = [0, 0] * (one.dim() - 1) + (ends if padding_side == "right" else ends[::-1])
        parts.append(torch.constant_pad_nd(one, padding, padding_value))
    return torch.stack(parts, 0 if batch_first else 1)


def _power_of_two(x: Any) -> Any:
    return (x * math.log(2)).exp()


def _complement_of_error_function(x: Any) -> Any:
    return 1 - x.erf()


def _between(x: Any, end: Any, weight: float) -> Any:
    return x + (end - x) * weight


def _rounded(x: Any, *, decimals: int) -> Any:
    unit = 10.0 ** abs(decimals)
    return (x * unit).round() / unit if decimals >= 0 else (x / unit).round() * unit


def _fused(x: Any, factor: Any, addend: Any) -> Any:
    return x * factor + addend


_BY_HAND: Mapping[object, Callable[..., Any]] = {
    aten.addbmm.default: _added_products,
    aten.addmm.default: _added_product,
    aten.addmv.default: _added_vector,
    aten.addr.default: _added_outer_product,
    aten.atan2.default: _angle,
    aten.bilinear.default: _bilinear,
    aten.cdist.default: _distances,
    aten.copy.default: _overwritten,
    aten.copysign.Tensor: _with_sign,
    aten.copysign.Scalar: _with_sign,
    aten.cross.default: linear_algebra.cross,
    **losses.FORMS,
    **linear_algebra.FORMS,
    aten.masked_scatter.default: _written_where,
    aten.mode.default: _most_frequent,
    aten.pad_sequence.default: _padded,
    aten.fill.Scalar: _filled,
    aten.select_scatter.default: _row_written,
    aten.slice_scatter.default: _slice_written,
    aten.erfc.default: _complement_of_error_function,
    aten.exp2.default: _power_of_two,
    aten.cummax.default: _largest_so_far,
    aten.cummin.default: _smallest_so_far,
    aten.dist.default: _norm_of_difference,
    aten.div.Tensor_mode: _divided,
    aten.floor_divide.default: _divided,
    aten.eq.Tensor: _are_equal,
    aten.isclose.default: _are_close,
    aten.logcumsumexp.default: _logcumsumexp,
    aten.logical_not.default: _is_zero,
    aten.nansum.default: _sum_without_nan,
    aten.ne.Tensor: _are_unequal,
    aten.pdist.default: _distances_of_pairs,
    aten.signbit.default: _is_below_zero,
    **dict.fromkeys((aten.count_nonzero.default, aten.count_nonzero.dim_IntList), _nonzeros),
    aten.heaviside.default: _heaviside,
    aten.hypot.default: _hypotenuse,
    aten.linalg_cross.default: _linalg_cross,
    aten.trace.default: _trace,
    aten.vander.default: _powers,
    aten.linalg_vander.default: partial(_powers, increasing=True),
    **dict.fromkeys((aten.trapezoid.dx, aten.trapz.dx), _trapezoids),
    aten.isfinite.default: _is_finite,
    aten.isinf.default: _is_infinite,
    aten.isnan.default: _is_nan,
    aten.lerp.Scalar: _between,
    aten.round.decimals: _rounded,
    aten.logaddexp.default: _log_of_sum,
    aten.logsumexp.default: _log_of_sums,
    aten.pairwise_distance.default: _distance,
    aten.prod.dim_int: _product,
    aten.std.correction: _deviation(_variance),
    aten.std.dim: _deviation(_variance_of_dims),
    aten.std_mean.correction: _with_mean(_deviation(_variance)),
    aten.std_mean.dim: _with_mean(_deviation(_variance_of_dims)),
    aten.var.correction: _variance,
    aten.var.dim: _variance_of_dims,
    aten.var_mean.correction: _with_mean(_variance),
    aten.var_mean.dim: _with_mean(_variance_of_dims),
}
"""Operators without a decomposition in PyTorch, or without one that suits int8."""


_MODE = "take the mode of integers, as `x.round().long().mode(-1).values`, without the indices"


def write_outer(model: fx.GraphModule) -> None:
    """Decompose, in place, composites of operators that other passes write differently.

    Raises:
        UnsupportedError: a mode of floats, or with indices that are read.
    """
    for node in model.graph.find_nodes(op="call_function", target=aten.mode.default):
        if not _has_form(node):
            raise refusal(node, "counts equal floats, or gives their places, which int8 cannot", _MODE)
    _replace(
        model,
        lambda node: _is_fused(node) or ((called(node) in _OUTER or node.target in losses.FORMS) and _has_form(node)),
    )


def write(model: fx.GraphModule) -> None:
    """Decompose the operators in place."""
    _replace(model, lambda node: _is_norm(node) or (_is_listed(node) and _has_form(node)))


def _is_listed(node: fx.Node) -> bool:
    return node.target not in _TABLES and bool(node.target in _BY_HAND or called(node) in NAMES)


def _is_fused(node: fx.Node) -> bool:
    """True for the fused multiply-add that PyTorch's export makes of `addcmul_`; Inductor defines it when it loads."""
    return node.op == "call_function" and str(node.target) == "prims.fma.default"


def _replace(model: fx.GraphModule, is_meant: Callable[[fx.Node], bool]) -> None:
    for node in list(model.graph.nodes):
        if node.op == "call_function" and is_meant(node):
            replace(model, node, _decomposed)
    model.graph.eliminate_dead_code()
    model.recompile()


def _has_form(node: fx.Node) -> bool:
    """Return False for an operator whose decomposition lacks a value that is read, or is for floats alone."""
    if node.target in (aten.cummax.default, aten.cummin.default):
        return all(user.args[1] == 0 for user in node.users)
    if node.target in linear_algebra.FORMS:
        return reads_inputs(node)
    if node.target is aten.mode.default:
        x = cast(fx.Node, node.args[0]).meta["val"]
        return not x.is_floating_point() and all(user.args[1] == 0 or not user.users for user in node.users)
    if node.target in _FOR_FLOATS:
        return all(one.meta["val"].is_floating_point() and one.meta["val"].numel() for one in node.all_input_nodes)
    if node.target in (aten.div.Tensor_mode, aten.floor_divide.default):
        return isinstance(node.args[1], fx.Node) and bool(node.meta["val"].is_floating_point())
    return True


_FOR_FLOATS = frozenset(
    {
        aten.copy.default, aten.copysign.Tensor, aten.copysign.Scalar, aten.eq.Tensor, aten.fill.Scalar,
        aten.heaviside.default, aten.isclose.default, aten.select_scatter.default, aten.slice_scatter.default,
        aten.linalg_vander.default, aten.logical_not.default, aten.nansum.default, aten.ne.Tensor,
        aten.signbit.default, aten.trapezoid.dx, aten.trapz.dx, aten.vander.default,
    }
)  # fmt: skip
_TABLES = frozenset({aten.erfc.default, aten.exp2.default, aten.round.decimals})
"""Functions of which a CPU with int8 operators makes tables."""

_NOWHERE = frozenset(
    {
        *losses.FORMS, *_TABLES,
        aten.addmv.default, aten.cummax.default, aten.cummin.default,
        aten.bilinear.default, aten.copysign.Tensor, aten.copysign.Scalar, aten.hypot.default,
        aten.isclose.default, aten.logaddexp.default, aten.logcumsumexp.default, aten.signbit.default,
    }
)  # fmt: skip
"""Operators that neither ExecuTorch's backends nor its portable kernels have."""


def write_missing(model: fx.GraphModule) -> None:
    """Decompose, in place, operators and norms of orders that no backend has."""
    _replace(
        model,
        lambda node: (
            (node.target in _NOWHERE and _has_form(node))
            or (_is_norm(node) and bool(node.args[1] != 1))
            or (node.target is aten.addmm.default and bool(node.kwargs))  # whose factors Arm's passes fail on
            or node.target is aten.baddbmm.default  # which may add a mask, as in attention that returns its weights
        ),
    )


def _is_norm(node: fx.Node) -> bool:
    """True for a vector norm of an order other than 2."""
    return node.target is aten.linalg_vector_norm.default and len(node.args) > 1 and bool(node.args[1] != 2)


def _decomposed(model: fx.GraphModule, node: fx.Node) -> fx.Node | list[fx.Node | None] | None:
    """Insert the decomposition of a node before it; None if PyTorch does not decompose it."""
    tensors = list(dict.fromkeys(node.all_input_nodes))
    target: Any = _fused if _is_fused(node) else _BY_HAND.get(node.target, node.target)
    if _is_norm(node) and node.args[1] == 0:
        target = _count

    def run(*values: Tensor) -> Tensor:
        of = dict(zip(tensors, values, strict=True))
        args, kwargs = (map_arg(cast(Any, given), of.__getitem__) for given in (node.args, node.kwargs))
        return target(*args, **kwargs)

    traced = make_fx(run, decomposition_table=_table())(*(one.meta["val"] for one in tensors))
    inner = [one for one in traced.graph.nodes if one.op == "call_function"]
    values = dict(zip(traced.graph.find_nodes(op="placeholder"), tensors, strict=True))
    result: Any = traced.graph.output_node().args[0]
    if not inner:
        return values.get(result) if isinstance(result, fx.Node) else None
    if any(one.target is node.target or _changes_an_operand(one) for one in inner):
        return None
    fixed: dict[fx.Node, Any] = {}  # what the decomposition computes from numbers alone
    for one in traced.graph.nodes:
        if one.op == "get_attr":
            fixed[one] = getattr(traced, str(one.target))
        elif one.op == "call_function" and fixed.keys() >= {*one.all_input_nodes}:
            fixed[one] = one.target(*map_arg(one.args, fixed.__getitem__), **map_arg(one.kwargs, fixed.__getitem__))
        else:
            for given in one.all_input_nodes:
                if given not in values:
                    values[given] = constant(model, node, f"{node.name}_{given.name}", fixed[given])
        if one.op == "call_function" and one not in fixed:
            args, kwargs = (map_arg(given, values.__getitem__) for given in (one.args, one.kwargs))
            values[one] = call(node, one.target, *args, **kwargs)
    return map_arg(result, values.__getitem__)


def _changes_an_operand(node: fx.Node) -> bool:
    schema: Any = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


@cache
def _table() -> Mapping[Any, Callable[..., Any]]:
    """PyTorch's decompositions of these operators."""
    tables: Any = importlib.import_module("torch._decomp")
    made: dict[Any, Callable[..., Any]] = tables.decomposition_table
    return {op: decompose for op, decompose in made.items() if _name(op) in NAMES | _OUTER | {"linalg_vector_norm"}}


def _name(operator: Any) -> str:
    return str(operator.name()).partition("::")[2].partition(".")[0]

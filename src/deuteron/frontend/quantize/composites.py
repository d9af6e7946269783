"""Decomposes composite operators before ranges are measured, so that each inner value has its own range.

ExecuTorch decomposes them after quantisation, when inner values get no ranges.
"""

import importlib
import math
from collections.abc import Callable, Mapping
from functools import cache, reduce
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from deuteron.frontend.operators import called
from deuteron.frontend.quantize.decompositions import call, constant, replace

aten = torch.ops.aten

_COMPOSITES = """
addcdiv addcmul atleast_1d atleast_2d atleast_3d baddbmm binary_cross_entropy binary_cross_entropy_with_logits
block_diag channel_shuffle column_stack diff dstack einsum fliplr flipud hstack huber_loss kl_div kron l1_loss lerp
linalg_multi_dot linalg_norm movedim mse_loss norm outer roll rot90 smooth_l1_loss soft_margin_loss tensordot
tile vstack
"""
NAMES = frozenset(_COMPOSITES.split())
"""Operators with suitable decompositions in PyTorch, by the names of its registry without overload."""


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
    result = reduce(torch.mul, x.unbind(dim))
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


def _added_product(x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Any:
    return x * beta + a.matmul(b) * alpha


def _added_products(x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Any:
    return x * beta + a.bmm(b).sum(0) * alpha


def _between(x: Any, end: Any, weight: float) -> Any:
    return x + (end - x) * weight


_BY_HAND: Mapping[object, Callable[..., Any]] = {
    aten.addbmm.default: _added_products,
    aten.addmm.default: _added_product,
    aten.atan2.default: _angle,
    aten.bilinear.default: _bilinear,
    aten.cdist.default: _distances,
    **dict.fromkeys((aten.count_nonzero.default, aten.count_nonzero.dim_IntList), _nonzeros),
    aten.hypot.default: _hypotenuse,
    aten.isfinite.default: _is_finite,
    aten.isinf.default: _is_infinite,
    aten.isnan.default: _is_nan,
    aten.lerp.Scalar: _between,
    aten.logaddexp.default: _log_of_sum,
    aten.logsumexp.default: _log_of_sums,
    aten.pairwise_distance.default: _distance,
    aten.prod.dim_int: _product,
    aten.std.correction: _deviation(_variance),
    aten.std.dim: _deviation(_variance_of_dims),
    aten.var.correction: _variance,
    aten.var.dim: _variance_of_dims,
}
"""Operators without a decomposition in PyTorch, or without one that suits int8."""


def write(model: fx.GraphModule) -> None:
    """Decompose the operators in place."""
    for node in list(model.graph.nodes):
        if node.op != "call_function" or not isinstance(node.meta.get("val"), Tensor):
            continue
        if node.target in _BY_HAND or called(node) in NAMES or _is_norm(node):
            replace(model, node, _decomposed)
    model.graph.eliminate_dead_code()
    model.recompile()


_NOWHERE = frozenset({aten.hypot.default, aten.logaddexp.default})
"""Operators that neither ExecuTorch's backends nor its portable kernels have."""


def write_missing(model: fx.GraphModule) -> None:
    """Decompose, in place, operators and norms of orders that no backend has."""
    for node in list(model.graph.nodes):
        if node.target in _NOWHERE or (_is_norm(node) and node.args[1] != 1):
            replace(model, node, _decomposed)
    model.graph.eliminate_dead_code()
    model.recompile()


def _is_norm(node: fx.Node) -> bool:
    """True for a vector norm of an order other than 2."""
    return node.target is aten.linalg_vector_norm.default and len(node.args) > 1 and bool(node.args[1] != 2)


def _decomposed(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Insert the decomposition of a node before it; None if PyTorch does not decompose it."""
    tensors = list(dict.fromkeys(node.all_input_nodes))
    target: Any = _BY_HAND.get(node.target, node.target)

    def run(*values: Tensor) -> Tensor:
        of = dict(zip(tensors, values, strict=True))
        args, kwargs = (map_arg(cast(Any, given), of.__getitem__) for given in (node.args, node.kwargs))
        return target(*args, **kwargs)

    traced = make_fx(run, decomposition_table=_table())(*(one.meta["val"] for one in tensors))
    inner = [one for one in traced.graph.nodes if one.op == "call_function"]
    if not inner or any(one.target is node.target for one in inner):
        return None
    values = dict(zip(traced.graph.find_nodes(op="placeholder"), tensors, strict=True))
    for one in traced.graph.nodes:
        if one.op == "get_attr":
            values[one] = constant(model, node, f"{node.name}_{one.name}", getattr(traced, str(one.target)))
        elif one.op == "call_function":
            args, kwargs = (map_arg(given, values.__getitem__) for given in (one.args, one.kwargs))
            values[one] = call(node, one.target, *args, **kwargs)
    return cast(fx.Node, map_arg(traced.graph.output_node().args[0], values.__getitem__))


@cache
def _table() -> Mapping[Any, Callable[..., Any]]:
    """PyTorch's decompositions of these operators."""
    tables: Any = importlib.import_module("torch._decomp")
    made: dict[Any, Callable[..., Any]] = tables.decomposition_table
    return {op: decompose for op, decompose in made.items() if _name(op) in NAMES | {"linalg_vector_norm"}}


def _name(operator: Any) -> str:
    return str(operator.name()).partition("::")[2].partition(".")[0]

"""Writes operators on the user's integers so that back-ends and ExecuTorch's kernels compute them exactly.

Back-ends take int8 and int16 values as quantized numbers: these are computed in int32 and cast back, which wraps as
PyTorch's int8 and int16 arithmetic does. ExecuTorch's kernels add integers in float32 and compute powers in float64:
sums become the last of running sums, and powers products.
"""

import operator
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from deuteron.frontend.operators import called
from deuteron.frontend.quantize.decompositions import call, replace

aten = torch.ops.aten

_NARROW = frozenset({torch.int8, torch.int16})
_CUMULATIVE = "all any cumprod cumsum prod sum"
_SORTING = "argsort kthvalue median sort topk"
_OTHERS = frozenset(f"{_CUMULATIVE} {_SORTING} and floor_divide or xor".split())
"""Operators that compute on integers, and that PyTorch does not call elementwise."""
_EXACT = 2**24
"""The largest magnitude up to which float32 has all integers."""


def write(model: fx.GraphModule) -> None:
    """Rewrite the operators in place."""
    for node in list(model.graph.nodes):
        if node.op != "call_function":
            continue
        if _computes(node) and (narrow := [arg for arg in node.all_input_nodes if _dtype(arg) in _NARROW]):
            _widen(node, narrow)
        if called(node) == "sum" and not _is_small(node):
            replace(model, node, _running_sum)
        elif node.target is aten.pow.Tensor_Scalar and _is_integer(node):
            replace(model, node, _product)
    model.graph.lint()
    model.recompile()


def _is_integer(node: fx.Node) -> bool:
    return not node.meta["val"].is_floating_point() and not node.meta["val"].is_complex()


def _is_small(total: fx.Node) -> bool:
    """Return True for a sum that float32 holds exactly, or whose operand is not of integers."""
    x = cast(fx.Node, total.args[0])
    while x.target is aten.to.dtype and _is_integer(cast(fx.Node, x.args[0])):
        x = cast(fx.Node, x.args[0])
    value = x.meta["val"]
    if not _is_integer(x) or value.dtype == torch.bool:
        return True
    ends = torch.iinfo(value.dtype)
    return max(-ends.min, ends.max) * value.numel() <= _EXACT * max(total.meta["val"].numel(), 1)


def _running_sum(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    x, dims, keeps = cast("tuple[fx.Node, Any, bool]", (*node.args, None, False)[:3])
    rank, dtype = x.meta["val"].dim(), node.meta["val"].dtype
    x = x if _dtype(x) == dtype else call(node, aten.to.dtype, x, dtype)
    for dim in sorted({dim % rank for dim in dims} if dims and rank else range(rank), reverse=True):
        size = x.meta["val"].shape[dim]
        x = call(node, aten.slice.Tensor, call(node, aten.cumsum.default, x, dim), dim, size - 1, size)
        x = x if keeps else call(node, aten.squeeze.dim, x, dim)
    return x


def _product(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Square and multiply."""
    x, exponent = cast("tuple[fx.Node, Any]", node.args)
    if not isinstance(exponent, int) or exponent < 1:
        return None
    result = x
    for bit in f"{exponent:b}"[1:]:
        result = call(node, aten.mul.Tensor, result, result)
        result = call(node, aten.mul.Tensor, result, x) if bit == "1" else result
    return result


def _computes(node: fx.Node) -> bool:
    name = called(node).strip("_")
    is_pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    return name != "clone" and (is_pointwise or name in _OTHERS)


def _widen(node: fx.Node, operands: list[fx.Node]) -> None:
    for arg in operands:
        node.replace_input_with(arg, call(node, aten.to.dtype, arg, torch.int32))
    before = node.meta["val"]
    node.meta = dict(node.meta)
    args, kwargs = (map_arg(cast(Any, given), lambda arg: arg.meta["val"]) for given in (node.args, node.kwargs))
    node.meta["val"] = cast(Any, node.target)(*args, **cast("dict[str, Any]", kwargs))
    if isinstance(before, Tensor):
        _cast_back(node, before.dtype)
        return
    for result in [user for user in node.users if user.target is operator.getitem]:
        dtype = _dtype(result)
        result.meta["val"] = node.meta["val"][cast(int, result.args[1])]
        _cast_back(result, dtype)


def _cast_back(result: fx.Node, dtype: torch.dtype | None) -> None:
    """Give the readers of a result this dtype."""
    if dtype is None or dtype == result.meta["val"].dtype:
        return
    back = call(result.next, aten.to.dtype, result, dtype)
    back.meta = result.meta | {"val": back.meta["val"]}
    result.replace_all_uses_with(back, delete_user_cb=lambda user: user is not back)


def _dtype(node: fx.Node) -> torch.dtype | None:
    value: object = node.meta.get("val")
    return value.dtype if isinstance(value, Tensor) else None

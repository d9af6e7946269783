"""Finds norms that a model writes out, such as `(x - mean) / sqrt(variance + 1e-5)`, and writes them as layer norms.

A quantized quotient of a difference and a root has three roundings, and one scale for all roots; a norm rounds once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.quantize.decompositions import Decomposition, apply, call

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Replace quotients by roots of variances and of mean squares in place."""
    apply(model, _DECOMPOSITIONS)


@dataclass(frozen=True, slots=True)
class _Spread:
    """The mean square of a tensor over dimensions, or its variance if it is centred, times `factor`."""

    x: fx.Node
    dims: tuple[int, ...]
    is_centred: bool
    factor: float = 1.0


def _quotient(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Replace `x / root`."""
    x, root = node.args[:2]
    if not isinstance(x, fx.Node) or not isinstance(root, fx.Node):
        return None
    if root.target is aten.sqrt.default:
        return _norm(node, x, root.args[0])
    if root.target is aten.pow.Tensor_Scalar and root.args[1] == 0.5:
        return _norm(node, x, root.args[0])
    return None


def _product(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Replace `x * rsqrt(...)`."""
    for x, root in (node.args[:2], node.args[1::-1]):
        if isinstance(x, fx.Node) and isinstance(root, fx.Node):
            is_power = root.target is aten.pow.Tensor_Scalar and root.args[1] == -0.5
            if root.target is aten.rsqrt.default or is_power:
                return _norm(node, x, root.args[0])
            if root.target is aten.reciprocal.default and _is(root.args[0], aten.sqrt.default):
                return _norm(node, x, cast(fx.Node, root.args[0]).args[0])
    return None


def _norm(node: fx.Node, x: fx.Node, radicand: object) -> fx.Node | None:
    """Return the norm that a quotient of a tensor and the root of its spread is."""
    if not _is(radicand, aten.add.Tensor) or cast(fx.Node, radicand).kwargs:
        return None
    squares, least = cast(fx.Node, radicand).args
    spread = _spread(squares) if isinstance(squares, fx.Node) and isinstance(least, int | float) else None
    if spread is None or not cast(float, least) > 0:
        return None
    source = _centred(x, spread.dims) if spread.is_centred else x
    if source is None or source is not spread.x:
        return None
    rank = source.meta["val"].dim()
    last = [*range(rank - len(spread.dims), rank)]
    order = [dim for dim in range(rank) if dim not in spread.dims] + [*spread.dims]
    moves = [*spread.dims] != last
    rows = call(node, aten.permute.default, source, order) if moves else source
    sizes, epsilon = [*rows.meta["val"].shape[-len(last) :]], cast(float, least) / spread.factor
    if spread.is_centred:
        result = call(node, aten.layer_norm.default, rows, sizes, None, None, epsilon)
    else:
        result = call(node, aten.rms_norm.default, rows, sizes, None, epsilon)
    if moves:
        result = call(node, aten.permute.default, result, [order.index(dim) for dim in range(rank)])
    return result if spread.factor == 1 else call(node, aten.mul.Tensor, result, 1 / math.sqrt(spread.factor))


def _spread(node: fx.Node) -> _Spread | None:
    """Return the spread that a node computes."""
    if node.target in (aten.var.correction, aten.var.dim):
        return _variance(node)
    found = _mean(node)
    if found is None:
        return None
    squares, dims = found
    is_square = squares.target is aten.pow.Tensor_Scalar and squares.args[1] == 2
    is_product = squares.target is aten.mul.Tensor and squares.args[0] is squares.args[1]
    if not (is_square or is_product or squares.target is aten.square.default):
        return None
    x = cast(fx.Node, squares.args[0])
    centred = _centred(x, dims)
    return _Spread(x, dims, False) if centred is None else _Spread(centred, dims, True)


def _variance(node: fx.Node) -> _Spread | None:
    x, given, *others = cast("tuple[fx.Node, Any]", (*node.args, None)[: max(2, len(node.args))])
    dims = _dims(x, given if given is not None else node.kwargs.get("dim"))
    if node.target is aten.var.dim:
        is_unbiased, keeps = (*others, *(True, False)[len(others) :])
        correction = int(is_unbiased)
    else:
        given = node.kwargs.get("correction")
        correction, keeps = 1 if given is None else cast(float, given), node.kwargs.get("keepdim", False)
    count = math.prod(x.meta["val"].shape[dim] for dim in dims)
    if not keeps or count <= correction:
        return None
    return _Spread(_centred(x, dims) or x, dims, True, count / (count - correction))


def _mean(node: fx.Node) -> tuple[fx.Node, tuple[int, ...]] | None:
    """Return the tensor whose mean a node computes, in one step or dimension by dimension, and the dimensions."""
    dims: set[int] = set()
    while node.target is aten.mean.dim and not node.kwargs.get("dtype"):
        x, given, *others = cast("tuple[fx.Node, Any]", node.args)
        if not (others[0] if others else node.kwargs.get("keepdim", False)):
            return None
        dims |= set(_dims(x, given))
        node = x
    return (node, tuple(sorted(dims))) if dims else None


def _centred(node: fx.Node, dims: Sequence[int]) -> fx.Node | None:
    """Return the tensor that a node subtracts the mean over these dimensions from."""
    if node.target is not aten.sub.Tensor or node.kwargs or not all(isinstance(arg, fx.Node) for arg in node.args):
        return None
    x, mean = cast("tuple[fx.Node, fx.Node]", node.args)
    found = _mean(mean)
    return x if found is not None and found == (x, tuple(dims)) else None


def _dims(x: fx.Node, given: object) -> tuple[int, ...]:
    rank = x.meta["val"].dim()
    listed = [given] if isinstance(given, int) else cast("Sequence[int]", given or range(rank))
    return tuple(sorted(dim % rank for dim in listed))


def _is(node: object, target: object) -> bool:
    return isinstance(node, fx.Node) and node.target is target


_DECOMPOSITIONS: Mapping[object, Decomposition] = {aten.div.Tensor: _quotient, aten.mul.Tensor: _product}

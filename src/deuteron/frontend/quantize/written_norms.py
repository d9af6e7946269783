"""Finds norms that a model writes out, such as `(x - mean) / sqrt(variance + 1e-5)`, and writes them as layer norms.

A quantized quotient of a difference and a root has three roundings, and one scale for all roots; a norm rounds once.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.quantize.decompositions import apply, call

aten = torch.ops.aten

_GUARD = 1e-6
"""The largest addend of a root that only guards against division by 0, however small the roots are."""

_SHARE = 2e-5
"""The largest addend of roots, relative to the least of them, that affects no result."""

_LEAST = 1e-24
"""The lower bound of a spread that has none; no stored number is that small."""


def write(model: fx.GraphModule, batches: Callable[[], Iterable[Inputs]] = tuple) -> None:
    """Replace quotients by roots of variances and of mean squares in place.

    A number above 1e-6 that is added to roots is left out if it is small compared with the least of them on `batches`.
    """
    roots = [_root(node.args[1]) for node in model.graph.find_nodes(op="call_function", target=aten.div.Tensor)]
    guarded = [root for root in roots if root is not None and root.added > _GUARD]
    least = _Least(model, [root.node for root in guarded])
    for batch in batches() if guarded else ():
        with torch.no_grad():
            least.run(*copies(batch))
    small = {root.node for root in guarded if root.added <= _SHARE * least.found[root.node]}
    apply(model, {aten.div.Tensor: partial(_quotient, small=small), aten.mul.Tensor: _product})


@dataclass(frozen=True, slots=True)
class _Spread:
    """The mean square of a tensor over dimensions, or its variance if it is centred, times `factor`."""

    x: fx.Node
    dims: tuple[int, ...]
    is_centred: bool
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class _Root:
    """The root of a spread and of a number `inside`, to which a number is `added`; `node` computes it without that."""

    node: fx.Node
    spread: _Spread
    inside: float = 0.0
    added: float = 0.0


class _Least(fx.Interpreter):
    """Runs a model, and keeps the least magnitude, other than 0, of some of its nodes; 0 for those without any."""

    def __init__(self, model: fx.GraphModule, nodes: Sequence[fx.Node]) -> None:
        super().__init__(model)
        self.found = dict.fromkeys(nodes, 0.0)

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n in self.found and (positive := value[value > 0]).numel():
            self.found[n] = min(self.found[n] or math.inf, float(positive.min()))
        return value


def _quotient(_: fx.GraphModule, node: fx.Node, *, small: set[fx.Node]) -> fx.Node | None:
    """Replace `x / root`, and `x * factor / root`."""
    x, root = node.args[0], _root(node.args[1])
    if not isinstance(x, fx.Node) or root is None or not (root.added <= _GUARD or root.node in small):
        return None
    if (result := _norm(node, x, root)) is not None or x.target is not aten.mul.Tensor:
        return result
    for one, factor in (x.args, x.args[::-1]):
        if isinstance(one, fx.Node) and (result := _norm(node, one, root)) is not None:
            return call(node, aten.mul.Tensor, result, factor)
    return None


def _product(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Replace `x * rsqrt(...)`."""
    for x, inverse in (node.args[:2], node.args[1::-1]):
        if isinstance(x, fx.Node) and isinstance(inverse, fx.Node):
            is_power = inverse.target is aten.pow.Tensor_Scalar and inverse.args[1] == -0.5
            root = None
            if inverse.target is aten.rsqrt.default or is_power:
                root = _of_radicand(inverse, inverse.args[0])
            elif inverse.target is aten.reciprocal.default:
                root = _root(inverse.args[0])
            if root is not None and root.added <= _GUARD and (result := _norm(node, x, root)) is not None:
                return result
    return None


def _root(node: object) -> _Root | None:
    """Return the root that a divisor is; None for other divisors."""
    if not isinstance(node, fx.Node):
        return None
    x: object = node.args[0] if node.args else None
    if node.target in (aten.expand.default, aten.expand_as.default):
        return _root(x)
    if _is(node, aten.add.Tensor) or node.target in (aten.clamp_min.default, aten.clamp.default):
        root, number = _root(x), node.args[1] if len(node.args) == 2 and not node.kwargs else None
        if root is None or root.added or not isinstance(number, int | float) or number <= 0:
            return None
        if node.target is not aten.add.Tensor and number > _GUARD:
            return None
        return replace(root, added=float(number))
    if node.target is aten.sqrt.default or (node.target is aten.pow.Tensor_Scalar and node.args[1] == 0.5):
        return _of_radicand(node, x)
    if node.target in (aten.std.correction, aten.std.dim):
        spread = _variance(node)
    else:
        is_length = node.target in (aten.linalg_vector_norm.default, aten.linalg_norm.default)
        spread = _length(node) if is_length else None
    return None if spread is None else _Root(node, spread)


def _of_radicand(root: fx.Node, radicand: object) -> _Root | None:
    """Return the root of a spread, perhaps with a number above 0."""
    number: object = 0.0
    if _is(radicand, aten.add.Tensor) and not cast(fx.Node, radicand).kwargs:
        radicand, number = cast(fx.Node, radicand).args
    spread = _spread(radicand) if isinstance(radicand, fx.Node) and isinstance(number, int | float) else None
    return None if spread is None or cast(float, number) < 0 else _Root(root, spread, cast(float, number))


def _norm(node: fx.Node, x: fx.Node, root: _Root) -> fx.Node | None:
    """Return the norm that a quotient of a tensor and the root of its spread is."""
    spread = root.spread
    source = _centred(x, spread.dims) if spread.is_centred else x
    if source is None or source is not spread.x or source.meta["val"].shape != node.meta["val"].shape:
        return None
    rank = source.meta["val"].dim()
    last = [*range(rank - len(spread.dims), rank)]
    order = [dim for dim in range(rank) if dim not in spread.dims] + [*spread.dims]
    moves = [*spread.dims] != last
    rows = call(node, aten.permute.default, source, order) if moves else source
    sizes = [*rows.meta["val"].shape[-len(last) :]]
    epsilon = (root.inside or max(root.added**2, _LEAST)) / spread.factor
    if spread.is_centred:
        result = call(node, aten.layer_norm.default, rows, sizes, None, None, epsilon)
    else:
        result = call(node, aten.rms_norm.default, rows, sizes, None, epsilon)
    if spread.factor != 1:
        result = call(node, aten.mul.Tensor, result, 1 / math.sqrt(spread.factor))
    return call(node, aten.permute.default, result, [order.index(dim) for dim in range(rank)]) if moves else result


def _length(node: fx.Node) -> _Spread | None:
    """Return the sum of squares of which a Euclidean norm is the root."""
    x, order, given, keeps = cast(
        "tuple[fx.Node, Any, Any, Any]", (*node.args, *(2, None, False)[len(node.args) - 1 :])
    )
    dims = _dims(x, given)
    if node.target is aten.linalg_norm.default:  # whose order 2 is that of matrices over two dimensions
        is_euclidean = node.args[1:2] in ((), (None,)) or (given is not None and len(dims) == 1)
        order = order or 2 if is_euclidean else None
    if order != 2 or node.kwargs or not (keeps or len(dims) == x.meta["val"].dim()):
        return None
    return _Spread(x, dims, False, math.prod(x.meta["val"].shape[dim] for dim in dims))


def _spread(node: fx.Node) -> _Spread | None:
    """Return the spread that a node computes."""
    if node.target in (aten.var.correction, aten.var.dim):
        return _variance(node)
    found, total = _mean(node), _mean(node, aten.sum.dim_IntList)
    if found is None and total is None:
        return None
    squares, dims = cast("tuple[fx.Node, tuple[int, ...]]", found or total)
    is_square = squares.target is aten.pow.Tensor_Scalar and squares.args[1] == 2
    is_product = squares.target is aten.mul.Tensor and squares.args[0] is squares.args[1]
    if not (is_square or is_product or squares.target is aten.square.default):
        return None
    x = cast(fx.Node, squares.args[0])
    factor = 1 if found else math.prod(squares.meta["val"].shape[dim] for dim in dims)
    centred = _centred(x, dims)
    return _Spread(x, dims, False, factor) if centred is None else _Spread(centred, dims, True, factor)


def _variance(node: fx.Node) -> _Spread | None:
    x, given, *others = cast("tuple[fx.Node, Any]", (*node.args, None)[: max(2, len(node.args))])
    dims = _dims(x, given if given is not None else node.kwargs.get("dim"))
    if node.target in (aten.var.dim, aten.std.dim):
        is_unbiased, keeps = (*others, *(True, False)[len(others) :])
        correction = int(is_unbiased)
    else:
        given = node.kwargs.get("correction")
        correction, keeps = 1 if given is None else cast(float, given), node.kwargs.get("keepdim", False)
    count = math.prod(x.meta["val"].shape[dim] for dim in dims)
    if not keeps or count <= correction:
        return None
    return _Spread(_centred(x, dims) or x, dims, True, count / (count - correction))


def _mean(node: fx.Node, target: object = aten.mean.dim) -> tuple[fx.Node, tuple[int, ...]] | None:
    """Return the tensor whose mean or sum a node computes, at once or dimension by dimension, and the dimensions."""
    dims: set[int] = set()
    while node.target is target and not node.kwargs.get("dtype"):
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

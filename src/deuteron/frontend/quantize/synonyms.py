"""Writes operators that are special cases of others as these: of fewer names each backend has more."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.operators import called
from deuteron.frontend.quantize.decompositions import Decomposition, apply, call, constant, constant_value, numbers

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Decompose operators in place; `fmin` and `fmax` differ from `minimum` and `maximum` only for NaN."""
    apply(model, _DECOMPOSITIONS)


def _as(target: object) -> Decomposition:
    return lambda _, node: call(node, target, *node.args)


def _both_extremes(_: fx.GraphModule, node: fx.Node) -> Sequence[fx.Node]:
    x, dim = cast("tuple[fx.Node, int | None]", (*node.args, node.kwargs.get("dim"))[:2])
    keeps = bool(node.kwargs.get("keepdim", False))
    return [
        call(node, target, x, [] if dim is None else [dim], keeps) for target in (aten.amin.default, aten.amax.default)
    ]


def _scaled(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """A number times a power of two."""
    x, exponent = cast("tuple[fx.Node, fx.Node]", node.args)
    exponent = call(node, aten.to.dtype, exponent, torch.float32)
    return call(node, aten.mul.Tensor, x, call(node, aten.exp2.default, exponent))


def _with_factor(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A sum or difference of which one side is multiplied by a number."""
    a, b = cast("tuple[fx.Node, fx.Node]", node.args[:2])
    alpha, is_reversed = node.kwargs.get("alpha", 1), called(node) == "rsub"
    if alpha == 1 and not is_reversed:
        return None
    first, second = (b, a) if is_reversed else (a, b)
    factored = second if alpha == 1 else call(node, aten.mul.Tensor, second, alpha)
    return call(node, aten.sub.Tensor if is_reversed else node.target, first, factored)


def _transposed(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """The last two dimensions of a tensor exchanged, or all of them in the opposite order."""
    x = cast(fx.Node, node.args[0])
    rank = cast(Tensor, x.meta["val"]).dim()
    if node.target is aten.numpy_T.default:
        return call(node, aten.permute.default, x, [*reversed(range(rank))])
    return call(node, aten.transpose.int, x, -2, -1)


def _dot(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """The product of two vectors, as rows."""
    x, y = (call(node, aten.unsqueeze.default, side, 0) for side in cast("tuple[fx.Node, fx.Node]", node.args))
    return call(
        node, aten.reshape.default, call(node, aten.sum.dim_IntList, call(node, aten.mul.Tensor, x, y), [1]), []
    )


def _divided(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """An average over windows with a divisor of its own, as one with the number of elements, times a number."""
    if len(node.args) < 7 or node.args[6] is None:
        return None
    image, window, *others = cast("tuple[Any, ...]", node.args)
    high, wide = numbers(window, 2)
    mean = call(node, node.target, image, window, *others[:3], True)
    return call(node, aten.mul.Tensor, mean, high * wide / others[4])


def _unexpanded(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A quotient whose divisor is repeated first: division repeats it."""
    x, y = node.args[:2]
    if not isinstance(x, fx.Node) or not isinstance(y, fx.Node) or y.target not in _EXPANDS or node.kwargs:
        return None
    source = cast(fx.Node, y.args[0])
    return call(node, node.target, x, source) if x.meta["val"].shape == node.meta["val"].shape else None


def _shifted_left(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    x, bits = node.args
    return call(node, aten.mul.Tensor, x, 1 << bits) if isinstance(bits, int) and bits >= 0 else None


def _counted(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """How many bounds are below each value."""
    x, bounds = cast("tuple[fx.Node, fx.Node]", node.args)
    relation = aten.ge.Tensor if node.kwargs.get("right") else aten.gt.Tensor
    is_beyond = call(node, relation, call(node, aten.unsqueeze.default, x, -1), bounds)
    count = call(node, aten.sum.dim_IntList, call(node, aten.to.dtype, is_beyond, torch.int64), [-1])
    dtype = cast(Tensor, node.meta["val"]).dtype
    return count if dtype == torch.int64 else call(node, aten.to.dtype, count, dtype)


def _scattered(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Values at constant places of a tensor, as a choice from both; None where two values have one place."""
    if node.target is aten.put.default:
        x, index, values = cast("tuple[fx.Node, fx.Node, fx.Node]", node.args[:3])
        dim, accumulates = None, len(node.args) > 3 and node.args[3]
    else:
        x, dim, index, values = cast("tuple[fx.Node, int, fx.Node, fx.Node]", node.args)
        accumulates = False
    places = constant_value(model, index)
    shape, size = [*x.meta["val"].shape], x.meta["val"].numel()
    if places is None or accumulates or x.meta["val"].dtype != values.meta["val"].dtype:
        return None
    number = torch.arange(values.meta["val"].numel()).reshape(values.meta["val"].shape)
    chosen = torch.arange(size).reshape(shape)
    if dim is None:
        targets = places.flatten() % size
        chosen = chosen.put(places, size + number)
    else:
        of = tuple(slice(count) for count in places.shape)  # of larger values only so many are taken
        targets = chosen.gather(dim, places).flatten()
        chosen = chosen.scatter(dim, places, size + number[of])
    if len(set(map(int, targets))) < len(targets):
        return None
    both = call(node, aten.cat.default, [call(node, aten.reshape.default, side, [-1]) for side in (x, values)])
    rows = call(
        node, aten.index_select.default, both, 0, constant(model, node, f"{node.name}_places", chosen.flatten())
    )
    return call(node, aten.reshape.default, rows, shape)


def _narrowed(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    x, dim, start, length = node.args
    if not isinstance(start, int) or not isinstance(length, int):
        return None
    start += cast(fx.Node, x).meta["val"].shape[cast(int, dim)] if start < 0 else 0
    return call(node, aten.slice.Tensor, x, dim, start, start + length)


_EXPANDS = frozenset({aten.expand.default, aten.expand_as.default})


def _of_one_number(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A new tensor of one number, whose shape alone comes from another."""
    value = cast(Tensor, node.meta["val"])
    given = {"zeros": 0.0, "ones": 1.0}.get(called(node).removesuffix("_like").removeprefix("new_"))
    number: Any = node.args[-1] if given is None else given
    if isinstance(number, fx.Node):
        return None
    return constant(model, node, node.name, torch.full(tuple(value.shape), number, dtype=value.dtype))


_DECOMPOSITIONS: Mapping[object, Decomposition] = {
    aten.fmax.default: _as(aten.maximum.default),
    aten.fmin.default: _as(aten.minimum.default),
    aten.aminmax.default: _both_extremes,
    aten.ldexp.Tensor: _scaled,
    aten.narrow.default: _narrowed,
    **dict.fromkeys((aten.add.Tensor, aten.sub.Tensor, aten.rsub.Tensor), _with_factor),
    **dict.fromkeys((aten.mT.default, aten.numpy_T.default, aten.matrix_H.default, aten.adjoint.default), _transposed),
    **dict.fromkeys((aten.dot.default, aten.vdot.default), _dot),
    aten.avg_pool2d.default: _divided,
    aten.bucketize.Tensor: _counted,
    aten.div.Tensor: _unexpanded,
    **dict.fromkeys((aten.__lshift__.Scalar, aten.bitwise_left_shift.Tensor_Scalar), _shifted_left),
    **dict.fromkeys((aten.put.default, aten.scatter.src), _scattered),
    **dict.fromkeys((aten.new_zeros.default, aten.new_ones.default, aten.new_full.default), _of_one_number),
    **dict.fromkeys((aten.zeros_like.default, aten.ones_like.default, aten.full_like.default), _of_one_number),
}

"""Writes operators that are special cases of others as these: of fewer names each backend has more."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.operators import called
from deuteron.frontend.quantise.decompositions import Form, apply, call, constant, numbers

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Write the operators of `_FORMS` in place; `fmin` and `fmax` differ from `minimum` and `maximum` in NaN alone."""
    apply(model, _FORMS)


def _as(target: object) -> Form:
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


def _of_one_number(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A new tensor of one number, whose shape alone comes from another."""
    value = cast(Tensor, node.meta["val"])
    given = {"zeros": 0.0, "ones": 1.0}.get(called(node).removesuffix("_like").removeprefix("new_"))
    number: Any = node.args[-1] if given is None else given
    if isinstance(number, fx.Node):
        return None
    return constant(model, node, node.name, torch.full(tuple(value.shape), number, dtype=value.dtype))


_FORMS: Mapping[object, Form] = {
    aten.fmax.default: _as(aten.maximum.default),
    aten.fmin.default: _as(aten.minimum.default),
    aten.aminmax.default: _both_extremes,
    aten.ldexp.Tensor: _scaled,
    **dict.fromkeys((aten.add.Tensor, aten.sub.Tensor, aten.rsub.Tensor), _with_factor),
    **dict.fromkeys((aten.mT.default, aten.numpy_T.default, aten.matrix_H.default, aten.adjoint.default), _transposed),
    **dict.fromkeys((aten.dot.default, aten.vdot.default), _dot),
    aten.avg_pool2d.default: _divided,
    **dict.fromkeys((aten.new_zeros.default, aten.new_ones.default, aten.new_full.default), _of_one_number),
    **dict.fromkeys((aten.zeros_like.default, aten.ones_like.default, aten.full_like.default), _of_one_number),
}

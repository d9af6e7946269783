"""Decomposes arithmetic and layers with operand shapes that kernels do not support."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.nn import functional

from deuteron.frontend.cortex_m.layout import is_channels_broadcast
from deuteron.frontend.operators import called
from deuteron.frontend.quantize.decompositions import Decomposition, call, constant, constant_value, numbers, value_of

aten = torch.ops.aten

_GUARD = 1e-6
"""The largest lower bound of a length that only guards against division by 0; a larger one affects results."""

_LEAST = 1e-12
"""The lower bound of a length that has none; no stored number is that small."""


def broadcast(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Expand the operands of arithmetic to one shape, constants at build time.

    A factor `alpha` that is not a whole number becomes a product.
    """
    output = cast(Tensor, node.meta["val"])
    is_quotient = node.target is aten.div.Tensor  # whose kernel takes one shape alone
    tensors = [x for x in node.args[:2] if isinstance(x, fx.Node)]
    operands = [
        x for x in tensors if x.meta["val"].numel() > 1 or output.numel() == 1 or (is_quotient and x.op != "get_attr")
    ]
    if len(operands) < 2 or not output.is_floating_point():
        return None
    factor = cast(float, node.kwargs.get("alpha", 1))
    if factor != int(factor):
        product = call(node, aten.mul.Tensor, operands[1], factor)
        node = call(node, node.target, operands[0], product)
        return broadcast(model, node) or node
    if is_channels_broadcast([x.meta["val"].shape for x in operands]) and not is_quotient:
        return None
    same = [x if x.meta["val"].shape == output.shape else _repeated(model, node, x, output) for x in operands]
    return None if same == operands else call(node, node.target, *same, *node.args[2:], **node.kwargs)


def _repeated(model: fx.GraphModule, node: fx.Node, x: fx.Node, output: Tensor) -> fx.Node:
    shape = [*output.shape]
    if x.op != "get_attr":
        return call(node, aten.expand.default, x, shape)
    value = value_of(model, x)
    if len(shape) == 4 and value.dim() > 2 and value.shape[-3] == value.numel() == shape[1]:
        whole = value.reshape(1, shape[1], 1, 1)  # kernels support one number per channel
    else:
        whole = value.expand(shape).contiguous()
    name = f"{x.target}_{'x'.join(map(str, whole.shape))}"

    def summed(gradient: Tensor) -> Tensor:
        """Give each copy of a number the sum of all copies' gradients."""
        return gradient.sum_to_size(value.shape).expand(shape) if whole.numel() > value.numel() else gradient

    return constant(model, node, name, whole, like=value, gradient=summed)


def without_axes(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Arithmetic of a value without axes and a number gets a tensor without axes: backends would add an axis."""
    operands, result = cast("tuple[fx.Node | float, ...]", node.args[:2]), node.meta["val"]
    if result.shape or not result.is_floating_point() or node.kwargs or len(node.args) > 2:
        return None
    if all(isinstance(operand, fx.Node) for operand in operands):
        return None
    tensors = [
        operand if isinstance(operand, fx.Node) else constant(model, node, node.name, torch.tensor(float(operand)))
        for operand in operands
    ]
    if node.target is aten.rsub.Scalar:
        return call(node, aten.sub.Tensor, *reversed(tensors))
    return call(node, node.target, *tensors)


WITHOUT_AXES: Mapping[object, Decomposition] = dict.fromkeys(
    (aten.add.Tensor, aten.sub.Tensor, aten.rsub.Scalar, aten.mul.Tensor, aten.div.Tensor), without_axes
)


def normalised(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A division of vectors by their lengths (`functional.normalize`) becomes a root mean square norm.

    A factor of the vectors, as in `x * gain / x.norm(dim=-1, keepdim=True)`, becomes one of the norm.

    A division of exponentials by their sum becomes a softmax.
    """
    if (exponents := _shares(node)) is not None:
        return call(node, aten.softmax.int, *exponents)
    unit = unit_vectors(node)
    if unit is None:
        return _scaled_norm(model, node)
    x, dim, least = unit[0], unit[1], unit[2] or _LEAST
    count = node.meta["val"].shape[dim]
    rows = call(node, aten.transpose.int, x, dim, -1) if dim != node.meta["val"].dim() - 1 else x
    normed = call(node, aten.rms_norm.default, rows, [count], None, least**2 / count)
    result = call(node, aten.mul.Tensor, normed, 1 / math.sqrt(count))
    return result if rows is x else call(node, aten.transpose.int, result, dim, -1)


def _scaled_norm(model: fx.GraphModule, quotient: fx.Node) -> fx.Node | None:
    """The norm of a factor of a product, times the other factor; None if the divisor is no length of a factor."""
    product, lengths = quotient.args[:2]
    if not isinstance(product, fx.Node) or product.target is not aten.mul.Tensor or not isinstance(lengths, fx.Node):
        return None
    for x, factor in (product.args[:2], product.args[1::-1]):
        if isinstance(x, fx.Node) and x.meta["val"].shape == quotient.meta["val"].shape:
            part = call(quotient, aten.div.Tensor, x, lengths)
            if unit_vectors(part) is not None and (normed := normalised(model, part)) is not None:
                return call(quotient, aten.mul.Tensor, normed, factor)
            quotient.graph.erase_node(part)
    return None


def _shares(quotient: fx.Node) -> tuple[fx.Node, int] | None:
    """The exponents and the dimension of `exp(x) / exp(x).sum(dim, keepdim=True)`; None for other divisions."""
    x, total = quotient.args[:2]
    if not isinstance(x, fx.Node) or not isinstance(total, fx.Node) or x.target is not aten.exp.default:
        return None
    of, dims, keeps = cast("tuple[object, list[int] | None, bool]", (*total.args, None, False)[:3])
    if total.target is not aten.sum.dim_IntList or of is not x or not keeps or total.kwargs:
        return None
    return (cast(fx.Node, x.args[0]), dims[0]) if dims and len(dims) == 1 else None


def reshaped(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """Added or removed dimensions of size 1 become a reshape, before which copies change the memory format."""
    return call(node, aten.reshape.default, node.args[0], [*node.meta["val"].shape])


def cosine(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The cosine similarity over a dimension becomes the mean of products of root mean square norms."""
    (x, y), sizes, behind, least = _of_cosine(node)
    has_vectors = all(one.meta["val"].shape[-behind:][:1] == sizes[-behind:][:1] for one in (x, y))
    if not has_vectors or least > _GUARD:
        return None
    count = sizes[-behind]
    rows = (_moved_last(node, one, behind) for one in (x, y))
    normed = (call(node, aten.rms_norm.default, one, [count], None, least**2 / count) for one in rows)
    return call(node, aten.mean.dim, call(node, aten.mul.Tensor, *normed), [-1])


def _of_cosine(node: fx.Node) -> tuple[tuple[fx.Node, fx.Node], tuple[int, ...], int, float]:
    """Return operands, their common shape, the dimension's place from its end, 1 for the last, and the least length."""
    x, y, dim, least = cast("tuple[fx.Node, fx.Node, int, float]", (*node.args, *(1, 1e-8)[len(node.args) - 2 :]))
    sizes: tuple[int, ...] = cast(Any, torch).broadcast_shapes(x.meta["val"].shape, y.meta["val"].shape)
    return (x, y), sizes, len(sizes) - dim % len(sizes), least


def cosine_of_rows(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Make a cosine similarity one of the rows of two matrices, the only form that Arm's backend decomposes right."""
    (x, y), sizes, behind, least = _of_cosine(node)
    if (len(sizes), behind) == (2, 1) and x.meta["val"].shape == y.meta["val"].shape:
        return None
    same = [one if one.meta["val"].shape == sizes else call(node, aten.expand.default, one, [*sizes]) for one in (x, y)]
    rows = [call(node, aten.reshape.default, _moved_last(node, one, behind), [-1, sizes[-behind]]) for one in same]
    cosine = call(node, aten.cosine_similarity.default, *rows, 1, least)
    return call(node, aten.reshape.default, cosine, [*node.meta["val"].shape])


def _moved_last(before: fx.Node, x: fx.Node, behind: int) -> fx.Node:
    """Move the dimension at a place from the end, 1 for the last, to the end."""
    order = [*range(x.meta["val"].dim())]
    order.append(order.pop(-behind))
    return x if behind == 1 else call(before, aten.permute.default, x, order)


def averaged_depth(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """An average over the first of three dimensions, as of adjacent channels, becomes one over rows of images."""
    x, window, stride = cast("tuple[fx.Node, list[int], list[int]]", (*node.args, [])[:3])
    ends: list[int] = []
    if x.target is aten.pad.default and len(x.args) == 2 and not x.kwargs:
        x, ends = cast("tuple[fx.Node, list[int]]", x.args)
    is_alone = window[1:] == [1, 1] and stride == [1, 1, 1] and len(node.args) == 3 and not any(ends[:4])
    if not is_alone or len(ends) > 6 or x.meta["val"].dim() != 5:
        return None
    *outer, high, wide = x.meta["val"].shape
    image = call(node, aten.reshape.default, x, [*outer, high * wide])
    image = call(node, aten.pad.default, image, [0, 0, *ends[4:]]) if ends else image
    image = call(node, aten.avg_pool2d.default, image, [window[0], 1], [1, 1])
    return call(node, aten.reshape.default, image, [*node.meta["val"].shape])


_ARITHMETIC = frozenset({"add", "sub", "rsub", "mul", "div"})

_FAR = 1e9
"""A bound that no int8 value reaches; the backend converts bounds to integers."""


def bounded(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A clamp before an elementwise function becomes a hardtanh, which the Cortex-M backend supports there."""
    x, low, high = cast("tuple[Any, ...]", (*node.args, None, None)[:3])
    low, high = (cast(Any, node.kwargs.get(name, bound)) for name, bound in (("min", low), ("max", high)))
    ends = -_FAR if low is None else low, _FAR if high is None else high
    is_number = all(isinstance(end, int | float) for end in ends) and node.meta["val"].is_floating_point()
    is_before_function = any(map(_is_function, node.users))
    if not (is_number and is_before_function):
        return None
    return call(node, aten.hardtanh.default, x, float(max(ends[0], -_FAR)), float(min(ends[1], _FAR)))


def floored(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The divisor of a floor division becomes a tensor, as ExecuTorch's operator takes it where it stays one."""
    x, divisor = cast("tuple[fx.Node, object]", node.args)
    if not isinstance(divisor, int | float) or not node.meta["val"].is_floating_point():
        return None
    return call(node, node.target, x, constant(model, node, f"{node.name}_by", torch.tensor(float(divisor))))


def _is_function(node: fx.Node) -> bool:
    """True for an elementwise function of one tensor other than arithmetic with a number."""
    is_pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    return is_pointwise and len(node.all_input_nodes) == 1 and called(node) not in _ARITHMETIC


def bool_to_float(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Replace a cast of bools to float by `where(x, 1.0, 0.0)`; None for other casts."""
    x = cast(fx.Node, node.args[0])
    is_choice = x.meta["val"].dtype == torch.bool and node.meta["val"].is_floating_point()
    return call(node, aten.where.Scalar, x, 1.0, 0.0) if is_choice else None


def unit_vectors(quotient: fx.Node) -> tuple[fx.Node, int, float] | None:
    """The vectors that a division scales to length 1, their dimension, and the least length, 0 without one.

    None for other divisions, and if the least length is more than a guard against division by 0.
    """
    x, lengths = quotient.args[:2]
    if isinstance(lengths, fx.Node) and lengths.target in (aten.expand_as.default, aten.expand.default):
        lengths = lengths.args[0]
    least: object = 0.0
    if isinstance(lengths, fx.Node) and lengths.target in (aten.clamp_min.default, aten.clamp.default):
        lengths, least, most = (*lengths.args, None)[:3]
        if most is not None:
            return None
    if not isinstance(lengths, fx.Node) or lengths.target is not aten.linalg_vector_norm.default or lengths.kwargs:
        return None
    of, order, dims, keeps = (*lengths.args, *(2, None, False)[len(lengths.args) - 1 :])
    if not isinstance(x, fx.Node) or of is not x or x.meta["val"].shape != quotient.meta["val"].shape:
        return None
    listed = cast("Sequence[int]", dims or ())
    is_guard = isinstance(least, int | float) and 0 <= least <= _GUARD
    if order != 2 or len(listed) != 1 or not keeps or not is_guard:
        return None
    return x, listed[0] % x.meta["val"].dim(), cast(float, least)


def instances(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """An instance norm becomes a group norm with one channel per group."""
    x, weight, bias = cast("list[fx.Node]", node.args[:3])
    takes_statistics, least = node.args[5], node.args[7]
    if not takes_statistics:
        return None
    return call(node, aten.group_norm.default, x, x.meta["val"].shape[1], weight, bias, least)


def gated(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """A gated linear unit becomes the product of one half and the sigmoid of the other."""
    x, dim = cast("tuple[fx.Node, int]", (*node.args, -1)[:2])
    size = x.meta["val"].shape[dim] // 2
    value, gate = (call(node, aten.slice.Tensor, x, dim, i * size, (i + 1) * size) for i in range(2))
    return call(node, aten.mul.Tensor, value, call(node, aten.sigmoid.default, gate))


def sloped(model: fx.GraphModule, node: fx.Node, *, trains: bool = False) -> fx.Node | None:
    """A PReLU with one slope per channel becomes the sum of the positive part and the scaled negative part.

    With one slope for all channels it is a leaky ReLU, unless the slope is still to be trained.
    """
    x, slopes = cast("tuple[fx.Node, fx.Node]", node.args)
    if slopes.op != "get_attr":
        return None
    value = value_of(model, slopes)
    if value.numel() == 1 and not (trains and value.requires_grad):
        return call(node, aten.leaky_relu.default, x, float(value))
    ones = [1] * (x.meta["val"].dim() - 2)
    wide = constant(model, node, f"{slopes.target}_{len(ones)}", value.reshape(1, -1, *ones), like=value)
    below = call(node, aten.mul.Tensor, call(node, aten.clamp.default, x, None, 0.0), wide)
    return call(node, aten.add.Tensor, call(node, aten.relu.default, x), below)


def power(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A power with one constant exponent, learnt or not, becomes a function of one tensor; training keeps it.

    Others become exponentials, if the numbers are never negative: negative ones have powers for whole exponents alone.
    """
    x, exponent = cast("tuple[fx.Node, fx.Node]", node.args)
    value = constant_value(model, exponent) if exponent.meta["val"].numel() == 1 else None
    base, result = x.meta["val"], node.meta["val"]
    if value is not None and base.shape == result.shape and base.dtype == result.dtype:
        return call(node, aten.pow.Tensor_Scalar, x, value.item())
    if not all(one.meta["val"].is_floating_point() for one in (x, exponent)) or not _is_never_negative(x):
        return None
    return call(node, aten.exp.default, call(node, aten.mul.Tensor, call(node, aten.log.default, x), exponent))


def _is_never_negative(value: object) -> bool:
    """Return True for a value that is never negative because of the operator that computes it."""
    if isinstance(value, int | float):
        return value >= 0
    if not isinstance(value, fx.Node):
        return False
    if value.target in _NEVER_NEGATIVE:
        return True
    if value.target in (aten.clamp.default, aten.clamp_min.default):
        least = value.kwargs.get("min", value.args[1] if len(value.args) > 1 else None)
        return isinstance(least, int | float) and least >= 0
    if value.target is aten.pow.Tensor_Scalar:
        return value.args[1] in (2, 4) or _is_never_negative(value.args[0])
    return value.target in (aten.add.Tensor, aten.mul.Tensor) and all(map(_is_never_negative, value.args))


_NEVER_NEGATIVE = (
    aten.abs.default, aten.exp.default, aten.hardsigmoid.default, aten.relu.default, aten.relu6.default,
    aten.sigmoid.default, aten.softmax.int, aten.softplus.default, aten.sqrt.default, aten.square.default,
)  # fmt: skip


def rectified(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A randomised leaky ReLU in inference becomes a leaky ReLU with the mean slope."""
    x, low, high, trains = (*node.args, *(1 / 8, 1 / 3, False)[len(node.args) - 1 :])[:4]
    return None if trains else call(node, aten.leaky_relu.default, x, (cast(float, low) + cast(float, high)) / 2)


def with_logarithm(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """`xlogy` becomes a product with a logarithm; it is 0 if the factor is, for any operand of the logarithm."""
    factor, of = node.args
    if not isinstance(of, fx.Node):
        number = cast(float, of)
        return call(node, aten.mul.Tensor, factor, math.log(number)) if number > 0 else None
    least = call(node, aten.clamp.default, of, torch.finfo(torch.float32).tiny)
    return call(node, aten.mul.Tensor, call(node, aten.log.default, least), factor)


def transposed(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A grouped or dilated transposed convolution becomes a plain one with zeros between its weights."""
    defaults = (None, 1, 0, 0, 1, 1)[len(node.args) - 2 :]
    x, weight, bias, stride, padding, more, groups, dilation = (*node.args, *defaults)
    steps = numbers(dilation, 2)
    if not isinstance(weight, fx.Node) or weight.op != "get_attr" or (groups == 1 and steps == [1, 1]):
        return None
    value = value_of(model, weight)
    # Without dilation, PyTorch requires an output padding below the stride; zeros after the weights replace the rest.
    sizes = numbers(more, 2)
    behind = [max(0, size - step + 1) for size, step in zip(sizes, numbers(stride, 2), strict=True)]

    def dense(weight: Tensor) -> Tensor:
        spread = _dilated(_grouped(weight, cast(int, groups)), steps)
        return functional.pad(spread, (0, behind[1], 0, behind[0]))

    more = [size - zeros for size, zeros in zip(sizes, behind, strict=True)]
    name = "_".join(map(str, (weight.target, "dense", groups, *steps, *behind)))
    weights = dense(torch.ones_like(value))
    whole = constant(model, node, name, dense(value), like=value, gradient=lambda gradient: gradient * weights)
    return call(node, node.target, x, whole, bias, stride, padding, more, 1, [1, 1])


def _grouped(weight: Tensor, groups: int) -> Tensor:
    """Merge the weights [inputs, outputs, height, width] of all groups, with zeros between groups."""
    inputs, outputs, *sizes = weight.shape
    each = inputs // groups
    dense = weight.new_zeros((inputs, outputs * groups, *sizes))
    for group in range(groups):
        rows, columns = (slice(group * n, (group + 1) * n) for n in (each, outputs))
        dense[rows, columns] = weight[rows].detach()
    return dense


def _dilated(weight: Tensor, steps: Sequence[int]) -> Tensor:
    """Insert zeros between neighbouring weights, one less than the step."""
    sizes = [(size - 1) * step + 1 for size, step in zip(weight.shape[2:], steps, strict=True)]
    dense = weight.new_zeros((*weight.shape[:2], *sizes))
    dense[:, :, :: steps[0], :: steps[1]] = weight.detach()
    return dense

"""Decomposes operators of a float model that ExecuTorch's Ethos-U backend leaves to the CPU."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.cortex_m.refusals import refusal
from deuteron.frontend.quantize import recurrent
from deuteron.frontend.quantize.arithmetic import WITHOUT_AXES
from deuteron.frontend.quantize.attention import attention
from deuteron.frontend.quantize.decompositions import (
    Decomposition,
    apply,
    call,
    constant,
    constant_value,
    numbers,
    replace,
    value_of,
)

aten = torch.ops.aten


_UNPOOLED = (
    "use `nn.Upsample` or `nn.ConvTranspose2d`, or build for a target with float operators and a Neutron, such as "
    "`imxrt700`"
)


def write(model: fx.GraphModule) -> None:
    """Give pools over the whole image a stride of 1, replace relu6 by hardtanh, and decompose recurrent cells.

    LSTMs with projections are decomposed as well, which the backend refuses.

    The NPU supports strides up to 3, and the stride of a single window has no effect. Images of one row become signals
    by one transpose, because Vela would make one for each element. Numbers that meet a value without axes become such
    values, because the backend would add an axis to the result.

    Raises:
        UnsupportedError: the model unpools, for which Vela would drop the pool's indices.
    """
    for node in model.graph.find_nodes(op="call_function", target=aten.lstm.input):
        if recurrent.is_projected(node):
            replace(model, node, recurrent.lstm)
    for node in model.graph.find_nodes(op="call_function", target=aten.max_unpool2d.default):
        raise refusal(node, "reads indices of a max-pool, which the NPU does not give", _UNPOOLED)
    apply(model, _DECOMPOSITIONS)
    _separate_scaled_weights(model)


def _separate_scaled_weights(model: fx.GraphModule) -> None:
    """Copy the weights of a convolution before a product: the backend multiplies them in place."""
    readers = Counter(node.target for node in model.graph.find_nodes(op="get_attr") for _ in node.users)
    for layer in list(model.graph.nodes):
        if layer.target not in _CONVOLUTIONS or not any(user.target is aten.mul.Tensor for user in layer.users):
            continue
        for weight in layer.all_input_nodes[1:]:
            if weight.op == "get_attr" and readers[weight.target] > 1:
                value = value_of(model, weight)
                name = f"{layer.name}_{weight.name}"
                layer.replace_input_with(weight, constant(model, layer, name, value.clone(), like=value))
    model.graph.eliminate_dead_code()
    model.recompile()


_CONVOLUTIONS = frozenset({aten.conv1d.default, aten.conv2d.default})


def _attended(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Attention without heads, whose samples the backend would take for heads, and of constants, where it fails."""
    is_computed = all(constant_value(model, one) is None for one in cast("Sequence[fx.Node]", node.args[:3]))
    return None if node.meta["val"].dim() == _OF_HEADS and is_computed else attention(model, node)


_OF_HEADS = 4
"""The axes of attention with heads."""


def _unmoved(_: fx.GraphModule, pool: fx.Node) -> fx.Node | None:
    image, window, *given = cast("tuple[Any, ...]", pool.args)
    stride, pads, steps = (*given, *((), 0, 1)[len(given) :])[:3]
    if pool.target is aten.avg_pool2d.default:
        steps = 1  # this argument is `ceil_mode`
    stride = numbers(stride or window, 2)
    axes = zip(image.meta["val"].shape[-2:], *(numbers(value, 2) for value in (window, pads, steps)), strict=True)
    is_whole = [size + 2 * pad == (extent - 1) * step + 1 for size, extent, pad, step in axes]
    moved = [1 if whole else move for whole, move in zip(is_whole, stride, strict=True)]
    return None if moved == stride else call(pool, pool.target, image, window, moved, *given[1:])


def _by_groups(model: fx.GraphModule, layer: fx.Node) -> fx.Node | None:
    """A transposed convolution of groups, with other channels after it than before, becomes one for each group.

    The backend takes the scales of its weights for those of its biases, which are fewer or more then.
    """
    x, weight, *given = cast("tuple[fx.Node, fx.Node, Any]", layer.args)
    rest: tuple[Any, ...] = (*given, *(None, 1, 0, 0, 1, 1)[len(given) :])
    bias, stride, padding, more, groups, dilation = rest
    steps = [numbers(one, 2) for one in (stride, padding, more)]
    if groups == 1 or weight.op != "get_attr":
        return None
    value = value_of(model, weight)
    inputs, outputs = value.shape[0] // groups, value.shape[1]
    if inputs == outputs:
        return None
    parts: list[fx.Node] = []
    for at in range(groups):
        rows = value.narrow(0, at * inputs, inputs).contiguous()
        weights = constant(model, layer, f"{weight.target}_group_{at}", rows, like=value)
        image = call(layer, aten.slice.Tensor, x, 1, at * inputs, (at + 1) * inputs)
        own = call(layer, aten.slice.Tensor, bias, 0, at * outputs, (at + 1) * outputs) if bias else None
        parts.append(call(layer, layer.target, image, weights, own, *steps, 1, numbers(dilation, 2)))
    return call(layer, aten.cat.default, parts, 1)


def _hardtanh(_: fx.GraphModule, relu6: fx.Node) -> fx.Node:
    return call(relu6, aten.hardtanh.default, relu6.args[0], 0.0, 6.0)


def _without_row(_: fx.GraphModule, view: fx.Node) -> fx.Node | None:
    """A view that removes the row dimension of images becomes a permutation and a view."""
    image, signal = cast(fx.Node, view.args[0]), [*view.meta["val"].shape]
    if [*image.meta["val"].shape] != [*signal[:2], 1, *signal[2:]] or len(signal) != 3:
        return None
    return call(view, aten.reshape.default, call(view, aten.permute.default, image, [0, 2, 1, 3]), signal)


def _compared(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A comparison of a value without axes and a number gets a tensor without axes for the number."""
    x, number = cast("tuple[fx.Node, float]", node.args)
    if node.meta["val"].shape:
        return None
    value = torch.tensor(number)
    return call(node, _COMPARISONS[node.target], x, constant(model, node, node.name, value))


def _of_all(_: fx.GraphModule, variance: fx.Node) -> fx.Node | None:
    """A variance of all values keeps its axes until a reshape: the backend divides the sum by a number."""
    if variance.meta["val"].shape:
        return None
    image, *dims = variance.args[:2]
    correction = variance.kwargs.get("correction", 1)
    if variance.target is aten.var.dim:
        correction = 1 if all(variance.args[2:3]) else 0
    kept = call(variance, aten.var.correction, image, *dims, correction=correction, keepdim=True)
    return call(variance, aten.reshape.default, kept, [])


def _explicit(_: fx.GraphModule, pool: fx.Node) -> fx.Node | None:
    """An average over many windows of equal size is an ordinary pool: the backend writes one pool per window."""
    x, wanted = cast("tuple[fx.Node, list[int]]", pool.args)
    sizes = [*zip(x.meta["val"].shape[-2:], wanted, strict=True)]
    if math.prod(wanted) <= _FEW_WINDOWS or any(size % count for size, count in sizes):
        return None
    window = [size // count for size, count in sizes]
    steps = [1 if count == 1 else size for size, count in zip(window, wanted, strict=True)]
    return call(pool, aten.avg_pool2d.default, x, window, steps)


_FEW_WINDOWS = 16


_ARITHMETIC = (aten.add.Tensor, aten.sub.Tensor, aten.rsub.Scalar, aten.mul.Tensor, aten.div.Tensor)
_COMPARISONS: Mapping[object, object] = {
    getattr(aten, name).Scalar: getattr(aten, name).Tensor for name in ("eq", "ge", "gt", "le", "lt", "ne")
}

_LOGICAL = (
    *(aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor),
    *(aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default),
)


def _of_one_rank(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Give operands of logic as many axes as the result, which the backend does for arithmetic alone."""
    rank = node.meta["val"].dim()
    operands = cast("tuple[fx.Node, fx.Node]", node.args)
    shapes = [(*[1] * (rank - one.meta["val"].dim()), *one.meta["val"].shape) for one in operands]
    same = [
        one if one.meta["val"].dim() == rank else call(node, aten.reshape.default, one, list(shape))
        for one, shape in zip(operands, shapes, strict=True)
    ]
    return None if same == [*operands] else call(node, node.target, *same)


def _of_bools(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Let `any` and `all` of numbers reduce bools, which the backend supports alone."""
    x = cast(fx.Node, node.args[0])
    if x.meta["val"].dtype == torch.bool:
        return None
    return call(node, node.target, call(node, aten.ne.Scalar, x, 0), *node.args[1:], **node.kwargs)


def _log_softmax(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """Write log_softmax(x) as d - log(sum(exp(d))), where d = x - max(x).

    The backend takes the logarithm of an int8 softmax, which has lost all small values.
    """
    x, dim = cast("tuple[fx.Node, int]", node.args[:2])
    distance = call(node, aten.sub.Tensor, x, call(node, aten.amax.default, x, [dim], True))
    total = call(node, aten.sum.dim_IntList, call(node, aten.exp.default, distance), [dim], True)
    return call(node, aten.sub.Tensor, distance, call(node, aten.log.default, total))


def _cumsum(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Write cumsum as a linear layer whose weights are a lower triangle of ones.

    The backend writes a convolution, which it cannot lower after a lookup table and lowers wrong for long dimensions.
    """
    x, dim = cast("tuple[fx.Node, int]", node.args[:2])
    value = x.meta["val"]
    if not value.dim() or not (value.is_floating_point() and node.meta["val"].is_floating_point()):
        return None
    if dim in (-1, value.dim() - 1):
        return _running_sums(model, node, x)
    return call(
        node, aten.transpose.int, _running_sums(model, node, call(node, aten.transpose.int, x, dim, -1)), dim, -1
    )


def _running_sums(model: fx.GraphModule, node: fx.Node, rows: fx.Node) -> fx.Node:
    """Return the running sums along the last dimension. A long one is split into blocks of equal size.

    The running sums within each block are added to the sum of all blocks before it.
    """
    *outer, count = rows.meta["val"].shape
    if count <= _MOST_ONES:
        return call(node, aten.linear.default, rows, _ones(model, node, count, 0))
    blocks = -(-count // _MOST_ONES)
    size = -(-count // blocks)
    padded = call(node, aten.constant_pad_nd.default, rows, [0, blocks * size - count])
    inner = _running_sums(model, node, call(node, aten.reshape.default, padded, [*outer, blocks, size]))
    totals = call(
        node, aten.reshape.default, call(node, aten.slice.Tensor, inner, -1, size - 1, size), [*outer, blocks]
    )
    before = call(node, aten.linear.default, totals, _ones(model, node, blocks, -1))
    sums = call(node, aten.add.Tensor, inner, call(node, aten.unsqueeze.default, before, -1))
    return call(node, aten.slice.Tensor, call(node, aten.reshape.default, sums, [*outer, blocks * size]), -1, 0, count)


def _ones(model: fx.GraphModule, node: fx.Node, count: int, diagonal: int) -> fx.Node:
    return constant(model, node, f"ones_{count}_{-diagonal}", torch.ones(count, count).tril(diagonal))


_MOST_ONES = 256
"""Longest dimension for one linear layer: its number of weights is the square."""


_DECOMPOSITIONS: Mapping[object, Decomposition] = {
    aten.adaptive_avg_pool2d.default: _explicit,
    aten.avg_pool2d.default: _unmoved,
    aten.conv_transpose2d.input: _by_groups,
    aten.cumsum.default: _cumsum,
    aten.log_softmax.int: _log_softmax,
    aten.max_pool2d.default: _unmoved,
    aten.relu6.default: _hardtanh,
    aten.relu6_.default: _hardtanh,
    aten.scaled_dot_product_attention.default: _attended,
    **dict.fromkeys((aten.reshape.default, aten.view.default, aten.squeeze.dim), _without_row),
    **WITHOUT_AXES,
    **dict.fromkeys(_COMPARISONS, _compared),
    **dict.fromkeys(_LOGICAL, _of_one_rank),
    **dict.fromkeys((aten.any.default, aten.any.dim, aten.all.default, aten.all.dim), _of_bools),
    **dict.fromkeys((aten.var.correction, aten.var.dim), _of_all),
    **recurrent.CELLS,
}

"""Decomposes operators of a float model that quantizers or kernels lack, for all targets."""

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

import torch
from torch import Tensor, fx, nn
from torch._guards import detect_fake_mode
from torch.fx.node import map_arg

from deuteron.frontend.operators import changes_operand, depends_on

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Decompose divisions by numbers, pixel shuffles, padding modes, uneven pools, and max-pools in ceil mode."""
    apply(model, _DECOMPOSITIONS)


Decomposition = Callable[[fx.GraphModule, fx.Node], "fx.Node | Sequence[fx.Node | None] | None"]
"""Returns an equivalent of a node: one value, or one for each of its results, with None for unused ones; None if the
node stays."""


def apply(model: fx.GraphModule, decompositions: Mapping[object, Decomposition]) -> None:
    """Replace the nodes of these operators by the results of their decompositions."""
    for node in list(model.graph.nodes):
        if (decomposition := decompositions.get(node.target)) is not None:
            replace(model, node, decomposition)
    model.graph.eliminate_dead_code()
    model.recompile()


def replace(model: fx.GraphModule, node: fx.Node, decomposition: Decomposition) -> None:
    """Replace a node by the result of its decomposition, if there is one."""
    value = decomposition(model, node)
    if isinstance(value, fx.Node):
        node.replace_all_uses_with(value)
    elif value is not None:
        for item in list(node.users):
            if (result := value[cast(int, item.args[1])]) is not None:
                item.replace_all_uses_with(result)
            model.graph.erase_node(item)
    if value is not None:
        model.graph.erase_node(node)


def call(before: fx.Node, target: object, *args: object, **kwargs: object) -> fx.Node:
    """Insert a call of an operator before a node, with the node's source line."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(cast(Any, target), cast(Any, args), cast(Any, kwargs))
    node.meta = dict(before.meta)
    node.meta["val"] = cast(Any, target)(*map_arg(cast(Any, args), lambda arg: arg.meta["val"]), **kwargs)
    return node


def value_of(model: fx.GraphModule, node: fx.Node) -> Tensor:
    """The tensor of a weight, buffer or constant."""
    return cast(Tensor, attrgetter(str(node.target))(model))


def set_value(model: fx.GraphModule, node: fx.Node, value: Tensor) -> None:
    """Give a node a new weight of the model's own, with the training state of the old one, which may be the user's."""
    parent, _, name = str(node.target).rpartition(".")
    is_trained = value_of(model, node).requires_grad
    setattr(model.get_submodule(parent), name, nn.Parameter(value, requires_grad=is_trained))


def make_parameters(model: fx.GraphModule) -> None:
    """Make parameters, which are not trained, of buffers of floats, but for the statistics of batch norms.

    PyTorch treats the sizes of values that depend on a buffer as dynamic when it traces the model again.
    """
    for node in model.graph.find_nodes(op="get_attr"):
        value = value_of(model, node)
        has_statistics = any("norm" in str(user.target) for user in node.users)
        if isinstance(value, nn.Parameter) or not value.is_floating_point() or has_statistics:
            continue
        parent, _, name = str(node.target).rpartition(".")
        owner = model.get_submodule(parent)
        delattr(owner, name)
        owner.register_parameter(name, nn.Parameter(value.detach(), requires_grad=False))


def constant_value(model: fx.GraphModule, node: fx.Node) -> Tensor | None:
    """The constant value of a node; None if it depends on an input or writes into a tensor that others read."""
    if depends_on(node, _varies):
        return None
    values: dict[fx.Node, Any] = {}
    pending = [node]
    while pending:
        last = pending[-1]
        if missing := [arg for arg in last.all_input_nodes if arg not in values]:
            pending += missing
        elif pending.pop() not in values:
            values[last] = _computed(model, last, values)
    return values[node]


def _varies(node: fx.Node) -> bool:
    """True unless a node is a constant, or computes a value from its operands alone."""
    if node.op == "get_attr" or node.target is operator.getitem:
        return False
    schema: Any = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None:
        return True
    return schema.is_mutable and ((changed := cast(fx.Node, node.args[0])).op == "get_attr" or len(changed.users) > 1)


def _computed(model: fx.GraphModule, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    if node.op == "get_attr":
        return value_of(model, node).detach().clone()
    args, kwargs = map_arg(cast(Any, (node.args, node.kwargs)), values.__getitem__)
    if changes_operand(node):
        args = (args[0].clone(), *args[1:])  # its memory may be that of another value, such as the source of a view
    return cast(Any, node.target)(*args, **kwargs)


def fold(model: fx.GraphModule, *, weights: bool = False) -> None:
    """Compute numbers at build time that depend on no input; those that depend on weights only with `weights`.

    Plain views of weights stay, because layers accept them.
    """
    fixed: dict[fx.Node, None] = {}
    for node in model.graph.nodes:
        if node.op == "get_attr":
            is_fixed = weights or not isinstance(value_of(model, node), nn.Parameter)
        else:
            is_fixed = node.op == "call_function" and all(arg in fixed for arg in node.all_input_nodes)
        if is_fixed:
            fixed[node] = None
    for node in fixed:
        value = None
        if _computes(node) and any(user not in fixed for user in node.users):
            value = constant_value(model, node)
        if isinstance(value, Tensor) and value.dtype != torch.bool:
            folded = constant(model, node, node.name, value)
            folded.meta = {**node.meta, **folded.meta}  # errors about the constant name the line
            node.replace_all_uses_with(folded)
    model.graph.eliminate_dead_code()
    model.recompile()


def _computes(node: fx.Node) -> bool:
    """True for an operator that computes more than a view of a weight, a buffer or a constant."""
    while node.op == "call_function" and _is_view(node):
        node = cast(fx.Node, node.args[0])
    return node.op == "call_function"


def _is_view(node: fx.Node) -> bool:
    schema: Any = getattr(node.target, "_schema", None)
    return schema is not None and schema.returns[0].alias_info is not None and not schema.is_mutable


def constant(
    model: fx.GraphModule,
    before: fx.Node,
    name: str,
    value: Tensor,
    *,
    like: Tensor | None = None,
    gradient: Callable[[Tensor], Tensor] | None = None,
) -> fx.Node:
    """Insert a contiguous constant: floats are float32, and trainable if the weight `like` that they come from is.

    An existing constant of the same name and values is reused; with other values, the new name gets a number.
    `gradient` maps gradients, so that elements that come from one number of the weight stay equal, or zero. Integers
    are parameters too, because PyTorch would treat the sizes of other tensors as dynamic when it traces the model
    again.
    """
    kept = value.detach().float() if value.is_floating_point() else value
    kept = kept.clone(memory_format=torch.contiguous_format)  # `contiguous` keeps strides of 0 of one element
    wanted = nn.Parameter(kept, requires_grad=like is not None and like.requires_grad)
    first = f"deuteron_{name.replace('.', '_')}"
    names = itertools.chain([first], (f"{first}_{number}" for number in itertools.count(1)))
    name = next(one for one in names if not hasattr(model, one) or _is_same(getattr(model, one), wanted))
    if not hasattr(model, name):
        model.register_parameter(name, wanted)
        if wanted.requires_grad and gradient is not None:
            cast(Any, wanted).register_hook(gradient)
    with before.graph.inserting_before(before):
        node = before.graph.get_attr(name)
    mode: Any = detect_fake_mode([one.meta.get("val") for one in before.graph.nodes])
    node.meta["val"] = mode.from_tensor(value_of(model, node), static_shapes=True)
    return node


def _is_same(one: object, wanted: nn.Parameter) -> bool:
    """True for a parameter with the same values and training state."""
    return (
        isinstance(one, nn.Parameter)
        and (one.dtype, one.requires_grad) == (wanted.dtype, wanted.requires_grad)
        and torch.equal(one, wanted)
    )


def _product(_: fx.GraphModule, division: fx.Node) -> fx.Node | None:
    """A division by a number becomes a product: the NXP backend would expand the number to the image's size."""
    x, divisor = cast("tuple[fx.Node, object]", division.args)
    if isinstance(divisor, bool) or not isinstance(divisor, int | float) or not divisor:
        return None
    return call(division, aten.mul.Tensor, x, 1 / divisor) if _value(x).is_floating_point() else None


def _bounded(_: fx.GraphModule, clamp: fx.Node) -> fx.Node | None:
    """A clamp with tensor bounds becomes a maximum and a minimum, in PyTorch's order: the upper bound wins."""
    x, low, high = (*clamp.args, None, None)[:3]
    low, high = clamp.kwargs.get("min", low), clamp.kwargs.get("max", high)
    if low is not None:
        x = call(clamp, aten.maximum.default, x, low)
    return cast(fx.Node, x) if high is None else call(clamp, aten.minimum.default, x, high)


def extremum(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A maximum or minimum with a constant of one number becomes a clamp, for which the number needs no scale.

    Parameters stay, as a training may change them, and bools, which have no clamp.
    """
    wanted = _value(node)
    if wanted.dtype == torch.bool:
        return None

    def is_parameter(one: fx.Node) -> bool:
        return one.op == "get_attr" and isinstance(value_of(model, one), nn.Parameter)

    bound = "min" if node.target == aten.maximum.default else "max"
    for x, other in itertools.permutations(node.all_input_nodes, 2):
        number = None if depends_on(other, is_parameter) else constant_value(model, other)
        if number is None or not number.numel() or (_value(x).shape, _value(x).dtype) != (wanted.shape, wanted.dtype):
            continue
        if bool((number == number.flatten()[0]).all()):
            return call(node, aten.clamp.default, x, **{bound: number.flatten()[0].item()})
    return None


def _cropped(_: fx.GraphModule, pad: fx.Node) -> fx.Node | None:
    """A negative pad becomes a slice, before the positive pads; without pads it is its operand."""
    x, ends, *more = cast("tuple[fx.Node, list[int], Any]", pad.args)
    if not any(ends):
        return x
    is_constant = pad.target is aten.constant_pad_nd.default or more[:1] in ([], ["constant"])
    if not is_constant or all(end >= 0 for end in ends):
        return None
    for i, (before, after) in enumerate(zip(ends[::2], ends[1::2], strict=True)):
        dim = _value(pad).dim() - 1 - i
        if before < 0 or after < 0:
            size = _value(x).shape[dim]
            x = call(pad, aten.slice.Tensor, x, dim, max(-before, 0), size - max(-after, 0))
    ends = [max(end, 0) for end in ends]
    return call(pad, pad.target, x, ends, *more, **pad.kwargs) if any(ends) else x


def _in_order(_: fx.GraphModule, clamp: fx.Node) -> fx.Node | None:
    """A clamp with a lower bound above the upper one, which wins, gets the upper bound twice."""
    x, low, high = (*clamp.args, None, None)[:3]
    low, high = clamp.kwargs.get("min", low), clamp.kwargs.get("max", high)
    if not isinstance(low, int | float) or not isinstance(high, int | float) or low <= high:
        return None
    return call(clamp, clamp.target, x, high, high)


def _remainder(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A remainder of integers uses a floor division: ExecuTorch's kernel has the sign of C's remainder."""
    if _value(node).is_floating_point():
        return None
    x, divisor = cast("tuple[fx.Node, Any]", node.args)
    whole = call(node, aten.div.Tensor_mode, x, divisor, rounding_mode="floor")
    return call(node, aten.sub.Tensor, x, call(node, aten.mul.Tensor, whole, divisor))


def _shuffled(_: fx.GraphModule, shuffle: fx.Node) -> fx.Node:
    """A pixel shuffle becomes reshapes and a permutation, which has no separate scale in the NXP backend."""
    x, factor = cast("tuple[fx.Node, int]", shuffle.args)
    *batch, channels, high, wide = _value(x).shape
    first = len(batch)
    parts = [*batch, channels // factor**2, factor, factor, high, wide]
    order = [*range(first), first, first + 3, first + 1, first + 4, first + 2]
    return _rearranged(shuffle, x, parts, order)


def _unshuffled(_: fx.GraphModule, unshuffle: fx.Node) -> fx.Node:
    """A pixel unshuffle becomes reshapes and a permutation."""
    x, factor = cast("tuple[fx.Node, int]", unshuffle.args)
    *batch, channels, high, wide = _value(x).shape
    first = len(batch)
    parts = [*batch, channels, high // factor, factor, wide // factor, factor]
    order = [*range(first), first, first + 2, first + 4, first + 1, first + 3]
    return _rearranged(unshuffle, x, parts, order)


def _rearranged(node: fx.Node, x: fx.Node, parts: Sequence[int], order: Sequence[int]) -> fx.Node:
    apart = call(node, aten.reshape.default, x, list(parts))
    return call(node, aten.reshape.default, call(node, aten.permute.default, apart, list(order)), [*_value(node).shape])


def _padded(_: fx.GraphModule, conv: fx.Node) -> fx.Node:
    """A convolution with a padding mode gets numbers.

    ExecuTorch's NXP backend fails for other grouped convolutions. An odd pad has its larger half after the last
    element.
    """
    x, weight, *given = cast("tuple[fx.Node, fx.Node, Any]", conv.args)
    bias, stride, word, dilation, groups = (*given, *(None, 1, "valid", 1, 1)[len(given) :])
    sizes = _value(weight).shape[2:]
    stride, steps = numbers(stride, len(sizes)), numbers(dilation, len(sizes))
    total = [step * (size - 1) if word == "same" else 0 for step, size in zip(steps, sizes, strict=True)]
    pads = [pad // 2 for pad in total]
    if any(pad % 2 for pad in total):
        ends = [
            n for before, both in zip(reversed(pads), reversed(total), strict=True) for n in (before, both - before)
        ]
        x, pads = call(conv, aten.pad.default, x, ends), [0] * len(pads)
    target = aten.conv2d.default if len(sizes) == 2 else aten.conv1d.default
    return call(conv, target, x, weight, bias, stride, pads, steps, groups)


_NO_VALUE = -1e4
"""Pads of this number or less before a max-pool stand for no value."""


def with_repeated_edges(_: fx.GraphModule, pool: fx.Node) -> fx.Node | None:
    """A max-pool in ceil mode, or after pads of a very low number, becomes one of an image with repeated edges.

    Elements beyond the image do not count, and every window begins inside or before the image. So such a window
    contains the last row, whose repetition changes no maximum. A pad would need a number below all others, which would
    widen the measured range.
    """
    dims = 2 if pool.target is aten.max_pool2d.default else 1
    defaults = ((), 0, 1, False)[len(pool.args) - 2 :]
    image, window, stride, pads, steps, up = cast("tuple[Any, ...]", (*pool.args, *defaults))
    window, stride, pads = numbers(window, dims), numbers(stride or window, dims), numbers(pads, dims)
    ends = _pads_without_value(image, dims)
    if not (up or ends) or any(step != 1 for step in numbers(steps, dims)):
        return None
    source = cast(fx.Node, image.args[0]) if ends else image
    for at, (size, move, pad) in enumerate(zip(window, stride, pads, strict=True)):
        dim = _value(pool).dim() - dims + at
        before, after = ends[2 * (dims - 1 - at) :][:2] or (0, 0)
        here, last = _value(source).shape[dim], (_value(pool).shape[dim] - 1) * move - pad
        if size - pad <= before or last >= before + here:
            return None  # a window of nothing but pads
        after = max(after, last + size - pad - before - here) if up else after
        edges = [call(pool, aten.slice.Tensor, source, dim, first, first + 1) for first in (0, here - 1)]
        if before or after:
            source = call(pool, aten.cat.default, [*edges[:1] * before, source, *edges[1:] * after], dim)
    return call(pool, pool.target, source, window, stride, pads)


def _pads_without_value(image: fx.Node, dims: int) -> list[int]:
    """Return the pads of an image if they have a very low number: before and after each dimension, the last first."""
    if image.target not in (aten.pad.default, aten.constant_pad_nd.default):
        return []
    _, ends, *more = cast("tuple[fx.Node, list[int], Any]", image.args)
    values = [value for value in (*more, *image.kwargs.values()) if isinstance(value, int | float)]
    is_pooled = min(ends) >= 0 and not any(ends[2 * dims :])
    return list(ends) if is_pooled and values and values[-1] <= _NO_VALUE else []


def _in_bands(_: fx.GraphModule, pool: fx.Node) -> fx.Node | None:
    """An adaptive average over windows of unequal sizes becomes means of rows, then of columns.

    None for windows of equal size, which are an ordinary pool.
    """
    x, wanted = cast("tuple[fx.Node, list[int]]", pool.args)
    sizes = _value(x).shape[-2:]
    if all(size % count == 0 for size, count in zip(sizes, wanted, strict=True)):
        return None
    return _banded(pool, x, wanted, aten.avg_pool2d.default, aten.mean.dim)


def _banded(before: fx.Node, x: fx.Node, wanted: Sequence[int], even: object, reduction: object) -> fx.Node:
    """Pool one dimension after the other: with the operator `even` where windows are equal, else window by window."""
    for place, count in enumerate(wanted):
        dim, size = _value(x).dim() - len(wanted) + place, _value(x).shape[place - len(wanted)]
        if size % count == 0:
            window = [size // count if place == other else 1 for other in range(len(wanted))]
            x = call(before, even, x, window, window) if size > count else x
            continue
        ends = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        bands = [call(before, aten.slice.Tensor, x, dim, start, end) for start, end in ends]
        x = call(before, aten.cat.default, [call(before, reduction, band, [dim], True) for band in bands], dim)
    return x


def values_alone(model: fx.GraphModule, item: fx.Node) -> fx.Node | None:
    """A max-pool with unused indices becomes one without indices.

    An adaptive pool becomes one as well, or one per window where they are unequal.
    """
    pool, index = cast("tuple[fx.Node, object]", item.args)
    if index != 0:
        return None
    if (even := _ADAPTIVE.get(pool.target)) is not None:
        image, sizes = cast("tuple[fx.Node, Sequence[int]]", pool.args)
        pairs = list(zip(_value(image).shape[-len(sizes) :], sizes, strict=True))
        window = [here // wanted for here, wanted in pairs]
        if all(here % wanted == 0 for here, wanted in pairs):
            return call(item, even, image, window, window)
        return _banded(item, image, sizes, even, aten.amax.default)
    if pool.target is aten.max_pool1d_with_indices.default:
        return call(item, aten.max_pool1d.default, *pool.args)
    if pool.target is not aten.max_pool2d_with_indices.default:
        return None
    plain = call(item, aten.max_pool2d.default, *pool.args)
    return with_repeated_edges(model, plain) or plain


_ADAPTIVE: Mapping[object, object] = {
    aten.adaptive_max_pool1d.default: aten.max_pool1d.default,
    aten.adaptive_max_pool2d.default: aten.max_pool2d.default,
}


def numbers(values: object, count: int) -> list[int]:
    """Expand a number, or a list of one, to a list of `count` numbers."""
    listed = [values] if isinstance(values, int) else list(cast("Sequence[int]", values))
    return listed * count if len(listed) == 1 else listed


def _value(node: fx.Node) -> Tensor:
    return node.meta["val"]


_DECOMPOSITIONS: Mapping[object, Decomposition] = {
    aten.div.Tensor: _product,
    **dict.fromkeys((aten.remainder.Scalar, aten.remainder.Tensor), _remainder),
    **dict.fromkeys((aten.pad.default, aten.constant_pad_nd.default), _cropped),
    aten.clamp.default: _in_order,
    aten.clamp.Tensor: _bounded,
    aten.conv1d.padding: _padded,
    aten.conv2d.padding: _padded,
    aten.pixel_shuffle.default: _shuffled,
    aten.pixel_unshuffle.default: _unshuffled,
    aten.max_pool1d.default: with_repeated_edges,
    aten.max_pool2d.default: with_repeated_edges,
    aten.adaptive_avg_pool2d.default: _in_bands,
    operator.getitem: values_alone,
}

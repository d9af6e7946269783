"""Writes operators that are special cases of others as these: of fewer names each backend has more."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.operators import called
from deuteron.frontend.quantize.decompositions import (
    Decomposition,
    apply,
    call,
    constant,
    constant_value,
    extremum,
    numbers,
    value_of,
)

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Decompose operators in place; `fmin` and `fmax` differ from `minimum` and `maximum` only for NaN."""
    apply(model, _DECOMPOSITIONS)
    _remove_expansions(model)


def remove_identity_transposes(model: fx.GraphModule) -> None:
    """Remove transposes of a dimension with itself, which other rewrites leave: ExecuTorch makes copies of them."""
    for node in model.graph.find_nodes(op="call_function", target=aten.transpose.int):
        x, one, other = cast("tuple[fx.Node, int, int]", node.args)
        rank = cast(Tensor, x.meta["val"]).dim()
        if not rank or one % rank == other % rank:
            node.replace_all_uses_with(x)
            model.graph.erase_node(node)


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
    a, b, alpha = cast("tuple[Any, Any, float]", (*node.args, node.kwargs.get("alpha", 1))[:3])
    is_reversed = called(node) == "rsub"
    if alpha == 1 and not (is_reversed and isinstance(b, fx.Node)):
        return None
    if not isinstance(b, fx.Node):
        a, b = (call(node, aten.mul.Tensor, a, alpha), b) if is_reversed else (a, b * alpha)
        return call(node, node.target, a, b)
    first, second = (b, a) if is_reversed else (a, b)
    factored = second if alpha == 1 else call(node, aten.mul.Tensor, second, alpha)
    return call(node, aten.sub.Tensor if is_reversed else node.target, first, factored)


def _of_one(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A sum, mean, or extreme of a tensor without dimensions is the tensor."""
    x = cast(fx.Node, node.args[0])
    is_same = not x.meta["val"].dim() and x.meta["val"].dtype == node.meta["val"].dtype
    return x if is_same else None


def _with_bounds(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A hardtanh whose bounds are its arguments; exports leave out bounds that are the integers -1 and 1."""
    x, *bounds = cast("tuple[fx.Node, float, float]", node.args)
    return None if len(bounds) == 2 else call(node, node.target, x, *map(float, bounds), *(-1.0, 1.0)[len(bounds) :])


def _transposed(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """The last two dimensions of a tensor exchanged, or all of them in the opposite order."""
    x = cast(fx.Node, node.args[0])
    rank = cast(Tensor, x.meta["val"]).dim()
    if node.target is aten.numpy_T.default:
        return call(node, aten.permute.default, x, [*reversed(range(rank))])
    return call(node, aten.transpose.int, x, -2, -1)


def _axes(node: fx.Node) -> list[int]:
    """Return for each dimension of a permuted tensor the one of the operand."""
    rank = cast(Tensor, node.meta["val"]).dim()
    axes = [*range(rank)]
    if node.target is aten.permute.default:
        return [axes[dim] for dim in cast("Sequence[int]", node.args[1])]
    first, second = cast("tuple[int, int]", node.args[1:3])
    axes[first], axes[second] = axes[second], axes[first]
    return axes


def _permuted_once(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A permutation of a permuted tensor; none if the two undo each other."""
    inner = cast(fx.Node, node.args[0])
    if inner.target not in _PERMUTES or not node.meta["val"].dim():
        return None
    source, own = cast(fx.Node, inner.args[0]), _axes(inner)
    axes = [own[axis] for axis in _axes(node)]
    return source if axes == sorted(axes) else call(node, aten.permute.default, source, axes)


def _dot(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """The product of two vectors, as rows."""
    x, y = (call(node, aten.unsqueeze.default, side, 0) for side in cast("tuple[fx.Node, fx.Node]", node.args))
    return call(
        node, aten.reshape.default, call(node, aten.sum.dim_IntList, call(node, aten.mul.Tensor, x, y), [1]), []
    )


def _divided(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Replace an average with a given divisor by one over the number of elements, times a number."""
    if len(node.args) < 7 or node.args[6] is None or node.args[4]:  # windows behind the edge have fewer elements
        return None
    image, window, *others = cast("tuple[Any, ...]", node.args)
    high, wide = numbers(window, 2)
    mean = call(node, node.target, image, window, *others[:3], True)
    return call(node, aten.mul.Tensor, mean, high * wide / others[4])


def _remove_expansions(model: fx.GraphModule) -> None:
    """Remove expansions to the other operand's shape before arithmetic, which broadcasts."""
    for node in model.graph.nodes:
        if node.target in _BROADCASTING:
            for arg in list(node.all_input_nodes):
                if arg.target in _EXPANDS:
                    source = cast(fx.Node, arg.args[0])
                    others = [one.meta["val"].shape for one in node.all_input_nodes if one is not arg]
                    if _common_shape(source.meta["val"].shape, *others) == node.meta["val"].shape:
                        node.replace_input_with(arg, source)
    model.graph.eliminate_dead_code()
    model.recompile()


def _common_shape(*shapes: torch.Size) -> torch.Size:
    return cast(Any, torch).broadcast_shapes(*shapes)


def _expanded(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    return call(node, aten.expand.default, node.args[0], [*node.meta["val"].shape])


def _taken(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The elements at places of a tensor that are known, as a selection from a list."""
    x, *rest = node.args
    given = [constant_value(model, arg) if isinstance(arg, fx.Node) else arg for arg in rest]
    if any(isinstance(arg, fx.Node) and value is None for arg, value in zip(rest, given, strict=True)):
        return None
    value = cast(Tensor, cast(fx.Node, x).meta["val"])
    if node.target is aten.as_strided.default and not _is_whole(value):
        return None
    places = cast(Any, node.target)(torch.arange(value.numel()).reshape(value.shape), *given, **node.kwargs)
    kept = constant(model, node, f"{node.name}_places", places.flatten())
    chosen = call(node, aten.index_select.default, call(node, aten.reshape.default, x, [-1]), 0, kept)
    return call(node, aten.reshape.default, chosen, [*node.meta["val"].shape])


def _interleaved(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """Each element repeated a fixed number of times, as a dimension that is repeated."""
    x, count, dim = cast("tuple[fx.Node, int, int | None]", (*node.args, None)[:3])
    dim = cast("int | None", node.kwargs.get("dim", dim))
    if dim is None:
        x, dim = call(node, aten.reshape.default, x, [-1]), 0
    shape = [*x.meta["val"].shape]
    dim %= len(shape)
    apart = call(node, aten.unsqueeze.default, x, dim + 1)
    repeated = call(node, aten.expand.default, apart, [*shape[: dim + 1], count, *shape[dim + 1 :]])
    return call(node, aten.reshape.default, repeated, [*node.meta["val"].shape])


def _taken_along(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The elements at places along a dimension, of known places a selection from a list."""
    x, index, dim = cast("tuple[fx.Node, fx.Node, int | None]", (*node.args, None)[:3])
    dim = cast("int | None", node.kwargs.get("dim", dim))
    if (taken := _taken(model, node)) is not None or dim is None:
        return taken
    shapes = [[*one.meta["val"].shape] for one in (x, index)]
    dim %= len(shapes[0])
    whole = [*_common_shape(*(torch.Size([*shape[:dim], 1, *shape[dim + 1 :]]) for shape in shapes))]
    for side, shape in enumerate(shapes):
        wanted = [*whole[:dim], shape[dim], *whole[dim + 1 :]]
        if shape != wanted and side:
            return None
        x = x if side or shape == wanted else call(node, aten.expand.default, x, wanted)
    return call(node, aten.gather.default, x, dim, index)


def _filled(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """One number at known places along a dimension, as a choice by a constant mask."""
    x, dim, index, number = cast("tuple[fx.Node, int, fx.Node, float]", node.args)
    places, shape = constant_value(model, index), x.meta["val"].shape
    if places is None:
        return None
    mask = torch.zeros(shape[dim], dtype=torch.bool).index_fill(0, places, True)
    mask = mask.reshape([-1, *[1] * (len(shape) - 1 - dim % len(shape))])
    return call(node, aten.masked_fill.Scalar, x, constant(model, node, f"{node.name}_mask", mask), number)


def _is_whole(value: Tensor) -> bool:
    """True for a tensor that has all of its memory, in order."""
    return value.is_contiguous() and value.numel() * value.element_size() == value.untyped_storage().nbytes()


def _fake_quantized(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """Numbers rounded to steps of a scale between two ends."""
    x, scale, zero_point, low, high = cast("tuple[fx.Node, float, int, int, int]", node.args)
    steps = call(node, aten.round.default, call(node, aten.mul.Tensor, x, 1 / scale))
    bounded = call(node, aten.clamp.default, steps, low - zero_point, high - zero_point)
    return call(node, aten.mul.Tensor, bounded, scale)


def _windows(model: fx.GraphModule, node: fx.Node) -> fx.Node:
    """Windows that slide over a dimension, as a selection that repeats what they share."""
    x, dim, size, step = cast("tuple[fx.Node, int, int, int]", node.args)
    shape = [*x.meta["val"].shape]
    dim %= len(shape)
    starts = torch.arange(0, shape[dim] - size + 1, step)
    places = constant(model, node, f"{node.name}_places", (starts[:, None] + torch.arange(size)).flatten())
    chosen = call(node, aten.index_select.default, x, dim, places)
    chosen = call(node, aten.reshape.default, chosen, [*shape[:dim], len(starts), size, *shape[dim + 1 :]])
    if dim == len(shape) - 1:
        return chosen
    order = [*range(dim + 1), *range(dim + 2, len(shape) + 1), dim + 1]
    return call(node, aten.permute.default, chosen, order)


def _products_so_far(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    x, dim = cast("tuple[fx.Node, int]", node.args[:2])
    parts = [call(node, aten.select.int, x, dim, i) for i in range(x.meta["val"].shape[dim])]
    products = [*itertools.accumulate(parts, lambda a, b: call(node, aten.mul.Tensor, a, b))]
    return call(node, aten.stack.default, products, dim)


def _repeated(_: fx.GraphModule, node: fx.Node) -> list[fx.Node]:
    """Tensors that are repeated to one shape."""
    tensors = cast("list[fx.Node]", node.args[0])
    shape = [*_common_shape(*(x.meta["val"].shape for x in tensors))]
    return [x if [*x.meta["val"].shape] == shape else call(node, aten.expand.default, x, shape) for x in tensors]


def _by_statistics(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """An instance norm with constant statistics, as a batch norm."""
    return None if node.args[5] else call(node, aten.batch_norm.default, *node.args[:5], False, *node.args[6:])


def _unbound(_: fx.GraphModule, node: fx.Node) -> list[fx.Node]:
    """The slices of a tensor, one by one."""
    x, dim = cast("tuple[fx.Node, int]", (*node.args, 0)[:2])
    return [call(node, aten.select.int, x, dim, i) for i in range(x.meta["val"].shape[dim])]


def _on_diagonal(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Vectors on the diagonals of matrices, as a choice by a constant mask."""
    if len(node.args) > 1 or node.kwargs:
        return None
    shape = [*node.meta["val"].shape]
    rows = call(node, aten.expand.default, call(node, aten.unsqueeze.default, *node.args, -1), shape)
    kept = constant(model, node, f"{node.name}_mask", torch.eye(shape[-1], dtype=torch.bool))
    return _masked(node, kept, rows)


def _masked(node: fx.Node, kept: fx.Node, x: fx.Node) -> fx.Node:
    """The elements of `x` that a mask keeps; the others are 0 or false."""
    if x.meta["val"].dtype == torch.bool:
        return call(node, aten.logical_and.default, kept, x)
    return call(node, aten.where.ScalarOther, kept, x, 0)


def _of_bools(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A comparison of bools as logic: `a < b` is `~a & b`."""
    a, b = cast("tuple[fx.Node, fx.Node]", node.args)
    if not all(one.meta["val"].dtype == torch.bool for one in (a, b)):
        return None
    name = called(node)
    if name in ("eq", "ne"):
        differ = call(node, aten.logical_xor.default, a, b)
        return differ if name == "ne" else call(node, aten.logical_not.default, differ)
    less, greater = (a, b) if name in ("lt", "le") else (b, a)
    either = aten.logical_and.default if name in ("lt", "gt") else aten.logical_or.default
    return call(node, either, call(node, aten.logical_not.default, less), greater)


def _of_bool_and_number(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A comparison of a bool with 0 or 1, as the bool or its opposite."""
    x, number = cast("tuple[fx.Node, float]", node.args)
    if x.meta["val"].dtype != torch.bool or number not in (0, 1):
        return None
    return x if (number == 1) == (called(node) == "eq") else call(node, aten.logical_not.default, x)


def _split(_: fx.GraphModule, node: fx.Node) -> list[fx.Node]:
    """The slices of a tensor between given places, or as many of nearly one size."""
    x, dim = node.args[0], cast(int, (*node.args, 0)[2])
    sizes = [part.shape[dim] for part in node.meta["val"]]
    ends = [*itertools.accumulate(sizes)]
    return [call(node, aten.slice.Tensor, x, dim, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _products_of_rows(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Products with the rows of a matrix, as a linear layer if it is a weight."""
    x, rows = cast("tuple[fx.Node, fx.Node]", node.args)
    if rows.meta["val"].dim() != 2:
        return None
    if rows.op == "get_attr":
        return call(node, aten.linear.default, x, rows)
    return call(node, aten.matmul.default, x, call(node, aten.transpose.int, rows, 0, 1))


def _added_at(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Rows that are added at constant places, as a linear layer that adds them."""
    x, dim, index, rows = cast("tuple[fx.Node, int, fx.Node, fx.Node]", node.args)
    places = constant_value(model, index)
    if places is None or places.dim() != 1 or not x.meta["val"].is_floating_point():
        return None
    weight = torch.zeros(x.meta["val"].shape[dim], len(places))
    weight[places, torch.arange(len(places))] = float(cast(float, node.kwargs.get("alpha", 1)))
    kept = constant(model, node, f"{node.name}_places", weight)
    total = call(node, aten.linear.default, call(node, aten.transpose.int, rows, dim, -1), kept)
    return call(node, aten.add.Tensor, x, call(node, aten.transpose.int, total, dim, -1))


def _triangle(model: fx.GraphModule, node: fx.Node) -> fx.Node:
    """The elements on one side of a diagonal, as a choice by a constant mask."""
    x, *diagonal = node.args
    mask = torch.ones(cast(fx.Node, x).meta["val"].shape[-2:], dtype=torch.bool)
    kept = constant(model, node, f"{node.name}_mask", cast(Any, node.target)(mask, *diagonal))
    return _masked(node, kept, cast(fx.Node, x))


_BITS = 31
"""The shift from which on a power of two is no int32."""


def _shifted_left(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    x, bits = node.args
    if isinstance(bits, fx.Node):
        factors = _powers_of_two(model, node, bits)
        return None if factors is None else call(node, aten.mul.Tensor, x, factors)
    return call(node, aten.mul.Tensor, x, 1 << bits) if isinstance(bits, int) and bits >= 0 else None


def _powers_of_two(model: fx.GraphModule, node: fx.Node, bits: fx.Node) -> fx.Node | None:
    """Return the powers of known exponents, which the dtype of the result holds."""
    value, dtype = constant_value(model, bits), cast(Tensor, node.meta["val"]).dtype
    if value is None or not bool(((value >= 0) & (value < torch.iinfo(dtype).bits - dtype.is_signed)).all()):
        return None
    return constant(model, node, f"{node.name}_powers", torch.ones((), dtype=dtype) << value.to(dtype))


def _shifted_right(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A shift to the right rounds down, of negative numbers too."""
    x, bits = node.args
    if isinstance(bits, fx.Node):
        divisors = _powers_of_two(model, node, bits)
        return None if divisors is None else call(node, aten.div.Tensor_mode, x, divisors, rounding_mode="floor")
    is_fixed = isinstance(bits, int) and 0 <= bits < _BITS
    return call(node, aten.div.Tensor_mode, x, 1 << cast(int, bits), rounding_mode="floor") if is_fixed else None


def _counted(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Return the number of bounds below each value; None for bounds of several rows, or with a `sorter`."""
    x, bounds = cast("tuple[fx.Node, fx.Node]", node.args if called(node) == "bucketize" else node.args[::-1])
    if bounds.meta["val"].dim() != 1 or node.kwargs.get("sorter") is not None:
        return None
    is_right = node.kwargs.get("right") or node.kwargs.get("side") == "right"
    relation = aten.ge.Tensor if is_right else aten.gt.Tensor
    is_beyond = call(node, relation, call(node, aten.unsqueeze.default, x, -1), bounds)
    count = call(node, aten.sum.dim_IntList, call(node, aten.to.dtype, is_beyond, torch.int64), [-1])
    dtype = cast(Tensor, node.meta["val"]).dtype
    return count if dtype == torch.int64 else call(node, aten.to.dtype, count, dtype)


def _scattered(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Values at constant places of a tensor, as a choice from both; None where two values have one place."""
    if node.target is aten.put.default:
        x, index, values = cast("tuple[fx.Node, fx.Node, fx.Node]", node.args[:3])
        dim, listed, accumulates = None, [index], len(node.args) > 3 and node.args[3]
    elif node.target is aten.index_put.default:
        x, listed, values = cast("tuple[fx.Node, list[fx.Node | None], fx.Node]", node.args[:3])
        dim, accumulates = None, len(node.args) > 3 and node.args[3]
    else:
        x, dim, index, values = cast("tuple[fx.Node, int, fx.Node, fx.Node]", node.args)
        listed, accumulates = [index], False
    given = [None if one is None else constant_value(model, one) for one in listed]
    shape, size = [*x.meta["val"].shape], x.meta["val"].numel()
    is_known = all(one is None or value is not None for one, value in zip(listed, given, strict=True))
    if not is_known or accumulates or x.meta["val"].dtype != values.meta["val"].dtype:
        return None
    number = torch.arange(values.meta["val"].numel()).reshape(values.meta["val"].shape)
    chosen = torch.arange(size).reshape(shape)
    places: Any = given[0]
    if node.target is aten.put.default:
        targets = places.flatten() % size
        chosen = chosen.put(places, size + number)
    elif dim is None:
        by = tuple(slice(None) if one is None else one for one in given)
        targets = chosen[by].flatten()
        chosen[by] = size + number
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


def _of_time_first(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A convolution of signals of [time, samples, channels], whose weights have the same order."""
    x, weight, bias, padding = cast("tuple[fx.Node, fx.Node, fx.Node, int]", (*node.args, 0)[:4])
    if (value := constant_value(model, weight)) is None:
        return None
    like = value_of(model, weight) if weight.op == "get_attr" else None
    kept = constant(model, node, f"{node.name}_weight", value.permute(2, 1, 0), like=like)
    signals = call(node, aten.permute.default, x, [1, 2, 0])
    result = call(node, aten.conv1d.default, signals, kept, bias, [1], [padding])
    return call(node, aten.permute.default, result, [2, 0, 1])


def _to_each_power(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Powers of few whole exponents that are known and not negative, as choices from the powers of all elements."""
    x, exponent = cast("tuple[fx.Node, fx.Node]", node.args)
    value = constant_value(model, exponent)
    if value is None or value.numel() > _FEW_EXPONENTS**2 or not x.meta["val"].is_floating_point():
        return None
    exponents = sorted({*map(float, value.flatten())})
    if len(exponents) > _FEW_EXPONENTS or not all(one.is_integer() and one >= 0 for one in exponents):
        return None
    result: fx.Node | None = None
    for number, one in enumerate(exponents):
        power = call(node, aten.pow.Tensor_Scalar, x, int(one))
        if result is None:
            result = power
        else:
            is_one = constant(model, node, f"{node.name}_exponent_{number}", value == one)
            result = call(node, aten.where.self, is_one, power, result)
    return result


_FEW_EXPONENTS = 8


def _with_known_sign(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The sign of a constant, which may be that of a negative zero, as the sign of 1 or -1."""
    given = node.args[-1]
    value = constant_value(model, given) if isinstance(given, fx.Node) else None
    if value is None or not value.is_floating_point():
        return None
    sign = constant(model, node, f"{node.name}_sign", torch.where(value.signbit(), -1.0, 1.0))
    return call(node, node.target, *node.args[:-1], sign)


_PERMUTES = frozenset({aten.permute.default, aten.transpose.int})
_EXPANDS = frozenset({aten.expand.default, aten.expand_as.default})
_BROADCASTING = frozenset(
    {aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.maximum.default, aten.minimum.default}
)


def _of_one_number(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A new tensor of one number, whose shape alone comes from another."""
    value = cast(Tensor, node.meta["val"])
    given = {"zeros": 0.0, "ones": 1.0}.get(called(node).removesuffix("_like").removeprefix("new_"))
    number: Any = node.args[-1] if given is None else given
    if isinstance(number, fx.Node):
        return None
    return constant(model, node, node.name, torch.full(tuple(value.shape), number, dtype=value.dtype))


_DECOMPOSITIONS: Mapping[object, Decomposition] = {
    **dict.fromkeys((aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor), _of_bools),
    **dict.fromkeys((aten.eq.Tensor, aten.ne.Tensor), _of_bools),
    **dict.fromkeys((aten.eq.Scalar, aten.ne.Scalar), _of_bool_and_number),
    **dict.fromkeys((aten.maximum.default, aten.minimum.default), extremum),
    **dict.fromkeys((aten.fmax.default, aten.max.other), _as(aten.maximum.default)),
    **dict.fromkeys((aten.fmin.default, aten.min.other), _as(aten.minimum.default)),
    aten.aminmax.default: _both_extremes,
    aten.ldexp.Tensor: _scaled,
    aten.narrow.default: _narrowed,
    **dict.fromkeys((aten.add.Tensor, aten.sub.Tensor, aten.rsub.Tensor, aten.rsub.Scalar), _with_factor),
    **dict.fromkeys((aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim), _of_one),
    **dict.fromkeys((aten.max.default, aten.min.default, aten.amax.default, aten.amin.default), _of_one),
    aten.hardtanh.default: _with_bounds,
    **dict.fromkeys((aten.mT.default, aten.numpy_T.default, aten.matrix_H.default, aten.adjoint.default), _transposed),
    **dict.fromkeys((aten.dot.default, aten.vdot.default), _dot),
    **dict.fromkeys(_PERMUTES, _permuted_once),
    aten.avg_pool2d.default: _divided,
    **dict.fromkeys((aten.bucketize.Tensor, aten.searchsorted.Tensor), _counted),
    **dict.fromkeys((aten.copysign.Tensor, aten.signbit.default), _with_known_sign),
    aten.conv_tbc.default: _of_time_first,
    aten.pow.Tensor_Tensor: _to_each_power,
    aten.expand_as.default: _expanded,
    **dict.fromkeys((aten.tril.default, aten.triu.default), _triangle),
    aten.unbind.int: _unbound,
    aten.index_add.default: _added_at,
    aten.inner.default: _products_of_rows,
    aten.ravel.default: lambda _, node: call(node, aten.reshape.default, node.args[0], [-1]),
    aten.view.default: _as(aten.reshape.default),  # decomposed attention has other strides than PyTorch's operator
    aten.broadcast_tensors.default: _repeated,
    **dict.fromkeys((aten.take.default, aten.diagonal.default, aten.as_strided.default), _taken),
    aten.take_along_dim.default: _taken_along,
    aten.index_fill.int_Scalar: _filled,
    aten.repeat_interleave.self_int: _interleaved,
    aten.unfold.default: _windows,
    aten.fake_quantize_per_tensor_affine.default: _fake_quantized,
    **dict.fromkeys((aten.tensor_split.indices, aten.tensor_split.sections), _split),
    aten.cumprod.default: _products_so_far,
    aten.diag_embed.default: _on_diagonal,
    aten.instance_norm.default: _by_statistics,
    **dict.fromkeys((aten.detach.default, aten.alias.default), lambda _, node: cast(fx.Node, node.args[0])),
    **dict.fromkeys((aten.__lshift__.Scalar, aten.bitwise_left_shift.Tensor_Scalar), _shifted_left),
    **dict.fromkeys((aten.__lshift__.Tensor, aten.bitwise_left_shift.Tensor), _shifted_left),
    **dict.fromkeys((aten.__rshift__.Scalar, aten.bitwise_right_shift.Tensor_Scalar), _shifted_right),
    **dict.fromkeys((aten.__rshift__.Tensor, aten.bitwise_right_shift.Tensor), _shifted_right),
    **dict.fromkeys((aten.put.default, aten.scatter.src, aten.index_put.default), _scattered),
    **dict.fromkeys((aten.new_zeros.default, aten.new_ones.default, aten.new_full.default), _of_one_number),
    **dict.fromkeys((aten.zeros_like.default, aten.ones_like.default, aten.full_like.default), _of_one_number),
}

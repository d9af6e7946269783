"""Decomposes operators of a float model into operators with int8 implementations on the Cortex-M."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, cast

import torch
from torch import fx

from deuteron.errors import UnsupportedError
from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import value_of
from deuteron.frontend.cortex_m.custom_ops.reductions import reduced_dims, runs
from deuteron.frontend.operators import operator_name
from deuteron.frontend.quantize.arithmetic import unit_vectors
from deuteron.frontend.quantize.attention import LEAST
from deuteron.frontend.quantize.decompositions import call
from deuteron.frontend.source_lines import source_of

aten = torch.ops.aten

_LEAST = 1e-24
"""Replaces the least length of a normalised vector; no stored number is that small."""


def write(model: fx.GraphModule) -> None:
    """Write instance norms as group norms, unit vectors as root mean square norms, and `where` with tensor operands.

    A maximum with indices becomes two operators. A reduction over dimensions that are not adjacent gets a permutation.
    """
    _use_one_mode(model)
    for node in reversed(list(model.graph.nodes)):
        decompose = _DECOMPOSITIONS.get(node.target) if node.users else None
        value = None if decompose is None else decompose(node)
        if value is not None:
            node.replace_all_uses_with(value)
            model.graph.erase_node(node)
    model.graph.eliminate_dead_code()
    model.recompile()


def _use_one_mode(model: fx.GraphModule) -> None:
    """Give constants fake tensors of the inputs' mode: those that ExecuTorch's passes fold have one of their own."""
    first = next(iter(model.graph.find_nodes(op="placeholder")))
    mode: Any = first.meta["val"].fake_mode
    for node in model.graph.find_nodes(op="get_attr"):
        value: Any = node.meta.get("val")
        if isinstance(value, torch.Tensor) and getattr(value, "fake_mode", mode) is not mode:
            node.meta["val"] = mode.from_tensor(attrgetter(str(node.target))(model), static_shapes=True)


def _instance_norm(norm: fx.Node) -> fx.Node | None:
    x, weight, bias, _, _, measures, _, epsilon = norm.args[:8]
    channels = value_of(norm).shape[1]
    return call(norm, aten.group_norm.default, x, channels, weight, bias, epsilon) if measures else None


def _permuted(node: fx.Node) -> fx.Node | None:
    """Permute the reduced dimensions to the end if others are between them."""
    x = node.all_input_nodes[0]
    shape, dims = value_of(x).shape, reduced_dims(node)
    if runs(shape, dims) is not None:
        return None
    kept = [dim for dim in range(len(shape)) if dim not in dims]
    permuted = call(node, aten.permute.default, x, [*kept, *dims])
    result = call(node, node.target, permuted, [*range(len(kept), len(shape))])
    return call(node, aten.reshape.default, result, [*value_of(node).shape])


def _over_all(target: object) -> Callable[[fx.Node], fx.Node]:
    """Return a decomposition into an extremum over all dimensions."""
    return lambda node: call(node, target, node.args[0])


def _unit(quotient: fx.Node) -> fx.Node | None:
    """A vector divided by its length becomes a root mean square norm over the last dimension, times a constant."""
    if (unit := unit_vectors(quotient)) is None:
        return None
    vector, dim, _ = unit
    shape = value_of(vector).shape
    places = [i for i in range(len(shape)) if i != dim] + [dim]
    back = [places.index(i) for i in range(len(shape))]
    is_last = dim == len(shape) - 1
    rows = vector if is_last else call(quotient, aten.permute.default, vector, places)
    weight = _constant(quotient, torch.full((shape[dim],), shape[dim] ** -0.5))
    normed = call(quotient, aten.rms_norm.default, rows, [shape[dim]], weight, _LEAST)
    return normed if is_last else call(quotient, aten.permute.default, normed, back)


def _length(norm: fx.Node) -> fx.Node | None:
    """The length of vectors becomes the square root of the sum of their squares."""
    x, order, dims, keeps = (*norm.args, *(2, None, False)[len(norm.args) - 1 :])[:4]
    if order != 2:
        return None
    squares = call(norm, aten.pow.Tensor_Scalar, x, 2)
    listed = dims or [*range(value_of(squares).dim())]
    return call(norm, aten.sqrt.default, call(norm, aten.sum.dim_IntList, squares, listed, keeps))


def _where(choice: fx.Node) -> fx.Node | None:
    """`where` with numbers as operands gets tensors; integers stay."""
    if not choice.meta["val"].is_floating_point():
        return None
    condition, *values = choice.args
    return _tensor_where(choice, cast(fx.Node, condition), *values)


def _filled(fill: fx.Node) -> fx.Node | None:
    """`masked_fill` with a number becomes `where`; integers stay."""
    if not fill.meta["val"].is_floating_point():
        return None
    x, mask, value = fill.args
    return _tensor_where(fill, cast(fx.Node, mask), value, x)


def _tensor_where(node: fx.Node, condition: fx.Node, *values: object) -> fx.Node:
    tensors = [v if isinstance(v, fx.Node) else _constant(node, torch.tensor(_number(node, v))) for v in values]
    return call(node, aten.where.self, condition, *tensors)


def _number(node: fx.Node, value: object) -> float:
    """Return a number as an operand of `where`.

    Raises:
        UnsupportedError: the number would determine the scale, such as infinity.
    """
    number = float(cast(float, value))
    if number > LEAST:
        return number
    source = source_of(node)
    raise UnsupportedError(
        f"`{operator_name(node.target)}` fills in {number:g}, with which int8 cannot represent the other values"
        f"{f', at `{source.code}`' if source else ''}",
        where=str(source) if source else None,
        hint="fill in a number near the others; for masked scores of a softmax subtract a number instead, as in "
        "`torch.where(mask, s - 8.0, s).softmax(-1)`",
    )


def _constant(before: fx.Node, value: torch.Tensor) -> fx.Node:
    """Add a constant to the model."""
    graph = before.graph
    model = cast(fx.GraphModule, graph.owning_module)
    name = f"deuteron_{before.name}_{len(list(model.named_buffers()))}"
    model.register_buffer(name, value)
    with graph.inserting_before(before):
        node = graph.get_attr(name)
    mode: Any = before.meta["val"].fake_mode
    node.meta["val"] = mode.from_tensor(value, static_shapes=True)
    return node


_DECOMPOSITIONS: Mapping[object, Callable[[fx.Node], fx.Node | None]] = {
    aten.instance_norm.default: _instance_norm,
    aten.mean.dim: _permuted,
    aten.sum.dim_IntList: _permuted,
    aten.amax.default: _permuted,
    aten.amin.default: _permuted,
    aten.max.default: _over_all(aten.amax.default),
    aten.min.default: _over_all(aten.amin.default),
    aten.div.Tensor: _unit,
    aten.linalg_vector_norm.default: _length,
    aten.where.ScalarSelf: _where,
    aten.where.ScalarOther: _where,
    aten.where.Scalar: _where,
    aten.masked_fill.Scalar: _filled,
}

"""Writes operators of a float model with others of which the Cortex-M has int8 forms, where that changes nothing."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, cast

import torch
from torch import fx

from deuteron.errors import UnsupportedError
from deuteron.frontend.cortex_m.added.lowering_pattern import value_of
from deuteron.frontend.cortex_m.added.reductions import reduced_dims, runs
from deuteron.frontend.operators import operator_name
from deuteron.frontend.quantise.arithmetic import unit_vectors
from deuteron.frontend.quantise.attention import LEAST
from deuteron.frontend.quantise.decompositions import call
from deuteron.frontend.source_lines import source_of

aten = torch.ops.aten

_LEAST = 1e-24
"""Instead of the smallest length that a normalised vector may have: no stored number is that small."""


def write(model: fx.GraphModule) -> None:
    """Write instance norms as group norms, vectors of length 1 as root mean squares, choices among numbers as tensors.

    Maxima with their places become two operators, and reductions over dimensions that are not side by side get a
    permutation before them.
    """
    _use_one_mode(model)
    for node in reversed(list(model.graph.nodes)):
        spell = _SPELLINGS.get(node.target) if node.users else None
        value = None if spell is None else spell(node)
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


def _apart(node: fx.Node) -> fx.Node | None:
    """A reduction over dimensions between which others lie: they are brought to the end."""
    x = node.all_input_nodes[0]
    shape, dims = value_of(x).shape, reduced_dims(node)
    if runs(shape, dims) is not None:
        return None
    kept = [dim for dim in range(len(shape)) if dim not in dims]
    turned = call(node, aten.permute.default, x, [*kept, *dims])
    result = call(node, node.target, turned, [*range(len(kept), len(shape))])
    return call(node, aten.reshape.default, result, [*value_of(node).shape])


def _whole(target: object) -> Callable[[fx.Node], fx.Node]:
    """The largest or least of all."""
    return lambda node: call(node, target, node.args[0])


def _unit(quotient: fx.Node) -> fx.Node | None:
    """A vector divided by its own length: over the last dimension a root mean square, times a constant."""
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
    """The length of vectors as the root of the sum of their squares."""
    x, order, dims, keeps = (*norm.args, *(2, None, False)[len(norm.args) - 1 :])[:4]
    if order != 2:
        return None
    squares = call(norm, aten.pow.Tensor_Scalar, x, 2)
    listed = dims or [*range(value_of(squares).dim())]
    return call(norm, aten.sqrt.default, call(norm, aten.sum.dim_IntList, squares, listed, keeps))


def _chosen(choice: fx.Node) -> fx.Node | None:
    """A choice among tensors or numbers; integers stay."""
    if not choice.meta["val"].is_floating_point():
        return None
    condition, *values = choice.args
    return _choose(choice, cast(fx.Node, condition), *values)


def _filled(fill: fx.Node) -> fx.Node | None:
    """A tensor of which some elements become a number; integers stay."""
    if not fill.meta["val"].is_floating_point():
        return None
    x, mask, value = fill.args
    return _choose(fill, cast(fx.Node, mask), value, x)


def _choose(node: fx.Node, condition: fx.Node, *values: object) -> fx.Node:
    tensors = [v if isinstance(v, fx.Node) else _constant(node, torch.tensor(_number(node, v))) for v in values]
    return call(node, aten.where.self, condition, *tensors)


def _number(node: fx.Node, value: object) -> float:
    """A number to choose.

    Raises:
        UnsupportedError: for one that would set the scale, as infinity and what stands for it in scores would.
    """
    number = float(cast(float, value))
    if number > LEAST:
        return number
    source = source_of(node)
    raise UnsupportedError(
        f"`{operator_name(node.target)}` fills in {number:g}, beside which int8 tells no other numbers apart"
        f"{f', at `{source.code}`' if source else ''}",
        where=str(source) if source else None,
        hint="fill in a number near the others; of scores that shall count for nothing in a softmax take a number "
        "away, as in `torch.where(mask, s - 8.0, s).softmax(-1)`",
    )


def _constant(before: fx.Node, value: torch.Tensor) -> fx.Node:
    """A constant of the model."""
    graph = before.graph
    model = cast(fx.GraphModule, graph.owning_module)
    name = f"deuteron_{before.name}_{len(list(model.named_buffers()))}"
    model.register_buffer(name, value)
    with graph.inserting_before(before):
        node = graph.get_attr(name)
    mode: Any = before.meta["val"].fake_mode
    node.meta["val"] = mode.from_tensor(value, static_shapes=True)
    return node


_SPELLINGS: Mapping[object, Callable[[fx.Node], fx.Node | None]] = {
    aten.instance_norm.default: _instance_norm,
    aten.mean.dim: _apart,
    aten.sum.dim_IntList: _apart,
    aten.amax.default: _apart,
    aten.amin.default: _apart,
    aten.max.default: _whole(aten.amax.default),
    aten.min.default: _whole(aten.amin.default),
    aten.div.Tensor: _unit,
    aten.linalg_vector_norm.default: _length,
    aten.where.ScalarSelf: _chosen,
    aten.where.ScalarOther: _chosen,
    aten.where.Scalar: _chosen,
    aten.masked_fill.Scalar: _filled,
}

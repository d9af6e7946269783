"""Splits layers that read a concatenation of small and large values, so that each part has a separate scale.

A recurrent cell that reads `torch.cat([x, h], 1)` is an example: the state may be a hundredth of the input, and has a
few steps of their common scale. A layer of a concatenation is the sum of layers of its parts.
"""

import itertools
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.inputs import Inputs
from deuteron.frontend.operators import called
from deuteron.frontend.quantize.decompositions import call, constant, constant_value, value_of
from deuteron.frontend.quantize.largest_values import largest_values

aten = torch.ops.aten

MOST_RATIO = 8.0
"""The largest ratio of values that share a scale: smaller ones keep at least 5 of 8 bits."""
_AXES = {"linear": -1, "conv1d": -2, "conv2d": -3}
"""Layers, and the dimension of their input channels."""


def split(model: fx.GraphModule, batches: Iterable[Inputs]) -> None:
    """Replace such layers, in place, by sums of layers; parts that are 0 for all inputs have no layer.

    Args:
        model: the exported float model.
        batches: float32 inputs of the model.
    """
    found = [
        node for node in model.graph.find_nodes(op="call_function", target=aten.cat.default) if _is_read(model, node)
    ]
    if not found:
        return
    sizes = largest_values(model, {part for node in found for part in _parts(node)}, batches)
    for node in found:
        _split(model, node, sizes)
    model.graph.eliminate_dead_code()
    model.recompile()


def _parts(concatenation: fx.Node) -> list[fx.Node]:
    return cast("list[fx.Node]", concatenation.args[0])


def _is_read(model: fx.GraphModule, concatenation: fx.Node) -> bool:
    """True if layers with constant weights alone read a concatenation of channels."""
    value, dim = cast(Tensor, concatenation.meta["val"]), cast(int, (*concatenation.args, 0)[1])
    place = dim % value.dim() - value.dim()
    return value.is_floating_point() and all(
        _AXES.get(called(user)) == place
        and user.args[0] is concatenation
        and not user.kwargs
        and cast(fx.Node, user.args[1]).op == "get_attr"
        and value_of(model, cast(fx.Node, user.args[1])).shape[1] == value.shape[place]
        for user in concatenation.users
    )


def _split(model: fx.GraphModule, concatenation: fx.Node, largest: dict[fx.Node, float]) -> None:
    parts = _parts(concatenation)
    widths = [cast(Tensor, part.meta["val"]).shape[_axis(concatenation)] for part in parts]
    ends = list(itertools.accumulate(widths, initial=0))
    zero = [place for place, part in enumerate(parts) if largest[part] == 0 and _is_zero(model, part)]
    kept = [place for place in range(len(parts)) if place not in zero]
    groups = _groups([(place, largest[parts[place]]) for place in kept])
    if not kept or (len(groups) == 1 and not zero):
        return
    for layer in list(concatenation.users):
        weight, *rest = cast("tuple[fx.Node, Any]", layer.args[1:])
        value = value_of(model, weight)
        terms: list[fx.Node] = []
        for group in groups:
            of = [parts[place] for place in group]
            x = of[0] if len(of) == 1 else call(layer, aten.cat.default, of, _axis(concatenation))
            columns = torch.cat([value[:, ends[place] : ends[place + 1]] for place in group], 1)
            name = f"{weight.target}_of_{'_'.join(map(str, group))}"
            weights = constant(model, layer, name, columns, like=value)
            terms.append(call(layer, layer.target, x, weights, *(rest if not terms else [None, *rest[1:]])))
        layer.replace_all_uses_with(reduce(lambda one, other: call(layer, aten.add.Tensor, one, other), terms))
        model.graph.erase_node(layer)


def _axis(concatenation: fx.Node) -> int:
    return cast(int, (*concatenation.args, 0)[1])


def _is_zero(model: fx.GraphModule, part: fx.Node) -> bool:
    value = constant_value(model, part)
    return value is not None and not value.count_nonzero()


def _groups(sizes: Sequence[tuple[int, float]]) -> list[list[int]]:
    """Group places by size, in the order of places: the largest of a group is at most `MOST_RATIO` times another."""
    groups: list[list[int]] = []
    most = 0.0
    for place, size in sorted(sizes, key=lambda one: -one[1]):
        if not groups or 0 < size * MOST_RATIO < most:
            groups.append([])
            most = size
        groups[-1].append(place)
    return sorted(sorted(group) for group in groups)

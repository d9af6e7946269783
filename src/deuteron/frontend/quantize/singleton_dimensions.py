"""Adds a dimension of size 1 to values, for operators that require it, and keeps it between such operators."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.elementwise import is_elementwise
from deuteron.frontend.operators import changes_operand
from deuteron.frontend.quantize.decompositions import call

aten = torch.ops.aten

UnsqueezedDecomposition = Callable[[fx.GraphModule, fx.Node, fx.Node], fx.Node | None]
"""Decomposes a node, given its first operand with the dimension; None if the node stays."""

_VIEWS = frozenset({aten.reshape.default, aten.view.default, aten.unsqueeze.default, aten.squeeze.dim})
_FOLLOWS = frozenset({aten.dropout.default, aten.maximum.default, aten.minimum.default})
"""Operators that compute each element from those at the same position, in addition to the elementwise ones."""


def write(model: fx.GraphModule, at: int, decompositions: Mapping[object, tuple[int, UnsqueezedDecomposition]]) -> None:
    """Replace operators, and the operators between them, by operators on values with one more dimension.

    Args:
        model: is changed.
        at: the position of the dimension.
        decompositions: by operator, with the rank of the first operand without the dimension.
    """
    values = _UnsqueezedValues(model, at, decompositions)
    for node in list(model.graph.nodes):
        if node.op == "call_function":
            values.rewrite(node)
    model.graph.eliminate_dead_code()
    model.recompile()


class _UnsqueezedValues:
    """The known values of a model that have the dimension."""

    def __init__(
        self, model: fx.GraphModule, at: int, decompositions: Mapping[object, tuple[int, UnsqueezedDecomposition]]
    ) -> None:
        self._model, self._at, self._decompositions = model, at, decompositions
        self._known: dict[fx.Node, fx.Node] = {}

    def rewrite(self, node: fx.Node) -> None:
        """Replace a node if its operands are known with the dimension, or a decomposition adds it."""
        value: object = node.meta.get("val")
        if not isinstance(value, Tensor):
            return
        if node.target in _VIEWS:
            self._skip_view(node, value)
        elif (unsqueezed := self._unsqueezed(node)) is not None:
            squeezed = call(node, aten.reshape.default, unsqueezed, [*value.shape])
            node.replace_all_uses_with(squeezed)
            self._model.graph.erase_node(node)
            self._known[squeezed] = unsqueezed

    def _skip_view(self, view: fx.Node, value: Tensor) -> None:
        """Record a view that removes the dimension; replace a view that adds it again."""
        before = cast(fx.Node, view.args[0])
        if (unsqueezed := self._known.get(before)) is not None and unsqueezed.meta["val"].shape == value.shape:
            view.replace_all_uses_with(unsqueezed)
        elif [*before.meta["val"].shape] == self._unsqueezed_shape(value.shape):
            self._known[view] = before

    def _unsqueezed_shape(self, shape: Sequence[int]) -> list[int]:
        return [*shape[: self._at], 1, *shape[self._at :]]

    def _unsqueezed(self, node: fx.Node) -> fx.Node | None:
        """A node's result with the dimension; None for operators that stay."""
        rank, decomposition = self._decompositions.get(node.target, (0, None))
        if decomposition is not None:
            x = cast(fx.Node, node.args[0])
            if x.meta["val"].dim() != rank:
                return None
            known = self._known.get(x)
            if known is None:
                known = call(node, aten.reshape.default, x, self._unsqueezed_shape(x.meta["val"].shape))
            return decomposition(self._model, node, known)
        activations = [arg for arg in node.all_input_nodes if not _is_number(arg)]
        if not activations or any(arg not in self._known for arg in activations):
            return None
        if (move := _MOVES.get(node.target)) is not None:
            return move(node, self._known, self._at)
        if node.target in _FOLLOWS or is_elementwise(node):
            if any(arg.meta["val"].dim() != node.meta["val"].dim() for arg in activations):
                return None  # operands of different ranks would align the dimension differently
            if changes_operand(node) and not _has_one_reader(activations[0]):
                return None
            args = [self._known.get(arg, arg) if isinstance(arg, fx.Node) else arg for arg in node.args]
            return call(node, _functional(node.target), *args, **node.kwargs)
        return None


def _joined(cat: fx.Node, known: Mapping[fx.Node, fx.Node], at: int) -> fx.Node | None:
    parts, dim = cast("tuple[list[fx.Node], int]", (*cat.args, 0)[:2])
    if any(x not in known for x in parts):
        return None
    dim %= cat.meta["val"].dim()
    return call(cat, aten.cat.default, [known[x] for x in parts], dim + (dim >= at))


def _padded(pad: fx.Node, known: Mapping[fx.Node, fx.Node], at: int) -> fx.Node | None:
    """A pad of spatial dimensions; its numbers start with the last dimension."""
    x, pads, *rest = cast("tuple[fx.Node, list[int], object]", pad.args)
    if len(pads) != 2 * (pad.meta["val"].dim() - max(at, 1)):
        return None
    return call(pad, aten.pad.default, known[x], [*pads, 0, 0] if at else pads, *rest)


_Move = Callable[[fx.Node, Mapping[fx.Node, fx.Node], int], fx.Node | None]

_MOVES: Mapping[object, _Move] = {aten.cat.default: _joined, aten.pad.default: _padded}
"""Operators that move elements of values with the dimension."""


def _is_number(node: fx.Node) -> bool:
    return node.op == "get_attr" and node.meta["val"].numel() == 1


def _has_one_reader(x: fx.Node) -> bool:
    """Return True if the memory of a value, or of the tensor that it is a view of, has a single reader."""
    while len(x.users) == 1:
        if x.target not in _VIEWS:
            return True
        x = cast(fx.Node, x.args[0])
    return False


def _functional(target: object) -> object:
    """The variant of an operator that returns a new tensor, for in-place operators, whose operand may be a view."""
    schema = cast(Any, target)._schema  # noqa: SLF001 - it has no public name
    if not schema.is_mutable:
        return target
    packet = getattr(aten, schema.name.removeprefix("aten::").removesuffix("_"))
    return getattr(packet, schema.overload_name or "default")

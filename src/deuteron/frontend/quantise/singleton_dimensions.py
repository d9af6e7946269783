"""Gives values a dimension of one element more, for operators that want it, and what lies between such operators."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.elementwise import is_elementwise
from deuteron.frontend.operators import changes_operand
from deuteron.frontend.quantise.decompositions import call

aten = torch.ops.aten

Form = Callable[[fx.GraphModule, fx.Node, fx.Node], fx.Node | None]
"""Gives what computes the same as a node, of its first operand with the dimension; None where the node stays."""

_VIEWS = frozenset({aten.reshape.default, aten.view.default, aten.unsqueeze.default, aten.squeeze.dim})
_FOLLOWS = frozenset({aten.dropout.default, aten.maximum.default, aten.minimum.default})
"""Operators that compute each element from those at its place, beside the elementwise ones."""


def write(model: fx.GraphModule, at: int, forms: Mapping[object, tuple[int, Form]]) -> None:
    """Write operators, and what joins them, as others over values with one dimension more.

    Args:
        model: is changed.
        at: the dimension.
        forms: of each operator, and the rank of its first operand as long as that has no such dimension.
    """
    values = _Values(model, at, forms)
    for node in list(model.graph.nodes):
        if node.op == "call_function":
            values.take(node)
    model.graph.eliminate_dead_code()
    model.recompile()


class _Values:
    """What values of a model are with the dimension, as far as it is known."""

    def __init__(self, model: fx.GraphModule, at: int, forms: Mapping[object, tuple[int, Form]]) -> None:
        self._model, self._at, self._forms = model, at, forms
        self._known: dict[fx.Node, fx.Node] = {}

    def take(self, node: fx.Node) -> None:
        """Write a node as one over values with the dimension where these are known, or a form makes them."""
        value: object = node.meta.get("val")
        if not isinstance(value, Tensor):
            return
        if node.target in _VIEWS:
            self._look_through(node, value)
        elif (wide := self._wide(node)) is not None:
            narrow = call(node, aten.reshape.default, wide, [*value.shape])
            node.replace_all_uses_with(narrow)
            self._model.graph.erase_node(node)
            self._known[narrow] = wide

    def _look_through(self, view: fx.Node, value: Tensor) -> None:
        """Note what a view leaves the dimension out of, or leave out a view that puts it where it has been."""
        before = cast(fx.Node, view.args[0])
        if (wide := self._known.get(before)) is not None and wide.meta["val"].shape == value.shape:
            view.replace_all_uses_with(wide)
        elif [*before.meta["val"].shape] == self._widened(value.shape):
            self._known[view] = before

    def _widened(self, shape: Sequence[int]) -> list[int]:
        return [*shape[: self._at], 1, *shape[self._at :]]

    def _wide(self, node: fx.Node) -> fx.Node | None:
        """A node's result with the dimension; None for operators that stay as they are."""
        rank, form = self._forms.get(node.target, (0, None))
        if form is not None:
            x = cast(fx.Node, node.args[0])
            if x.meta["val"].dim() != rank:
                return None
            known = self._known.get(x)
            if known is None:
                known = call(node, aten.reshape.default, x, self._widened(x.meta["val"].shape))
            return form(self._model, node, known)
        activations = [arg for arg in node.all_input_nodes if not _is_number(arg)]
        if not activations or any(arg not in self._known for arg in activations):
            return None
        if (move := _MOVES.get(node.target)) is not None:
            return move(node, self._known, self._at)
        if node.target in _FOLLOWS or is_elementwise(node):
            if any(arg.meta["val"].dim() != node.meta["val"].dim() for arg in activations):
                return None  # the dimension of each would meet another one of the others
            if changes_operand(node) and not _is_read_alone(activations[0]):
                return None
            args = [self._known.get(arg, arg) if isinstance(arg, fx.Node) else arg for arg in node.args]
            return call(node, _new(node.target), *args, **node.kwargs)
        return None


def _joined(cat: fx.Node, known: Mapping[fx.Node, fx.Node], at: int) -> fx.Node | None:
    parts, dim = cast("tuple[list[fx.Node], int]", (*cat.args, 0)[:2])
    if any(x not in known for x in parts):
        return None
    dim %= cat.meta["val"].dim()
    return call(cat, aten.cat.default, [known[x] for x in parts], dim + (dim >= at))


def _padded(pad: fx.Node, known: Mapping[fx.Node, fx.Node], at: int) -> fx.Node | None:
    """A pad of all that is not samples and channels, whose numbers begin with those of the last dimension."""
    x, pads, *rest = cast("tuple[fx.Node, list[int], object]", pad.args)
    if len(pads) != 2 * (pad.meta["val"].dim() - max(at, 1)):
        return None
    return call(pad, aten.pad.default, known[x], [*pads, 0, 0] if at else pads, *rest)


_Move = Callable[[fx.Node, Mapping[fx.Node, fx.Node], int], fx.Node | None]

_MOVES: Mapping[object, _Move] = {aten.cat.default: _joined, aten.pad.default: _padded}
"""What moves elements of values with the dimension."""


def _is_number(node: fx.Node) -> bool:
    return node.op == "get_attr" and node.meta["val"].numel() == 1


def _is_read_alone(x: fx.Node) -> bool:
    """Whether nobody but its one reader reads the memory of a value, be it a view of others."""
    while len(x.users) == 1:
        if x.target not in _VIEWS:
            return True
        x = cast(fx.Node, x.args[0])
    return False


def _new(target: object) -> object:
    """The operator that gives a new tensor where this one changes its input: what it reads may be a view."""
    schema = cast(Any, target)._schema  # noqa: SLF001 - the one way to it
    if not schema.is_mutable:
        return target
    packet = getattr(aten, schema.name.removeprefix("aten::").removesuffix("_"))
    return getattr(packet, schema.overload_name or "default")

"""Writes reads and changes of the elements that a mask selects as a choice between all elements.

`y[mask] *= 0.1` becomes `y = where(mask, y * 0.1, y)`: a selection has a size that depends on data, a choice has not.
The model computes the same function of every element as of the selected ones.
"""

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from deuteron.frontend.operators import base_name, called, changes_operand, depends_on
from deuteron.frontend.quantize.decompositions import call
from deuteron.frontend.quantize.inplace import writes_into

aten = torch.ops.aten

_OF_ELEMENTS = frozenset({"dropout", "to", "_to_copy", "clone", "detach", "alias"})
"""Operators without PyTorch's tag of pointwise ones that compute each selected element by itself."""

_OF_ROWS = _OF_ELEMENTS | {"linear", "layer_norm"}

_FUNCTIONS = """
acos acosh asin atanh div fmod lgamma log log10 log1p log2 logit pow reciprocal remainder rsqrt sqrt xlogy
"""
PARTIAL = frozenset(_FUNCTIONS.split())
"""Functions that are not defined for all numbers: they get 1 in place of an element that is not selected."""

_PUTS = frozenset({aten.index_put.default, aten.index_put_.default})
_SIZES = frozenset({operator.ge, operator.le, operator.eq, operator.gt, operator.lt})
_CHECKS = frozenset({"_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size"})


def write(model: fx.GraphModule) -> None:
    """Replace selections by masks, and writes into them, where no size that depends on data is left behind."""
    pass_ = _Pass(model)
    for node in list(model.graph.nodes):
        if node.op == "call_function":
            pass_.visit(node)
    _remove(model, pass_.whole)
    model.graph.eliminate_dead_code()
    model.recompile()


@dataclass(frozen=True, slots=True)
class _Mask:
    """A mask over some dimensions of a tensor, behind `before` others and ahead of `behind` others.

    Attributes:
        node: the mask as the reader gets it, also after a later change of the model's own mask.
        source: the model's own mask.
        reader: the node that selects or writes elements.
        before: the number of dimensions ahead of those of the mask.
        behind: the number of dimensions behind them.
    """

    node: fx.Node
    source: fx.Node
    reader: fx.Node
    before: int
    behind: int

    def shaped(self, reader: fx.Node) -> fx.Node:
        """Return the mask in a shape that is repeated over the dimensions behind it."""
        shape = [*cast(Tensor, self.node.meta["val"]).shape]
        return call(reader, aten.reshape.default, self.node, shape + [1] * self.behind) if self.behind else self.node


@dataclass(slots=True)
class _Pass:
    """The selected tensors so far, each with its tensor of all elements and its mask."""

    model: fx.GraphModule
    whole: dict[fx.Node, fx.Node] = field(default_factory=dict[fx.Node, fx.Node])
    masks: dict[fx.Node, _Mask] = field(default_factory=dict[fx.Node, _Mask])

    def visit(self, node: fx.Node) -> None:
        """Add what a node selects or computes of selected elements, or replace it."""
        if node.target in (aten.index.Tensor, aten.masked_select.default):
            x, given = cast("tuple[fx.Node, Any]", node.args)
            mask = _mask(node, x, given if isinstance(given, (list, tuple)) else [_expanded(node, x, given)])
            if mask is not None:
                self._add(node, self._all(node, x, mask), mask)
        elif node.target in _PUTS:
            self._put(node)
        elif any(arg in self.whole for arg in node.all_input_nodes) and called(node) != "sym_size":
            self._compute(node)

    def _add(self, node: fx.Node, whole: fx.Node, mask: _Mask) -> None:
        self.whole[node], self.masks[node] = whole, mask

    def _all(self, node: fx.Node, x: fx.Node, mask: _Mask) -> fx.Node:
        """Return a copy of all elements: those that are not selected are 1 where a function is not defined for all."""
        after = [one for one in node.graph.nodes if called(one) in PARTIAL]
        if any(depends_on(one, lambda before: before is node) for one in after):
            return call(node, aten.where.ScalarOther, mask.shaped(node), x, 1)
        return call(node, aten.clone.default, x)

    def _put(self, node: fx.Node) -> None:
        x, indices, values, *accumulates = cast("tuple[fx.Node, list[fx.Node | None], fx.Node, bool]", node.args)
        mask = _mask(node, x, indices)
        if mask is None or any(accumulates):
            return
        if values in self.whole:
            if not self._is_same(self.masks[values], mask):
                return
            new = self.whole[values]
        else:
            given = cast(Tensor, values.meta["val"])
            new = values
            if given.dim() == mask.behind + 1 and _has_fixed_shape(given) and given.shape[0] == 1 and not mask.before:
                new = call(node, aten.reshape.default, values, [*given.shape[1:]])
            elif given.dim() > mask.behind:
                return
        chosen = call(node, aten.where.self, mask.shaped(node), new, x)
        if node.target is aten.index_put_.default:
            chosen = call(node, aten.copy_.default, x, chosen)
        node.replace_all_uses_with(chosen)
        self.model.graph.erase_node(node)

    def _compute(self, node: fx.Node) -> None:
        selected = [arg for arg in node.all_input_nodes if arg in self.whole]
        mask, *others = [self.masks[arg] for arg in selected]
        if not all(self._is_same(one, mask) for one in others):
            return
        if (reduced := self._reduced(node, selected[0], mask)) is not None:
            node.replace_all_uses_with(reduced)
            self.model.graph.erase_node(node)
        elif self._is_by_rows(node, mask):
            args, kwargs = map_arg(cast(Any, (node.args, node.kwargs)), lambda one: self.whole.get(one, one))
            self._add(node, call(node, node.target, *args, **kwargs), mask)

    def _is_by_rows(self, node: fx.Node, mask: _Mask) -> bool:
        """True if each selected element or row of the result depends on that of the operands alone."""
        if torch.Tag.pointwise in cast(Any, node.target).tags:
            others = [arg for arg in node.all_input_nodes if arg not in self.whole]
            ranks = {cast(Tensor, arg.meta["val"]).dim() for arg in node.all_input_nodes if arg in self.whole}
            return len(ranks) == 1 and all(one.meta["val"].dim() <= mask.behind for one in others)
        is_of_first = node.args[0] in self.whole and not any(arg in self.whole for arg in node.all_input_nodes[1:])
        return is_of_first and called(node) in (_OF_ROWS if mask.behind else _OF_ELEMENTS)

    def _reduced(self, node: fx.Node, x: fx.Node, mask: _Mask) -> fx.Node | None:
        """Return the sum or mean of the selected elements, or of the selected rows."""
        if base_name(node.target) not in ("sum", "mean") or node.kwargs:
            return None
        dims = cast("list[int] | None", node.args[1] if len(node.args) > 1 else None)
        chosen = call(node, aten.where.ScalarOther, mask.shaped(node), self.whole[x], 0)
        if dims is None:
            total = call(node, aten.sum.default, chosen)
            size = math.prod(chosen.meta["val"].shape[chosen.meta["val"].dim() - mask.behind :] if mask.behind else ())
            size *= math.prod(chosen.meta["val"].shape[: mask.before])
        elif dims == [0] and len(node.args) == 2 and not mask.before:
            total = call(node, aten.sum.dim_IntList, chosen, [*range(mask.node.meta["val"].dim())])
            size = 1
        else:
            return None
        if base_name(node.target) == "sum":
            return total
        count = call(node, aten.sum.default, call(node, aten.to.dtype, mask.node, torch.float32))
        return call(node, aten.div.Tensor, total, count if size == 1 else call(node, aten.mul.Tensor, count, size))

    def _is_same(self, one: _Mask, other: _Mask) -> bool:
        """True if two readers get the same mask, also if the model computes it again without a change in between."""
        if (one.before, one.behind) != (other.before, other.behind):
            return False
        nodes = list(self.model.graph.nodes)
        places = [nodes.index(reader) for reader in (one.reader, other.reader)]
        if one.source is not other.source:
            starts = sorted(nodes.index(source) for source in (one.source, other.source))
            if not _is_repeated(one.source, other.source) or any(map(self._changes, nodes[slice(*starts)])):
                return False
            places += starts
        between = nodes[min(places) : max(places)]
        return not any(writes_into(between, mask.source) for mask in (one, other))

    def _changes(self, node: fx.Node) -> bool:
        """True for a change of a tensor that is no copy of selected elements."""
        return changes_operand(node) and node.args[0] not in {*self.whole, *self.whole.values()}


def _is_repeated(one: fx.Node, other: fx.Node) -> bool:
    """True if two nodes compute the same of the same operands."""
    if not (one.op == other.op == "call_function") or changes_operand(one):
        return False
    return (one.target, one.args, one.kwargs) == (other.target, other.args, other.kwargs)


def _expanded(node: fx.Node, x: fx.Node, mask: fx.Node) -> fx.Node:
    """Return the mask of a `masked_select`, which repeats it along the dimensions ahead, in the tensor's shape."""
    whole, given = cast(Tensor, x.meta["val"]), cast(Tensor, mask.meta["val"])
    if not _has_fixed_shape(whole) or not _has_fixed_shape(given) or given.shape == whole.shape:
        return mask
    is_wider: bool = cast(Any, torch).broadcast_shapes(whole.shape, given.shape) != whole.shape
    return mask if is_wider else call(node, aten.expand.default, mask, [*whole.shape])


def _mask(node: fx.Node, x: fx.Node, indices: Any) -> _Mask | None:
    """Return the mask of an index; None if there are other indices too, or sizes that depend on data."""
    found = [(place, index) for place, index in enumerate(indices) if index is not None]
    if len(found) != 1:
        return None
    before, source = found[0]
    whole, mask = cast(Tensor, x.meta["val"]), cast(Tensor, source.meta["val"])
    if mask.dtype != torch.bool or not mask.dim() or not _has_fixed_shape(whole) or not _has_fixed_shape(mask):
        return None
    if tuple(mask.shape) != tuple(whole.shape[before : before + mask.dim()]):
        return None
    is_changed = writes_into(node.graph.nodes, source)
    index = call(node, aten.clone.default, source) if is_changed else source
    return _Mask(index, source, node, before, whole.dim() - before - mask.dim())


def _has_fixed_shape(value: Tensor) -> bool:
    return all(isinstance(size, int) for size in cast("tuple[object, ...]", value.shape))


def _remove(model: fx.GraphModule, selected: Mapping[fx.Node, fx.Node]) -> None:
    """Remove selections that nothing reads, and checks of their sizes."""
    for node in reversed(list(model.graph.nodes)):
        is_check = called(node) in _CHECKS or node.target in _SIZES
        is_left_over = node in selected or (called(node) == "sym_size" and node.args[0] in selected)
        if not node.users and (is_left_over or (is_check and _is_of(node, selected))):
            model.graph.erase_node(node)


def _is_of(node: fx.Node, selected: Mapping[fx.Node, fx.Node]) -> bool:
    return depends_on(node, lambda one: called(one) == "sym_size" and one.args[0] in selected)

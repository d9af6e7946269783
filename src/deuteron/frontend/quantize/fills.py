"""Brings numbers that stand for infinity near the values that a mask keeps: int8 has one step for all of them.

A maximum only compares. A number just below the kept values is as good as -1e9 where the maximum never returns it,
which calibration batches show. A function of one tensor is computed before its operand is filled: the sigmoid of -1e9
is 0. Functions that grow fast are not, for the values that the mask removes may be those that they make large.

A softmax of scores that are all -inf is NaN, which int8 does not have. `nan_to_num` and `isnan` of it read the mask.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.quantize.decompositions import call, constant_value

aten: Any = torch.ops.aten

FAR = 100.0
"""The least size of a number that stands for infinity."""

MARGIN = 8
"""The new number is beyond the kept values by their range divided by this."""

VIEWS = frozenset(
    {
        *(aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.unsqueeze.default),
        *(aten.expand.default, aten.slice.Tensor),
    }
)

FILLS: dict[Any, tuple[int, int]] = {
    aten.masked_fill.Scalar: (0, 2),
    aten.masked_fill.Tensor: (0, 2),
    aten.where.ScalarOther: (1, 2),
    aten.where.ScalarSelf: (2, 1),
}
"""Operators that put a number in place of some values: where values and number stand among their arguments."""

OF_NUMBERS: dict[Any, Any] = {aten.masked_fill.Tensor: aten.masked_fill.Scalar}

_EXTREMA: dict[Any, int] = {
    **dict.fromkeys((aten.amax.default, aten.max.dim, aten.max.default, aten.argmax.default), 1),
    **dict.fromkeys((aten.max_pool1d.default, aten.max_pool2d.default, aten.max_pool3d.default), 1),
    **dict.fromkeys((aten.amin.default, aten.min.dim, aten.min.default, aten.argmin.default), -1),
}
"""Operators that only compare: 1 for those of the greatest value, -1 for those of the least."""


_FUNCTIONS = frozenset(
    {
        *(aten.relu.default, aten.relu6.default, aten.hardtanh.default, aten.clamp.default, aten.clamp_min.default),
        *(aten.clamp_max.default, aten.sigmoid.default, aten.hardsigmoid.default, aten.tanh.default, aten.elu.default),
        *(aten.leaky_relu.default, aten.silu.default, aten.hardswish.default, aten.gelu.default, aten.softplus.default),
        *(aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.add.Tensor, aten.sub.Tensor, aten.neg.default),
        *(aten.abs.default, aten.erf.default, aten.sign.default, aten.log_sigmoid.default),
    }
)
"""Functions that are defined for all numbers, and grow no faster than their operand."""


_PAIRS = (aten.max.dim, aten.min.dim, aten.topk.default)
"""Those that also return places."""


@dataclass(frozen=True, slots=True)
class Fill:
    """An operator that puts a number in place of some values.

    Attributes:
        node: the operator.
        target: its form with a number.
        places: of the values and of the number among its arguments.
        number: the number.
    """

    node: fx.Node
    target: Any
    places: tuple[int, int]
    number: float

    @property
    def condition(self) -> fx.Node:
        """The mask, which is false where the number is if `is_inverted`."""
        return cast(fx.Node, self.node.args[3 - sum(self.places)])

    @property
    def is_inverted(self) -> bool:
        """True if the number is where the mask is false."""
        return self.target is aten.where.ScalarOther

    @property
    def values(self) -> fx.Node:
        """The values of which some are replaced."""
        return cast(fx.Node, self.node.args[self.places[0]])

    def written(self, before: fx.Node, values: fx.Node, number: float, condition: fx.Node | None = None) -> fx.Node:
        """Insert the operator before a node for other values, another number, and another mask if it is given."""
        args = dict(enumerate(self.node.args)) | {self.places[0]: values, self.places[1]: number}
        args[3 - sum(self.places)] = condition or self.condition
        return call(before, self.target, *args.values())


def write(model: fx.GraphModule, batches: Callable[[], Iterable[Inputs]]) -> None:
    """Rewrite fills of numbers that stand for infinity, in place. The batches are asked for where there are any."""
    for node in list(model.graph.nodes):
        _merge(model, node)
    for node in model.graph.find_nodes(op="call_function", target=aten.softmax.int):
        _without_nan(model, node)
    nodes = iter(list(model.graph.nodes))
    fills = [fill for node in nodes if (found := _of(model, node)) for fill in _functions_first(found)]
    fills = [fill for fill in fills if fill.node.users and all(_compares(fill, one) for one in readers(fill.node))]
    if fills:
        measured = _Measured(model, fills)
        for batch in batches():
            with torch.no_grad():
                measured.run(*copies(batch))
        for fill in fills:
            if fill.node not in measured.returned and (number := measured.beyond(fill)) is not None:
                fill.node.replace_all_uses_with(fill.written(fill.node, fill.values, number))
    model.graph.eliminate_dead_code()
    model.recompile()


def form_of(model: fx.GraphModule, node: fx.Node) -> tuple[Any, tuple[int, int] | None]:
    """Return the operator of FILLS that a node is, and its places; of a choice of two tensors one may be constant."""
    target, places = node.target, FILLS.get(node.target)
    if target is aten.where.self:
        is_first = isinstance(node.args[1], fx.Node) and constant_value(model, node.args[1]) is not None
        target = aten.where.ScalarSelf if is_first else aten.where.ScalarOther
        places = FILLS[target]
    return target, places


def _of(model: fx.GraphModule, node: fx.Node) -> Fill | None:
    """Return the fill that a node is, if its number stands for infinity."""
    target, places = form_of(model, node)
    if places is None or not isinstance(node.args[places[0]], fx.Node) or not node.meta["val"].is_floating_point():
        return None
    values, value = cast(fx.Node, node.args[places[0]]), node.args[places[1]]
    number = constant_value(model, value) if isinstance(value, fx.Node) else torch.tensor(float(cast(float, value)))
    if number is None or number.numel() == 0 or values.meta["val"].shape != node.meta["val"].shape:
        return None
    least, most = float(number.min()), float(number.max())
    return Fill(node, OF_NUMBERS.get(target, target), places, least) if least == most and abs(least) >= FAR else None


def _without_nan(model: fx.GraphModule, softmax: fx.Node) -> None:
    """Let `nan_to_num` and `isnan` of a softmax read where its mask leaves out all scores."""
    testers = [user for user in softmax.users if user.target in (aten.nan_to_num.default, aten.isnan.default)]
    scores, dim = cast("tuple[fx.Node, int]", softmax.args[:2])
    filled = scores.all_input_nodes if scores.target is aten.add.Tensor else [scores]
    fill = next((found for one in filled if (found := _of(model, one)) and found.number == -math.inf), None)
    if not testers or fill is None:
        return
    rank, condition = softmax.meta["val"].dim(), fill.condition
    axis = dim % rank - rank  # from the end, for the mask may have fewer dimensions
    with_all = aten.any.dim if fill.is_inverted else aten.all.dim
    if condition.meta["val"].dim() >= -axis:
        condition = call(fill.node, with_all, condition, axis, True)
    empty = call(fill.node, aten.logical_not.default, condition) if fill.is_inverted else condition
    if constant_value(model, fill.condition) is not None:  # targets have an operator for it, which gives NaN
        either = aten.logical_or if fill.is_inverted else aten.logical_and
        rest = empty if fill.is_inverted else call(fill.node, aten.logical_not.default, empty)
        fill.node.replace_input_with(fill.condition, call(fill.node, either.default, fill.condition, rest))
    for reader in testers:
        if reader.target is aten.isnan.default:
            new = call(reader, aten.expand.default, empty, [*softmax.meta["val"].shape])
        else:
            number = dict(enumerate(reader.args)).get(1, reader.kwargs.get("nan"))
            new = call(reader, aten.masked_fill.Scalar, softmax, empty, number or 0.0)
        reader.replace_all_uses_with(new)
        softmax.graph.erase_node(reader)


def _merge(model: fx.GraphModule, node: fx.Node) -> None:
    """Let a fill that reads one of the same number, such as a mask of padding after a causal one, do both."""
    outer = _of(model, node)
    inner = None if outer is None else _of(model, outer.values)
    if outer is None or inner is None or inner.number != outer.number:
        return
    other = inner.condition
    if inner.is_inverted != outer.is_inverted:
        other = call(node, aten.logical_not.default, other)
    either = aten.logical_and.default if outer.is_inverted else aten.logical_or.default
    merged = outer.written(node, inner.values, outer.number, call(node, either, outer.condition, other))
    node.replace_all_uses_with(merged)
    node.graph.erase_node(node)


def _functions_first(fill: Fill) -> Iterator[Fill]:
    """Compute functions of one tensor before the fill, and yield the fills with numbers that stand for infinity."""
    for reader in [user for user in fill.node.users if _is_function(user, fill.node)]:
        function = cast(Callable[..., Tensor], reader.target)
        given = torch.tensor(fill.number, dtype=fill.node.meta["val"].dtype)
        number = float(function(*(given if arg is fill.node else arg for arg in reader.args), **reader.kwargs))
        if math.isnan(number):
            continue
        values = call(reader, function, *(fill.values if a is fill.node else a for a in reader.args), **reader.kwargs)
        filled = fill.written(reader, values, number)
        reader.replace_all_uses_with(filled)
        fill.node.graph.erase_node(reader)
        if abs(number) >= FAR:
            yield from _functions_first(Fill(filled, cast(Any, filled.target), fill.places, number))
    if fill.node.users:
        yield fill


def _is_function(reader: fx.Node, operand: fx.Node) -> bool:
    """Return True for a function of one tensor and numbers."""
    return reader.target in _FUNCTIONS and reader.all_input_nodes == [operand] and reader.args[0] is operand


def readers(node: fx.Node) -> Iterator[fx.Node]:
    """Yield the operators that read a value or its views."""
    for user in node.users:
        if user.target in VIEWS:
            yield from readers(user)
        else:
            yield user


def _compares(fill: Fill, reader: fx.Node) -> bool:
    """Return True if the reader only compares the values, and the number loses against all others."""
    sign = _EXTREMA.get(reader.target, 0)
    if reader.target is aten.topk.default:
        is_largest = dict(enumerate(reader.args)).get(3, reader.kwargs.get("largest", True))
        sign = 1 if is_largest else -1
    return sign * fill.number <= -FAR


class _Measured(fx.Interpreter):
    """Runs a model, and keeps ranges of filled values, and the fills whose number a maximum or minimum returns."""

    def __init__(self, model: fx.GraphModule, fills: Iterable[Fill]) -> None:
        super().__init__(model)
        self._fills = {fill.values: fill for fill in fills}
        self._readers = {reader: fill for fill in fills for reader in readers(fill.node)}
        self._ranges: dict[fx.Node, tuple[float, float]] = {}
        self.returned = set[fx.Node]()

    def run_node(self, n: fx.Node) -> Any:
        value: Any = super().run_node(n)
        if n in self._fills:
            finite = value[value.isfinite()].flatten()
            if finite.numel():
                low, high = self._ranges.get(n, (math.inf, -math.inf))
                self._ranges[n] = min(low, float(finite.min())), max(high, float(finite.max()))
        if n in self._readers:
            fill = self._readers[n]
            greatest: Tensor = value[0] if n.target in _PAIRS else value
            if greatest.is_floating_point() and bool((greatest == fill.number).any()):
                self.returned.add(fill.node)
        return value

    def beyond(self, fill: Fill) -> float | None:
        """Return a number just beyond the values of a fill; None without any, or if it is not nearer."""
        if fill.values not in self._ranges:
            return None
        low, high = self._ranges[fill.values]
        margin = max(high - low, abs(low), 1e-3) / MARGIN
        number = low - margin if fill.number < 0 else high + margin
        return number if abs(number) < abs(fill.number) else None

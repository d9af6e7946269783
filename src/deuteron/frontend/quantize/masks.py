"""Gives masks of a softmax numbers just below the scores, in place of infinity or -1e9: int8 has one step for all.

A score that is left out counts for nothing by any number that is far enough below the others. The float model is run on
the calibration batches to find out how large scores are.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from deuteron.frontend.cortex_m.refusals import refusal
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.quantize import constant_masks
from deuteron.frontend.quantize.attention import LEAST, masked_attention
from deuteron.frontend.quantize.decompositions import apply, call, constant, constant_value
from deuteron.frontend.quantize.fills import FILLS, MARGIN, OF_NUMBERS, VIEWS, form_of, readers

aten: Any = torch.ops.aten

_KNOWN: dict[Any, int] = {aten.masked_fill.Scalar: 1, aten.where.ScalarOther: 0}
"""Those that `attention.softmax` takes with a constant mask, and where this stands."""

_LESS = "for masked scores of a softmax subtract a number instead, as in `torch.where(mask, s - 8.0, s).softmax(-1)`"

_MAXIMA = (aten.amax.default, aten.argmax.default)

_BELOW = math.log(2e4)
"""Distance of masked scores below the least score, without the logarithm of their number: all masked scores together
get less than a 10,000th."""


@dataclass(frozen=True, slots=True)
class _Mask:
    """A mask on the scores of a softmax.

    Attributes:
        reader: the softmax, or an amax or argmax.
        scores: its operand without the mask.
        holder: the operator that has the number. All masks with one holder use the lowest of their numbers.
        of_holder: the reader of the holder that belongs to this mask.
        put: makes the model use a number.
        addend: the mask if it is added, with values for scores that are kept, too.
        is_constant: the mask is the same in each run, and the Cortex-M has an operator for it.
        factor: the factor of an added product whose other factor stands for infinity. It has two values, and one
            of them masks scores.
    """

    reader: fx.Node
    scores: fx.Node
    holder: fx.Node
    of_holder: fx.Node
    put: Callable[[float], None]
    addend: fx.Node | None = None
    is_constant: bool = False
    factor: fx.Node | None = None


def write(model: fx.GraphModule, batches: Callable[[], Iterable[Inputs]], *, has_operator: bool = False) -> None:
    """Write the masks in place, but constant ones where the target has an operator for these.

    Scores are measured on `batches`, which are asked for where there are masks.

    Raises:
        UnsupportedError: on such a target, for a mask of more than two values times a number that stands for infinity.
    """
    apply(model, {aten.scaled_dot_product_attention.default: masked_attention})
    apply(model, {aten.softmax.int: _scaled_before})
    apply(model, {aten.softmax.int: constant_masks.gather})
    masks = [mask for node in list(model.graph.nodes) for mask in _masks(model, node)]
    masks = [mask for mask in masks if not (has_operator and mask.is_constant)]
    if not masks:
        return
    ranges = _Ranges(model, masks)
    for batch in batches():
        with torch.no_grad():
            ranges.run(*copies(batch))
    for holder in dict.fromkeys(mask.holder for mask in masks):
        own = [mask for mask in masks if mask.holder is holder]
        if own[0].factor is None:
            if all(map(ranges.may_change, own)) and {*readers(holder)} <= {mask.of_holder for mask in own}:
                own[0].put(min(map(ranges.number, own)))
        elif len(values := sorted(ranges.values[own[0].factor])) == 2 and values[0] == 0:
            _choose(own[0].factor, values[1] / 2, min(map(ranges.number, own)))
        elif has_operator:
            _need_small(own[0].factor)
    model.graph.eliminate_dead_code()
    model.recompile()


def _margin(reader: fx.Node, spread: float) -> float:
    """Return how far below the scores a number must be, so that a softmax or a maximum leaves it out."""
    if reader.target in _MAXIMA:
        return max(spread, 1e-3) / MARGIN
    return _BELOW + math.log(reader.meta["val"].shape[cast(int, reader.args[1])])


class _Ranges(fx.Interpreter):
    """Runs a model, and keeps ranges of scores, of values added to kept scores, and up to 3 values of factors."""

    def __init__(self, model: fx.GraphModule, masks: Sequence[_Mask]) -> None:
        super().__init__(model)
        self._scores = {mask.scores: (0.0, 0.0) for mask in masks}
        self._kept = {mask.addend: 0.0 for mask in masks if mask.addend}
        self._returned = {mask.reader: math.inf for mask in masks if mask.reader.target is aten.amax.default}
        self.values: dict[fx.Node, set[float]] = {mask.factor: set() for mask in masks if mask.factor}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n in self._scores:
            low, high = self._scores[n]
            finite = value[value.isfinite()]
            if finite.numel():
                self._scores[n] = min(low, float(finite.min())), max(high, float(finite.max()))
        if n in self._kept:
            kept = value[value > constant_masks.LEAST]
            self._kept[n] = min(self._kept[n], float(kept.min())) if kept.numel() else self._kept[n]
        if n in self._returned:
            self._returned[n] = min(self._returned[n], float(value.min()))
        if n in self.values and len(self.values[n]) < 3:
            self.values[n].update(map(float, value.unique()[:3]))
        return value

    def may_change(self, mask: _Mask) -> bool:
        """Return True unless the mask's reader returns a masked score."""
        return self._returned.get(mask.reader, math.inf) > constant_masks.LEAST

    def number(self, mask: _Mask) -> float:
        """Return a number that is far enough below the scores."""
        low, high = self._scores[mask.scores]
        if mask.addend is None and mask.factor is None:
            return low - _margin(mask.reader, high - low)
        low += 0.0 if mask.addend is None else self._kept[mask.addend]
        return low - high - _margin(mask.reader, high - low)


def _scaled_before(model: fx.GraphModule, softmax: fx.Node) -> fx.Node | None:
    """A softmax of masked scores times a positive number masks the scores after they are multiplied."""
    product = cast(fx.Node, softmax.args[0])
    if product.target not in (aten.mul.Tensor, aten.div.Tensor):
        return None
    masked, factor = product.args
    number = _number(model, factor) if isinstance(factor, fx.Node) else torch.tensor(factor)
    if not isinstance(masked, fx.Node) or number is None or not 0 < float(number) < math.inf:
        return None
    if masked.target is aten.add.Tensor and _is_mask_added(model, masked):
        places = (0, 1)
    elif _fill(model, masked) is not None:
        places = (1, 2) if masked.target is aten.where.self else FILLS[masked.target]
    else:
        return None

    def scaled(value: object) -> object:
        if isinstance(value, fx.Node):
            return call(softmax, product.target, value, factor)
        return cast(Any, product.target)(torch.tensor(float(cast(float, value))), number).item()

    args = [scaled(arg) if place in places else arg for place, arg in enumerate(masked.args)]
    return call(softmax, softmax.target, call(softmax, masked.target, *args), *softmax.args[1:], **softmax.kwargs)


def _masks(model: fx.GraphModule, softmax: fx.Node) -> Iterator[_Mask]:
    """The masks of a softmax: a number replaces scores, or is added to them. Before maxima it is added."""
    if softmax.target not in (aten.softmax.int, *_MAXIMA):
        return
    node = cast(fx.Node, softmax.args[0])
    while node.target in VIEWS:
        node = cast(fx.Node, node.args[0])
    if any(one.target not in (aten.softmax.int, *_MAXIMA) for one in readers(node)):
        return
    is_softmax = softmax.target is aten.softmax.int
    are_softmaxes = all(one.target is aten.softmax.int for one in readers(node))
    is_direct = is_softmax and node is softmax.args[0] and softmax.args[1] in (-1, node.meta["val"].dim() - 1)
    if are_softmaxes and (fill := _fill(model, node)) is not None:
        scores, value, put = fill
        is_known = (
            node.target in _KNOWN and constant_value(model, cast(fx.Node, node.args[_KNOWN[node.target]])) is not None
        )
        is_constant = is_direct and is_known and value <= LEAST
        yield _Mask(softmax, scores, node, softmax, put, is_constant=is_constant)
    elif node.target is aten.add.Tensor and not node.kwargs:
        a, b = node.args
        for scores, addend in ((a, b), (b, a)):
            if not isinstance(scores, fx.Node) or not isinstance(addend, fx.Node):
                return
            value, factor = constant_value(model, addend), _factor(addend)
            is_constant = is_direct and addend is b and value is not None and bool((value <= LEAST).any())
            if put := _added(model, node, addend):
                holder = addend if _fill(model, addend) is not None else node
                yield _Mask(softmax, scores, holder, softmax if holder is node else node, put, addend, is_constant)
                return
            if factor is not None:
                yield _Mask(softmax, scores, factor, node, lambda _: None, factor=factor)
                return


def _is_mask_added(model: fx.GraphModule, node: fx.Node) -> bool:
    """True for a sum of scores and an addend that masks some of them."""
    addends = [one for one in node.args if isinstance(one, fx.Node)]
    return not node.kwargs and any(_added(model, node, one) or _factor(one) for one in addends)


def _fill(model: fx.GraphModule, node: fx.Node) -> tuple[fx.Node, float, Callable[[float], None]] | None:
    """The scores of which some become a number far below 0, the number, and what puts another one there."""
    target, places = form_of(model, node)
    if places is None:
        return None
    scores, value = (node.args[place] for place in places)
    number = constant_value(model, value) if isinstance(value, fx.Node) else torch.tensor(float(cast(float, value)))
    if not isinstance(scores, fx.Node) or number is None or not bool((number <= constant_masks.LEAST).all()):
        return None

    def put(filled: float) -> None:
        args = [filled if place == places[1] else arg for place, arg in enumerate(node.args)]
        node.replace_all_uses_with(call(node, OF_NUMBERS.get(target, target), *args))

    return scores, float(number.max()), put


def _added(model: fx.GraphModule, node: fx.Node, addend: fx.Node) -> Callable[[float], None] | None:
    """Return a function that sets the lower values of an addend to a number; None if the addend is no mask."""
    if (fill := _fill(model, addend)) is not None:
        return fill[2]
    if (value := constant_value(model, addend)) is not None:
        if not bool((value <= constant_masks.LEAST).any()):
            return None

        def put_constant(least: float) -> None:
            node.replace_input_with(addend, constant(model, node, f"{node.name}_mask", value.clamp(min=least)))

        return put_constant
    chain = _chain(model, addend)
    if chain is None:
        return None
    condition, views, numbers = chain
    if not bool((numbers <= constant_masks.LEAST).any()):
        return None

    def put_choice(least: float) -> None:
        true, false = map(float, numbers.clamp(min=least))
        value = call(node, aten.where.Scalar, condition, true, false)
        for view in reversed(views):
            value = call(node, view.target, value, *view.args[1:])
        node.replace_input_with(addend, value)

    return put_choice


def _factor(addend: fx.Node) -> fx.Node | None:
    """The factor of a number that stands for infinity, such as a mask that is an input."""
    while addend.target in VIEWS:
        addend = cast(fx.Node, addend.args[0])
    factor = addend.args[1] if addend.target is aten.mul.Tensor else 0
    is_mask = isinstance(factor, int | float) and factor <= constant_masks.LEAST
    return cast(fx.Node, addend.args[0]) if is_mask else None


def _need_small(factor: fx.Node) -> None:
    """Let no tensor of many values be multiplied by a number that stands for infinity: it would set the scale.

    Raises:
        UnsupportedError: for the first that is.
    """
    for product in _products(factor):
        number = cast(float, product.args[1])
        if number <= LEAST:
            raise refusal(
                product, f"multiplies by {number:g}, with which int8 cannot represent the other values", _LESS
            )


def _products(factor: fx.Node) -> list[fx.Node]:
    """The products of a tensor with numbers that leave scores out."""
    products = [user for user in factor.users if user.target is aten.mul.Tensor]
    return [one for one in products if isinstance(one.args[1], int | float) and one.args[1] <= constant_masks.LEAST]


def _choose(factor: fx.Node, threshold: float, number: float) -> None:
    """Add a number where the factor of a mask is above a threshold, and nothing elsewhere."""
    for product in _products(factor):
        is_left_out = call(product, aten.gt.Scalar, factor, threshold)
        product.replace_all_uses_with(call(product, aten.where.Scalar, is_left_out, number, 0.0))


def _chain(model: fx.GraphModule, node: fx.Node) -> tuple[fx.Node, list[fx.Node], Tensor] | None:
    """The only condition that a tensor depends on, and the views between the two; None for any other tensor.

    The third are the tensor's values where the condition is true and where it is false.
    """
    views, steps = list[fx.Node](), list[fx.Node]()
    while node.meta["val"].dtype != torch.bool:
        inputs = [one for one in node.all_input_nodes if _number(model, one) is None]
        is_pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ()) or node.target is aten.to.dtype
        if len(inputs) != 1 or not (is_pointwise or node.target in VIEWS):
            return None
        if is_pointwise and inputs[0].meta["val"].shape != node.meta["val"].shape:
            return None
        (steps if is_pointwise else views).append(node)
        (node,) = inputs
    values = torch.tensor([True, False])
    for step in reversed(steps):

        def value_of(one: fx.Node, values: Tensor = values) -> Tensor:
            number = _number(model, one)
            return values if number is None else number

        args, kwargs = map_arg(cast(Any, (step.args, step.kwargs)), value_of)
        values = cast(Tensor, cast(Any, step.target)(*args, **kwargs))
    return node, views, values


def _number(model: fx.GraphModule, node: fx.Node) -> Tensor | None:
    """Return the only value of a constant, such as the zeros that `nn.MultiheadAttention` fills by its mask."""
    value = constant_value(model, node)
    is_one = value is not None and bool(value.numel()) and bool((value == value.flatten()[0]).all())
    return cast(Tensor, value).flatten()[0] if is_one else None

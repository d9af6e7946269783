"""Runs calibration batches through a prepared model and names the operator that produces NaN or infinity."""

import math
from collections.abc import Collection, Iterable
from typing import Any, cast

import torch
from torch import Tensor, fx
from torchao.quantization.pt2e import (
    DerivedObserverOrFakeQuantize,
    FakeQuantizeBase,
    HistogramObserver,
    MinMaxObserver,
    ObserverBase,
)

from deuteron.errors import InputError
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.operators import called, operator_name
from deuteron.frontend.quantize.casts import makes_float
from deuteron.frontend.quantize.decompositions import value_of
from deuteron.frontend.source_lines import source_of


def calibrate(model: fx.GraphModule, batches: Iterable[Inputs]) -> int:
    """Run the batches through the model's observers; return the number of batches.

    Raises:
        InputError: a batch produces NaN or infinite values; the error names the operator and its line.
    """
    observers = [module for module in model.modules() if isinstance(module, ObserverBase)]
    index = -1
    for index, batch in enumerate(batches):
        with torch.no_grad():
            try:
                model(*copies(batch))
            except Exception:
                _blame(model, batch, index)
                raise
            if not all(map(_is_finite, observers)):
                _blame(model, batch, index)
    return index + 1


def _is_finite(observer: ObserverBase) -> bool:
    """True if the measured range is finite; an observer without values has an infinite one, in the other direction."""
    low, high = getattr(observer, "min_val", None), getattr(observer, "max_val", None)
    if not isinstance(low, Tensor) or not isinstance(high, Tensor):
        return True
    return not bool(low.isnan().any() or high.isnan().any() or low.isneginf().any() or high.isposinf().any())


def _blame(model: fx.GraphModule, batch: Inputs, index: int) -> None:
    """Raise an error for the first operator with values that are not finite."""
    _Finite(model, index).run(*copies(batch))


class _Finite(fx.Interpreter):
    """Runs a prepared model without its observers up to the first operator whose result is not finite."""

    def __init__(self, model: fx.GraphModule, batch: int) -> None:
        super().__init__(model)
        self._batch = batch

    def run_node(self, n: fx.Node) -> Any:
        if n.op == "call_module" and isinstance(self.fetch_attr(str(n.target)), ObserverBase | FakeQuantizeBase):
            return self.map_nodes_to_values(n.args[0], n)
        value = super().run_node(n)
        if n.op == "call_function" and isinstance(value, Tensor) and value.is_floating_point():
            wrong = int((~torch.isfinite(value)).sum())
            if wrong:
                source = source_of(n)
                raise InputError(
                    f"`{operator_name(n.target)}` gives {wrong} of {value.numel()} values that are NaN or infinite for "
                    f"calibration batch {self._batch}{f', at `{source.code}`' if source else ''}",
                    where=str(source) if source else n.name,
                    hint="correct the model or the sample; ranges measured from such values would be meaningless",
                )
        return value


def observe_integers(model: fx.GraphModule) -> None:
    """Replace histogram observers of integers and bools, which PT2E's histograms do not support, by range observers."""
    for node in model.graph.nodes:
        observer: object = getattr(model, node.target, None) if node.op == "call_module" else None
        value: object = node.all_input_nodes[0].meta.get("val") if node.all_input_nodes else None
        is_whole = isinstance(value, Tensor) and not value.is_floating_point()
        if is_whole and isinstance(observer, HistogramObserver):
            setattr(model, node.target, with_settings_of(observer, MinMaxObserver))


_WHOLE = frozenset({"ceil", "floor", "round", "sign", "sgn", "trunc"})
_KEEP = frozenset(
    {
        *("abs", "amax", "amin", "clone", "expand", "flatten", "neg", "permute", "relu", "reshape", "select", "slice"),
        *("squeeze", "sum", "transpose", "unsqueeze", "view"),
    }
)
_ARITHMETIC = frozenset({"add", "maximum", "minimum", "mul", "sub"})
_LIMITS = frozenset({"clamp", "clamp_max", "clamp_min", "hardtanh", "relu6"})
"""Operators that make whole numbers of floats, of a whole number, of two, and of one with whole limits."""


class _WholeObserver(MinMaxObserver):
    """Measures whole numbers, which keep their values where they are few enough: one step of the scale is a whole."""

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        low, high = min(0.0, float(self.min_val)), max(0.0, float(self.max_val))
        least, most = int(self.quant_min), int(self.quant_max)
        if self.qscheme in (torch.per_tensor_symmetric, torch.per_channel_symmetric):
            scale, zero_point = max(1, math.ceil(max(-low / -least, high / most))), 0
        else:
            scale = max(1, math.ceil((high - low) / (most - least)))
            zero_point = min(most, max(least, least - math.floor(low / scale)))
        return torch.tensor([float(scale)]), torch.tensor([zero_point], dtype=torch.int32)


def observe_whole(model: fx.GraphModule) -> None:
    """Let the places in a prepared model that get floats without a fraction measure them as whole numbers.

    Otherwise 3.0 may become 2.98, of which `.int()` makes 2.
    """
    places: dict[object, list[fx.Node]] = {}
    whole = set[fx.Node]()
    for node in model.graph.nodes:
        if _is_whole(model, node, whole):
            whole.add(node)
        observer: object = getattr(model, node.target, None) if node.op == "call_module" else None
        if isinstance(observer, HistogramObserver | MinMaxObserver) and not isinstance(observer, FakeQuantizeBase):
            places.setdefault(observer, []).append(node)
    for observer, nodes in places.items():
        measured = [node.all_input_nodes[0] for node in nodes]
        if whole.issuperset(measured) and any(node.op != "get_attr" for node in measured):
            replace_observer(model, observer, with_settings_of(observer, _WholeObserver))


def with_settings_of(observer: Any, kind: type[MinMaxObserver]) -> Any:
    """Return an observer of a kind with another one's dtype, scheme and limits, which has measured nothing."""
    return kind(**{name: getattr(observer, name) for name in ("dtype", "qscheme", "quant_min", "quant_max", "eps")})


def replace_observer(model: fx.GraphModule, old: object, new: ObserverBase | FakeQuantizeBase) -> None:
    """Put an observer in all places of another, and among those from which biases derive their scales."""
    for node in model.graph.nodes:
        found: object = getattr(model, str(node.target), None) if node.op == "call_module" else None
        if found is old:
            setattr(model, str(node.target), new)
        elif isinstance(found, DerivedObserverOrFakeQuantize):
            found.obs_or_fqs = [new if one is old else one for one in found.obs_or_fqs]


def _is_whole(model: fx.GraphModule, node: fx.Node, whole: Collection[fx.Node]) -> bool:
    """True for floats that have no fraction: constants, and results of functions and casts that make such floats.

    `whole` has those before the node.
    """
    if node.op == "call_module" or called(node) in _KEEP:  # an observer gives what it gets
        return node.all_input_nodes[0] in whole
    value: object = node.meta.get("val")
    if not (isinstance(value, Tensor) and value.dtype == torch.float32):
        return False
    if node.op == "get_attr":
        number = value_of(model, node)
        return bool((number == number.round()).all())
    if called(node) in _LIMITS:
        limits = [limit for limit in (*node.args[1:], *node.kwargs.values()) if limit is not None]
        are_whole = all(isinstance(limit, int | float) and float(limit).is_integer() for limit in limits)
        return node.args[0] in whole and are_whole
    operands = {"where": node.args[1:], **dict.fromkeys(_ARITHMETIC, node.args)}.get(called(node))
    if operands is not None:
        numbers = [float(one) for one in operands if isinstance(one, int | float)]
        is_known = all(one in whole for one in operands if isinstance(one, fx.Node))
        is_zero = called(node) == "mul" and any(map(_is_zero, operands))  # ExecuTorch makes zeros of a sign's operand
        return is_zero or (not node.kwargs and is_known and all(one.is_integer() for one in numbers))
    if called(node) == "full":
        return float(cast(float, node.args[1])).is_integer()
    return (called(node) in _WHOLE or makes_float(node)) and len(node.args) <= 2 and not node.kwargs


def _is_zero(operand: object) -> bool:
    """True for a tensor filled with zeros, which may be observed."""
    filled = operand.all_input_nodes[0] if isinstance(operand, fx.Node) and operand.op == "call_module" else operand
    return isinstance(filled, fx.Node) and called(filled) == "full" and cast(float, filled.args[1]) == 0

"""Narrows measured ranges to where the functions that read them vary.

`exp(x)` is almost 0 below -8, and `hardswish(x)` is 0 below -3. If only such functions read a tensor, its values beyond
need no steps of their own: the steps of the rest become smaller.
"""

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg
from torchao.quantization.pt2e import FakeQuantizeBase, HistogramObserver, MinMaxObserver, ObserverBase

from deuteron.frontend.cortex_m.elementwise import BINARY, LIMITS, UNARY, is_number
from deuteron.frontend.nodes import SATURATES
from deuteron.frontend.operators import called
from deuteron.frontend.quality.measure import STILL
from deuteron.frontend.quantize.calibration import replace_observer, with_settings_of
from deuteron.frontend.quantize.decompositions import value_of

_ALLOWED = 1 / 8
"""The largest change of a function beyond a narrowed range, in steps of its result."""
_LEAST_GAIN = 0.9
"""The largest share of a range that is worth a change."""
_POINTS = 4096
_JUMP = 1 / 4096
"""The share of the measured range for a function that jumps, such as a sign, and is constant on both sides."""
_ROUNDS = 4
"""Each round searches the range of the last one, for ranges of many orders of magnitude."""


def narrow(model: fx.GraphModule) -> None:
    """Narrow the ranges of a calibrated model in place, and mark the values."""
    places: dict[Any, list[fx.Node]] = {}
    for node in model.graph.nodes:
        if (observer := _observer(model, node)) is not None:
            places.setdefault(observer, []).append(node)
    for observer, nodes in reversed(places.items()):  # readers first: values beyond their ranges are constant
        if type(observer) not in (HistogramObserver, MinMaxObserver) or not _is_measured(observer):
            continue
        run = _Functions(model, observer, nodes)
        if run.accepts() and (ends := _narrowed(observer, run)) is not None:
            fixed = with_settings_of(observer, MinMaxObserver)
            fixed.min_val, fixed.max_val = map(torch.tensor, ends)
            replace_observer(model, observer, fixed)
            for source in set(map(_source, nodes)):
                source.meta["custom"] = {**source.meta.get("custom", {}), SATURATES: True}


def _observer(model: fx.GraphModule, node: fx.Node) -> Any:
    found: object = model.get_submodule(str(node.target)) if node.op == "call_module" else None
    return found if isinstance(found, ObserverBase) and not isinstance(found, FakeQuantizeBase) else None


def _is_measured(observer: Any) -> bool:
    values = (cast(Tensor, observer.min_val), cast(Tensor, observer.max_val))
    is_tensor = observer.qscheme in (torch.per_tensor_affine, torch.per_tensor_symmetric)
    return is_tensor and all(value.numel() == 1 and bool(value.isfinite()) for value in values)


def _range(observer: Any) -> tuple[float, float]:
    """The values of the least and the largest quantized number."""
    scale, zero_point = (float(value) for value in observer.calculate_qparams()[:2])
    return (observer.quant_min - zero_point) * scale, (observer.quant_max - zero_point) * scale


def _narrowed(observer: Any, run: "_Functions") -> tuple[float, float] | None:
    low, high = least, most = _range(observer)
    x = torch.empty(0)
    for _ in range(_ROUNDS):
        x = torch.linspace(low, high, _POINTS, dtype=torch.float64)
        below, above = _POINTS, _POINTS
        for values, step in run.results(x):
            below = min(below, _constant(values, step))
            above = min(above, _constant(values.flip(0), step))
        if below + above > _POINTS:
            return None  # constant: its range has no meaning
        low, high = float(x[below - 1]), float(x[_POINTS - above])
    if high - low < 2.5 * float(x[1] - x[0]):
        low, high = low - _JUMP * (most - least), high + _JUMP * (most - least)
    low, high = min(low, 0.0), max(high, 0.0)
    step = (high - low) / (observer.quant_max - observer.quant_min)  # on both sides of a jump at an end
    low, high = max(low - step, least), min(high + step, most)
    return (low, high) if high - low < _LEAST_GAIN * (most - least) else None


def _constant(values: Tensor, step: float) -> int:
    """The number of values at the start that differ little; at least one."""
    differ = values.cummax(0).values - values.cummin(0).values > _ALLOWED * step
    return max(1, int(differ.double().argmax()) if differ.any() else len(values))


def _source(node: fx.Node) -> fx.Node:
    """The value that an observer measures; other nodes unchanged."""
    return node.all_input_nodes[0] if node.op == "call_module" else node


def _may_follow(node: fx.Node) -> bool:
    """True for observers, elementwise functions of float32, and operators that move elements."""
    value: object = node.meta.get("val")
    is_known = node.target in UNARY | BINARY or called(node) in STILL
    return node.op == "call_module" or (is_known and isinstance(value, Tensor) and value.dtype == torch.float32)


class _Functions:
    """The results of all functions that read an observed tensor, at given values of it.

    Values have a root, the tensor that they are elementwise functions of: operators that move elements make another.
    """

    def __init__(self, model: fx.GraphModule, observer: object, places: list[fx.Node]) -> None:
        self._model, self._observer, self._places = model, observer, places
        self._ends: dict[fx.Node, Any] = {}

    def accepts(self) -> bool:
        """True if only elementwise functions with measured results read the tensor."""
        if not all(map(_may_follow, {user for place in self._places for user in place.users})):
            return False
        known: dict[fx.Node, fx.Node] = {}
        for node in self._model.graph.nodes:
            args = [arg for arg in node.all_input_nodes if not is_number(_source(arg))]
            if node in self._places:
                # The result of a function that shares the range of its operand needs that range.
                if any(arg in known and known[arg] is not arg for arg in args):
                    return False
                known[node] = node
            elif not known.keys().isdisjoint(args) and not self._follow(node, args, known):
                return False
        return bool(self._ends)

    def _follow(self, node: fx.Node, args: list[fx.Node], known: dict[fx.Node, fx.Node]) -> bool:
        if (observer := _observer(self._model, node)) is not None:
            self._ends[node] = observer
            return True
        if not _may_follow(node) or any(arg not in known for arg in args):
            return False
        if node.target in LIMITS and node.args[0] in self._places:
            return False  # back-ends fuse it with the layer before it
        if node.target in UNARY | BINARY:
            known[node] = known[args[0]]
            return len({known[arg] for arg in args}) == 1
        known[node] = node
        return True

    def results(self, x: Tensor) -> Iterator[tuple[Tensor, float]]:
        """The results at these values, within their ranges, and the steps of their scales."""
        known: dict[fx.Node, Any] = dict.fromkeys(self._places, x)
        for node in self._model.graph.nodes:
            if node in known or known.keys().isdisjoint(node.all_input_nodes):
                continue
            if node in self._ends:
                low, high = _range(self._ends[node])
                step = (high - low) / (self._ends[node].quant_max - self._ends[node].quant_min)
                yield known[node.args[0]].clamp(low, high), step
            elif node.target in UNARY | BINARY:
                given = cast(Any, (node.args, node.kwargs))
                args, kwargs = map_arg(given, lambda arg: self._value(arg, known))
                known[node] = node.target(*args, **kwargs)
            else:
                known[node] = next(known[arg] for arg in node.all_input_nodes if arg in known)

    def _value(self, node: fx.Node, known: dict[fx.Node, Any]) -> Any:
        number = _source(node)
        return known[node].clone() if node in known else value_of(self._model, number).double().reshape(())

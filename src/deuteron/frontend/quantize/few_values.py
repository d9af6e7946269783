"""Widens the ranges of tensors of which the calibration has seen few values: new samples probably have larger ones.

The largest of n normal values is about sqrt(2 ln n) standard deviations. A range that was measured on fewer values than
`ENOUGH` is widened as if there had been that many. Otherwise the outputs of a classifier that was calibrated with a
dozen samples would be clipped for many new samples.
"""

import math
from typing import Any

import torch
from torch import Tensor, fx
from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver

from deuteron.frontend.operators import called
from deuteron.frontend.quality.measure import STILL
from deuteron.frontend.quantize.calibration import replace_observer

ENOUGH = 4096
"""Values after which a range is as measured."""

Bounds = tuple[float, float]

_BOUNDS: dict[str, Bounds] = {
    **dict.fromkeys(("hardsigmoid", "sigmoid", "softmax", "_softmax"), (0.0, 1.0)),
    **dict.fromkeys(("cos", "sign", "sin", "softsign", "tanh"), (-1.0, 1.0)),
    "hardtanh": (-1.0, 1.0),
    "relu6": (0.0, 6.0),
}
"""The least and the largest result of operators, unless their arguments say otherwise."""
_KEEP = STILL | {"amax", "amin", "avg_pool2d", "constant_pad_nd", "max_pool1d", "max_pool2d", "mean", "pad"}
"""Operators whose results are within the bounds of their operands."""


def widen(model: fx.GraphModule, batches: int) -> None:
    """Widen the ranges of a model that was calibrated with `batches` batches in place, up to the bounds of the results.

    Integers, and floats that are observed as whole numbers, keep their ranges.
    """
    bounds: dict[fx.Node, Bounds] = {}
    places: dict[Any, list[fx.Node]] = {}
    for node in model.graph.nodes:
        operator, operands = called(node), node.all_input_nodes
        if node.op == "get_attr":
            bounds[node] = 0.0, 0.0  # a constant has no other values than the measured ones
        elif operator in {"clamp", "hardtanh"}:
            bounds[node] = _limits(node)
        elif operator in _BOUNDS:
            bounds[node] = _BOUNDS[operator]
        elif (operator in _KEEP or node.op == "call_module") and all(one in bounds for one in operands):
            bounds[node] = _joined([bounds[one] for one in operands])
        observer: Any = getattr(model, str(node.target), None) if node.op == "call_module" else None
        if type(observer) in (HistogramObserver, MinMaxObserver) and _count(node):
            places.setdefault(observer, []).append(node)
    for observer, nodes in places.items():
        count = batches * sum(map(_count, nodes))
        if 1 < count < ENOUGH and observer.min_val < observer.max_val:
            factor = math.sqrt(math.log(ENOUGH) / math.log(count))
            limits = [bounds.get(node, (-math.inf, math.inf)) for node in nodes]
            replace_observer(model, observer, _widened(observer, factor, _joined(limits)))


def _count(place: fx.Node) -> int:
    """Return the number of floats that an observer measures at a place in each batch."""
    value: object = place.all_input_nodes[0].meta.get("val")
    return value.numel() if isinstance(value, Tensor) and value.is_floating_point() else 0


def _limits(node: fx.Node) -> Bounds:
    """Return the bounds of a clamp's results; infinite for a limit that it lacks, or that is a tensor."""
    low, high = _BOUNDS.get(called(node), (-math.inf, math.inf))
    given: list[Any] = [*node.args[1:], None, None]
    return (
        float(given[0]) if isinstance(given[0], int | float) else low,
        float(given[1]) if isinstance(given[1], int | float) else high,
    )


def _joined(bounds: list[Bounds]) -> Bounds:
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def _widened(observer: Any, factor: float, bounds: Bounds) -> Any:
    """Return an observer with the measured range, whose ends are farther from zero by a factor, up to the bounds."""
    names = ("dtype", "qscheme", "quant_min", "quant_max", "eps")
    wider: Any = MinMaxObserver(**{name: getattr(observer, name) for name in names})
    search = getattr(observer, "_non_linear_param_search", lambda: (observer.min_val, observer.max_val))
    low, high = map(float, search())
    wider.min_val = torch.tensor(min(low, max(low * factor, bounds[0])))
    wider.max_val = torch.tensor(max(high, min(high * factor, bounds[1])))
    return wider

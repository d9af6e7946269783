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
from deuteron.frontend.quantize.calibration import replace_observer, with_settings_of

ENOUGH = 4096
"""Values after which a range is as measured."""
MOST = 2.0
"""The largest factor of a range: it costs one bit."""

Bounds = tuple[float, float]

_BOUNDS: dict[str, Bounds] = {
    **dict.fromkeys(("hardsigmoid", "sigmoid", "softmax", "_softmax"), (0.0, 1.0)),
    **dict.fromkeys(("cos", "erf", "sign", "sin", "softsign", "tanh"), (-1.0, 1.0)),
    "atan": (-math.pi / 2, math.pi / 2),
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
    growth: dict[tuple[float, bool], float] = {}
    for observer, nodes in places.items():
        below, above = _growth(observer, batches * max(map(_count, nodes)))
        for end, by in (((float(observer.min_val), False), below), ((float(observer.max_val), True), above)):
            growth[end] = min(growth.get(end, math.inf), by)  # moved values and their source keep a common end
    for observer, nodes in places.items():
        below, above = growth[float(observer.min_val), False], growth[float(observer.max_val), True]
        if below or above:
            limits = [bounds.get(node, (-math.inf, math.inf)) for node in nodes]
            replace_observer(model, observer, _widened(observer, (below, above), _joined(limits)))


def _growth(observer: Any, count: int) -> Bounds:
    """Return by how much a range that was measured on some values grows at its ends.

    The part of the range on each side of zero grows by a factor: the values spread from zero, or from an end that is
    nearer to it.
    """
    low, high = float(observer.min_val), float(observer.max_val)
    if not 1 < count < ENOUGH or low >= high:
        return 0.0, 0.0
    more = min(MOST, math.sqrt(math.log(ENOUGH) / math.log(count))) - 1
    return more * (min(high, 0.0) - min(low, 0.0)), more * (max(high, 0.0) - max(low, 0.0))


def _count(place: fx.Node) -> int:
    """Return the number of floats that an observer measures at a place in each batch; 0 for a constant."""
    source = place.all_input_nodes[0]
    while source.op == "call_module":  # another observer
        source = source.all_input_nodes[0]
    value: object = None if source.op == "get_attr" else source.meta.get("val")
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


def _widened(observer: Any, growth: Bounds, bounds: Bounds) -> Any:
    """Return an observer with a wider range, up to the bounds."""
    wider = with_settings_of(observer, MinMaxObserver)
    search = getattr(observer, "_non_linear_param_search", lambda: (observer.min_val, observer.max_val))
    low, high = map(float, search())
    wider.min_val = torch.tensor(min(low, max(low - growth[0], bounds[0])))
    wider.max_val = torch.tensor(max(high, min(high + growth[1], bounds[1])))
    return wider

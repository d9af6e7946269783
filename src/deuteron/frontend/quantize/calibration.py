"""Calibration batches through a prepared model, and the operator that is to blame when no range comes of one."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, fx
from torchao.quantization.pt2e import FakeQuantizeBase, HistogramObserver, MinMaxObserver, ObserverBase

from deuteron.errors import InputError
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.operators import operator_name
from deuteron.frontend.source_lines import source_of


def calibrate(model: fx.GraphModule, batches: Iterable[Inputs]) -> None:
    """Show the batches to the model's observers.

    Raises:
        InputError: naming the operator and its line where a batch makes values that are NaN or infinite.
    """
    observers = [module for module in model.modules() if isinstance(module, ObserverBase)]
    for index, batch in enumerate(batches):
        with torch.no_grad():
            try:
                model(*copies(batch))
            except Exception:
                _blame(model, batch, index)
                raise
            if not all(map(_is_finite, observers)):
                _blame(model, batch, index)


def _is_finite(observer: ObserverBase) -> bool:
    """True unless the range that an observer has measured has no end; before it has seen values it has no beginning."""
    low, high = getattr(observer, "min_val", None), getattr(observer, "max_val", None)
    if not isinstance(low, Tensor) or not isinstance(high, Tensor):
        return True
    return not bool(low.isnan().any() or high.isnan().any() or low.isneginf().any() or high.isposinf().any())


def _blame(model: fx.GraphModule, batch: Inputs, index: int) -> None:
    """Check that all values are finite."""
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
                    hint="mend the model or the sample; ranges measured from such values would be meaningless",
                )
        return value


def observe_integers(model: fx.GraphModule) -> None:
    """Let the places in a prepared model that get integers or bools measure them, which PT2E's histograms cannot."""
    for node in model.graph.nodes:
        observer: object = getattr(model, node.target, None) if node.op == "call_module" else None
        value: object = node.all_input_nodes[0].meta.get("val") if node.all_input_nodes else None
        is_whole = isinstance(value, Tensor) and not value.is_floating_point()
        if is_whole and isinstance(observer, HistogramObserver):
            settings: Any = observer
            names = ("dtype", "qscheme", "quant_min", "quant_max", "eps")
            setattr(model, node.target, MinMaxObserver(**{name: getattr(settings, name) for name in names}))

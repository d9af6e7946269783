"""Gives each variable of a model one scale: what a run reads is what the run before it wrote."""

from collections.abc import Sequence
from typing import Any, cast

from torch import fx
from torchao.quantization.pt2e import FakeQuantizeBase, FixedQParamsObserver, ObserverBase

from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.quantize.calibration import replace_observer


def share_scales(model: fx.GraphModule, count: int) -> None:
    """Let the observers of the last `count` inputs and outputs of a prepared model measure both of a pair together.

    A variable that nothing reads as a quantized value stays as it is. If the operator that computes its new value has a
    fixed scale, or another dtype, a second observer requantizes that value.
    """
    if not count:
        return
    output = model.graph.output_node()
    inputs = [node for node in model.graph.nodes if node.op == "placeholder"][-count:]
    position = len(flat(output.args[0])) - count
    pending = True
    while pending:  # a variable may be the new value of another: then its observers are known after the other's
        pending = False
        for index, variable in enumerate(inputs, start=position):
            outputs = cast("list[fx.Node]", flat(output.args[0]))
            readers = _observers_of(model, variable)
            if not readers or not variable.meta["val"].is_floating_point():
                continue
            read, value = _observer(model, readers[0]), outputs[index]
            for other in readers[1:]:
                replace_observer(model, _observer(model, other), read)
            written = _observed(model, value)
            if written is None:
                near = _observers_of(model, value)
                written = near[0] if near else None
            if written is not None and _fits(_observer(model, written), read):
                replace_observer(model, _observer(model, written), read)
            if _observed(model, value) is None or _observer(model, value) is not read:
                with model.graph.inserting_before(output):
                    outputs[index] = model.graph.call_module(str(readers[0].target), (value,))
                outputs[index].meta = dict(variable.meta)
                output.args = (tuple(outputs),)
                pending = True
    model.graph.lint()
    model.recompile()


def _is_observer(model: fx.GraphModule, node: fx.Node) -> bool:
    return node.op == "call_module" and isinstance(_observer(model, node), ObserverBase | FakeQuantizeBase)


def _observer(model: fx.GraphModule, node: fx.Node) -> Any:
    return model.get_submodule(str(node.target))


def _observed(model: fx.GraphModule, value: fx.Node) -> fx.Node | None:
    """Return a value itself if it is the result of an observer."""
    return value if _is_observer(model, value) else None


def _observers_of(model: fx.GraphModule, value: fx.Node) -> Sequence[fx.Node]:
    return [user for user in value.users if _is_observer(model, user)]


def _fits(written: Any, read: Any) -> bool:
    """True if two observers measure values of the same dtype, and neither has a fixed scale."""
    if written is read:
        return True
    kinds = [(one.dtype, one.qscheme, one.quant_min, one.quant_max) for one in (written, read)]
    return kinds[0] == kinds[1] and not any(isinstance(one, FixedQParamsObserver) for one in (written, read))

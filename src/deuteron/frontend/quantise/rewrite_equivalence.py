"""Compares the float model before and after it is rewritten for quantisation: what comes later only sees the second."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from deuteron.errors import InternalError
from deuteron.frontend.cortex_m.lowering_check import flat
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.quantise import source_propagation

TOLERANCE = 1e-4
"""By how much of its largest magnitude an output may differ. Scales and weights that are folded are float32."""

_LEAST = 1e-6
"""What may differ in any case: the largest magnitude is 0 where all cancels out."""


@dataclass(frozen=True, slots=True)
class Original:
    """A float model as it was exported: what it gives for a sample."""

    inputs: Inputs = ()
    outputs: Sequence[object] = ()


def original(model: fx.GraphModule, sample: Inputs) -> Original:
    """What a model gives before it is rewritten, which may be in place."""
    return Original(sample, _outputs(model, sample))


def checked(quantizer: Any, before: Callable[[], Original]) -> Any:
    """A quantiser like another, which makes sure that the model that it annotates gives what the original did."""
    from torchao.quantization.pt2e.quantizer import Quantizer

    class Checked(Quantizer):
        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            rewritten = source_propagation.kept(model, quantizer.transform_for_annotation)
            source_propagation.fill(rewritten.graph)
            _compare(before().outputs, _outputs(rewritten, before().inputs))
            return rewritten

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            return quantizer.annotate(model)

        def validate(self, model: fx.GraphModule) -> None:
            quantizer.validate(model)

    return Checked()


class _Doubles(fx.Interpreter):
    """Runs a model on float64 copies of its inputs, weights and buffers.

    Where values cancel out, float32 noise can become as large as what is left of them. Buffers stay as they are, also
    those that batch norms in training mode write.
    """

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if not isinstance(value, Tensor):
            return value
        if value.is_floating_point():
            return value.double()
        return value.clone() if n.op == "get_attr" else value


def _outputs(model: fx.GraphModule, inputs: Inputs) -> list[object]:
    """What the model gives, the same each time where it draws random numbers, and without a trace in PyTorch's."""
    random: Any = torch.random
    with torch.no_grad(), random.fork_rng(devices=[]):
        random.manual_seed(0)
        return flat(_Doubles(model).run(*copies(inputs)))


def _compare(before: Sequence[object], after: Sequence[object]) -> None:
    """Compare the values of floats only, as which of two equal scores is the best may change; dtypes and shapes of all.

    Raises:
        InternalError: naming the first output that is another.
    """
    for index, (wanted, actual) in enumerate(zip(before, after, strict=True)):
        if not isinstance(wanted, Tensor):
            continue
        if not isinstance(actual, Tensor) or actual.shape != wanted.shape:
            shape = list(actual.shape) if isinstance(actual, Tensor) else type(actual).__name__
            raise _changed(index, f"from {list(wanted.shape)} to {shape}")
        if _kind(actual) != _kind(wanted):
            raise _changed(index, f"from {wanted.dtype} to {actual.dtype}")
        if not wanted.is_floating_point():
            continue
        largest = float(wanted[wanted.isfinite()].abs().max()) if wanted.isfinite().any() else 0.0
        if not torch.isclose(actual.double(), wanted, rtol=0, atol=TOLERANCE * largest + _LEAST, equal_nan=True).all():
            off = float((actual - wanted).abs().max())
            raise _changed(index, f"by {off:.3g}, where its largest magnitude is {largest:.3g}")


def _kind(value: Tensor) -> str:
    """Return the kind of a dtype: backends may take smaller integers, whose dtype is restored at the end."""
    if value.dtype == torch.bool:
        return "bool"
    return "float" if value.is_floating_point() or value.is_complex() else "integer"


def _changed(index: int, how: str) -> InternalError:
    return InternalError(
        f"rewriting the model for quantisation changes its output {index} {how}",
        hint="report the model with its example inputs: the program would compute something else",
    )

"""Compares the float model before and after the rewrites for quantisation; later checks only see the rewritten one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from deuteron.errors import InternalError
from deuteron.frontend.cortex_m.lowering_check import flat
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.quantize import inplace, source_propagation

TOLERANCE = 1e-4
"""The allowed difference of an output, relative to its largest magnitude. Folded scales and weights are float32."""

_LEAST = 1e-6
"""A difference that is always allowed, for outputs whose largest magnitude is near 0."""


@dataclass(frozen=True, slots=True)
class Original:
    """A sample, and the outputs of the exported float model for it."""

    inputs: Inputs = ()
    outputs: Sequence[object] = ()


def original(model: fx.GraphModule, sample: Inputs) -> Original:
    """Run a model before it is rewritten in place.

    Raises:
        UnsupportedError: an in-place operator reads elements that it has written already.
    """
    return Original(sample, _outputs(_Ordered(model), sample))


def checked(quantizer: Any, before: Callable[[], Original]) -> Any:
    """Wrap a quantiser so that it checks that the model to annotate has the outputs of the original."""
    from torchao.quantization.pt2e.quantizer import Quantizer

    class Checked(Quantizer):
        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            rewritten = source_propagation.keep_sources(model, quantizer.transform_for_annotation)
            source_propagation.fill(rewritten.graph)
            _compare(before().outputs, _outputs(rewritten, before().inputs))
            return rewritten

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            return quantizer.annotate(model)

        def validate(self, model: fx.GraphModule) -> None:
            quantizer.validate(model)

    return Checked()


class Doubles(fx.Interpreter):
    """Runs a model on float64 copies of its inputs, weights and buffers.

    Where values cancel, float32 noise can be as large as the result. Buffers do not change, including those that batch
    norms write in training mode.
    """

    def run_node(self, n: fx.Node) -> Any:
        """Return the value of a node, floats in float64, complex numbers of these."""
        value = super().run_node(n)
        if not isinstance(value, Tensor):
            return value
        if value.is_floating_point():
            return value.double()
        if value.is_complex():
            return value.to(torch.complex128)
        return value.clone() if n.op == "get_attr" else value


class _Ordered(Doubles):
    """Refuses in-place operators whose result depends on the order in which they visit elements."""

    def run_node(self, n: fx.Node) -> Any:
        written = inplace.operands_written(n)
        if not written or all(arg in written for arg in n.all_input_nodes):
            return super().run_node(n)
        values = [self.env[arg] for arg in n.all_input_nodes]
        arguments: Any = self.fetch_args_kwargs_from_env(n)
        separate: Any = cast(Any, pytree).tree_map_only(Tensor, torch.clone, arguments)
        shares = len({inplace.storage_of(value) for value in values if isinstance(value, Tensor)}) < len(values)
        value = super().run_node(n)
        if shares and isinstance(value, Tensor):
            wanted = getattr(self, n.op)(n.target, *separate)
            if not torch.equal(value, wanted.to(value.dtype)):
                raise inplace.refused(n, "reads elements of a tensor that it has written already", inplace.COPY_FIRST)
        return value


def _outputs(model: fx.GraphModule | Doubles, inputs: Inputs) -> list[object]:
    """Return the model's outputs with a fixed random seed; PyTorch's random state does not change."""
    random: Any = torch.random
    with torch.no_grad(), random.fork_rng(devices=[]):
        random.manual_seed(0)
        return flat((model if isinstance(model, Doubles) else Doubles(model)).run(*copies(inputs)))


def _compare(before: Sequence[object], after: Sequence[object]) -> None:
    """Compare values of floats, and dtypes and shapes of all outputs; the index of the larger of two equals may change.

    Raises:
        InternalError: naming the first output that differs.
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
    """Return the kind of a dtype: backends may narrow integers, whose dtype is restored at the end."""
    if value.dtype == torch.bool:
        return "bool"
    return "float" if value.is_floating_point() or value.is_complex() else "integer"


def _changed(index: int, how: str) -> InternalError:
    return InternalError(
        f"rewriting the model for quantisation changes its output {index} {how}",
        hint="report the model with its example inputs: the program would compute something else",
    )

"""Compares the float model before and after the rewrites for quantization; later checks only see the rewritten one."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from deuteron.errors import InternalError
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.cortex_m.refusals import refusal
from deuteron.frontend.eager.observe import seeded
from deuteron.frontend.eager.outputs import difference, equal
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.operators import arguments_of, called, reads_inputs
from deuteron.frontend.quantize import inplace, source_propagation
from deuteron.frontend.source_lines import first_line

TOLERANCE = 1e-4
"""The allowed difference of an output, relative to its largest magnitude. Folded scales and weights are float32."""

_NOISE = 1e-5
"""The relative change of float inputs and weights that may move an integer or a bool: rewrites round otherwise."""

_SCALES = ("mul", "div")
"""Operators whose constant factor a rewrite may round."""

_MEANS = ("mean", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d")
"""Operators with a factor that a rewrite may round."""

_ORDERS = frozenset({"argsort", "kthvalue", "median", "sort", "topk"})
"""Operators that return the indices of elements; PyTorch leaves open which one of equal elements comes first."""

_MASKS = frozenset({"masked_fill", "scaled_dot_product_attention", "softmax", "where"})
"""Operators whose rewrites hold for the calibration batches: numbers that stand for infinity, and masks of scores."""

_BATCHES = 8
"""So many batches show these rewrites."""

_NO_INT64 = "scale the integers down, compute them in the application, or build for a target without an Ethos-U"
_NO_FORM = "write it with other operators, or compute it in the application"
_NO_NAN = "correct the model or the sample; give rows of which a mask leaves out all scores to `torch.nan_to_num`"
_WHERE = "write `torch.where(y < 0, -x.abs(), x.abs())` for `torch.copysign(x, y)`, and `y < 0` for `torch.signbit(y)`"


@dataclass(frozen=True, slots=True)
class Run:
    """A sample, and the outputs of the exported float model for it.

    Attributes:
        inputs: the sample.
        outputs: for the sample.
        near: the outputs for slightly larger and smaller inputs and weights, of a model with integers or bools; None
            where an operator refuses those, such as a lookup at the end of its table.
    """

    inputs: Inputs
    outputs: Sequence[object]
    near: Sequence[Sequence[object]] | None = ()


def from_batches(model: fx.GraphModule, batches: Callable[[], Iterable[Inputs]]) -> Iterable[Inputs]:
    """Return the first calibration batches of a model with masks; no others depend on them."""
    return islice(batches(), _BATCHES) if any(called(node) in _MASKS for node in model.graph.nodes) else ()


def original(model: fx.GraphModule, samples: Iterable[Inputs]) -> tuple[Run, ...]:
    """Run a model before it is rewritten in place.

    Samples after the first are left out where the model cannot run them: inputs of a recipe are made up.

    Raises:
        UnsupportedError: an in-place operator reads elements that it has written already.
    """
    first, *others = samples
    found = [_run(model, first)]
    for sample in others:
        with suppress(IndexError, RuntimeError):
            found.append(_run(model, sample))
    return tuple(found)


def _run(model: fx.GraphModule, sample: Inputs) -> Run:
    outputs = _outputs(_Ordered(model), sample)
    are_whole = any(isinstance(x, Tensor) and _kind(x) != "float" for x in outputs)
    if not are_whole:
        return Run(sample, outputs)
    try:
        return Run(sample, outputs, [_outputs(_Noisy(model, sign * _NOISE), sample) for sign in (1, -1)])
    except (IndexError, RuntimeError):
        return Run(sample, outputs, None)


def checked(quantizer: Any, before: Callable[[], Sequence[Run]]) -> Any:
    """Wrap a quantizer so that it checks that the model to annotate has the outputs of the original."""
    from torchao.quantization.pt2e.quantizer import Quantizer

    class Checked(Quantizer):
        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            rewritten = source_propagation.keep_sources(model, quantizer.transform_for_annotation)
            source_propagation.fill(rewritten.graph)
            nodes = flat(rewritten.graph.output_node().args[0])
            for run in before():
                outputs = _outputs(_Rewritten(rewritten), run.inputs)
                _need_representable(nodes, run.outputs, outputs)
                _compare(run, outputs)
            return rewritten

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            return quantizer.annotate(model)

        def validate(self, model: fx.GraphModule) -> None:
            quantizer.validate(model)

    return Checked()


class Doubles(fx.Interpreter):
    """Runs a model on float64 copies of its inputs, weights and buffers.

    Where values cancel, float32 noise can be as large as the result. Buffers do not change, including those that batch
    norms write in training mode. Sorts are stable.
    """

    def run_node(self, n: fx.Node) -> Any:
        """Return the value of a node, floats in float64, complex numbers of these."""
        if called(n) == "_assert_tensor_metadata":
            return None  # it compares dtypes
        value = super().run_node(n)
        if called(n) in _ORDERS and "dim" in arguments_of(n):
            value = self._stable(n, value)
        if not isinstance(value, Tensor):
            return value
        if value.is_floating_point():
            return value.double()
        if value.is_complex():
            return value.to(torch.complex128)
        return value.clone() if n.op == "get_attr" else value

    def _stable(self, node: fx.Node, value: Any) -> Any:
        """Return the result of an operator that sorts, with the indices that the ranks of a stable sort have."""
        given, (args, kwargs) = arguments_of(node), self.fetch_args_kwargs_from_env(node)
        descends = bool(given.get("descending") or given.get("largest"))
        order = cast(Tensor, args[0]).argsort(dim=given["dim"], descending=descends, stable=True)
        ranks = order.argsort(dim=given["dim"])
        result = cast(Any, node.target)(-ranks if descends else ranks, *args[1:], **kwargs)
        return result if isinstance(result, Tensor) else (value[0], result[1])


class _Rewritten(Doubles):
    """Refuses operators that fail on rewritten operands, such as integers of 32 bits in place of 64."""

    def run_node(self, n: fx.Node) -> Any:
        try:
            return super().run_node(n)
        except RuntimeError as e:
            raise refusal(n, f"has no form for this target: {first_line(e)}", _NO_FORM) from e


class _Noisy(Doubles):
    """Runs a model as `Doubles` does, with random noise of this relative size on float inputs, weights and factors."""

    def __init__(self, model: fx.GraphModule, size: float) -> None:
        super().__init__(model)
        self._size = size

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        is_scale = called(n) in _MEANS or (called(n) in _SCALES and any(map(_is_rounded, n.args)))
        is_given = is_scale or n.op in ("placeholder", "get_attr")
        is_moved = is_given and isinstance(value, Tensor) and value.is_floating_point()
        return value * (1 + self._size * torch.randn_like(value)) if is_moved else value


def _is_rounded(factor: object) -> bool:
    """Return True for a number whose product or quotient may round otherwise: no power of two."""
    if isinstance(factor, bool) or not isinstance(factor, int | float):
        return False
    return math.frexp(abs(factor))[0] not in (0, 0.5)


class _Ordered(Doubles):
    """Refuses in-place operators whose result depends on the order in which they visit elements, and signs of zeros."""

    def run_node(self, n: fx.Node) -> Any:
        if called(n) in ("copysign", "signbit") and isinstance(signed := n.args[-1], fx.Node) and reads_inputs(signed):
            value = cast(Tensor, self.env[signed])
            if bool(((value == 0) & value.signbit()).any()):
                raise refusal(n, "reads the sign of a negative zero, which int8 does not have", _WHERE)
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
            if not equal([value], [wanted.to(value.dtype)]):
                raise inplace.refused(n, "reads elements of a tensor that it has written already", inplace.COPY_FIRST)
        return value


def _outputs(model: Doubles, inputs: Inputs) -> list[object]:
    """Return the model's outputs with a fixed random seed; PyTorch's random state does not change."""
    with torch.no_grad(), seeded(0):
        return flat(model.run(*copies(inputs)))


def _need_representable(nodes: Sequence[object], before: Sequence[object], after: Sequence[object]) -> None:
    """Refuse NaN that a rewrite removes, as of a softmax whose mask leaves out all scores, and longer integers.

    Raises:
        UnsupportedError: naming the operator of the first output with NaN, or with integers that differ by 2**32.
    """
    for node, wanted, ours in zip(nodes, before, after, strict=True):
        if not (isinstance(node, fx.Node) and isinstance(wanted, Tensor) and isinstance(ours, Tensor)):
            continue
        if wanted.shape != ours.shape or wanted.is_complex():
            continue
        if bool((wanted.isnan() & ~ours.isnan()).any()):
            raise refusal(node, "gives NaN for a sample, which int8 does not have", _NO_NAN)
        if wanted.dtype == ours.dtype == torch.int64:
            off = ours - wanted
            if off.any() and not (off % 2**32).any():
                raise refusal(node, "depends on integers beyond 32 bits, which the target does not have", _NO_INT64)


def _compare(before: Run, after: Sequence[object]) -> None:
    """Compare floats, and integers and bools exactly where noise does not change them.

    Raises:
        InternalError: naming the first output that differs.
    """
    for index, (wanted, actual) in enumerate(zip(before.outputs, after, strict=True)):
        if not isinstance(wanted, Tensor):
            continue
        if not isinstance(actual, Tensor):
            raise _changed(index, f"is a {type(actual).__name__}")
        ours, kind = actual, _kind(wanted)
        if _kind(actual) == kind and actual.shape == wanted.shape:
            if kind != "float" and before.near is None:
                continue
            ours = actual.to(wanted.dtype)
            if kind == "integer":  # what a narrower dtype does not hold is an error of the finished program
                ours = torch.where(wanted.to(actual.dtype) == wanted, ours, wanted)
            if kind != "float" and before.near:
                ours = _unmoved(ours, wanted, [cast(Tensor, near[index]) for near in before.near])
        if text := difference(ours, wanted, TOLERANCE):
            raise _changed(index, text)


def _unmoved(ours: Tensor, wanted: Tensor, near: Sequence[Tensor]) -> Tensor:
    """Return `ours`, with the wanted integers or bools where noise makes differences of that size too."""
    moves = torch.stack([(one.long() - wanted.long()).abs() for one in near])
    is_noise = moves.any(0) & ((ours.long() - wanted.long()).abs() <= moves.max())
    return torch.where(is_noise, wanted, ours)


def _kind(value: Tensor) -> str:
    """Return the kind of a dtype: backends may narrow integers, whose dtype is restored at the end."""
    if value.dtype == torch.bool:
        return "bool"
    return "float" if value.is_floating_point() or value.is_complex() else "integer"


def _changed(index: int, how: str) -> InternalError:
    return InternalError(
        f"rewriting the model for quantization changes its output {index}: it {how}",
        hint="report the model with its example inputs: the program would compute something else",
    )

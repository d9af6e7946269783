"""Operators that become custom operators, and others that do not."""

import importlib
import inspect
from collections.abc import Callable

import pytest
import torch
from executorch.exir import to_edge
from executorch.exir.dialects._ops import ops as dialects
from tests.frontend.float_rewrites import Call, rewritten
from tests.frontend.heterogeneous_models import combine
from torch import Tensor, nn

from deuteron.errors import UnsupportedError
from deuteron.frontend.cortex_m.custom_ops import decompositions, lowering

quantized = torch.ops.quantized_decomposed


class Compared(nn.Module):
    """Compares integers, which no quantization concerns, and adds what the backend's own operator adds."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + y, x.argmax(1) > 2


def test_integers_are_compared_as_they_are_and_plain_sums_are_the_backends_own() -> None:
    operators = combine(Compared(), (2, 7), (2, 7), target="cortex-m33").operators
    assert operators["cortex_m::quantized_add"] == 1
    assert operators["deuteron::argmax_argmin"] == 1
    assert not any(
        name.startswith(("deuteron::broadcast", "deuteron::compare", "deuteron::compare_scalar")) for name in operators
    )
    assert operators["aten::gt.Scalar"] + operators["aten::gt.Tensor"] == 1


class Twice(nn.Module):
    """A tensor and a part of itself, which depends on one tensor only."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x, x, alpha=0.25)


def test_a_tensor_and_itself_is_a_table() -> None:
    made = combine(Twice(), (2, 7), target="cortex-m33")
    assert made.operators["cortex_m::quantized_activation"] == 1
    assert made.steps == 0


class Rescaled(nn.Module):
    """An extremum whose result was given another scale than its operand."""

    def forward(self, x: Tensor) -> Tensor:
        stored = quantized.quantize_per_tensor(x, 0.5, 3, -128, 127, torch.int8)
        largest = quantized.dequantize_per_tensor(stored, 0.5, 3, -128, 127, torch.int8).amax(-1)
        again = quantized.quantize_per_tensor(largest, 0.25, 3, -128, 127, torch.int8)
        return quantized.dequantize_per_tensor(again, 0.25, 3, -128, 127, torch.int8)


def test_scales_that_must_be_one_and_are_not_are_refused() -> None:
    importlib.import_module("torch.ao.quantization.fx._decomposed")  # defines the operators
    program = to_edge(torch.export.export(Rescaled(), (torch.randn(2, 7),))).exported_program()
    (node,) = program.graph.find_nodes(op="call_function", target=dialects.edge.aten.amax.default)
    node.meta["custom"] = {"deuteron_added": "int8"}
    with pytest.raises(UnsupportedError) as caught:
        lowering.lower(program, {})
    line = inspect.getsourcelines(Rescaled.forward)[1] + 2
    assert str(caught.value) == (
        f"{__file__}:{line}: `aten::amax` would mix values of scale 0.5, zero point 3 and scale 0.25, zero point 3, at "
        "`largest = quantized.dequantize_per_tensor(stored, 0.5, 3, -128, 127, torch.int8).amax(-1)`\n\n"
        "hint: give both operands the same range"
    )


class Masked(nn.Module):
    """Scores, some of which count for nothing, as an input says."""

    def forward(self, scores: Tensor, left_out: Tensor) -> Tensor:
        return torch.where(left_out > 0.5, scores - 8.0, scores).softmax(-1)


def test_scores_that_count_for_nothing_have_a_number_taken_away() -> None:
    made = combine(Masked(), (2, 7), (2, 7), target="cortex-m33")
    assert made.operators["cortex_m::softmax"] == 1
    assert made.steps <= 1


class Weighed(nn.Module):
    """Scores, some of which count for nothing, as an input says by a number that stands for infinity."""

    def forward(self, s: Tensor, m: Tensor) -> Tensor:
        return (s + ((1 - m) * -1e9).reshape(2, 7)).softmax(-1)


def test_a_computed_mask_times_what_stands_for_infinity_is_refused() -> None:
    with pytest.raises(RuntimeError) as caught:
        combine(Weighed(), (2, 7), (2, 7), target="cortex-m33")
    line = inspect.getsourcelines(Weighed.forward)[1] + 1
    assert isinstance(caught.value.__cause__, UnsupportedError)
    assert str(caught.value.__cause__) == (
        f"{__file__}:{line}: `aten::mul.Tensor` multiplies by -1e+09, with which int8 cannot represent the other "
        "values, at `return (s + ((1 - m) * -1e9).reshape(2, 7)).softmax(-1)`\n\nhint: for masked scores of a softmax "
        "subtract a number instead, as in `torch.where(mask, s - 8.0, s).softmax(-1)`"
    )


@pytest.mark.parametrize(
    ("fill", "operator", "number"),
    [
        (lambda x: x.masked_fill(x > 0.5, -1e9) * 2, "aten::masked_fill.Scalar", "-1e+09"),
        (lambda x: x.masked_fill(x > 0.5, -1e9).softmax(-1), "aten::masked_fill.Scalar", "-1e+09"),
        (lambda x: x.masked_fill(x > 0.5, -torch.inf).softmax(-1), "aten::masked_fill.Scalar", "-inf"),
        (lambda x: torch.where(x > 0.5, -1e4, x).softmax(-1), "aten::where.ScalarSelf", "-10000"),
        (lambda x: (x + torch.where(x > 0.5, 0.0, -1e5)).softmax(-1), "aten::where.Scalar", "-100000"),
    ],
)
def test_numbers_that_would_be_all_that_a_scale_tells(
    fill: Callable[[Tensor], Tensor], operator: str, number: str
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        rewritten(Call(fill), (2, 5, 7), decompositions.write, has_lines=True)
    line = inspect.getsourcelines(fill)[1]
    at = inspect.getsource(fill).strip()
    assert str(caught.value) == (
        f"{__file__}:{line}: `{operator}` fills in {number}, with which int8 cannot represent the other values, at "
        f"`{at}`\n\nhint: fill in a number near the others; for masked scores of a softmax subtract a number instead, "
        "as in `torch.where(mask, s - 8.0, s).softmax(-1)`"
    )

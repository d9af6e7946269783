"""The checks of programs with int8 operators on the CPU: each on a program that is broken in its way."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from deuteron.errors import InternalError, UnsupportedError
from deuteron.frontend import cortex_m, lints

AT = ", at `return self.function(*inputs)`\n\n"
PORTABLE = (
    AT + "hint: write it with other operators, or build for a target whose CPU runs portable operators: `imxrt700`"
)
LIMITS = (-128, 127, torch.int8)


@pytest.fixture(autouse=True, scope="module")
def _operators() -> None:
    cortex_m.load()


class Call(nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


def program(function: Callable[..., Tensor], *inputs: Tensor) -> ExportedProgram:
    return torch.export.export(Call(function), inputs)


def refusal(check: Callable[[ExportedProgram], None], found: ExportedProgram) -> str:
    with pytest.raises(UnsupportedError) as caught:
        check(found)
    return str(caught.value).partition(": ")[2]  # the place is a line of this file


def int8(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int8)


def absolute(x: Tensor) -> Tensor:
    return torch.abs(x)


def moved(x: Tensor) -> Tensor:
    return torch.cat([x, x])


def pooled(x: Tensor) -> Tensor:
    return torch.ops.cortex_m.quantized_max_pool2d.default(x, [2, 2], [2, 2], [0, 0], [1, 1], False, 0, 0, -128, 127)


def test_what_computes_in_float_is_refused() -> None:
    assert refusal(lints.check_operators, program(absolute, torch.zeros(3))) == (
        "`aten::abs` has no int8 form on the CPU, and the NPU does not take it" + PORTABLE
    )


def test_what_takes_int8_values_for_numbers_is_refused() -> None:
    assert refusal(lints.check_operators, program(absolute, int8(3))) == (
        "`aten::abs` would take int8 values for the numbers that they stand for" + PORTABLE
    )


def test_what_only_moves_int8_values_is_allowed() -> None:
    lints.check_operators(program(moved, int8(3)))


def test_images_that_a_kernel_would_refuse_are_refused() -> None:
    lints.check_operators(program(pooled, int8(1, 2, 4, 4).contiguous(memory_format=torch.channels_last)))
    assert refusal(lints.check_operators, program(pooled, int8(1, 2, 4, 4))) == (
        "`cortex_m::quantized_max_pool2d` gets or gives an image that is not in channels-last memory" + PORTABLE
    )


def joined(scale: float) -> ExportedProgram:
    """Two quantised tensors, the second with this scale, joined in the first's scale of 0.5."""
    ops = torch.ops.quantized_decomposed

    def join(a: Tensor, b: Tensor) -> Tensor:
        values = [ops.dequantize_per_tensor(a, 0.5, 3, *LIMITS), ops.dequantize_per_tensor(b, scale, 3, *LIMITS)]
        both = torch.cat(values)
        return ops.quantize_per_tensor(both, 0.5, 3, *LIMITS)

    found = program(join, int8(3), int8(3))
    (cat,) = (node for node in found.graph.nodes if "cat" in str(node.target))
    cat.meta["custom"] = {"_arm_annotation_info": {"quantized": True}}
    return found


def test_a_scale_that_would_be_lost_is_refused() -> None:
    lints.check_scales(joined(0.5))
    assert refusal(lints.check_scales, joined(0.25)) == (
        "`aten::cat` would mix values of scale 0.5, zero point 3 and scale 0.25, zero point 3"
        + AT
        + "hint: give both sides the same range"
    )


def times(factor: float) -> ExportedProgram:
    ops = torch.ops.quantized_decomposed

    def multiply(x: Tensor) -> Tensor:
        q = ops.quantize_per_tensor(x * factor, 0.5, 0, *LIMITS)
        return ops.dequantize_per_tensor(q, 0.5, 0, *LIMITS)

    return program(multiply, torch.tensor([1.0, 2.0]))


def test_other_values_than_the_quantised_models_are_a_defect() -> None:
    x, module = torch.tensor([1.0, 2.0]), times(1.0).module(check_guards=False)
    lints.check_values(times(2.0), module, [x])  # 4 steps are allowed
    assert lints.differences(times(2.0), module, [x]) == [4]
    with pytest.raises(InternalError) as caught:
        lints.check_values(times(3.0), module, [x])
    assert str(caught.value) == (
        "output 0 of the program differs from the quantised model by 8 steps of its scale, at most 4 are rounding\n\n"
        "hint: report the model; until then keep what runs on the CPU on the NPU, or the other way round"
    )

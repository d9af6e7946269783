"""The checks of programs with int8 operators on the CPU: each on a program that is broken in its way."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from deuteron.arch.cores import Work
from deuteron.builds.manifest import CpuOp, Source
from deuteron.errors import InternalError, UnsupportedError
from deuteron.frontend.cortex_m import program_checks, upstream
from deuteron.frontend.cortex_m.layout import COPY

AT = ", at `return self.function(*inputs)`\n\n"
PORTABLE = (
    AT + "hint: write it with other operators, or build for a target whose CPU runs "
    "portable operators, such as `imxrt700` and `ethos-u55-128`"
)
LAST, PLAIN = [0, 2, 3, 1], [0, 1, 2, 3]
LIMITS = (-128, 127, torch.int8)


@pytest.fixture(autouse=True, scope="module")
def _operators() -> None:
    upstream.load()


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
    assert refusal(program_checks.check_operators, program(absolute, torch.zeros(3))) == (
        "`aten::abs` has no int8 kernel on the CPU" + PORTABLE
    )


def copied(x: Tensor) -> Tensor:
    return torch.abs(x).clone()


def test_copies_of_ours_are_not_to_blame() -> None:
    found = program(copied, torch.zeros(3))
    (copy,) = (node for node in found.graph.nodes if "clone" in str(node.target))
    copy.meta["custom"] = {COPY: True}
    assert refusal(program_checks.check_operators, found).startswith("`aten::abs` has no int8 kernel on the CPU, at ")
    (absolute,) = (node for node in found.graph.nodes if "abs" in str(node.target))
    absolute.replace_all_uses_with(absolute.all_input_nodes[0])
    found.graph.erase_node(absolute)
    assert refusal(program_checks.check_operators, found).startswith("`aten::clone` has no int8 kernel on the CPU, at ")


def looked_up(rows: Tensor, index: Tensor) -> Tensor:
    return torch.nn.functional.embedding(index, rows)


def test_what_reads_numbers_is_to_be_computed_before_the_model() -> None:
    found = program(looked_up, torch.zeros(3, 2), torch.zeros(4, dtype=torch.int64))
    assert refusal(program_checks.check_operators, found) == (
        "`aten::embedding` reads `inputs_1` of int64 and has no int8 kernel on the CPU"
        + AT
        + "hint: compute it before "
        "the model and pass it as float32, or build for a target whose CPU runs "
        "portable operators, such as `imxrt700` and `ethos-u55-128`"
    )


def added(x: Tensor, i: Tensor) -> Tensor:
    return x + i


def added_as_float(x: Tensor, i: Tensor) -> Tensor:
    return x + torch.ops.aten._to_copy.default(i, dtype=torch.float32)


@pytest.mark.parametrize("function", [added, added_as_float])
def test_arithmetic_reads_no_other_numbers_beside_quantized_ones(function: Callable[..., Tensor]) -> None:
    index = torch.zeros(3, dtype=torch.int64)
    assert refusal(program_checks.check_dtypes, program(function, torch.zeros(3), index)) == (
        "`aten::add.Tensor` reads `inputs_1` of int64 and float32: both operands must be float32" + AT + "hint: "
        "compute it before the model and pass it as float32, or build for a target whose CPU runs portable "
        "operators, such as `imxrt700` and `ethos-u55-128`"
    )
    program_checks.check_dtypes(program(added, torch.zeros(3), torch.zeros(3)))
    program_checks.check_dtypes(program(added, index, index))


def dilated_pool(x: Tensor) -> Tensor:
    return torch.ops.aten.max_pool2d_with_indices(x, [2, 2], [2, 2], [0, 0], [2, 2])[0]


def test_windows_with_gaps_are_refused() -> None:
    image = torch.zeros(1, 2, 8, 8)
    assert refusal(program_checks.check_dilations, program(dilated_pool, image)) == (
        "`aten::max_pool2d_with_indices` with dilation [2, 2] has no int8 kernel on the CPU" + AT + "hint: write it as "
        "`torch.maximum` of slices, or build for a target whose CPU runs "
        "portable operators, such as `imxrt700` and `ethos-u55-128`"
    )
    program_checks.check_dilations(program(moved, image))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
def test_what_takes_quantized_values_for_numbers_is_refused(dtype: torch.dtype) -> None:
    assert refusal(program_checks.check_operators, program(absolute, torch.zeros(3, dtype=dtype))) == (
        f"`aten::abs` would read {str(dtype)[6:]} values as real numbers" + PORTABLE
    )


def test_what_only_moves_int8_values_is_allowed() -> None:
    program_checks.check_operators(program(moved, int8(3)))


def test_images_that_a_kernel_would_refuse_are_refused() -> None:
    program_checks.check_operators(program(pooled, int8(1, 2, 4, 4).contiguous(memory_format=torch.channels_last)))
    assert refusal(program_checks.check_operators, program(pooled, int8(1, 2, 4, 4))) == (
        "`cortex_m::quantized_max_pool2d` gets or gives an image that is not in channels-last memory" + PORTABLE
    )


def joined(scale: float) -> ExportedProgram:
    """Two quantized tensors, the second with this scale, joined in the first's scale of 0.5."""
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
    program_checks.check_scales(joined(0.5))
    assert refusal(program_checks.check_scales, joined(0.25)) == (
        "`aten::cat` would mix values of scale 0.5, zero point 3 and scale 0.25, zero point 3"
        + AT
        + "hint: give both operands the same range"
    )


@dataclass
class Image:
    """A tensor of a program that will be written."""

    sizes: list[int]
    dim_order: list[int]


def plan(operator: str, *orders: list[int], sizes: tuple[int, ...] = (1, 2, 4, 4)) -> SimpleNamespace:
    """A program of one call, on images in these orders of memory."""
    call = SimpleNamespace(op_index=0, args=range(len(orders)))
    return SimpleNamespace(
        operators=[SimpleNamespace(name=operator)],
        chains=[SimpleNamespace(instructions=[SimpleNamespace(instr_args=call)])],
        values=[SimpleNamespace(val=Image(list(sizes), order)) for order in orders],
    )


@pytest.mark.parametrize(
    ("operator", "good", "bad"),
    [
        ("cortex_m::quantized_conv2d", (LAST, LAST), (LAST, PLAIN)),
        ("cortex_m::quantized_conv2d", (LAST, PLAIN, LAST), (PLAIN, LAST, LAST)),  # weights have their own
        ("cortex_m::quantized_conv2d_nhwc", (PLAIN, PLAIN), (LAST, PLAIN)),
        ("cortex_m::quantized_add", (LAST, LAST, LAST), (LAST, PLAIN, LAST)),
        ("cortex_m::pad", (PLAIN, PLAIN), (LAST, PLAIN)),
    ],
)
def test_orders_of_a_finished_program_are_those_of_its_operators(
    operator: str, good: tuple[list[int], ...], bad: tuple[list[int], ...]
) -> None:
    source = Source("model.py", 7, "y = f(x)", "")
    op = CpuOp(operator, "node", (source,), "", "", Work.NOTHING, 32, (0,))
    program_checks.check_orders(plan(operator, *good), [op])
    program_checks.check_orders(plan(operator, *bad, sizes=(1, 1, 4, 4)), [op])  # one channel lies in both orders
    with pytest.raises(InternalError) as caught:
        program_checks.check_orders(plan(operator, *bad), [op])
    wrong = PLAIN if bad != (LAST, PLAIN) or operator == "cortex_m::quantized_conv2d" else LAST
    assert str(caught.value) == (
        f"model.py:7: `{operator}` would get or give an image of shape (1, 2, 4, 4) in the order of memory "
        f"{tuple(wrong)}, at `y = f(x)`\n\n"
        "hint: report the model; until then give it images in another memory format"
    )


def flat(x: Tensor) -> Tensor:
    return torch.ops.aten.view_copy.default(x, [1, 32])


def sides(x: Tensor) -> Tensor:
    return torch.cat([x, x], 1)


@pytest.mark.parametrize(("function", "name"), [(flat, "view_copy"), (sides, "cat")])
def test_what_would_take_memory_for_another_order_is_refused(function: Callable[..., Tensor], name: str) -> None:
    program_checks.check_operators(program(function, int8(1, 2, 4, 4)))
    found = program(sides, int8(1, 2, 4, 4).contiguous(memory_format=torch.channels_last))
    (node,) = (node for node in found.graph.nodes if node.op == "call_function")
    node.target = {"cat": node.target, "view_copy": torch.ops.aten.view_copy.default}[name]
    assert refusal(program_checks.check_operators, found) == (
        f"`aten::{name}` would read images in channels-last memory as contiguous ones"
        + AT
        + "hint: give it tensors in the order of their shapes, with `.contiguous()`"
    )

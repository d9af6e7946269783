"""Programs compared with the quantized models that they were lowered from: each operator, then the outputs."""

import pytest
import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram

from deuteron.errors import InternalError, UnsupportedError
from deuteron.frontend.cortex_m import numerical_check, upstream

LIMITS = (-128, 127, torch.int8)
X = torch.tensor([1.0, 2.0, -3.0])
ops = torch.ops.quantized_decomposed


class Sum(nn.Module):
    """x + x of values in steps of 0.5, the sum in steps of 1, then a table: minus the sum."""

    def forward(self, x: Tensor) -> Tensor:
        a = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, 0.5, 0, *LIMITS), 0.5, 0, *LIMITS)
        b = ops.dequantize_per_tensor(ops.quantize_per_tensor(a + a, 1.0, 0, *LIMITS), 1.0, 0, *LIMITS)
        return ops.dequantize_per_tensor(ops.quantize_per_tensor(-b, 1.0, 0, *LIMITS), 1.0, 0, *LIMITS)


class Lowered(nn.Module):
    """The same with the Cortex-M's operators; `zero_point` and `entry` are 0 when they are right."""

    def __init__(self, zero_point: int, entry: int, at: slice = slice(None)) -> None:
        super().__init__()
        self.zero_point = zero_point
        table = -torch.arange(-128, 128)
        table[at] += entry
        self.table = nn.Parameter(table.clamp(-128, 127).to(torch.int8), False)

    def forward(self, x: Tensor) -> Tensor:
        q = ops.quantize_per_tensor(x, 0.5, 0, *LIMITS)
        half = 1 << 30
        total = torch.ops.cortex_m.quantized_add(
            q, 0, half, 0, q, 0, half, 0, self.zero_point, half, -19, -128, 127
        )  # fmt: skip
        looked_up = torch.ops.cortex_m.quantized_activation(total, self.table)
        return ops.dequantize_per_tensor(looked_up, 1.0, 0, *LIMITS)


def pair(zero_point: int = 0, entry: int = 0) -> tuple[ExportedProgram, fx.GraphModule]:
    """The sum: right, or with errors."""
    return exported(Sum(), Lowered(zero_point, entry))


def exported(quantized_model: nn.Module, lowered: nn.Module) -> tuple[ExportedProgram, fx.GraphModule]:
    """A program and the quantized model, each value of the one noted in the other."""
    upstream.load()
    module = torch.export.export(quantized_model, (X,)).module(check_guards=False)
    assert isinstance(module, fx.GraphModule)
    numerical_check.mark(module)
    program = torch.export.export(lowered, (X,))
    quantized = [node for node in module.graph.nodes if ".quantize_per_tensor" in str(node.target)]
    computed = [n for n in program.graph.nodes if n.op == "call_function" and "dequantize" not in str(n.target)]
    for node, target in zip(quantized, computed, strict=True):
        numerical_check.copy_mark(node, target)
    return program, module


def message(zero_point: int, entry: int) -> str:
    with pytest.raises(InternalError) as caught:
        numerical_check.check(*pair(zero_point, entry), [X])
    return str(caught.value).partition(": ")[2]


HINT = "\n\nhint: report the model; until then move operators from the CPU to the NPU, or the other way round"


def test_an_operator_that_rounds_may_be_one_step_off() -> None:
    numerical_check.check(*pair(), [X])
    program, module = pair(zero_point=1)
    numerical_check.check(program, module, [X])
    assert numerical_check.differences(program, module, [X]) == [1]
    assert message(2, 0) == (
        "`cortex_m::quantized_add` is 2 steps of its scale off the quantized model, at most 1 is rounding, at "
        "`total = torch.ops.cortex_m.quantized_add(`" + HINT
    )


def test_an_operator_that_does_not_round_may_not() -> None:
    assert message(0, 1) == (
        "`cortex_m::quantized_activation` is 1 step of its scale off the quantized model, and does no rounding, at "
        "`looked_up = torch.ops.cortex_m.quantized_activation(total, self.table)`" + HINT
    )


def test_one_entry_of_a_table_may_be_one_step_off() -> None:
    """A function may have the value half-way between two steps there."""
    at = slice(128 + 4, 128 + 5)  # of the sum 2 + 2
    numerical_check.check(*exported(Sum(), Lowered(0, 1, at)), [X])
    with pytest.raises(InternalError, match="2 steps of its scale off"):
        numerical_check.check(*exported(Sum(), Lowered(0, 2, at)), [X])


def test_an_error_does_not_count_again_where_it_leads() -> None:
    """One step of the sum is one step of what is looked up for it, though a table is exact."""
    numerical_check.check(*pair(zero_point=1), [X])


def test_what_no_operator_is_asked_for_shows_in_the_output() -> None:
    program, module = pair(entry=3)
    for node in program.graph.nodes:
        node.meta.pop("custom", None)
    with pytest.raises(InternalError) as caught:
        numerical_check.check(program, module, [X])
    assert str(caught.value) == (
        "output 0 of the program is 3 steps of its scale off the quantized model, though each operator of the CPU is "
        "right" + HINT
    )


def test_ties_may_move_what_the_npu_computes_by_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numerical_check, "_is_of_npu", lambda node: "activation" in str(node.target))
    numerical_check.check(*pair(entry=1), [X])
    assert message(zero_point=0, entry=2).startswith(
        "what the NPU computes is 2 steps of its scale off the quantized model, at most 1 is rounding, at "
    )


class Quotient(nn.Module):
    """A quotient of values in steps of 0.5, by values in steps of 1000, which are all 0."""

    def forward(self, x: Tensor) -> Tensor:
        a = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, 0.5, 0, *LIMITS), 0.5, 0, *LIMITS)
        b = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, 1000.0, 0, *LIMITS), 1000.0, 0, *LIMITS)
        return ops.dequantize_per_tensor(ops.quantize_per_tensor(a / b, 1.0, 0, *LIMITS), 1.0, 0, *LIMITS)


class LoweredQuotient(nn.Module):
    """The same with the Cortex-M's operators."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = ops.quantize_per_tensor(x, 0.5, 0, *LIMITS), ops.quantize_per_tensor(x, 1000.0, 0, *LIMITS)
        quotient = torch.ops.cortex_m.quantized_div(a, 0, b, 0, 0, 0.0005)
        return ops.dequantize_per_tensor(quotient, 1.0, 0, *LIMITS)


def test_a_divisor_that_rounds_to_zero_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        numerical_check.check(*exported(Quotient(), LoweredQuotient()), [X])
    assert "a divisor rounds to 0 in int8, at `quotient = torch.ops.cortex_m.quantized_div(" in str(caught.value)

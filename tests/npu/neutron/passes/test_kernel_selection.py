"""Kernel selection: what becomes of ops that take more, or less, than one plain call, and what is refused."""

import numpy as np
import pytest
from tests.npu.neutron.ir.cases import CASES, case
from tests.npu.neutron.passes.text import graph

from deuteron.npu.neutron.ir.ops import Op
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.passes.kernel_selection import LOWERINGS, select
from deuteron.operators.kernel_params import FullyConnectedParams
from deuteron.operators.program import Kernel, Program
from deuteron.tflite.quantization import Quant

HALF = Quant((0.5,), (0,))


def _select(body: str) -> Program:
    return select(parse_graph(graph(body)))


def _kernels(program: Program) -> list[str]:
    return [call.kernel.name for call in program.calls]


def test_a_reshape_inside_costs_nothing() -> None:
    program = _select(
        """
        input %x: i8[2,3] q(0.5:0)
        %a: i8[2,3] q(0.5:0) = unary(%x) function=relu @[0]
        %b: i8[6] q(0.5:0) = reshape(%a) @[1]
        %y: i8[6] q(0.25:0) = quantize(%b) @[2]
        output %y
        """
    )
    assert _kernels(program) == ["lut_s8", "lut_s8"]
    assert program.calls[0].operands[2] == program.calls[1].operands[0]


def test_a_reshape_to_an_output_makes_its_source_write_there() -> None:
    program = _select(
        """
        input %x: i8[2,3] q(0.5:0)
        %a: i8[2,3] q(0.5:0) = unary(%x) function=relu @[0]
        %b: i8[3,2] q(0.5:0) = reshape(%a) @[1]
        %y: i8[6] q(0.5:0) = reshape(%b) @[2]
        output %y
        """
    )
    assert _kernels(program) == ["lut_s8"]
    assert program.calls[0].operands[2].buffer == "y"


def test_the_bias_of_a_fully_connected_layer_has_what_the_zero_point_adds() -> None:
    program = _select(
        """
        input %x: i8[1,2] q(0.5:-3)
        const %w: i8[2,2] q(0.5:0) = [1,2,-3,4]
        const %b: i32[2] = [10,20]
        %y: i8[1,2] q(0.5:0) = fully_connected(%x, %w, %b) @[0]
        output %y
        """
    )
    (call,) = program.calls
    assert isinstance(call.params, FullyConnectedParams)
    assert call.params.in_zp == 0
    data = {buffer.name: buffer.data for buffer in program.buffers}[call.operands[2].buffer]
    assert data is not None
    assert np.frombuffer(data, np.int32).tolist() == [10 + 3 * (1 + 2), 20 + 3 * (4 - 3)]


def test_two_outputs_of_one_value_take_a_copy() -> None:
    program = _select(
        """
        input %x: i8[2,3] q(0.5:0)
        %a: i8[2,3] q(0.5:0) = unary(%x) function=relu @[0]
        %b: i8[6] q(0.5:0) = reshape(%a) @[1]
        output %a
        output %b
        """
    )
    assert _kernels(program) == ["lut_s8", "copy_s8"]
    assert program.outputs == ("a", "b")


@pytest.mark.parametrize(
    "source", ["input %x: i8[2] q(0.5:0)", "input %i: i8[2] q(0.5:0)\nconst %x: i8[2] q(0.5:0) = [1,2]"]
)
def test_an_input_or_constant_that_is_an_output_is_copied(source: str) -> None:
    program = _select(f"{source}\noutput %x")
    assert _kernels(program) == ["copy_s8"]
    assert program.outputs == ("x/output",)


def test_equal_constants_are_one_buffer() -> None:
    program = _select(
        """
        input %x: i8[2] q(0.5:0)
        const %c: i8[2] q(0.5:0) = [1,2]
        const %d: i8[2] q(0.25:0) = [1,2]
        %a: i8[2] q(0.5:0) = add(%x, %c) @[0]
        %y: i8[2] q(0.5:0) = mul(%a, %d) @[1]
        output %y
        """
    )
    assert [buffer.name for buffer in program.buffers if buffer.data is not None] == ["c"]


def test_a_padding_is_a_fill_and_a_copy_of_one_op() -> None:
    program = _select(
        """
        input %x: i8[2,2] q(0.5:0)
        %y: i8[4,3] q(0.5:0) = pad(%x) paddings=((1,1),(0,1)) value=5 @[3]
        output %y
        """
    )
    assert _kernels(program) == ["fill_s8", "copy_s8"]
    assert [call.origin for call in program.calls] == [(3,), (3,)]
    assert program.calls[1].operands[1].offset == 3


@pytest.mark.parametrize(
    ("axes", "kernels", "sizes"),
    [
        ("(1,2)", ["reduce_sum_s8"], (2, 12, 5)),
        ("(0)", ["reduce_sum_s8"], (1, 2, 60)),
        ("(3)", ["reduce_sum_s8"], (24, 5, 1)),
        ("(0,1,2,3)", ["reduce_sum_s8"], (1, 120, 1)),
        ("(0,2)", ["copy_s8", "reduce_sum_s8"], (15, 8, 1)),
    ],
)
def test_means_become_outer_reduced_inner(axes: str, kernels: list[str], sizes: tuple[int, ...]) -> None:
    kept = [1 if str(axis) in axes else dim for axis, dim in enumerate((2, 3, 4, 5))]
    program = _select(
        f"""
        input %x: i8[2,3,4,5] q(0.5:0)
        %y: i8{str(kept).replace(" ", "")} q(0.5:0) = mean(%x) axes={axes} @[0]
        output %y
        """
    )
    assert _kernels(program) == kernels
    assert program.calls[-1].params.words()[:3] == sizes


def test_every_operator_has_a_lowering_that_calls_no_other_kernels_than_it_says() -> None:
    assert set(LOWERINGS) == set(CASES)
    used: dict[type[Op], set[Kernel]] = {}
    for kind in CASES:
        for seed in range(40):
            used.setdefault(kind, set()).update(call.kernel for call in select(case(kind, seed)[0]).calls)
    assert used == {kind: set(lowering.kernels) for kind, lowering in LOWERINGS.items()}

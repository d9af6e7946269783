"""Kernel selection: what becomes of ops that take more, or less, than one plain call, and what is refused."""

import numpy as np
import pytest
from tests.ir.cases import CASES, case
from tests.passes.text import graph

from deuteron.errors import UnsupportedError
from deuteron.ir.graph import Graph
from deuteron.ir.ops import Conv2D, FullyConnected, Mean, Op, Softmax
from deuteron.ir.parser import parse_graph
from deuteron.ir.types import DType, Quant, Tensor, TensorType
from deuteron.kernels.catalogue import Kernel
from deuteron.kernels.program import Program
from deuteron.passes.select import LOWERINGS, select

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


# Refusals.


def _graph(op: Op, tensors: dict[str, TensorType], data: dict[str, np.ndarray]) -> Graph:
    made = tuple(Tensor(name, kind, data[name].tobytes() if name in data else None) for name, kind in tensors.items())
    return Graph("g", made, ("x",), ("y",), (op,))


def _i8(*shape: int, quant: Quant = HALF) -> TensorType:
    return TensorType(shape, DType.INT8, quant)


def test_an_accumulator_that_may_overflow_is_refused() -> None:
    width = 70_000
    op = FullyConnected(inputs=("x", "w", "b"), outputs=("y",), origin=(4,))
    tensors = {"x": _i8(1, width), "w": _i8(1, width), "b": TensorType((1,), DType.INT32), "y": _i8(1, 1)}
    data = {"w": np.full(width, 127, np.int8), "b": np.zeros(1, "<i4")}
    with pytest.raises(UnsupportedError) as caught:
        select(_graph(op, tensors, data))
    assert caught.value.where == "op 4 FullyConnected, output `y`"
    assert caught.value.message == ("the accumulator of output channel 0 can reach 2266950000; the NPU's is below 2^31")


def test_weights_that_are_not_constant_count_as_the_largest() -> None:
    width = 65_536  # 255 * 128 * width is 2^31 - 2^23, so the bias decides
    op = FullyConnected(inputs=("x", "w", "b"), outputs=("y",), origin=(4,))
    tensors = {"x": _i8(1, width), "w": _i8(1, width), "b": TensorType((1,), DType.INT32), "y": _i8(1, 1)}
    graph = _graph(op, tensors, {"b": np.array([1 << 23], "<i4")})
    with pytest.raises(UnsupportedError, match="channel 0 can reach 2147483648;"):
        select(Graph("g", graph.tensors, ("x", "w"), ("y",), graph.ops))
    graph = _graph(op, tensors, {"b": np.array([(1 << 23) - 1], "<i4")})
    assert len(select(Graph("g", graph.tensors, ("x", "w"), ("y",), graph.ops)).calls) == 1


def test_a_bias_that_is_not_constant_is_refused() -> None:
    op = FullyConnected(inputs=("x", "w", "b"), outputs=("y",), origin=(2,))
    tensors = {"x": _i8(1, 2), "w": _i8(1, 2), "b": TensorType((1,), DType.INT32), "y": _i8(1, 1)}
    graph = _graph(op, tensors, {"w": np.zeros(2, np.int8)})
    with pytest.raises(UnsupportedError) as caught:
        select(Graph("g", graph.tensors, ("x", "b"), ("y",), graph.ops))
    assert str(caught.value) == (
        "op 2 FullyConnected, output `y`: bias `b` is not a constant; its values must be known to bound the sums\n\n"
        "hint: change the model, or keep this operator on the CPU with `--operators-not-to-delegate`"
    )


def test_a_dimension_beyond_the_kernel_is_refused() -> None:
    op = Softmax(inputs=("x",), outputs=("y",), origin=(0,))
    with pytest.raises(UnsupportedError) as caught:
        select(_graph(op, {"x": _i8(1, 70_000), "y": _i8(1, 70_000)}, {}))
    assert caught.value.message == "kernel softmax_s8 cannot take it: depth is 70000, allowed are 1..65536"


def test_a_mean_over_too_many_elements_is_refused() -> None:
    op = Mean(inputs=("x",), outputs=("y",), origin=(0,), axes=(0, 1))
    with pytest.raises(UnsupportedError) as caught:
        select(_graph(op, {"x": _i8(4096, 2049), "y": _i8(1, 1)}, {}))
    assert caught.value.message == "kernel reduce_sum_s8 cannot take it: reduced is 8392704, allowed are 1..8388608"


def test_degenerate_scales_are_refused_at_their_op() -> None:
    op = Conv2D(inputs=("x", "w", "b"), outputs=("y",), origin=(9,))
    huge = Quant((2.0**31,), (0,))
    tensors = {"x": _i8(1, 1, 1, 1), "w": _i8(1, 1, 1, 1, quant=huge), "b": TensorType((1,), DType.INT32)}
    graph = _graph(op, {**tensors, "y": _i8(1, 1, 1, 1)}, {"w": np.zeros(1, np.int8), "b": np.zeros(1, "<i4")})
    with pytest.raises(UnsupportedError) as caught:
        select(graph)
    assert caught.value.message == "requantisation factor 2.14748e+09 is outside 0..2^30"
    assert caught.value.where == "op 9 Conv2D, output `y`"

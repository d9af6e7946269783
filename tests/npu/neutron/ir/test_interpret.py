"""The interpreter against rational arithmetic, and its complaints."""

import numpy as np
import pytest
from tests.npu.neutron.ir import naive
from tests.npu.neutron.ir.cases import CASES, case

from deuteron.errors import InputError, UnsupportedError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.interpret import run
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.ir.printer import OPS
from deuteron.npu.neutron.ir.verify import verify

SEEDS = range(12)


def test_every_operator_has_cases() -> None:
    assert set(CASES) == set(OPS.values())


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_equals_rational_arithmetic(kind: type[ops.Op]) -> None:
    for seed in SEEDS:
        graph, inputs = case(kind, seed)
        verify(graph)
        values = run(graph, inputs)
        (op,) = graph.ops
        assert values["y"].dtype == np.int8
        np.testing.assert_array_equal(values["y"], naive.evaluate(op, graph, values), f"seed {seed}")


def test_values_of_all_tensors_are_returned() -> None:
    graph, inputs = case(ops.Conv2D, 0)
    values = run(graph, inputs)
    assert set(values) == {"x", "w", "b", "y"}
    assert values["x"] is inputs[0]


CHAIN = parse_graph("""
    graph chain {
      input %x: i8[1,4] q(0.5:0)
      %r: i8[1,4] q(0.5:0) = unary(%x) function=relu
      %y: i8[4] q(0.5:0) = reshape(%r)
      output %y
    }
""")


def test_results_flow_from_op_to_op() -> None:
    x = np.array([[-3, 3, -128, 127]], np.int8)
    assert run(CHAIN, [x])["y"].tolist() == [0, 3, 0, 127]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "graph `chain` takes 1 input, found 0"),
        (
            [np.zeros((1, 5), np.int8)],
            "input `x` has shape [1, 5] and type int8; [1, 4] and int8 are required",
        ),
        (
            [np.zeros((1, 4), np.float32)],
            "input `x` has shape [1, 4] and type float32; [1, 4] and int8 are required",
        ),
    ],
)
def test_wrong_inputs(inputs: list[np.ndarray], message: str) -> None:
    with pytest.raises(InputError) as error:
        run(CHAIN, inputs)
    assert str(error.value) == message


def test_means_round_every_tie_to_even() -> None:
    for count in (3, 5, 6, 7, 12):
        op = "mean(%x) axes=(1) output %y"
        graph = parse_graph(f"graph g {{ input %x: i8[2,{count}] q(0.3:0) %y: i8[2] q(0.6:0) = {op} }}")
        x = np.zeros((2, count), np.int8)
        x[:, 0] = count, 3 * count  # 1 and 3 input steps on average, 1/2 and 3/2 of the output's
        assert run(graph, [x])["y"].tolist() == [0, 2]


def test_a_mean_under_one_quantization_rounds_its_ties_to_even() -> None:
    graph = parse_graph("graph g { input %x: i8[4,6] q(0.3:7) %y: i8[4] q(0.3:7) = mean(%x) axes=(1) output %y }")
    x = np.full((4, 6), 7, np.int8)
    x[:, 0] += np.array([3, 9, -3, -9], np.int8)
    assert run(graph, [x])["y"].tolist() == [7, 9, 7, 5]


def test_a_pool_divides_each_window_by_its_own_count() -> None:
    graph = parse_graph("""
        graph g {
          input %x: i8[1,3,3,1] q(0.1:0)
          %y: i8[1,3,3,1] q(0.1:0) = average_pool2d(%x) window=(3,3) stride=(1,1) pads=(1,1,1,1)
          output %y
        }
    """)
    x = np.array([[6, 0, 3], [0, 0, 0], [-3, 0, 9]], np.int8)
    means = run(graph, [x.reshape(1, 3, 3, 1)])["y"].reshape(3, 3)
    assert means.tolist() == [[2, 2, 1], [0, 2, 2], [-1, 1, 2]]  # 6/4, 9/6, 3/4; 3/6, 15/9, 12/6; -3/4, 6/6, 9/4


def test_a_sum_saturates() -> None:
    graph = parse_graph("graph g { input %x: i8[2,9] q(0.5:0) %y: i8[2] q(0.5:3) = sum(%x) axes=(1) output %y }")
    x = np.array([[127] * 9, [1] * 9], np.int8)
    assert run(graph, [x])["y"].tolist() == [127, 12]


def _dense(bias: int) -> Graph:
    return parse_graph(f"""
        graph dense {{
          input %x: i8[1,2] q(0.5:0)
          const %w: i8[2,2] q(0.25:0) = [1, 2, -127, 127]
          const %b: i32[2] q(0.125:0) = [0, {bias}]
          %y: i8[1,2] q(0.5:0) = fully_connected(%x, %w, %b)
          output %y
        }}
    """)


def test_an_accumulator_that_may_overflow_is_refused() -> None:
    room = 2**31 - 255 * 254
    run(_dense(room - 1), [np.zeros((1, 2), np.int8)])
    with pytest.raises(UnsupportedError) as error:
        run(_dense(-room), [np.zeros((1, 2), np.int8)])
    assert str(error.value) == (
        "the accumulator of output channel 1 can reach 2147483648; the NPU's is below 2^31\n\n"
        "hint: split the layer, or recalibrate: an outsized bias comes from a tiny input or weight scale"
    )

"""Both drivers compute every operator exactly as the interpreter defines it."""

from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from tests.npu.neutron.ir.cases import CASES, case

from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.interpret import run
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.kernels.catalogue import KERNELS
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.planner import plan
from deuteron.runtime.driver import Driver

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
DRIVERS: tuple[Literal["driver", "driver_ref"], ...] = ("driver", "driver_ref")
SEEDS = range(60)


def _check(graph: Graph, inputs: list[Array], note: str) -> None:
    """The drivers' outputs of the graph as it stands, without passes, are the interpreter's."""
    program = select(graph)
    container = encode(program, plan(program))
    decode(container)
    expected = run(graph, inputs)
    for name in DRIVERS:
        with Driver(name).load(container) as model:
            found = model.run([value.tobytes() for value in inputs])
        for output, data in zip(graph.outputs, found, strict=True):
            values = np.frombuffer(data, np.int8).reshape(graph.type(output).shape)
            np.testing.assert_array_equal(values, expected[output], f"{note}, {name}, output `{output}`")


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_drivers_agree_with_the_interpreter(kind: type[ops.Op]) -> None:
    for seed in SEEDS:
        graph, inputs = case(kind, seed)
        _check(graph, inputs, f"seed {seed}")


def test_the_operators_reach_every_kernel() -> None:
    calls = (call for kind in CASES for seed in range(10) for call in select(case(kind, seed)[0]).calls)
    assert {call.kernel for call in calls} == set(KERNELS)


@pytest.mark.parametrize(("depthwise", "channels"), [(False, 1), (False, 17), (True, 1), (True, 17)])
def test_windows_that_step_over_the_map_have_the_bias_only(depthwise: bool, channels: int) -> None:
    """Taps 3 apart round a map of 1 or 2 rows: some windows have no tap on it, and every output is still computed."""
    name, weights = ("depthwise_conv2d", "1,2,1,C") if depthwise else ("conv2d", "C,2,1,C")
    values = np.random.default_rng(channels).integers(-128, 128, 2 * channels * (1 if depthwise else channels))
    for rows in (1, 2):
        text = f"""graph sparse {{
          input %x: i8[1,{rows},1,{channels}] q(0.5:3)
          const %w: i8[{weights.replace("C", str(channels))}] q(0.25:0) = {values.tolist()}
          const %b: i32[{channels}] = {[1000] * channels}
          %y: i8[1,{rows + 1},1,{channels}] q(16.0:-5) = {name}(%x, %w, %b) dilation=(3,1) pads=(2,2,0,0)
          output %y
        }}"""
        inputs = [np.arange(rows * channels).reshape(1, rows, 1, channels).astype(np.int8)]
        graph = parse_graph(text)
        only_bias = -5 + round(Fraction(1000, 128))
        assert run(graph, inputs)["y"][0, 1, 0].tolist() == [only_bias] * channels
        _check(graph, inputs, f"{rows} rows")


@pytest.mark.parametrize("count", range(2, 65))
def test_ties_of_means_go_to_even(count: int) -> None:
    """With equal scales each sum s gives s / count; for an even count, count / 2 times an odd number is a tie."""
    zero = -7
    sums = np.array([count * halves // 2 + off for halves in range(-9, 10) for off in (-1, 0, 1)])
    x = np.full((len(sums), count), zero) + sums[:, None] // count
    x[np.arange(count) < (sums % count)[:, None]] += 1
    expected = [zero + round(Fraction(int(total), count)) for total in sums]
    text = f"""graph ties {{
      input %x: i8[{len(sums)},1,{count},1] q(0.3:{zero})
      %m: i8[{len(sums)},1,1,1] q(0.3:{zero}) = mean(%x) axes=(2)
      %p: i8[{len(sums)},1,1,1] q(0.3:{zero}) = average_pool2d(%x) window=(1,{count}) stride=(1,1)
      output %m
      output %p
    }}""".replace("0.3", repr(float(np.float32(0.3))))
    graph, inputs = parse_graph(text), [x.reshape(-1, 1, count, 1).astype(np.int8)]
    values = run(graph, inputs)
    assert values["m"].ravel().tolist() == values["p"].ravel().tolist() == expected
    _check(graph, inputs, f"count {count}")

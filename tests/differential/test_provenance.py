"""The provenance check finds every kind of wrong provenance."""

from dataclasses import replace

import pytest
from tests.differential.provenance import problems

from deuteron.npu.neutron.convert import Conversion, Fate, OpFate, Provenance, convert_graph
from deuteron.npu.neutron.ir import interpret
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.parser import parse_graph

GRAPH = """graph case {
  input %x: i8[1,4,4,2] q(0.5:-128)
  const %k: i8[8,2] q(0.5:0) = [1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]
  const %z: i32[2] q(0.25:0) = [0,0]
  %m: i8[1,2,2,2] q(0.5:-128) = max_pool2d(%x) window=(2,2) stride=(2,2) @[0]
  %n: i8[1,2,2,2] q(0.5:-128) = unary(%m) function=relu @[1]
  %r: i8[1,8] q(0.5:-128) = reshape(%n) @[2]
  %t: i8[2,8] q(0.5:0) = transpose(%k) perm=(1,0) @[3]
  %y: i8[1,2] q(2.0:0) = fully_connected(%r, %t, %z) @[4]
  %o: i8[1,2] q(0.03125:0) = unary(%y) function=tanh @[5]
  %q: i8[1,4,4,2] q(0.00390625:-128) = unary(%x) function=logistic @[6]
  output %o
  output %q
}"""
NAMES = ("MAX_POOL_2D", "RELU", "RESHAPE", "TRANSPOSE", "FULLY_CONNECTED", "TANH", "LOGISTIC")


@pytest.fixture
def graph() -> Graph:
    return parse_graph(GRAPH)


@pytest.fixture
def conversion(graph: Graph) -> Conversion:
    return convert_graph(graph, NAMES)


def found(graph: Graph, conversion: Conversion) -> list[str]:
    import numpy as np

    return [*problems(graph, conversion, interpret.run(graph, [np.arange(32, dtype=np.int8).reshape(1, 4, 4, 2)]))]


def test_a_right_one(graph: Graph, conversion: Conversion) -> None:
    assert [k.ops for k in conversion.provenance.kernels] == [(0, 1, 2), (4,), (5,), (6,)]
    assert [op.fate.value for op in conversion.provenance.ops] == [
        "kernels", "free", "free", "folded", "kernels", "kernels", "kernels",
    ]  # fmt: skip
    assert found(graph, conversion) == []


def _with(conversion: Conversion, index: int, ops: tuple[int, ...], fates: tuple[OpFate, ...] = ()) -> Conversion:
    """The conversion, but that kernel `index` names other operators, and with these fates."""
    kernels = list(conversion.provenance.kernels)
    kernels[index] = replace(kernels[index], ops=ops)
    calls = tuple(replace(c, origin=k.ops) for c, k in zip(conversion.program.calls, kernels, strict=True))
    kept = {fate.index: fate for fate in (*conversion.provenance.ops, *fates)}
    provenance = Provenance(tuple(kernels), tuple(kept.values()))
    return replace(conversion, provenance=provenance, program=replace(conversion.program, calls=calls))


def test_a_kernel_from_nowhere(graph: Graph, conversion: Conversion) -> None:
    broken = _with(conversion, 2, (), (OpFate(5, "TANH", Fate.KERNELS, ()),))
    assert found(graph, broken) == [
        "calls [2] come from no operator; outputs that are copies of inputs or constants: []",
        "op 5 (TANH) is named by no kernel call",
    ]


def test_an_operator_that_is_not_there(graph: Graph, conversion: Conversion) -> None:
    assert found(graph, _with(conversion, 2, (5, 9))) == ["call 2 (lut_s8) names an operator that is not there: (5, 9)"]


def test_operators_that_do_not_depend_on_each_other(graph: Graph, conversion: Conversion) -> None:
    broken = _with(conversion, 2, (5, 6), (OpFate(6, "LOGISTIC", Fate.KERNELS, (2, 3)),))
    assert found(graph, broken) == ["call 2 (lut_s8) names operators that do not depend on each other: (5, 6)"]


def test_both_ways_must_agree(graph: Graph, conversion: Conversion) -> None:
    broken = _with(conversion, 0, (0, 1, 2), (OpFate(0, "MAX_POOL_2D", Fate.KERNELS, (1,)),))
    assert found(graph, broken) == ["op 0 (MAX_POOL_2D) says kernels (1,), those that name it are (0,)"]


def test_a_computation_that_is_said_to_be_free(graph: Graph, conversion: Conversion) -> None:
    broken = _with(conversion, 1, (4,), (OpFate(4, "FULLY_CONNECTED", Fate.FREE, (1,)),))
    assert found(graph, broken) == ["op 4 (FULLY_CONNECTED) computes something, but no kernel of its own does"]


def test_a_free_operator_that_another_call_stands_for(graph: Graph, conversion: Conversion) -> None:
    moved = _with(conversion, 0, (0, 1), (OpFate(2, "RESHAPE", Fate.FREE, (1,)),))
    assert found(graph, _with(moved, 1, (2, 4))) == [
        "op 2 (RESHAPE) is named by calls (1,), those that compute beside it are (0,)"
    ]


def test_a_computation_that_is_said_to_be_folded(graph: Graph, conversion: Conversion) -> None:
    broken = _with(conversion, 1, (4,), (OpFate(4, "FULLY_CONNECTED", Fate.FOLDED, (1,)),))
    assert found(graph, broken) == ["op 4 (FULLY_CONNECTED) is folded, but its operands say otherwise"]


def test_the_program_must_say_the_same(graph: Graph, conversion: Conversion) -> None:
    right = conversion.provenance
    broken = replace(_with(conversion, 2, (4, 5)), provenance=right)
    assert found(graph, broken) == ["the provenance and the program name different operators"]

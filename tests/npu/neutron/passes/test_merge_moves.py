"""Transposes and reshapes that make the same of one tensor."""

from tests.npu.neutron.passes.text import check, check_unchanged, graph

from deuteron.npu.neutron.ir.ops import Transpose
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.passes.merge_moves import MergeMoves
from deuteron.npu.neutron.passes.pipeline import optimise

INPUTS = "input %x: i8[1,2,3] q(0.5:0)\ninput %z: i8[1,2,3] q(0.5:0)\n"


def test_what_parallel_branches_read_is_moved_once() -> None:
    check(
        MergeMoves(),
        INPUTS
        + """
%a: i8[1,3,2] q(0.5:0) = transpose(%x) perm=(0,2,1) @[0]
%b: i8[1,3,2] q(0.5:0) = transpose(%x) perm=(0,2,1) @[1]
%c: i8[1,3,2] q(0.5:0) = transpose(%x) perm=(0,2,1) @[2]
%d: i8[6] q(0.5:0) = reshape(%a) @[3]
%e: i8[6] q(0.5:0) = reshape(%c) @[4]
%f: i8[6] q(0.25:0) = quantize(%d) @[5]
%g: i8[6] q(0.25:0) = quantize(%e) @[6]
%h: i8[1,3,2] q(0.25:0) = quantize(%b) @[7]
output %f
output %g
output %h""",
        INPUTS.splitlines()[0]
        + """
input %z: i8[1,2,3] q(0.5:0)
%a: i8[1,3,2] q(0.5:0) = transpose(%x) perm=(0,2,1) @[0,1,2]
%d: i8[6] q(0.5:0) = reshape(%a) @[3,4]
%f: i8[6] q(0.25:0) = quantize(%d) @[5]
%g: i8[6] q(0.25:0) = quantize(%d) @[6]
%h: i8[1,3,2] q(0.25:0) = quantize(%a) @[7]
output %f
output %g
output %h""",
    )


def test_other_tensors_orders_and_shapes_stay() -> None:
    check_unchanged(
        MergeMoves(),
        INPUTS
        + """
%a: i8[1,3,2] q(0.5:0) = transpose(%x) perm=(0,2,1) @[0]
%b: i8[1,3,2] q(0.5:0) = transpose(%z) perm=(0,2,1) @[1]
%c: i8[3,2,1] q(0.5:0) = transpose(%x) perm=(2,1,0) @[2]
%d: i8[6] q(0.5:0) = reshape(%x) @[3]
%e: i8[2,3] q(0.5:0) = reshape(%x) @[4]
%f: i8[1,3,2] q(0.25:0) = quantize(%a) @[5]
%g: i8[1,3,2] q(0.25:0) = quantize(%b) @[6]
%h: i8[3,2,1] q(0.25:0) = quantize(%c) @[7]
%i: i8[6] q(0.25:0) = quantize(%d) @[8]
%j: i8[2,3] q(0.25:0) = quantize(%e) @[9]
output %f
output %g
output %h
output %i
output %j""",
    )


def test_outputs_of_the_graph_are_made_each() -> None:
    check_unchanged(
        MergeMoves(),
        INPUTS
        + """
%a: i8[1,3,2] q(0.5:0) = transpose(%x) perm=(0,2,1) @[0]
%b: i8[1,3,2] q(0.5:0) = transpose(%x) perm=(0,2,1) @[1]
%c: i8[1,3,2] q(0.5:0) = transpose(%x) perm=(0,2,1) @[2]
%d: i8[1,3,2] q(0.25:0) = quantize(%c) @[3]
output %a
output %b
output %d""",
    )


def test_three_branches_need_one_transpose() -> None:
    branches = "".join(
        f"""
%a{i}: i8[1,4,4,2] q(0.5:0) = transpose(%x) perm=(0,2,3,1) @[{2 * i}]
%b{i}: i8[1,3,3,2] q(0.5:0) = max_pool2d(%a{i}) window=(2,2) stride=(1,1) @[{2 * i + 1}]"""
        for i in range(3)
    )
    source = parse_graph(
        graph(
            f"""input %x: i8[1,2,4,4] q(0.5:0){branches}
%c: i8[1,3,3,6] q(0.5:0) = concat(%b0, %b1, %b2) axis=3 @[6]
%y: i8[1,6,3,3] q(0.5:0) = transpose(%c) perm=(0,3,1,2) @[7]
output %y"""
        )
    )
    transposes = [
        sum(isinstance(op, Transpose) for op in made.ops)
        for made in (optimise(source, excluded=(MergeMoves.name,)), optimise(source, verify_each=True))
    ]
    assert transposes == [4, 2]

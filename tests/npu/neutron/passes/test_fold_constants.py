"""Constants that are computed when the model is compiled."""

import base64

import pytest
from tests.npu.neutron.passes.text import check, check_unchanged, graph

from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.passes.fold_constants import FoldConstants


def test_transposed_weights_become_constants() -> None:
    check(
        FoldConstants(),
        """
        input %x: i8[1,2] q(0.5:0)
        const %w: i8[2,3] q(0.5:0) = [1,2,3,4,5,6]
        const %b: i32[3] = [0,0,0]
        %t: i8[3,2] q(0.5:0) = transpose(%w) perm=(1,0) @[0]
        %y: i8[1,3] q(0.5:0) = fully_connected(%x, %t, %b) @[1]
        output %y
        """,
        """
        input %x: i8[1,2] q(0.5:0)
        const %b: i32[3] = [0,0,0]
        const %t: i8[3,2] q(0.5:0) = [1,4,2,5,3,6]
        %y: i8[1,3] q(0.5:0) = fully_connected(%x, %t, %b) @[1]
        output %y
        """,
    )


def test_folding_goes_through_chains() -> None:
    check(
        FoldConstants(),
        """
        input %x: i8[2] q(0.5:0)
        const %c: i8[2] q(0.5:0) = [-3,4]
        %r: i8[2] q(0.5:0) = unary(%c) function=relu @[0]
        %s: i8[2] q(0.5:0) = add(%r, %c) @[1]
        %y: i8[2] q(0.5:0) = add(%x, %s) @[2]
        output %y
        """,
        """
        input %x: i8[2] q(0.5:0)
        const %s: i8[2] q(0.5:0) = [-3,8]
        %y: i8[2] q(0.5:0) = add(%x, %s) @[2]
        output %y
        """,
    )


def test_readers_of_a_constant_output_read_the_constant() -> None:
    check(
        FoldConstants(),
        """
        input %x: i8[2] q(0.5:0)
        const %c: i8[2] q(0.5:0) = [-3,4]
        %r: i8[2] q(0.5:0) = unary(%c) function=relu @[0]
        %s: i8[2] q(0.5:0) = add(%r, %c) @[1]
        %y: i8[2] q(0.5:0) = add(%x, %s) @[2]
        output %r
        output %y
        """,
        """
        input %x: i8[2] q(0.5:0)
        const %s: i8[2] q(0.5:0) = [-3,8]
        const %r.value: i8[2] q(0.5:0) = [0,4]
        %r: i8[2] q(0.5:0) = reshape(%r.value) @[0]
        %y: i8[2] q(0.5:0) = add(%x, %s) @[2]
        output %r
        output %y
        """,
    )


def test_a_constant_output_is_copied_from_a_new_constant() -> None:
    check(
        FoldConstants(),
        """
        input %x: i8[2] q(0.5:0)
        const %c: i8[2] q(0.5:0) = [-3,4]
        %y: i8[2] q(0.5:0) = unary(%c) function=relu @[7]
        output %y
        """,
        """
        input %x: i8[2] q(0.5:0)
        const %y.value: i8[2] q(0.5:0) = [0,4]
        %y: i8[2] q(0.5:0) = reshape(%y.value) @[7]
        output %y
        """,
    )


@pytest.mark.parametrize(
    ("constant", "op"),
    [
        ("i8[1] q(0.5:0) = [1]", "%s: i8[1048577] q(0.5:0) = pad(%c) paddings=((0,1048576)) value=0"),
        ("i8[1] q(0.5:0) = [1]", "%s: i8[1] q(2.220446049250313e-16:0) = add(%c, %c)"),
    ],
    ids=["a result beyond all bounds", "a factor that the NPU refuses"],
)
def test_some_ops_on_constants_stay(constant: str, op: str) -> None:
    body = f"input %x: i8[1] q(0.5:0)\nconst %c: {constant}\n{op} @[0]\noutput %s"
    check_unchanged(FoldConstants(), body)


def test_constants_that_are_large_already_are_folded() -> None:
    data = base64.b64encode(bytes(2_000_000)).decode()
    body = f"""
        const %c: i8[2,1000000] q(0.5:0) = base64"{data}"
        %t: i8[1000000,2] q(0.5:0) = transpose(%c) perm=(1,0) @[0]
        output %t
        """
    folded = FoldConstants().apply(parse_graph(graph(body)))
    assert [op.inputs for op in folded.ops] == [("t.value",)]

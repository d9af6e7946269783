"""Operators that change nothing, and those that seem so."""

import pytest
from tests.npu.neutron.passes.text import check, check_unchanged

from deuteron.npu.neutron.passes.remove_no_ops import RemoveNoOps


@pytest.mark.parametrize(
    "op",
    [
        "reshape(%a)",
        "transpose(%a) perm=(0,1,2,3)",
        "slice(%a) begin=(0,0,0,0)",
        "pad(%a) paddings=((0,0),(0,0),(0,0),(0,0)) value=3",
        "quantize(%a)",
        "concat(%a) axis=1",
        "unary(%a) function=relu",
        "max_pool2d(%a) window=(1,1) stride=(1,1)",
        "average_pool2d(%a) window=(1,1) stride=(1,1)",
        "mean(%a) axes=(0)",
        "add(%a, %zero)",
        "mul(%a, %one)",
    ],
)
def test_ops_that_change_nothing_go(op: str) -> None:
    constants = [
        line
        for name, line in (
            ("%zero", "const %zero: i8[1] q(0.125:7) = [7]"),
            ("%one", "const %one: i8[1] q(0.125:7) = [15]"),
        )
        if name in op
    ]
    head = "\n".join(["input %x: i8[1,2,2,1] q(0.5:-128)", *constants])
    first = "%a: i8[1,2,2,1] q(0.5:-128) = unary(%x) function=relu6 @[0]"
    last = "%y: i8[1,2,2,1] q(0.5:-128) = unary({}) function=relu6 @[2]\noutput %y"
    check(
        RemoveNoOps(),
        f"{head}\n{first}\n%n: i8[1,2,2,1] q(0.5:-128) = {op} @[1]\n{last.format('%n')}",
        f"input %x: i8[1,2,2,1] q(0.5:-128)\n{first}\n{last.format('%a')}",
    )


@pytest.mark.parametrize(
    "op",
    [
        "unary(%x) function=relu6",  # 6.0 is stored as -116, which cuts off
        "max_pool2d(%x) window=(1,1) stride=(1,1) clamp=(-128,5)",
        "add(%x, %half)",
        "add(%x, %zero) clamp=(-128,100)",
        "add(%x, %vast)",  # a scale that the NPU, hence the interpreter, refuses
        "mul(%x, %half)",
    ],
)
def test_ops_that_change_something_stay(op: str) -> None:
    constants = [
        line
        for name, line in (
            ("%zero", "const %zero: i8[1] q(0.125:7) = [7]"),
            ("%half", "const %half: i8[1] q(0.125:7) = [11]"),
            ("%vast", "const %vast: i8[1] q(536870912.0:7) = [7]"),
        )
        if name in op
    ]
    body = "\n".join(
        [
            "input %x: i8[1,2,2,1] q(0.5:-128)",
            *constants,
            f"%y: i8[1,2,2,1] q(0.5:-128) = {op} @[0]",
            "output %y",
        ]
    )
    check_unchanged(RemoveNoOps(), body)


def test_an_output_keeps_its_name_when_the_op_before_it_takes_over() -> None:
    check(
        RemoveNoOps(),
        """
        input %x: i8[2] q(0.5:-128)
        %a: i8[2] q(0.5:-128) = unary(%x) function=relu6 @[0]
        %y: i8[2] q(0.5:-128) = quantize(%a) @[1]
        %z: i8[2] q(0.25:0) = quantize(%a) @[2]
        output %y
        output %z
        """,
        """
        input %x: i8[2] q(0.5:-128)
        %y: i8[2] q(0.5:-128) = unary(%x) function=relu6 @[0]
        %z: i8[2] q(0.25:0) = quantize(%y) @[2]
        output %y
        output %z
        """,
    )


def test_between_input_and_output_a_copy_stays() -> None:
    check(
        RemoveNoOps(),
        """
        input %x: i8[2] q(0.5:-128)
        %a: i8[2] q(0.5:-128) = quantize(%x) @[0]
        %y: i8[2] q(0.5:-128) = unary(%a) function=relu @[1]
        output %y
        """,
        """
        input %x: i8[2] q(0.5:-128)
        %y: i8[2] q(0.5:-128) = reshape(%x) @[1]
        output %y
        """,
    )

"""Activations and padding that join the neighbouring kernel, and tables that join each other."""

import numpy as np
import pytest
from tests.npu.neutron.passes.text import check, check_unchanged

from deuteron.npu.neutron.ir.interpret import run
from deuteron.npu.neutron.ir.ops import Lookup
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.passes.fuse_activation import FuseActivation
from deuteron.npu.neutron.passes.fuse_padding import FusePadding
from deuteron.npu.neutron.passes.fuse_tables import FuseTables

CONV = """const %w: i8[1,3,3,1] q(0.5:0) = [1,2,3,4,5,6,7,8,9]
        const %b: i32[1] = [10]"""
"""Constants of a convolution, for a text that is indented by eight."""


def test_an_activation_of_the_same_quantization_joins_the_convolution() -> None:
    check(
        FuseActivation(),
        f"""
        input %x: i8[1,4,4,1] q(0.5:0)
        {CONV}
        %a: i8[1,2,2,1] q(0.25:-20) = conv2d(%x, %w, %b) clamp=(-100,90) @[0]
        %y: i8[1,2,2,1] q(0.25:-20) = unary(%a) function=relu6 @[1]
        output %y
        """,
        f"""
        input %x: i8[1,4,4,1] q(0.5:0)
        {CONV}
        %y: i8[1,2,2,1] q(0.25:-20) = conv2d(%x, %w, %b) clamp=(-20,4) @[0,1]
        output %y
        """,
    )


@pytest.mark.parametrize(
    "rest",
    [
        "%y: i8[2] q(0.5:0) = unary(%a) function=relu @[1]\noutput %y",  # rounds twice
        "%y: i8[2] q(0.25:0) = unary(%a) function=relu @[1]\noutput %y\noutput %a",  # read by the caller
        "%y: i8[2] q(0.25:0) = unary(%a) function=relu @[1]\n"
        "%z: i8[2] q(1.0:0) = quantize(%a) @[2]\noutput %y\noutput %z",
    ],
)
def test_an_activation_stays_apart(rest: str) -> None:
    body = f"input %x: i8[2] q(0.5:0)\n%a: i8[2] q(0.25:0) = add(%x, %x) @[0]\n{rest}"
    check_unchanged(FuseActivation(), body)


def test_activations_in_a_row_join_one_after_the_other() -> None:
    check(
        FuseActivation(),
        """
        input %x: i8[2] q(0.5:0)
        %a: i8[2] q(0.5:0) = add(%x, %x) @[0]
        %b: i8[2] q(0.5:0) = unary(%a) function=relu @[1]
        %c: i8[2] q(0.5:0) = unary(%b) function=relu6 @[2]
        output %c
        """,
        """
        input %x: i8[2] q(0.5:0)
        %c: i8[2] q(0.5:0) = add(%x, %x) clamp=(0,12) @[0,1,2]
        output %c
        """,
    )


PADDED_CONV = f"""
        input %x: i8[1,4,4,1] q(0.5:9)
        {CONV}
        %p: i8[1,6,6,1] q(0.5:9) = pad(%x) paddings=((0,0),(1,1),(1,1),(0,0)) value=9 @[0]
        %y: i8[1,4,4,1] q(0.5:0) = conv2d(%p, %w, %b) @[1]
        output %y
"""


def test_padding_with_real_zero_joins_a_convolution() -> None:
    check(
        FusePadding(),
        PADDED_CONV,
        f"""
        input %x: i8[1,4,4,1] q(0.5:9)
        {CONV}
        %y: i8[1,4,4,1] q(0.5:0) = conv2d(%x, %w, %b) pads=(1,1,1,1) @[0,1]
        output %y
        """,
    )


def test_padding_with_another_value_stays() -> None:
    check_unchanged(FusePadding(), PADDED_CONV.replace("value=9", "value=0"))


@pytest.mark.parametrize(
    ("paddings", "shape", "result"),
    [("((0,0),(3,0),(1,1),(0,0))", "[1,7,6,1]", "[1,5,4,1]"), ("((1,0),(1,1),(1,1),(0,0))", "[2,6,6,1]", "[2,4,4,1]")],
)
def test_padding_beyond_what_the_kernel_does_stays(paddings: str, shape: str, result: str) -> None:
    body = PADDED_CONV.replace("((0,0),(1,1),(1,1),(0,0))", paddings).replace("[1,6,6,1]", shape)
    check_unchanged(FusePadding(), body.replace("%y: i8[1,4,4,1]", f"%y: i8{result}"))


def test_padding_with_the_least_value_joins_a_max_pool() -> None:
    check(
        FusePadding(),
        """
        input %x: i8[1,4,4,1] q(0.5:9)
        %p: i8[1,5,5,1] q(0.5:9) = pad(%x) paddings=((0,0),(1,0),(0,1),(0,0)) value=-128 @[0]
        %y: i8[1,4,4,1] q(0.5:9) = max_pool2d(%p) window=(2,2) stride=(1,1) @[1]
        output %y
        """,
        """
        input %x: i8[1,4,4,1] q(0.5:9)
        %y: i8[1,4,4,1] q(0.5:9) = max_pool2d(%x) window=(2,2) stride=(1,1) pads=(1,0,0,1) @[0,1]
        output %y
        """,
    )


def test_an_average_pool_keeps_its_padding() -> None:
    check_unchanged(
        FusePadding(),
        """
        input %x: i8[1,4,4,1] q(0.5:-128)
        %p: i8[1,5,5,1] q(0.5:-128) = pad(%x) paddings=((0,0),(1,0),(0,1),(0,0)) value=-128 @[0]
        %y: i8[1,4,4,1] q(0.5:-128) = average_pool2d(%p) window=(2,2) stride=(1,1) @[1]
        output %y
        """,
    )


def test_functions_in_a_row_are_one_table() -> None:
    before = parse_graph(
        """graph g {
        input %x: i8[2] q(0.5:0)
        %a: i8[2] q(0.0078125:0) = unary(%x) function=tanh @[0]
        %b: i8[2] q(0.01:3) = quantize(%a) @[1]
        %y: i8[2] q(0.02:-128) = unary(%b) function=abs @[2]
        output %y
        }"""
    )
    after = FuseTables().apply(before)
    (op,) = after.ops
    assert isinstance(op, Lookup)
    assert (op.inputs, op.outputs, op.origin) == (("x",), ("y",), (0, 1, 2))
    every = np.arange(-128, 128, dtype=np.int8).reshape(128, 2)
    for pair in every:
        np.testing.assert_array_equal(run(after, [pair])["y"], run(before, [pair])["y"])


@pytest.mark.parametrize("rest", ["output %a", "%z: i8[2] q(0.5:0) = add(%a, %a) @[2]\noutput %z"])
def test_a_table_whose_result_others_read_stays_apart(rest: str) -> None:
    check_unchanged(
        FuseTables(),
        f"""
        input %x: i8[2] q(0.5:0)
        %a: i8[2] q(0.25:0) = unary(%x) function=abs @[0]
        %y: i8[2] q(0.5:0) = quantize(%a) @[1]
        output %y
        {rest}
        """,
    )

"""Each pass on the smallest graphs that show what it does and what it must leave alone."""

import base64

import pytest
from tests.passes.text import check, check_unchanged, graph

from deuteron.errors import VerifyError
from deuteron.ir.graph import Graph
from deuteron.ir.parser import parse_graph
from deuteron.ir.printer import format_graph
from deuteron.passes import pipeline
from deuteron.passes.canonicalise import Canonicalise
from deuteron.passes.fold_constants import FoldConstants
from deuteron.passes.fuse_activation import FuseActivation
from deuteron.passes.fuse_padding import FusePadding
from deuteron.passes.remove_no_ops import RemoveNoOps
from deuteron.passes.simplify_transposes import SimplifyTransposes

CONV = """const %w: i8[1,3,3,1] q(0.5:0) = [1,2,3,4,5,6,7,8,9]
        const %b: i32[1] = [10]"""
"""Constants of a convolution, for a text that is indented by eight."""


# Constant folding.


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


# Canonical form.


def test_dead_ops_go() -> None:
    check(
        Canonicalise(),
        """
        input %x: i8[2] q(0.5:0)
        %a: i8[2] q(0.5:0) = unary(%x) function=relu @[0]
        %dead: i8[2] q(0.5:0) = unary(%a) function=relu6 @[1]
        output %a
        """,
        """
        input %x: i8[2] q(0.5:0)
        %a: i8[2] q(0.5:0) = unary(%x) function=relu @[0]
        output %a
        """,
    )


def test_constants_stand_second() -> None:
    check(
        Canonicalise(),
        """
        input %x: i8[2] q(0.5:0)
        const %c: i8[2] q(0.25:0) = [1,2]
        %y: i8[2] q(0.5:0) = mul(%c, %x) @[0]
        output %y
        """,
        """
        input %x: i8[2] q(0.5:0)
        const %c: i8[2] q(0.25:0) = [1,2]
        %y: i8[2] q(0.5:0) = mul(%x, %c) @[0]
        output %y
        """,
    )


def test_a_reshape_reads_no_reshape_and_keeps_both_origins() -> None:
    check(
        Canonicalise(),
        """
        input %x: i8[2,3] q(0.5:0)
        %a: i8[6] q(0.5:0) = reshape(%x) @[0]
        %y: i8[3,2] q(0.5:0) = reshape(%a) @[1]
        output %y
        """,
        """
        input %x: i8[2,3] q(0.5:0)
        %y: i8[3,2] q(0.5:0) = reshape(%x) @[0,1]
        output %y
        """,
    )


def test_a_mean_over_single_elements_is_a_reshape_unless_it_requantises() -> None:
    check(
        Canonicalise(),
        """
        input %x: i8[1,1,3] q(0.5:0)
        %y: i8[3] q(0.5:0) = mean(%x) axes=(0,1) @[0]
        %z: i8[3] q(0.25:0) = mean(%x) axes=(0,1) @[1]
        output %y
        output %z
        """,
        """
        input %x: i8[1,1,3] q(0.5:0)
        %y: i8[3] q(0.5:0) = reshape(%x) @[0]
        %z: i8[3] q(0.25:0) = mean(%x) axes=(0,1) @[1]
        output %y
        output %z
        """,
    )


# Transposes.


def test_transposes_join() -> None:
    check(
        SimplifyTransposes(),
        """
        input %x: i8[2,3,4] q(0.5:0)
        %a: i8[3,4,2] q(0.5:0) = transpose(%x) perm=(1,2,0) @[0]
        %y: i8[4,3,2] q(0.5:0) = transpose(%a) perm=(1,0,2) @[1]
        output %y
        """,
        """
        input %x: i8[2,3,4] q(0.5:0)
        %y: i8[4,3,2] q(0.5:0) = transpose(%x) perm=(2,1,0) @[0,1]
        output %y
        """,
    )


def test_a_transpose_stays_for_its_other_readers() -> None:
    check(
        SimplifyTransposes(),
        """
        input %x: i8[2,3] q(0.5:0)
        %a: i8[3,2] q(0.5:0) = transpose(%x) perm=(1,0) @[0]
        %b: i8[2,3] q(0.5:0) = transpose(%a) perm=(1,0) @[1]
        output %a
        output %b
        """,
        """
        input %x: i8[2,3] q(0.5:0)
        %a: i8[3,2] q(0.5:0) = transpose(%x) perm=(1,0) @[0]
        %b: i8[2,3] q(0.5:0) = reshape(%x) @[0,1]
        output %a
        output %b
        """,
    )


def test_a_transpose_that_moves_single_elements_only_is_a_reshape() -> None:
    check(
        SimplifyTransposes(),
        """
        input %x: i8[1,1,49,10] q(0.5:0)
        %y: i8[1,49,10,1] q(0.5:0) = transpose(%x) perm=(0,2,3,1) @[0]
        output %y
        """,
        """
        input %x: i8[1,1,49,10] q(0.5:0)
        %y: i8[1,49,10,1] q(0.5:0) = reshape(%x) @[0]
        output %y
        """,
    )


# No-ops.


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


# Activations.


def test_an_activation_of_the_same_quantisation_joins_the_convolution() -> None:
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


# Padding.

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


# The pipeline.


def test_passes_help_each_other_in_a_second_round() -> None:
    source = parse_graph(
        graph(
            """
            input %x: i8[1,1,2,3] q(0.5:-128)
            %a: i8[1,2,3,1] q(0.5:-128) = transpose(%x) perm=(0,2,3,1) @[0]
            %b: i8[1,2,3,1] q(0.5:-128) = unary(%a) function=relu @[1]
            %c: i8[1,1,2,3] q(0.5:-128) = transpose(%b) perm=(0,3,1,2) @[2]
            %y: i8[1,1,2,3] q(0.25:0) = quantize(%c) @[3]
            output %y
            """
        )
    )
    expected = """
        input %x: i8[1,1,2,3] q(0.5:-128)
        %y: i8[1,1,2,3] q(0.25:0) = quantize(%x) @[3]
        output %y
        """
    assert format_graph(pipeline.optimise(source, verify_each=True)) == graph(expected)


def test_pass_names_are_unique() -> None:
    names = [step.name for step in pipeline.passes()]
    assert names == [
        "fold-constants",
        "canonicalise",
        "simplify-transposes",
        "push-transposes",
        "remove-no-ops",
        "fuse-activation",
        "fuse-padding",
    ]


class _Breaks:
    """A pass with a defect: it forgets the ops."""

    name = "break"

    def apply(self, graph: Graph) -> Graph:
        return graph.with_ops(())


def test_verify_each_names_the_pass_that_broke_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "passes", lambda: (_Breaks(),))
    source = parse_graph(
        graph(
            """
            input %x: i8[2] q(0.5:0)
            %y: i8[2] q(0.5:0) = unary(%x) function=relu @[0]
            output %y
            """
        )
    )
    with pytest.raises(VerifyError) as caught:
        pipeline.optimise(source, verify_each=True)
    assert caught.value.where == "after pass `break`: graph `g`"

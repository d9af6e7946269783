"""Transposes on their way to the outputs: as far as one application takes them, and what holds them back."""

from tests.npu.neutron.passes.text import check, check_unchanged

from deuteron.npu.neutron.passes.push_transposes import PushTransposes


def test_a_transpose_passes_all_ops_in_a_row_at_once() -> None:
    check(
        PushTransposes(),
        """
        input %x: i8[2,3] q(0.5:0)
        %t: i8[3,2] q(0.5:0) = transpose(%x) perm=(1,0) @[0]
        %a: i8[3,2] q(0.5:0) = unary(%t) function=abs @[1]
        %b: i8[3,2] q(0.5:0) = unary(%a) function=exp @[2]
        %y: i8[3,2] q(0.5:0) = unary(%b) function=log @[3]
        output %y
        """,
        """
        input %x: i8[2,3] q(0.5:0)
        %a/untransposed: i8[2,3] q(0.5:0) = unary(%x) function=abs @[1]
        %b/untransposed: i8[2,3] q(0.5:0) = unary(%a/untransposed) function=exp @[2]
        %y/untransposed: i8[2,3] q(0.5:0) = unary(%b/untransposed) function=log @[3]
        %y: i8[3,2] q(0.5:0) = transpose(%y/untransposed) perm=(1,0) @[0]
        output %y
        """,
    )


def test_new_names_keep_clear_of_those_in_the_graph() -> None:
    check(
        PushTransposes(),
        """
        input %y/untransposed: i8[2,3] q(0.5:0)
        %t: i8[3,2] q(0.5:0) = transpose(%y/untransposed) perm=(1,0) @[0]
        %y: i8[3,2] q(0.5:0) = unary(%t) function=abs @[1]
        output %y
        """,
        """
        input %y/untransposed: i8[2,3] q(0.5:0)
        %"y/untransposed#1": i8[2,3] q(0.5:0) = unary(%y/untransposed) function=abs @[1]
        %y: i8[3,2] q(0.5:0) = transpose(%"y/untransposed#1") perm=(1,0) @[0]
        output %y
        """,
    )


def test_a_constant_of_more_dimensions_holds_a_transpose_back() -> None:
    check_unchanged(
        PushTransposes(),
        """
        input %x: i8[2,3] q(0.5:0)
        const %c: i8[1,3,2] q(0.5:0) = [1,2,3,4,5,6]
        %t: i8[3,2] q(0.5:0) = transpose(%x) perm=(1,0) @[0]
        %y: i8[1,3,2] q(0.5:0) = add(%t, %c) @[1]
        output %y
        """,
    )

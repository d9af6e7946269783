"""Transposes that join or move nothing."""

from tests.npu.neutron.passes.text import check

from deuteron.npu.neutron.passes.simplify_transposes import SimplifyTransposes


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

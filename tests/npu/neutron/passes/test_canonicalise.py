"""One form for graphs that mean the same."""

from tests.npu.neutron.passes.text import check

from deuteron.npu.neutron.passes.canonicalise import Canonicalise


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


def test_a_mean_over_single_elements_is_a_reshape_unless_it_requantizes() -> None:
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

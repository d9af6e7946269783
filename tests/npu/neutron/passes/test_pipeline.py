"""The passes together."""

import pytest
from tests.npu.neutron.passes.text import graph

from deuteron.errors import VerifyError
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.ir.printer import format_graph
from deuteron.npu.neutron.passes import pipeline


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
        "fuse-tables",
        "merge-moves",
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

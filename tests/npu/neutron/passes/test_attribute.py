"""Operators without a kernel call of their own: the calls that stand for them name them."""

import pytest

from deuteron.npu.neutron.convert import convert_graph
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.provenance import Fate


def _kernels(body: str, ops: int) -> tuple[list[tuple[int, ...]], list[Fate]]:
    """The operators that each call names, and the fate of each operator."""
    provenance = convert_graph(parse_graph(f"graph case {{\n{body}\n}}"), ("OP",) * ops).provenance
    return [kernel.ops for kernel in provenance.kernels], [op.fate for op in provenance.ops]


@pytest.mark.parametrize(
    ("body", "kernels", "fates"),
    [
        pytest.param(
            """input %x: i8[4] q(0.5:0)
               %a: i8[2,2] q(0.5:0) = reshape(%x) @[0]
               output %a""",
            [(0,)],
            [Fate.KERNELS],
            id="a reshape alone is a copy",
        ),
        pytest.param(
            """input %x: i8[4] q(0.5:0)
               %a: i8[2,2] q(0.5:0) = reshape(%x) @[0]
               %b: i8[2,2] q(1.0:0) = quantize(%a) @[1]
               %c: i8[4] q(1.0:0) = reshape(%b) @[2]
               output %c""",
            [(0, 1, 2)],
            [Fate.FREE, Fate.KERNELS, Fate.FREE],
            id="at an input with the reader, else with the writer",
        ),
        pytest.param(
            """input %x: i8[4] q(0.5:-128)
               %a: i8[4] q(1.0:-128) = quantize(%x) @[0]
               %b: i8[4] q(1.0:-128) = unary(%a) function=relu @[1]
               %c: i8[2,2] q(1.0:-128) = reshape(%b) @[2]
               %d: i8[2,2] q(2.0:-128) = quantize(%c) @[3]
               output %d""",
            [(0, 1, 2), (3,)],
            [Fate.KERNELS, Fate.FREE, Fate.FREE, Fate.KERNELS],
            id="several in a row go to one call",
        ),
        pytest.param(
            """input %x: i8[4] q(0.5:0)
               %a: i8[2,2] q(0.5:0) = reshape(%x) @[0]
               %b: i8[2,2] q(1.0:0) = quantize(%a) @[1]
               %c: i8[2,2] q(2.0:0) = quantize(%a) @[2]
               output %b
               output %c""",
            [(0, 1), (0, 2)],
            [Fate.FREE, Fate.KERNELS, Fate.KERNELS],
            id="every reader stands for it",
        ),
        pytest.param(
            """input %x: i8[4] q(0.5:0)
               const %k: i8[4] q(0.5:0) = [1,2,3,4]
               %a: i8[4] q(0.25:0) = quantize(%k) @[0]
               %b: i8[4] q(1.0:0) = add(%x, %a) @[1]
               %c: i8[4] q(2.0:0) = quantize(%x) @[2]
               output %b""",
            [(1,)],
            [Fate.FOLDED, Fate.KERNELS, Fate.UNUSED],
            id="what is folded or unused has no kernel",
        ),
    ],
)
def test_operators_without_a_kernel_of_their_own(body: str, kernels: list[tuple[int, ...]], fates: list[Fate]) -> None:
    assert _kernels(body, len(fates)) == (kernels, fates)

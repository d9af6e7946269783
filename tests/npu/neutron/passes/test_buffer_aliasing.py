"""Concatenations along channels: which convolutions write straight into the joined map."""

import numpy as np
import pytest
from tests.npu.neutron.passes.text import graph

from deuteron.npu.neutron.ir.interpret import run
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.machine import hazards
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.operators.kernel_params import Conv2DParams
from deuteron.planner import plan
from deuteron.planner.weight_tiling import tile
from deuteron.runtime.driver import Driver


def _branches(first: int, second: int, tail: str) -> str:
    """A map of 2x3 positions through two convolutions with so many filters, `%a` and `%b`."""
    random = np.random.default_rng(first)
    lines = ["input %x: i8[1,2,3,4] q(0.5:3)"]
    for name, filters in (("a", first), ("b", second)):
        weights, bias = random.integers(-9, 9, filters * 4), random.integers(-99, 99, filters)
        lines += [
            f"const %w{name}: i8[{filters},1,1,4] q(0.25:0) = {weights.tolist()}".replace(", ", ","),
            f"const %c{name}: i32[{filters}] = {bias.tolist()}".replace(", ", ","),
            f"%{name}: i8[1,2,3,{filters}] q(0.75:-5) = conv2d(%x, %w{name}, %c{name}) @[0]",
        ]
    return graph("\n".join([*lines, *tail.splitlines()]))


JOINED = """%j: i8[1,2,3,{both}] q(0.75:-5) = concat(%a, %b) axis=3 @[1]
%y: i8[1,2,3,{both}] q(0.5:0) = quantize(%j) @[2]
output %y"""
STRAIGHT = """%y: i8[1,2,3,{both}] q(0.75:-5) = concat(%a, %b) axis=3 @[1]
output %y"""
TWICE = """%y: i8[1,2,3,{both}] q(0.75:-5) = concat(%a, %b) axis=3 @[1]
%z: i8[1,2,3,{second}] q(0.5:0) = quantize(%b) @[2]
output %y
output %z"""


@pytest.mark.parametrize(
    ("first", "second", "tail", "copies", "pitches"),
    [
        (16, 40, JOINED, 0, [56, 56]),
        (24, 16, JOINED, 1, [40, 16]),  # the second would begin at no multiple of the alignment
        (3, 5, STRAIGHT, 0, [8, 8]),  # the caller's outputs may begin anywhere
        (16, 16, TWICE, 1, [32, 16]),  # another kernel reads the second one, without a pitch
    ],
)
def test_convolutions_write_between_the_channels_of_others(
    first: int, second: int, tail: str, copies: int, pitches: list[int]
) -> None:
    source = parse_graph(_branches(first, second, tail.format(both=first + second, second=second)))
    program = select(source)
    assert [call.kernel.name for call in program.calls].count("copy_s8") == copies
    found = [call.params.out_pitch for call in program.calls if isinstance(call.params, Conv2DParams)]
    assert found == pitches
    x = np.random.default_rng(1).integers(-128, 128, (1, 2, 3, 4)).astype(np.int8)
    wanted = run(source, [x])
    for pieces in (program, tile(program, 0).program):
        planned = plan(pieces)
        container = encode(pieces, planned)
        assert hazards(decode(container), dataflow(pieces, planned.constants)) == ()
        outputs = Driver().run(container, [x.tobytes()])
        assert outputs == [wanted[name].tobytes() for name in source.outputs]

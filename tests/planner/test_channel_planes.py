"""Copies of an input's planes, one call each: together they copy the same bytes, and rows of planes die apart."""

import base64
import math
import random
from dataclasses import replace

import pytest
from tests.npu.neutron.machine.planned_programs import PROCESSOR, plan_or_least

from deuteron.arch.memory import DepthFirst, FetchPolicy
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.kernels.catalogue import COPY
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.kernels.processor import CALLS
from deuteron.npu.neutron.machine import hazards
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.operators.access_footprint import reached_by
from deuteron.operators.kernel_params import CopyParams
from deuteron.operators.program import Buffer, KernelCall, Program, Ref
from deuteron.operators.rules import operand_bytes
from deuteron.planner import Budget, check, plan
from deuteron.planner.channel_planes import by_planes
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.liveness import ChainLiveness
from deuteron.planner.packing_multipart import forbidden_distances
from deuteron.planner.stripes import Cascade, RowAnalysis, cut_into_stripes
from deuteron.runtime.driver import Driver

CHANNELS, HEIGHT, WIDTH = 3, 8, 16
PLANE = HEIGHT * WIDTH

PERMUTE = CopyParams(0, (1, 1, 1, HEIGHT, WIDTH, CHANNELS), (0, 0, 0, WIDTH, 1, PLANE), (0, 0, 0, 48, 3, 1))

POOLED = """graph network {
  input %x: i8[1,3,8,16] q(0.5:3)
  %m: i8[1,8,16,3] q(0.5:3) = transpose(%x) perm=(0,2,3,1) @[0]
  %y: i8[1,8,16,3] q(0.5:3) = max_pool2d(%m) window=(1,1) stride=(1,1) @[1]
  output %y
}
"""


def image_network(seed: int) -> str:
    """A network of an image with its colours in planes, as text."""
    choose = random.Random(seed)
    colours, height, width = choose.randint(2, 4), choose.randint(6, 24), choose.randint(4, 24)
    lines = [
        f"input %x: i8[1,{colours},{height},{width}] q(0.5:3)",
        f"%v: i8[1,{height},{width},{colours}] q(0.5:3) = transpose(%x) perm=(0,2,3,1) @[0]",
    ]
    last, channels = "v", colours
    for at in range(choose.randint(1, 5)):
        kind = choose.choice(("conv", "conv", "depthwise", "pool", "sum"))
        stride = choose.choice((1, 1, 2)) if kind != "sum" else 1
        filters = choose.choice((4, 8, 16, 24)) if kind == "conv" else channels
        after_h, after_w = -(-height // stride), -(-width // stride)
        shape = f"i8[1,{after_h},{after_w},{filters}] q(0.5:3)"
        ends = f"pads=({','.join(str(n) for n in _pads(height, width, stride))}) stride=({stride},{stride}) @[{at + 1}]"
        if kind in ("conv", "depthwise"):
            taps = (filters, 3, 3, channels) if kind == "conv" else (1, 3, 3, channels)
            weights = base64.b64encode(choose.randbytes(math.prod(taps))).decode()
            lines.append(f'const %w{at}: i8[{",".join(map(str, taps))}] q(0.25:0) = base64"{weights}"')
            lines.append(f"const %b{at}: i32[{filters}] = [{','.join(['5'] * filters)}]")
            name = "conv2d" if kind == "conv" else "depthwise_conv2d"
            lines.append(f"%v{at}: {shape} = {name}(%{last}, %w{at}, %b{at}) {ends}")
        elif kind == "pool":
            lines.append(f"%v{at}: {shape} = max_pool2d(%{last}) window=(3,3) {ends}")
        else:
            lines.append(f"%v{at}: {shape} = add(%{last}, %{last}) @[{at + 1}]")
        last, channels, height, width = f"v{at}", filters, after_h, after_w
    return "graph network {\n" + "".join(f"  {line}\n" for line in (*lines, f"output %{last}")) + "}\n"


def _pads(height: int, width: int, stride: int) -> tuple[int, int, int, int]:
    """Before and after rows, before and after columns, of windows of three."""
    across = [max((-(-size // stride) - 1) * stride + 3 - size, 0) for size in (height, width)]
    return across[0] // 2, across[0] - across[0] // 2, across[1] // 2, across[1] - across[1] // 2


def permuted(params: CopyParams, *, start: int = 0) -> Program:
    """One copy of an input, from byte `start` of it on, to a value that another copy gives to the caller."""
    reads, writes = operand_bytes(params)
    onward = CopyParams(0, (1, 1, 1, 1, 8, 48), (0, 0, 0, 0, 48, 1), (0, 0, 0, 0, 48, 1))
    calls = (
        KernelCall(COPY, (Ref("x", start, reads), Ref("m", 0, writes)), params, (0,)),
        KernelCall(COPY, (Ref("m", 0, 384), Ref("y", 0, 384)), onward, (1,)),
    )
    buffers = (Buffer("x", start + reads), Buffer("m", 384), Buffer("y", 384))
    return Program(buffers, ("x",), ("y",), calls).with_ends_placed


def copied(call: KernelCall) -> set[tuple[int, int]]:
    """Pairs of bytes: of what is read, and where it goes."""
    reached = reached_by(call.params)
    reads, writes = (reached[at] + ref.offset for at, ref in enumerate(call.operands))
    return set(zip(reads.tolist(), writes.tolist(), strict=True))


@pytest.mark.parametrize("start", [0, 32])
def test_the_planes_together_are_the_copy(start: int) -> None:
    program = permuted(replace(PERMUTE, in_start=5), start=start)
    *pieces, onward = by_planes(program).calls
    assert onward == program.calls[1]
    assert [piece.operands[0] for piece in pieces] == [
        Ref("x", start + 5 + plane * PLANE, PLANE) for plane in range(CHANNELS)
    ]
    assert all(operand_bytes(piece.params) == tuple(ref.nbytes for ref in piece.operands) for piece in pieces)
    copies = [copied(piece) for piece in pieces]
    assert sum(map(len, copies)) == CHANNELS * PLANE
    assert set().union(*copies) == copied(program.calls[0])


def test_rows_of_each_plane_are_free_when_they_were_read() -> None:
    program = by_planes(select(parse_graph(POOLED)).with_ends_placed)
    assert [call.kernel.name for call in program.calls] == [*["copy_s8"] * CHANNELS, "max_pool_s8"]
    cut = cut_into_stripes(program, (Cascade(0, 4, 4),), CALLS)
    assert cut is not None
    (block,) = (block for block in lifetimes(cut) if block.buffers == ("x",))
    assert [(part.offset, part.last) for part in block.parts] == [
        (0, 0), (64, 4), (128, 1), (192, 5), (256, 2), (320, 6)
    ]  # fmt: skip


@pytest.mark.parametrize("height", range(1, HEIGHT))
def test_what_grows_does_not_fit_where_planes_die(height: int) -> None:
    program = by_planes(select(parse_graph(POOLED)).with_ends_placed)
    chain, cut = (
        RowAnalysis(program, CALLS).chain(0, CHANNELS),
        cut_into_stripes(program, (Cascade(0, CHANNELS, height),), CALLS),
    )
    assert chain is not None
    assert cut is not None
    x, m = (next(b for b in lifetimes(cut) if b.buffers[0] == name) for name in ("x", "m"))
    taken = [(low * 16, high * 16) for _, low, high in forbidden_distances([x, m])[1]]
    ends = [
        max(x.nbytes, at + m.nbytes) - min(at, 0)
        for at in range(-m.nbytes, x.nbytes + 1, 16)
        if not any(low < at < high for low, high in taken)
    ]
    assert max(x.live_bytes(at) + m.live_bytes(at) for at, call in enumerate(cut.calls) if call.stripe) <= min(ends)
    assert min(ends) == ChainLiveness(program, chain, CALLS).peak(chain.stripes(height, cache_halo=False))


@pytest.mark.full
def test_networks_of_images_compute_the_same_with_their_ends_in_scratch() -> None:
    in_planes, cut = (sum(counts) for counts in zip(*map(compute_the_same, range(6)), strict=True))
    assert in_planes > 2
    assert cut > 6


def compute_the_same(seed: int) -> tuple[bool, int]:
    """Plans a network in the least that stripes take, and in more; whether planes are apart, and plans that are cut."""
    whole = select(optimise(parse_graph(image_network(seed))))
    image = random.Random(seed).randbytes(whole.buffers[0].nbytes)
    wanted = Driver().run(encode(whole, plan(whole)), [image])
    program = by_planes(whole.with_ends_placed)
    most = plan(program).scratch_bytes + len(plan(program).weights)
    always = Budget(PROCESSOR, 1 << 20, policy=FetchPolicy.ALWAYS, depth_first=DepthFirst.ALWAYS)
    shares = [random.Random(seed).random() for _ in range(2)]
    between = [replace(always, sram=round(most * share), depth_first=DepthFirst.AUTO) for share in shares]
    cut = 0
    for budget in (always, *between):
        pieces, planned = plan_or_least(program, budget)
        check(pieces, planned)
        container = encode(pieces, planned)
        assert hazards(decode(container), dataflow(pieces, planned.constants)) == ()
        assert Driver().run(container, [image]) == wanted
        cut += any(call.stripe for call in pieces.calls)
    return len(program.calls) > len(whole.calls), cut


def test_other_copies_stay_one_call() -> None:
    outside = replace(permuted(PERMUTE), placed=frozenset[str]())
    assert by_planes(outside) == outside
    many = permuted(CopyParams(0, (1, 1, 1, 8, 8, 6), (0, 0, 0, 8, 1, 64), (0, 0, 0, 48, 6, 1)))
    assert by_planes(many) == many
    rows = permuted(CopyParams(0, (1, 1, 1, 1, 8, 48), (0, 0, 0, 0, 48, 1), (0, 0, 0, 0, 48, 1)))
    assert by_planes(rows) == rows
    backwards = permuted(replace(PERMUTE, in_start=15, in_strides=(0, 0, 0, WIDTH, -1, PLANE)))
    assert by_planes(backwards) == backwards

"""Programs cut into stripes compute the same bytes, and hazards of rows are found."""

import base64
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.graphs import random_graph, random_inputs
from tests.npu.neutron.machine.planned_programs import PROCESSOR

from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.kernels.catalogue import COPY, FILL
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.kernels.processor import CALLS
from deuteron.npu.neutron.machine import hazards
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.operators.program import Program
from deuteron.planner import check, plan
from deuteron.planner.cascades import CascadeSearch
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.packing import max_live
from deuteron.planner.stripes import Cascade, RowAnalysis, cut_into_stripes
from deuteron.runtime.driver import Driver

SEEDS = range(100)
LEAST_CUT = 40
"""Minimum number of random programs that have cuts."""

NETWORK = f"""graph network {{
  input %x: i8[1,16,16,4] q(0.5:3)
  const %w: i8[8,3,3,4] q(0.25:0) = base64"{base64.b64encode(bytes(range(72)) * 4).decode()}"
  const %b: i32[8] = [{",".join("5" * 8)}]
  const %d: i8[1,3,3,8] q(0.25:0) = base64"{base64.b64encode(bytes(range(72))).decode()}"
  %a: i8[1,16,16,8] q(8.0:-5) = conv2d(%x, %w, %b) pads=(1,1,1,1) @[0]
  %m: i8[1,16,16,8] q(8.0:-5) = depthwise_conv2d(%a, %d, %b) pads=(1,1,1,1) @[1]
  %n: i8[1,16,16,8] q(8.0:-5) = depthwise_conv2d(%m, %d, %b) pads=(1,1,1,1) @[2]
  %s: i8[1,16,16,8] q(8.0:-5) = add(%a, %n) @[3]
  %p: i8[1,8,8,8] q(8.0:-5) = max_pool2d(%s) window=(2,2) stride=(2,2) @[4]
  output %p
}}
"""


UPWARDS = f"""graph upwards {{
  input %x: i8[1,8,8,16] q(0.5:3)
  const %w: i8[8,4,4,16] q(0.25:0) = base64"{base64.b64encode(bytes(range(128)) * 16).decode()}"
  const %v: i8[16,3,3,8] q(0.25:0) = base64"{base64.b64encode(bytes(range(72)) * 16).decode()}"
  const %b: i32[8] = [{",".join("5" * 8)}]
  const %c: i32[16] = [{",".join("5" * 16)}]
  %u: i8[1,16,16,8] q(8.0:-5) = transpose_conv(%x, %w, %b) stride=(2,2) pads=(1,1,1,1) @[0]
  %a: i8[1,16,16,16] q(8.0:-5) = conv2d(%u, %v, %c) pads=(1,1,1,1) @[1]
  %p: i8[1,8,8,16] q(8.0:-5) = max_pool2d(%a) window=(2,2) stride=(2,2) @[2]
  output %p
}}
"""
"""A transposed convolution moves the rows of its input apart, between rows that are filled."""

REPEATED = f"""graph repeated {{{{
  input %x: i8[1,12,8,16] q(8.0:-5)
  const %v: i8[16,3,3,16] q(0.25:0) = base64"{base64.b64encode(bytes(range(72)) * 32).decode()}"
  const %c: i32[16] = [{",".join("5" * 16)}]
  %a: i8[1,12,8,16] q(8.0:-5) = conv2d(%x, %v, %c) pads=(1,1,1,1) @[0]
  %u: i8[1,{{rows}},8,16] q(8.0:-5) = resize_nearest(%a) @[1]
  {{behind}}
}}}}
"""
"""Rows of a map again and again; `behind` is what reads them, or nothing."""

SWAPPED = """graph swapped {
  input %x: i8[1,8,4,16] q(8.0:-5)
  %m: i8[1,8,4,16] q(8.0:-5) = max_pool2d(%x) window=(3,3) stride=(1,1) pads=(1,1,1,1) @[0]
  %l: i8[1,5,4,16] q(8.0:-5) = slice(%m) begin=(0,3,0,0) @[1]
  %f: i8[1,3,4,16] q(8.0:-5) = slice(%m) begin=(0,0,0,0) @[2]
  %y: i8[1,8,4,16] q(8.0:-5) = concat(%l, %f) axis=1 @[3]
  output %y
}
"""

SKIPPED = f"""graph skipped {{
  input %x: i8[1,16,16,8] q(0.5:3)
  const %w: i8[16,4,4,16] q(0.25:0) = base64"{base64.b64encode(bytes(range(128)) * 32).decode()}"
  const %v: i8[16,3,3,16] q(0.25:0) = base64"{base64.b64encode(bytes(range(72)) * 32).decode()}"
  const %u: i8[16,3,3,8] q(0.25:0) = base64"{base64.b64encode(bytes(range(72)) * 16).decode()}"
  const %k: i8[8,3,3,32] q(0.25:0) = base64"{base64.b64encode(bytes(range(72)) * 32).decode()}"
  const %b: i32[8] = [{",".join("5" * 8)}]
  const %c: i32[16] = [{",".join("5" * 16)}]
  %a: i8[1,16,16,16] q(8.0:-5) = conv2d(%x, %u, %c) pads=(1,1,1,1) @[0]
  %p: i8[1,8,8,16] q(8.0:-5) = max_pool2d(%a) window=(2,2) stride=(2,2) @[1]
  %d: i8[1,8,8,16] q(8.0:-5) = conv2d(%p, %v, %c) pads=(1,1,1,1) @[2]
  %e: i8[1,8,8,16] q(8.0:-5) = conv2d(%d, %v, %c) pads=(1,1,1,1) @[3]
  %t: i8[1,16,16,16] q(8.0:-5) = transpose_conv(%e, %w, %c) stride=(2,2) pads=(1,1,1,1) @[4]
  %j: i8[1,16,16,32] q(8.0:-5) = concat(%a, %t) axis=3 @[5]
  %m: i8[1,16,16,8] q(8.0:-5) = conv2d(%j, %k, %b) pads=(1,1,1,1) @[6]
  output %m
}}
"""
"""Rows that are read at once and again much later: they are kept through stripes that read none or few of them."""


def _cascades(program: Program, rng: np.random.Generator) -> Iterator[Cascade]:
    """Chains one after the other, each as long as it can be or shorter, of any height."""
    analysis, at = RowAnalysis(program, CALLS), 0
    while at < len(program.calls):
        chains = (analysis.chain(at, last) for last in range(at + 1, len(program.calls) + 1))
        usable = [chain for chain in chains if chain is not None and chain.count > 1]
        if usable:
            chain = usable[-1] if rng.random() < 0.6 else usable[rng.integers(len(usable))]
            cache_halo, refetch_weights = (bool(flag) for flag in rng.integers(0, 2, 2))
            cascades = [
                Cascade(at, at + len(chain.calls), height, cache_halo, refetch_weights)
                for height in range(1, chain.count)
            ]
            possible = [cascade for cascade in cascades if cut_into_stripes(program, (cascade,), CALLS) is not None]
            yield from possible[-1 - int(rng.integers(len(possible))) :][:1] if possible else ()
            at += len(chain.calls)
        else:
            at += 1


def _run(program: Program, inputs: list[bytes]) -> list[bytes]:
    """The outputs, of a plan in which every check finds nothing."""
    planned = plan(program)
    check(program, planned)
    container = encode(program, planned)
    assert hazards(decode(container), dataflow(program, planned.constants)) == ()
    return Driver().run(container, inputs)


def test_random_programs_compute_the_same_in_stripes() -> None:
    cut = several = kept = 0
    for seed in SEEDS:
        graph = random_graph(seed)
        program = select(optimise(graph))
        inputs = [value.tobytes() for value in random_inputs(graph, seed)]
        cascades = tuple(_cascades(program, np.random.default_rng(seed)))
        pieces = cut_into_stripes(program, cascades, CALLS)
        assert pieces is not None
        assert _run(pieces, inputs) == _run(program, inputs), (seed, cascades)
        cut += bool(cascades)
        several += any(cascade.last - cascade.first > 1 for cascade in cascades)
        kept += len([call for call in pieces.calls if call.kernel is COPY]) > len(
            [call for call in program.calls if call.kernel is COPY]
        )
    assert cut >= LEAST_CUT
    assert several >= LEAST_CUT // 4
    assert kept >= LEAST_CUT // 8


@pytest.fixture(scope="module")
def network() -> Program:
    """Adjacent convolutions and a pool, whose rows are all multiples of the alignment."""
    return select(parse_graph(NETWORK))


@pytest.mark.parametrize("cache_halo", [False, True])
def test_stripes_hold_the_rows_that_windows_reach(network: Program, cache_halo: bool) -> None:
    chain = RowAnalysis(network, CALLS).chain(0, 5)
    assert chain is not None
    assert (chain.exit, chain.count) == (network.outputs[0], 8)
    first, second, *_ = chain.stripes(2, cache_halo=cache_halo)
    assert first.rows == {"p": (0, 2), "s": (0, 4), "n": (0, 4), "m": (0, 5), "a": (0, 6)}
    assert second.rows == {"p": (2, 4), "s": (4, 8), "n": (4, 8), "m": (3, 9), "a": (4 if cache_halo else 2, 10)}
    assert [second.new[name] for name in "am"] == ([(6, 10), (5, 9)] if cache_halo else [(2, 10), (3, 9)])
    assert first.kept == ({"a": (4, 6), "m": (3, 5)} if cache_halo else {})


@pytest.mark.parametrize("cache_halo", [False, True])
def test_rows_between_those_of_a_call_are_of_others(cache_halo: bool) -> None:
    program = select(parse_graph(UPWARDS))
    assert [call.kernel for call in program.calls[:2]] == [FILL, COPY]
    chain = RowAnalysis(program, CALLS).chain(0, len(program.calls))
    assert chain is not None
    assert [link.rows.every for link in chain.calls] == [1, 2, 1, 1, 1]
    assert [chain.calls[1].own(rows) for rows in ((0, 1), (1, 2), (1, 4), (2, 15))] == [(0, 1), (1, 1), (1, 2), (1, 8)]
    value = np.random.default_rng(0).integers(-128, 128, 8 * 8 * 16).astype(np.int8).tobytes()
    expected = _run(program, [value])
    for height in range(1, chain.count):
        pieces = cut_into_stripes(program, (Cascade(0, len(program.calls), height, cache_halo),), CALLS)
        assert pieces is not None
        assert max_live(lifetimes(pieces)) < max_live(lifetimes(program))
        assert _run(pieces, [value]) == expected


BEHIND = "%o: i8[1,{rows},8,16] q(8.0:-5) = conv2d(%u, %v, %c) pads=(1,1,1,1) @[2]\n  output %o"


@pytest.mark.parametrize("behind", [BEHIND, "output %u"], ids=["read", "left behind"])
@pytest.mark.parametrize(("rows", "grain"), [(24, 2), (36, 3)])
def test_rows_that_are_computed_together_are_never_apart(rows: int, grain: int, behind: str) -> None:
    program = select(parse_graph(REPEATED.format(rows=rows, behind=behind.format(rows=rows))))
    chain = RowAnalysis(program, CALLS).chain(0, len(program.calls))
    assert chain is not None
    assert (chain.grains["u"], chain.grain) == (grain, 1 if behind == BEHIND else grain)
    value = np.random.default_rng(0).integers(-128, 128, 12 * 8 * 16).astype(np.int8).tobytes()
    expected = _run(program, [value])
    for height in range(1, chain.count):
        for cache_halo in (False, True):
            pieces = cut_into_stripes(program, (Cascade(0, len(program.calls), height, cache_halo),), CALLS)
            assert (pieces is None) == (height % chain.grain > 0)
            assert pieces is None or _run(pieces, [value]) == expected


@pytest.mark.parametrize(
    ("text", "nbytes"), [(SKIPPED, 16 * 16 * 8), (SWAPPED, 8 * 4 * 16)], ids=["after the next", "further up each time"]
)
def test_rows_are_kept_for_whichever_stripe_reads_them_or_computed_again(text: str, nbytes: int) -> None:
    """Halves of a map that change places: the first stripes read rows that come after those of the last."""
    program = select(parse_graph(text))
    chain = RowAnalysis(program, CALLS).chain(0, len(program.calls))
    assert chain is not None
    value = np.random.default_rng(0).integers(-128, 128, nbytes).astype(np.int8).tobytes()
    expected = _run(program, [value])
    for height in range(1, chain.count):
        pieces = cut_into_stripes(program, (Cascade(0, len(program.calls), height, cache_halo=True),), CALLS)
        assert pieces is not None
        assert _run(pieces, [value]) == expected


def test_a_chain_ends_where_values_are_needed_as_a_whole(network: Program) -> None:
    analysis = RowAnalysis(network, CALLS)
    assert analysis.chain(0, 2) is None  # the sum reads what the first call writes, too
    assert analysis.chain(1, 4) is not None
    both = replace(network, outputs=("p", "a"))
    assert RowAnalysis(both, CALLS).chain(0, 5) is None


def test_rows_that_start_where_kernels_cannot_read_them_are_not_cut() -> None:
    text = NETWORK.replace("16,16,4]", "16,15,4]").replace("16,16,8]", "16,15,8]").replace("8,8,8]", "8,7,8]")
    program = select(parse_graph(text))
    assert cut_into_stripes(program, (Cascade(0, 4, 1),), CALLS) is None
    assert cut_into_stripes(program, (Cascade(0, 4, 2),), CALLS) is not None


def _planted(program: Program, cascade: Cascade, move: str) -> str:
    """Return the errors of a program in stripes after one defect."""
    pieces = cut_into_stripes(program, (cascade,), CALLS)
    assert pieces is not None
    planned = plan(pieces)
    values = dataflow(pieces, planned.constants)
    calls = list(pieces.calls)
    at = {(call.stripe.call, call.stripe.index, call.kernel is COPY): i for i, call in enumerate(calls) if call.stripe}
    match move:
        case "left out":
            order = [i for i in range(len(calls)) if i != at[0, 1, False]]
        case "too early":
            order = list(range(len(calls)))
            order.insert(at[0, 1, False], order.pop(at[1, 1, False]))
        case "not kept":
            order = [i for i in range(len(calls)) if i != at[0, 1, True]]
        case _:
            order = list(range(len(calls)))
    places = dict(planned.placements)
    if move == "overwritten":
        places["n[4:8]"] = replace(places["n[4:8]"], offset=places["a[2:10]"].offset + 256)
    broken = replace(pieces, calls=tuple(calls[i] for i in order))
    values = replace(values, calls=tuple(values.calls[i] for i in order))
    found = hazards(decode(encode(broken, replace(planned, placements=places))), values)
    return found[0].message if found else "nothing"


@pytest.mark.parametrize(
    ("move", "cache_halo", "message"),
    [
        (
            "left out",
            False,
            "operand `input` of `depthwise_conv2d_s8` needs byte 256 of `a` at byte 0 of scratch, which holds byte 0 "
            "of `a`, written by command 0",
        ),
        (
            "too early",
            False,
            "operand `input` of `depthwise_conv2d_s8` needs byte 256 of `a` at byte 0 of scratch, which holds byte 0 "
            "of `a`, written by command 0",
        ),
        (
            "not kept",
            True,
            "operand `input` of `copy_s8` needs byte 1024 of `a` at byte 768 of scratch, which holds byte 384 of `m`, "
            "written by command 9",
        ),
        (
            "overwritten",
            False,
            "operand `a` of `add_s8` needs byte 512 of `a` at byte 256 of scratch, which holds byte 512 of `n`, "
            "written by command 7",
        ),
        ("nothing", True, "nothing"),
    ],
)
def test_every_hazard_of_rows_is_found(network: Program, move: str, cache_halo: bool, message: str) -> None:
    assert _planted(network, Cascade(0, 5, 2, cache_halo), move) == message


def test_the_search_says_what_a_chain_takes(network: Program) -> None:
    """Cycles are those of its calls, and memory is no less than what is alive."""
    search = CascadeSearch(network, PROCESSOR)
    whole = max_live(lifetimes(network))
    sizes: list[int] = []
    for limit in range(whole - 1, 0, -400):
        cut = search.fastest(limit, None)
        if cut is None:
            break
        assert plan(cut.program).scratch_bytes <= limit
        sizes.append(cut.scratch)
    least = search.least()
    assert least is not None
    assert least.scratch <= min(sizes) < whole / 2

"""Programs that do not fit: what each error says, and that the bytes it asks for are enough and none less."""

import random
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from tests import full
from tests.graphs import random_graph

from deuteron.arch import targets
from deuteron.arch.engine import engine
from deuteron.arch.memory import Effort, FetchPolicy
from deuteron.errors import CapacityError
from deuteron.npu.neutron.kernels import catalogue
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.kernels.processor import NeutronProcessor
from deuteron.npu.neutron.machine import hazards
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Buffer, KernelCall, Program, Ref
from deuteron.planner import Budget, check, plan, plan_within

PROCESSOR = NeutronProcessor(engine(targets.load("imxrt700")))
ROWS = 4
ALWAYS, AUTO, NEVER = FetchPolicy.ALWAYS, FetchPolicy.AUTO, FetchPolicy.NEVER


def _layer(op: int, names: tuple[str, str], deep: int, wide: int, rows: int) -> tuple[KernelCall, tuple[Buffer, ...]]:
    """A fully connected layer and its constants; with one row it can be cut, and each filter has its own factor."""
    factors = 1 if rows > 1 else wide
    sizes = {f"w{op}": wide * deep, f"b{op}": 4 * wide, f"r{op}": 8 * factors}
    constants = tuple(Ref(name, 0, size) for name, size in sizes.items())
    operands = (Ref(names[0], 0, rows * deep), *constants, Ref(names[1], 0, rows * wide))
    params = p.FullyConnectedParams(rows, deep, wide, factors, 0, 0, -128, 127)
    buffers = tuple(Buffer(name, size, bytes(size)) for name, size in sizes.items())
    return KernelCall(catalogue.FULLY_CONNECTED, operands, params, (op,)), buffers


def _program(rows: int) -> Program:
    """Widths 16 to 64 to 96 to 8."""
    widths, names = (16, 64, 96, 8), ("in", "h0", "h1", "out")
    layers = [_layer(i, (names[i], names[i + 1]), widths[i], widths[i + 1], rows) for i in range(3)]
    values = tuple(Buffer(name, rows * width) for name, width in zip(names, widths, strict=True))
    constants = tuple(buffer for _, buffers in layers for buffer in buffers)
    return Program((*values, *constants), ("in",), ("out",), tuple(call for call, _ in layers))


PROGRAM = _program(ROWS)
SCRATCH = ROWS * (64 + 96)
WEIGHTS = 16 * 64 + 64 * 96 + 96 * 8 + 4 * (64 + 96 + 8) + 3 * 16
INTERMEDIATE = """kernel call 1, `fully_connected_s8` of op 1: intermediate results need 640 bytes of SRAM, 624 are \
available; the peak is here; the largest values are:
  op 1: 384 bytes, `h1` of `fully_connected_s8`
  op 0: 256 bytes, `h0` of `fully_connected_s8`

hint: make these values smaller (a smaller input, fewer channels, a stride earlier)"""

LINKED = """kernel call 1, `fully_connected_s8` of op 1: 9,296 bytes of SRAM are needed, 640 for intermediate results, \
whose peak is here, and 8,656 for weights; 9,000 are available; the largest values are:
  op 1: 6,144 bytes, weights `w1` of `fully_connected_s8`
  op 0: 1,024 bytes, weights `w0` of `fully_connected_s8`
  op 2: 768 bytes, weights `w2` of `fully_connected_s8`
  op 1: 384 bytes, `h1` of `fully_connected_s8`
  op 1: 384 bytes, weights `b1` of `fully_connected_s8`

hint: fetch weights from flash with `--fetch-constants-to-sram auto`: 7,184 bytes are enough then"""

CHUNK = """kernel call 1, `fully_connected_s8` of op 1: 7,184 bytes of SRAM are needed, 640 for intermediate results \
and 6,544 for the weights of this call; 7,168 are available; the largest values are:
  op 1: 6,144 bytes, weights `w1` of `fully_connected_s8`
  op 1: 384 bytes, `h1` of `fully_connected_s8`
  op 1: 384 bytes, weights `b1` of `fully_connected_s8`
  op 0: 256 bytes, `h0` of `fully_connected_s8`
  op 1: 16 bytes, weights `r1` of `fully_connected_s8`

hint: split this layer into smaller ones"""

AREA = """kernel call 1, `fully_connected_s8` of op 1: the weights of this call need 6,544 bytes of SRAM at once, \
`--weights-budget` allows 6,528; the largest are:
  op 1: 6,144 bytes, weights `w1` of `fully_connected_s8`
  op 1: 384 bytes, weights `b1` of `fully_connected_s8`
  op 1: 16 bytes, weights `r1` of `fully_connected_s8`

hint: split this layer into smaller ones, or give `--weights-budget 6544` or more"""


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (Budget(PROCESSOR, 624), f"{INTERMEDIATE}, or give `--sram-budget 7184` or more"),
        (Budget(PROCESSOR, 624, policy=NEVER), f"{INTERMEDIATE}, or give `--sram-budget 9296` or more"),
        (
            Budget(PROCESSOR, 624, target=4096),
            f"{INTERMEDIATE}; with all 4,096 bytes of the target it would not fit either",
        ),
        (Budget(PROCESSOR, 9000, policy=NEVER), f"{LINKED}, or give `--sram-budget 9296` or more"),
        (
            Budget(PROCESSOR, 9000, policy=NEVER, target=9000),
            f"{LINKED}; with all 9,000 bytes of the target weights do not fit without that",
        ),
        (Budget(PROCESSOR, 7168), f"{CHUNK}, or give `--sram-budget 7184` or more"),
        (Budget(PROCESSOR, 7168, target=7168), f"{CHUNK}; with all 7,168 bytes of the target it would not fit either"),
        (Budget(PROCESSOR, 20_000, 6528), AREA),
        (Budget(PROCESSOR, 7168, 6528), f"{AREA} and `--sram-budget 7184`"),
    ],
    ids=[
        "intermediate", "intermediate, never", "target too small", "weights, never", "weights, never, target too small",
        "one call's weights", "one call's weights, target too small", "weights budget", "both budgets",
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(budget: Budget, text: str) -> None:
    linked = plan(PROGRAM)
    assert (linked.scratch_bytes, len(linked.weights)) == (SCRATCH, WEIGHTS)
    with pytest.raises(CapacityError) as error:
        plan_within(PROGRAM, budget)
    assert str(error.value) == text


@pytest.mark.parametrize(
    "budget",
    [
        Budget(PROCESSOR, 7184),
        Budget(PROCESSOR, 9296, policy=NEVER),
        Budget(PROCESSOR, 7184, 6544),
        Budget(PROCESSOR, SCRATCH + WEIGHTS),
    ],
)
def test_what_an_error_asks_for_is_enough(budget: Budget) -> None:
    program, planned = plan_within(PROGRAM, budget)
    check(program, planned)
    assert planned.scratch_bytes + planned.prefetch_bytes <= budget.sram


PIECE = """kernel call 1, `fully_connected_s8` of op 1: 1,376 bytes of SRAM are needed, 160 for intermediate results \
and 1,216 for the smallest piece of the weights of this call; 1,360 are available; the largest values are:
  op 1: 1,024 bytes, weights `w1[0:16]` of `fully_connected_s8`
  op 1: 128 bytes, weights `r1[0:16]` of `fully_connected_s8`
  op 1: 96 bytes, `h1` of `fully_connected_s8`
  op 0: 64 bytes, `h0` of `fully_connected_s8`
  op 1: 64 bytes, weights `b1[0:16]` of `fully_connected_s8`

hint: give this layer fewer inputs, or give `--sram-budget 1376` or more"""

PIECE_AREA = """kernel call 1, `fully_connected_s8` of op 1: the smallest piece of the weights of this call needs \
1,216 bytes of SRAM at once, `--weights-budget` allows 1,200; the largest are:
  op 1: 1,024 bytes, weights `w1[0:16]` of `fully_connected_s8`
  op 1: 128 bytes, weights `r1[0:16]` of `fully_connected_s8`
  op 1: 64 bytes, weights `b1[0:16]` of `fully_connected_s8`

hint: give this layer fewer inputs, or give `--weights-budget 1216` or more"""


def test_a_call_that_can_be_cut_asks_for_one_piece() -> None:
    """With one row, sixteen filters of the second layer are a piece."""
    single = _program(1)
    scratch, piece = 64 + 96, 16 * 64 + 4 * 16 + 8 * 16
    for budget, text in (
        (Budget(PROCESSOR, scratch + piece - 16), PIECE),
        (Budget(PROCESSOR, 5000, piece - 16), PIECE_AREA),
    ):
        with pytest.raises(CapacityError) as error:
            plan_within(single, budget)
        assert str(error.value) == text
    plan_within(single, Budget(PROCESSOR, scratch + piece))
    plan_within(single, Budget(PROCESSOR, 5000, piece))


@pytest.mark.parametrize("policy", FetchPolicy)
def test_a_program_without_weights_asks_for_its_results_alone(policy: FetchPolicy) -> None:
    names, row = ("in", "a", "b", "out"), (0, 0, 0, 0, 0, 1)
    params = p.CopyParams(0, (1, 1, 1, 1, 1, 64), row, row)
    calls = (
        KernelCall(catalogue.COPY, (Ref(source, 0, 64), Ref(target, 0, 64)), params, ())
        for source, target in pairwise(names)
    )
    program = Program(tuple(Buffer(name, 64) for name in names), ("in",), ("out",), tuple(calls))
    with pytest.raises(CapacityError) as error:
        plan_within(program, Budget(PROCESSOR, 64, policy=policy))
    assert str(error.value) == (
        "kernel call 1, `copy_s8`: intermediate results need 128 bytes of SRAM, 64 are available; the peak is here; "
        "the largest values are:\n  64 bytes, `a` of `copy_s8`\n  64 bytes, `b` of `copy_s8`\n\n"
        "hint: make these values smaller (a smaller input, fewer channels, a stride earlier), or give "
        "`--sram-budget 128` or more"
    )
    assert plan_within(program, Budget(PROCESSOR, 128, policy=policy))[1].scratch_bytes == 128


def test_what_lies_beside_may_be_too_much_alone() -> None:
    with pytest.raises(CapacityError) as error:
        plan_within(PROGRAM, Budget(PROCESSOR, -1000, other_uses=((3000, "inputs"),)))
    assert str(error.value).startswith(
        "kernel call 1, `fully_connected_s8` of op 1: intermediate results need 640 bytes of SRAM besides 3,000 for "
        "inputs, 2,000 are available; the peak is here; the largest values are:\n"
    )
    hint = "make the other contents of SRAM smaller, they need 3,000 bytes, or give `--sram-budget 10184` or more"
    assert error.value.hint == hint


def test_of_several_calls_of_one_operator_the_one_that_needs_most_is_named() -> None:
    whole = _program(ROWS)
    calls = tuple(replace(call, origin=(0,)) for call in whole.calls)
    with pytest.raises(CapacityError, match=r"^kernel call 1, `fully_connected_s8` of op 0: 7,184 bytes"):
        plan_within(replace(whole, calls=calls), Budget(PROCESSOR, 7168))


def _chain(seed: int) -> Program:
    """Layers of random widths, of which those of one shape may have the same weights, each with a factor or several."""
    rng = random.Random(seed)
    count = rng.randint(3, 7)
    widths = [16 * rng.randint(1, 6) for _ in range(count + 1)]
    names = ["in", *(f"h{i}" for i in range(1, count)), "out"]
    buffers = [Buffer(name, width) for name, width in zip(names, widths, strict=True)]
    calls: list[KernelCall] = []
    known: dict[tuple[int, int, int], tuple[Ref, ...]] = {}
    for i, shape in enumerate(pairwise(widths)):
        rows = rng.choice((1, 2))
        call, constants = _layer(i, (names[i], names[i + 1]), *shape, rows)
        own = call.operands[1:4]
        shared = known.setdefault((*shape, rows), own) if rng.random() < 0.8 else own
        if shared == own:
            buffers += constants
        one_row = replace(call.params, rows=1)
        operands = (Ref(names[i], 0, shape[0]), *shared, Ref(names[i + 1], 0, shape[1]))
        calls.append(replace(call, operands=operands, params=one_row))
    return Program(tuple(buffers), ("in",), ("out",), tuple(calls))


@pytest.mark.parametrize("seed", full.first(range(40), 5))
def test_what_programs_with_weights_that_live_long_ask_for_is_enough(seed: int) -> None:
    """Weights of two layers stay in place, and the other weights leave gaps between them."""
    program = _chain(seed)
    least = _asked(program, Budget(PROCESSOR, 16, policy=ALWAYS))
    for sram in (least, least + 16, least + 64, least + 256):
        pieces, planned = plan_within(program, Budget(PROCESSOR, sram, policy=ALWAYS))
        check(pieces, planned)
        decoded = decode(encode(pieces, planned))
        assert hazards(decoded, dataflow(pieces, planned.constants)) == ()
        assert planned.scratch_bytes + planned.prefetch_bytes <= sram
    assert _asked(program, Budget(PROCESSOR, least - 16, policy=ALWAYS)) == least


@pytest.mark.parametrize("seed", full.first(range(25), 8))
def test_the_bytes_that_random_programs_ask_for_are_enough(seed: int) -> None:
    program = select(optimise(random_graph(seed)))
    linked = plan(program)
    for policy, sram in ((AUTO, 16), (NEVER, 16), (ALWAYS, linked.scratch_bytes + 16)):
        budget = Budget(PROCESSOR, sram, policy=policy)
        enough = _asked(program, budget)
        if not enough:
            continue  # some random programs need next to nothing
        pieces, planned = plan_within(program, replace(budget, sram=enough))
        check(pieces, planned)
        assert planned.scratch_bytes + planned.prefetch_bytes <= enough
        assert _asked(program, replace(budget, sram=enough - 16)) == enough


def _asked(program: Program, budget: Budget) -> int:
    """The budget that an error asks for, 0 when the program fits."""
    try:
        plan_within(program, budget)
    except CapacityError as error:
        hint = error.hint or ""
    else:
        return 0
    found = re.search(r"--sram-budget (\d+)", hint)
    assert found, hint
    return int(found[1])


def test_gaps_between_results_may_be_packed_by_the_solver() -> None:
    """An error for results whose packing has gaps says what `--effort exact` may save; it is not said after it."""
    from deuteron.planner.fit_report import too_large

    packed = replace(plan(PROGRAM).packing, nbytes=SCRATCH + 64)
    for effort in Effort:
        error = too_large(PROGRAM, packed, WEIGHTS, Budget(PROCESSOR, SCRATCH, effort=effort))
        tried = "`--effort exact`, which may pack them into 640 bytes" in (error.hint or "")
        assert tried == (effort is Effort.FAST)

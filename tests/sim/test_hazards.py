"""The simulator names the command and the bytes of everything that would change a result."""

from dataclasses import replace

import numpy as np
import pytest
from tests.graphs import random_graph, random_inputs
from tests.sim.plans import ENGINE, fetching, random_program

from deuteron.arch.memory import FetchPolicy
from deuteron.errors import FormatError
from deuteron.kernels import catalogue
from deuteron.kernels import params as p
from deuteron.kernels.dataflow import Dataflow, dataflow
from deuteron.kernels.program import Buffer, KernelCall, Program, Ref
from deuteron.kernels.transfers import Fetch, Wait
from deuteron.microcode.container import Container
from deuteron.microcode.decode import Call, Decoded, decode
from deuteron.microcode.encode import encode
from deuteron.passes.pipeline import optimise
from deuteron.passes.select import select
from deuteron.plan import Budget, Plan, check, plan, plan_within
from deuteron.runtime.driver import Driver
from deuteron.sim import hazards, simulate

SEEDS = range(60)


def _lut(source: str, table: str, target: str) -> KernelCall:
    return KernelCall(
        catalogue.LUT, (Ref(source, 0, 64), Ref(table, 0, 256), Ref(target, 0, 64)), p.LutParams(64), (0,)
    )


PROGRAM = Program(
    (
        Buffer("in", 64),
        Buffer("one", 256, bytes(range(256))),
        Buffer("two", 256, bytes(range(255, -1, -1))),
        Buffer("mid", 64),
        Buffer("out", 64),
    ),
    ("in",),
    ("out",),
    (_lut("in", "one", "mid"), _lut("mid", "two", "out")),
)
"""Two tables, of which one at a time fits into the prefetch area."""


@pytest.fixture
def small() -> tuple[Decoded, Dataflow]:
    program, planned = plan_within(PROGRAM, Budget(ENGINE, 64 + 256, policy=FetchPolicy.ALWAYS))
    return decode(encode(program, planned)), dataflow(program, planned.constants)


def test_the_program_of_these_tests(small: tuple[Decoded, Dataflow]) -> None:
    decoded, values = small
    assert [type(command) for command in decoded.commands] == [Fetch, Wait, Call, Fetch, Wait, Call]
    assert hazards(decoded, values) == ()


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (
            {1: None},
            "command 1: operand `table` of `lut_s8`, bytes 0..255 of prefetch, is still being fetched on channel 0 "
            "by command 0",
        ),
        (
            {3: None, 4: None},
            "command 3: operand `table` of `lut_s8` needs byte 0 of `two` at byte 0 of prefetch, which holds byte 0 of "
            "`one`, written by command 0",
        ),
        (
            {0: None, 1: None},
            "command 0: operand `table` of `lut_s8` needs byte 0 of `one` at byte 0 of prefetch, which nothing has "
            "written",
        ),
        (
            {0: Fetch(0, 256, 0, 256)},
            "command 2: operand `table` of `lut_s8` needs byte 0 of `one` at byte 0 of prefetch, which holds byte 0 of "
            "`two`, written by command 0",
        ),
        (
            {3: Fetch(0, 256, 16, 256)},
            "command 3: the target, bytes 16..271 of prefetch, leaves its 256 bytes",
        ),
        (
            {4: None},
            "command 4: operand `table` of `lut_s8`, bytes 0..255 of prefetch, is still being fetched on channel 0 "
            "by command 3",
        ),
    ],
)
def test_broken_transfers(small: tuple[Decoded, Dataflow], broken: dict[int, Fetch | None], found: str) -> None:
    decoded, values = small
    commands = [broken.get(index, command) for index, command in enumerate(decoded.commands)]
    kept = tuple(command for command in commands if command is not None)
    assert str(hazards(replace(decoded, commands=kept), values)[0]) == found


def test_every_consequence_of_a_missing_wait_is_told(small: tuple[Decoded, Dataflow]) -> None:
    decoded, values = small
    first, _, call, second, _, last = decoded.commands
    found = hazards(replace(decoded, commands=(first, call, second, last)), values)
    table = "operand `table` of `lut_s8`, bytes 0..255 of prefetch, is still being fetched on channel 0"
    assert [str(hazard) for hazard in found] == [
        f"command 1: {table} by command 0",
        "command 2: channel 0 still fetches for command 0, which nothing waited for",
        "command 2: the target, bytes 0..255 of prefetch, is still being fetched on channel 0 by command 0",
        f"command 3: {table} by command 2",
        "command 4: channel 0 still fetches for command 2, which nothing waited for",
    ]


def test_weights_that_are_overwritten_before_their_kernel(small: tuple[Decoded, Dataflow]) -> None:
    decoded, values = small
    first, waited, call, second, again, last = decoded.commands
    found = hazards(replace(decoded, commands=(first, waited, second, again, call, last)), values)
    assert [str(hazard) for hazard in found] == [
        "command 4: operand `table` of `lut_s8` needs byte 0 of `one` at byte 0 of prefetch, which holds byte 0 of "
        "`two`, written by command 2"
    ]


def test_a_result_that_is_overwritten_while_it_is_needed() -> None:
    """`mid` is read by the last call, and the plan is told to put `other` onto it."""
    program = Program(
        (*PROGRAM.buffers, Buffer("other", 64), Buffer("end", 64)),
        ("in",),
        ("out", "end"),
        (
            _lut("in", "one", "mid"),
            _lut("in", "two", "other"),
            _lut("other", "one", "end"),
            _lut("mid", "two", "out"),
        ),
    )
    planned = plan(program)
    broken = replace(planned, placements={**planned.placements, "other": planned.placements["mid"]})
    decoded, values = decode(encode(program, broken)), dataflow(program, planned.constants)
    at = planned.placements["mid"].offset
    assert [str(hazard) for hazard in hazards(decoded, values)] == [
        f"command 3: operand `input` of `lut_s8` needs byte 0 of `mid` at byte {at} of scratch, which holds byte 0 of "
        "`other`, written by command 1"
    ]


@pytest.mark.parametrize(
    ("call", "operand", "offset", "found"),
    [
        (
            2, 2, 16,
            "command 2: operand `output` of `lut_s8`, bytes 16..79 of scratch, leaves its 64 bytes",
        ),
        (
            5, 0, 16,
            "command 5: operand `input` of `lut_s8`, bytes 16..79 of scratch, leaves its 64 bytes",
        ),
        (
            5, 1, 16,
            "command 5: operand `table` of `lut_s8`, bytes 16..271 of prefetch, leaves its 256 bytes",
        ),
    ],
)  # fmt: skip
def test_shifted_operands(small: tuple[Decoded, Dataflow], call: int, operand: int, offset: int, found: str) -> None:
    decoded, values = small
    commands = list(decoded.commands)
    command = commands[call]
    assert isinstance(command, Call)
    operands = list(command.operands)
    operands[operand] = replace(operands[operand], offset=operands[operand].offset + offset)
    commands[call] = replace(command, operands=tuple(operands))
    assert str(hazards(replace(decoded, commands=tuple(commands)), values)[0]) == found


def test_calls_that_are_missing(small: tuple[Decoded, Dataflow]) -> None:
    decoded, values = small
    assert [str(hazard) for hazard in hazards(replace(decoded, commands=decoded.commands[:5]), values)] == [
        "command 5: the program has 2 calls, the microcode 1",
        "command 5: output 0 needs byte 0 of `out` at byte 0 of output 0, which nothing has written",
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_plans_of_random_programs_are_sound(seed: int) -> None:
    """Sound in the simulator, as fast there as planned, and with the same results on the driver as without prefetch."""
    graph = random_graph(seed)
    program = select(optimise(graph))
    inputs = [x.tobytes() for x in random_inputs(graph, seed)]
    linked = plan(program)
    expected = Driver().run(encode(program, linked), inputs)
    for share in (0.0, 0.4, 1.0):
        pieces, planned = fetching(program, share)
        check(pieces, planned)
        container = encode(pieces, planned)
        decoded = decode(container)
        assert hazards(decoded, dataflow(pieces, planned.constants)) == ()
        if planned.prefetch is not None:
            assert simulate(decoded, ENGINE).cycles == planned.prefetch.schedule.cycles
            assert planned.prefetch.bound <= planned.prefetch.schedule.cycles
        assert Driver().run(container, inputs) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_every_broken_plan_that_changes_a_result_is_caught(seed: int) -> None:
    """Whatever decodes and runs, and gives another result, has a hazard."""
    generator = np.random.default_rng(seed)
    graph = random_graph(seed)
    program, planned = fetching(random_program(seed), float(generator.random()))
    inputs = [x.tobytes() for x in random_inputs(graph, seed)]
    expected = Driver().run(encode(program, planned), inputs)
    for _ in range(8):
        broken = _broken(planned, generator)
        try:
            container = encode(program, broken)
            decoded = decode(container)
        except FormatError:
            continue
        if _outputs(container, inputs) != expected:
            assert hazards(decoded, dataflow(program, planned.constants)), f"seed {seed}"


def _outputs(container: Container, inputs: list[bytes]) -> list[bytes] | None:
    """What the driver computes, None when it ends with an error."""
    try:
        return Driver().run(container, inputs)
    except FormatError:
        return None


def _broken(planned: Plan, generator: np.random.Generator) -> Plan:
    """The plan with one thing wrong: a transfer left out or shifted, an address shifted, or an area too small."""
    step = int(generator.choice([-32, -16, 16, 32]))
    match int(generator.integers(4)):
        case 0 if planned.transfers:
            call = int(generator.choice(sorted(planned.transfers)))
            commands = list(planned.transfers[call])
            commands.pop(int(generator.integers(len(commands))))
            return replace(planned, transfers={**planned.transfers, call: tuple(commands)})
        case 1 if planned.transfers:
            call = int(generator.choice(sorted(planned.transfers)))
            commands = list(planned.transfers[call])
            at = int(generator.integers(len(commands)))
            moved = commands[at]
            if isinstance(moved, Fetch) and generator.random() < 0.5 and moved.source + step >= 0:
                commands[at] = replace(moved, source=moved.source + step)
            elif isinstance(moved, Fetch) and moved.target + step >= 0:
                commands[at] = replace(moved, target=moved.target + step)
            return replace(planned, transfers={**planned.transfers, call: tuple(commands)})
        case 2 if planned.prefetch_bytes and generator.random() < 0.5:
            return replace(planned, prefetch_bytes=max(0, planned.prefetch_bytes - abs(step)))
        case 2:
            return replace(planned, scratch_bytes=max(0, planned.scratch_bytes - abs(step)))
        case _:
            name = str(generator.choice(sorted(planned.placements)))
            place = planned.placements[name]
            moved = replace(place, offset=max(0, place.offset + step))
            return replace(planned, placements={**planned.placements, name: moved})

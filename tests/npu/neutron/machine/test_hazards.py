"""The simulator names the command and the bytes of everything that would change a result."""

from dataclasses import replace
from enum import Enum
from functools import cache

import numpy as np
import pytest
from tests import full
from tests.graphs import random_graph, random_inputs
from tests.npu.neutron.machine.planned_programs import ENGINE, PROCESSOR, fetching, random_program

from deuteron.arch.memory import FetchPolicy
from deuteron.errors import FormatError
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.neutron.kernels import catalogue
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.machine import hazards, simulate
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import Call, Command, Decoded, decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Buffer, KernelCall, Program, Ref
from deuteron.operators.regions import Region
from deuteron.operators.transfers import Fetch, Transfer, Wait
from deuteron.planner import Budget, Plan, check, plan, plan_within
from deuteron.runtime.driver import Driver

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


def _with_ends(program: Program, mid: int, ends: dict[str, int]) -> tuple[str, ...]:
    """Return the hazards of a program with inputs and outputs at these offsets of scratch, and `mid` at another."""
    planned = plan(program)
    placements = {**planned.placements, "mid": replace(planned.placements["mid"], offset=mid)}
    planned = replace(planned, placements=placements, scratch_bytes=192, ends=ends)
    return tuple(map(str, hazards(decode(encode(program, planned)), dataflow(program, planned.constants))))


def test_inputs_and_outputs_in_scratch() -> None:
    assert _with_ends(PROGRAM, 64, {"in": 0, "out": 0}) == ()
    assert _with_ends(PROGRAM, 64, {"in": 64, "out": 64}) == ()
    again = replace(
        PROGRAM,
        buffers=(*PROGRAM.buffers, Buffer("last", 64)),
        outputs=("out", "last"),
        calls=(*PROGRAM.calls, _lut("in", "two", "last")),
    )
    assert _with_ends(again, 64, {"in": 0, "out": 128}) == ()
    assert _with_ends(again, 0, {"in": 0}) == (
        "command 2: operand `input` of `lut_s8` needs byte 0 of `in` at byte 0 of scratch, which holds byte 0 of "
        "`mid`, written by command 0",
    )
    assert _with_ends(again, 64, {"in": 0, "last": 0}) == ()
    moved = replace(again, calls=(again.calls[0], again.calls[2], again.calls[1]))
    assert _with_ends(moved, 0, {"in": 64, "last": 128, "out": 0}) == ()
    over = replace(moved, calls=(*again.calls[:2], _lut("in", "two", "mid"), _lut("mid", "two", "last")))
    assert _with_ends(over, 0, {"in": 64, "out": 0}) == (
        "command 4: output 0 needs byte 0 of `out` at byte 0 of scratch, which holds byte 0 of `mid`, written by "
        "command 2",
    )


@pytest.fixture
def small() -> tuple[Decoded, Dataflow]:
    program, planned = plan_within(PROGRAM, Budget(PROCESSOR, 64 + 256, policy=FetchPolicy.ALWAYS))
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


def _beside(tables: tuple[int, int] = (64, 64)) -> tuple[Decoded, Dataflow]:
    """`PROGRAM` with both tables fetched to scratch, behind `mid` unless it is said: `tables` are their places."""
    linked = plan(PROGRAM)
    places = dict(linked.placements)
    for name, at in zip(("one", "two"), tables, strict=True):
        places[name] = replace(places[name], region=Region.SCRATCH, offset=at)
    fetches = [
        Fetch(channel, linked.constants[name], places[name].offset, 256, region=Region.SCRATCH)
        for channel, name in enumerate(("one", "two"))
    ]
    transfers = {0: (fetches[0], Wait(0)), 1: (fetches[1], Wait(1))}
    planned = replace(linked, placements=places, transfers=transfers, scratch_bytes=max(64, *tables) + 256)
    return decode(encode(PROGRAM, planned)), dataflow(PROGRAM, planned.constants)


def test_weights_in_scratch_are_sound_where_nothing_else_lies() -> None:
    decoded, values = _beside()
    assert hazards(decoded, values) == ()
    assert [type(command) for command in decoded.commands] == [Fetch, Wait, Call, Fetch, Wait, Call]
    inputs = [bytes(range(64))]
    assert Driver().run(decoded.container, inputs) == Driver().run(encode(PROGRAM, plan(PROGRAM)), inputs)


TABLE = "operand `table` of `lut_s8`, bytes 64..319 of scratch"


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        ({1: None}, f"command 1: {TABLE}, is still being fetched on channel 0 by command 0"),
        ({4: None}, f"command 4: {TABLE}, is still being fetched on channel 1 by command 3"),
        (
            {0: None, 1: None},
            "command 0: operand `table` of `lut_s8` needs byte 0 of `one` at byte 64 of scratch, which nothing has "
            "written",
        ),
        (
            {3: None, 4: None},
            "command 3: operand `table` of `lut_s8` needs byte 0 of `two` at byte 64 of scratch, which holds byte 0 of "
            "`one`, written by command 0",
        ),
        (
            {3: Fetch(1, 256, 32, 256, region=Region.SCRATCH)},  # over a result that is needed
            "command 5: operand `input` of `lut_s8` needs byte 32 of `mid` at byte 32 of scratch, which holds byte 0 "
            "of `two`, written by command 3",
        ),
        (
            {0: Fetch(0, 0, 64, 256)},  # to the prefetch area instead, which is not there
            "command 0: the target, bytes 64..319 of prefetch, leaves its 0 bytes",
        ),
        (
            {3: Fetch(1, 256, 80, 256, region=Region.SCRATCH)},
            "command 3: the target, bytes 80..335 of scratch, leaves its 320 bytes",
        ),
    ],
)
def test_broken_transfers_to_scratch(broken: dict[int, Fetch | None], found: str) -> None:
    decoded, values = _beside()
    commands = [broken.get(index, command) for index, command in enumerate(decoded.commands)]
    kept = tuple(command for command in commands if command is not None)
    assert str(hazards(replace(decoded, commands=kept), values)[0]) == found


def test_a_call_that_writes_over_weights() -> None:
    """`two` is fetched before the first call, which writes `mid` there: while it is on its way, or when it is there."""
    decoded, values = _beside(tables=(320, 64))
    one, waited, call, two, again, last = decoded.commands
    assert isinstance(call, Call)
    moved = replace(call, operands=(*call.operands[:2], replace(call.operands[2], offset=128)))
    needs = "operand `table` of `lut_s8` needs byte 64 of `two` at byte 128 of scratch, which holds byte 0 of `mid`"
    there = hazards(replace(decoded, commands=(one, waited, two, again, moved, last)), values)
    assert [str(hazard) for hazard in there] == [
        "command 5: operand `input` of `lut_s8` needs byte 0 of `mid` at byte 0 of scratch, which nothing has written",
        f"command 5: {needs}, written by command 4",
    ]
    flying = hazards(replace(decoded, commands=(one, waited, two, moved, again, last)), values)
    assert str(flying[0]) == (
        "command 3: operand `output` of `lut_s8`, bytes 128..191 of scratch, is still being fetched on channel 1 by "
        "command 2"
    )


def test_two_fetches_to_the_same_bytes_of_scratch() -> None:
    decoded, values = _beside()
    one, waited, call, two, again, last = decoded.commands
    found = hazards(replace(decoded, commands=(one, two, waited, again, call, last)), values)
    assert [str(hazard) for hazard in found] == [
        "command 1: the target, bytes 64..319 of scratch, is still being fetched on channel 0 by command 0",
        "command 4: operand `table` of `lut_s8` needs byte 0 of `one` at byte 64 of scratch, which holds byte 0 of "
        "`two`, written by command 1",
    ]


def test_a_result_that_is_overwritten_while_it_is_needed() -> None:
    """The last call reads `mid`, and the plan puts `other` onto it."""
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


@pytest.mark.parametrize("seed", full.first(SEEDS, 16))
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


class Fault(Enum):
    """Damages of a plan."""

    WAIT_LEFT_OUT = "a wait left out"
    FETCH_LEFT_OUT = "a fetch left out"
    FETCH_MOVED = "a fetch from or to elsewhere"
    BUFFER_MOVED = "a buffer elsewhere"
    SCRATCH_SHRUNK = "a scratch area too small"
    PREFETCH_SHRUNK = "a prefetch area too small"


@pytest.mark.parametrize(
    ("fault", "least"),
    [
        (Fault.WAIT_LEFT_OUT, 20), (Fault.FETCH_LEFT_OUT, 15), (Fault.FETCH_MOVED, 15), (Fault.BUFFER_MOVED, 15),
        (Fault.SCRATCH_SHRUNK, 20), (Fault.PREFETCH_SHRUNK, 20),
    ],
)  # fmt: skip
@pytest.mark.parametrize("count", full.first([18, 36], 1))
def test_every_broken_plan_that_changes_a_result_is_caught(count: int, fault: Fault, least: int) -> None:
    """A plan changes a result when the driver computes another with it, or when the format forbids it.

    Most of these plans never get through `decode`: the simulator is given their commands as they are.
    """
    changing = 0
    for seed in SEEDS[:count]:
        generator = np.random.default_rng(seed)
        graph = random_graph(seed)
        program, planned = _planned(seed, float(generator.random()))
        container = encode(program, planned)
        sound = decode(container)
        assert _apart(program, planned, sound) == sound
        broken = _broken(planned, fault, generator)
        if broken is None:
            continue
        inputs = [x.tobytes() for x in random_inputs(graph, seed)]
        if _changes(encode(program, broken), inputs, Driver().run(container, inputs)):
            changing += 1
            found = hazards(_apart(program, broken, sound), dataflow(program, planned.constants))
            assert found, f"seed {seed}: {fault.value}"
    assert changing >= least * count // 36


@cache
def _planned(seed: int, share: float) -> tuple[Program, Plan]:
    """The same for every fault."""
    return fetching(random_program(seed), share)


def _apart(program: Program, planned: Plan, sound: Decoded) -> Decoded:
    """The plan's commands without the checks that `decode` makes; what no fault changes is taken from `sound`."""
    commands: list[Command] = []
    for at, call in enumerate(program.calls):
        places = [(planned.placements[ref.buffer], ref) for ref in call.operands]
        operands = (replace(place, offset=place.offset + ref.offset, nbytes=ref.nbytes) for place, ref in places)
        origin = call.origin[0] if call.origin else None
        commands += [*planned.transfers.get(at, ()), Call(call.kernel, tuple(operands), call.params, origin)]
    sizes = replace(sound.header, scratch_bytes=planned.scratch_bytes, prefetch_bytes=planned.prefetch_bytes)
    return replace(sound, header=sizes, commands=tuple(commands))


def _changes(container: Container, inputs: list[bytes], expected: list[bytes]) -> bool:
    try:
        decode(container)
        return Driver().run(container, inputs) != expected
    except FormatError:
        return True


def _broken(planned: Plan, fault: Fault, generator: np.random.Generator) -> Plan | None:
    """The plan with one thing wrong at a random place; None when it has no such thing."""
    step = int(generator.choice([-32, -16, 16, 32]))
    match fault:
        case Fault.WAIT_LEFT_OUT | Fault.FETCH_LEFT_OUT | Fault.FETCH_MOVED:
            kind = Wait if fault is Fault.WAIT_LEFT_OUT else Fetch
            places = [(call, at) for call, own in planned.transfers.items() for at in range(len(own))]
            places = [(call, at) for call, at in places if isinstance(planned.transfers[call][at], kind)]
            if not places:
                return None
            call, at = places[int(generator.integers(len(places)))]
            own = planned.transfers[call]
            moved = [_moved(own[at], step, generator)] if fault is Fault.FETCH_MOVED else []
            return replace(planned, transfers={**planned.transfers, call: (*own[:at], *moved, *own[at + 1 :])})
        case Fault.BUFFER_MOVED:
            name = str(generator.choice(sorted(planned.placements)))
            place = planned.placements[name]
            there = replace(place, offset=max(0, place.offset + step))
            return replace(planned, placements={**planned.placements, name: there})
        case Fault.SCRATCH_SHRUNK:
            nbytes = planned.scratch_bytes - abs(step)
            return replace(planned, scratch_bytes=nbytes) if nbytes >= 0 else None
        case Fault.PREFETCH_SHRUNK:
            nbytes = planned.prefetch_bytes - abs(step)
            return replace(planned, prefetch_bytes=nbytes) if nbytes >= 0 else None


def _moved(transfer: Transfer, step: int, generator: np.random.Generator) -> Transfer:
    """The fetch with its source or its target elsewhere."""
    assert isinstance(transfer, Fetch)
    end = str(generator.choice(["source", "target"]))
    start = transfer.source if end == "source" else transfer.target
    return replace(transfer, **{end: start + (step if start + step >= 0 else abs(step))})


def test_a_program_must_be_sound_with_its_inputs_and_outputs_elsewhere_too() -> None:
    """The driver's order: a call that reads an output by its offset in scratch reads bytes that were never written."""
    program = replace(PROGRAM, outputs=("mid", "out")).with_ends_placed
    planned = plan(program)
    decoded, values = decode(encode(program, planned)), dataflow(program, planned.constants)
    assert hazards(decoded, values) == ()
    *before, last = decoded.commands
    assert isinstance(last, Call)
    named, *others = last.operands
    assert (named.region, named.index) == (Region.OUTPUT, 0)
    lying = replace(named, region=Region.SCRATCH, offset=decoded.places[Region.OUTPUT, 0])
    onto = replace(decoded, commands=(*before, replace(last, operands=(lying, *others))))
    assert [str(hazard) for hazard in hazards(onto, values)] == [
        "command 1: operand `input` of `lut_s8` needs byte 0 of `mid` at byte 0 of scratch, which nothing has written, "
        "if inputs and outputs are elsewhere"
    ]

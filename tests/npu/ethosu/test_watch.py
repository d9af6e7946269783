"""Streams that do not wait where they must, in words; and that none whose result depends on it is overlooked."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import full
from tests.npu.ethosu import adversarial_timing, damaged_streams, vela
from tests.npu.ethosu.adversarial_timing import Schedule
from tests.npu.ethosu.commands import Command, Commands, read, written
from tests.npu.ethosu.machine import RefusedError
from tests.npu.ethosu.networks import network, transposed_table

from deuteron.errors import DeuteronError
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.ethosu.hazard_check import watch
from deuteron.npu.ethosu.isa import Long, Op, Short
from deuteron.npu.ethosu.program import EthosUProgram, program_of
from deuteron.npu.ethosu.stream import decode
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.tflite.emit import emit

SCHEDULES = (
    Schedule(), Schedule("copies"), Schedule("operations"), Schedule("blocks"), Schedule("any", 1), Schedule("any", 2),
)  # fmt: skip
FILLS = (1, 2)
"""Fill values of memory that no operation has written."""
PLACES = 40
"""Mutants with another address or region, of each stream."""


def compiled(graph: Graph, accelerator: str, folder: Path) -> EthosUProgram:
    payload = vela.compiled(emit(graph), accelerator, folder)
    assert payload is not None
    return program_of(payload, "npu 0")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> EthosUProgram:
    """The network on a configuration whose tables operations overwrite that have none."""
    return compiled(network(), "ethos-u55-64", tmp_path_factory.mktemp("network"))


def changed(program: EthosUProgram, change: Callable[[list[Command]], None]) -> EthosUProgram:
    """The program with other commands."""
    commands = list(read(program.blob.command_data))
    change(commands)
    data = written(tuple(commands), program.stream.config.word)
    return EthosUProgram(replace(program.blob, command_data=data), decode(data, "npu 0"))


def find(commands: list[Command], code: Op | Short | Long, count: int = 0) -> int:
    """Where a command stands, after `count` others of its kind."""
    return [i for i, command in enumerate(commands) if command.code is code][count]


def drop(code: Op, count: int = 0) -> Callable[[list[Command]], None]:
    return lambda commands: commands.pop(find(commands, code, count)) and None


def put(before: Op, *commands: Command, count: int = 0) -> Callable[[list[Command]], None]:
    """Sets registers before an operation."""

    def change(stream: list[Command]) -> None:
        at = find(stream, before, count)
        stream[at:at] = commands

    return change


def short(register: Short, value: int) -> Command:
    return Command(int(register), value)


def address(register: Long, value: int) -> Command:
    return Command(int(register), 0, value)


BROKEN: dict[str, tuple[Callable[[list[Command]], None], str]] = {
    "a table not waited for": (
        drop(Op.DMA_WAIT),
        "command 1: `conv` at 0x00144 reads byte 0x3800 of shram as its table, "
        "which `copy` at 0x00020 still writes: no DMA_WAIT is between",
    ),
    "weights not waited for": (
        drop(Op.DMA_WAIT, 1),
        "command 3: `depthwise` at 0x001dc reads byte 0x12a0 of scratch as its weights, "
        "which `copy` at 0x00168 still writes: no DMA_WAIT is between",
    ),
    "an output over the target of a copy": (
        put(Op.DMA_WAIT, address(Long.OFM_BASE0, 0x1200), Command(int(Op.DEPTHWISE), 0), count=1),
        "command 3: `depthwise` at 0x001e4 writes byte 0x1200 of scratch as its output, "
        "which `copy` at 0x00168 still writes: no DMA_WAIT is between",
    ),
    "a copy over what is read": (
        put(Op.DMA_START, address(Long.DMA0_DST, 0x900), count=1),
        "command 2: `copy` at 0x00170 writes byte 0x900 of scratch as its target, "
        "which `conv` at 0x00148 still reads: no KERNEL_WAIT is between",
    ),
    "a copy of what is written": (
        put(Op.DMA_START, short(Short.DMA0_SRC_REGION, 1), address(Long.DMA0_SRC, 0), count=1),
        "command 2: `copy` at 0x00174 reads byte 0x0 of scratch as its source, "
        "which `conv` at 0x00148 still writes: no KERNEL_WAIT is between",
    ),
    "weights that an operation still writes": (
        put(Op.CONV, address(Long.WEIGHT_BASE, 0x900), count=1),
        "command 5: `conv` at 0x00264 reads byte 0x900 of scratch as its weights, "
        "which `depthwise` at 0x001e0 still writes: no KERNEL_WAIT is between",
    ),
    "blocks too early": (
        put(Op.ELEMENTWISE, short(Short.BLOCKDEP, 3)),
        "command 6: `add` at 0x00308 reads byte 0x1200 of scratch as its input, "
        "which `conv` at 0x0025c still writes with its last blocks: BLOCKDEP is too large",
    ),
    "a table overwritten while it is read": (
        put(Op.DEPTHWISE, short(Short.BLOCKDEP, 1)),
        "command 3: `depthwise` at 0x001e4 writes byte 0x3800 of shram as its buffers, "
        "which `conv` at 0x00148 still reads with its last blocks: BLOCKDEP is too large",
    ),
    "a table overwritten": (
        put(Op.CONV, short(Short.ACTIVATION, 16), count=1),
        "command 5: `conv` at 0x00260 reads byte 0x3800 of shram as its table, "
        "which the buffers of `depthwise` at 0x001e0 have overwritten",
    ),
    "buffers beyond the end": (
        put(Op.CONV, short(Short.AB_START, 12), count=1),
        "command 5: the buffers of `conv` at 0x00260 would have to end at byte 0x5000 of shram, which is not theirs",
    ),
    "nothing there": (
        put(Op.CONV, address(Long.IFM_BASE0, 0x1800)),
        "command 1: `conv` at 0x00150 reads byte 0x1800 of scratch as its input, which nothing has written",
    ),
    "outside of the region": (
        put(Op.CONV, address(Long.IFM_BASE0, 0x1A00)),
        "command 1: `conv` at 0x00150 is refused: an operation leaves its region (0x1a00)",
    ),
    "no region": (
        put(Op.CONV, short(Short.WEIGHT_REGION, 5)),
        "command 1: `conv` at 0x0014c is refused: an operation addresses a missing region (0x5)",
    ),
}


SOUND_85 = "ethos-u85-256"
BROKEN_85: dict[str, tuple[Callable[[list[Command]], None], str]] = {
    "a table not waited for": (
        drop(Op.DMA_WAIT),
        "command 1: `conv` at 0x0014c reads byte 0x0 of shram as its table, "
        "which `copy` at 0x00024 still writes: no DMA_WAIT is between",
    ),
    "weights not waited for": (
        drop(Op.DMA_WAIT, 1),
        "command 3: `depthwise` at 0x001e0 reads byte 0x12a0 of fast scratch as its weights, "
        "which `copy` at 0x00170 still writes: no DMA_WAIT is between",
    ),
    "an output over the target of a copy": (
        put(Op.DMA_WAIT, address(Long.OFM_BASE0, 0x1200), Command(int(Op.DEPTHWISE), 0), count=1),
        "command 3: `depthwise` at 0x001e8 writes byte 0x1200 of fast scratch as its output, "
        "which `copy` at 0x00170 still writes: no DMA_WAIT is between",
    ),
    "a copy over what is read": (
        put(Op.DMA_START, short(Short.DMA0_DST_REGION, 1), address(Long.DMA0_DST, 0), count=1),
        "command 2: `copy` at 0x0017c writes byte 0x0 of scratch as its target, "
        "which `conv` at 0x00150 still reads: no KERNEL_WAIT is between",
    ),
    "a copy of what is written": (
        put(Op.DMA_START, short(Short.DMA0_SRC_REGION, 2), address(Long.DMA0_SRC, 0), count=1),
        "command 2: `copy` at 0x0017c reads byte 0x0 of fast scratch as its source, "
        "which `conv` at 0x00150 still writes: no KERNEL_WAIT is between",
    ),
    "weights that an operation still writes": (
        put(Op.CONV, address(Long.WEIGHT_BASE, 0x900), count=1),
        "command 5: `conv` at 0x002b0 reads byte 0x900 of fast scratch as its weights, "
        "which `depthwise` at 0x001e4 still writes: no KERNEL_WAIT is between",
    ),
    "blocks too early": (
        put(Op.DEPTHWISE, short(Short.BLOCKDEP, 7)),
        "command 3: `depthwise` at 0x001e8 reads byte 0x0 of fast scratch as its input, "
        "which `conv` at 0x00150 still writes with its last blocks: BLOCKDEP is too large",
    ),
    "a table that is not there": (
        put(Op.CONV, short(Short.ACTIVATION, 0x21), count=1),
        "command 5: `conv` at 0x002ac reads byte 0x100 of shram as its table, which nothing has written",
    ),
    "nothing there": (
        put(Op.CONV, address(Long.IFM_BASE0, 0x480)),
        "command 1: `conv` at 0x00158 reads byte 0x480 of scratch as its input, which nothing has written",
    ),
    "nothing for an operation of a chain": (
        put(Op.ELEMENTWISE, address(Long.IFM2_BASE0, 0x3000)),
        "command 6: `add` at 0x00348 reads byte 0x3000 of fast scratch as its second input, which nothing has written",
    ),
    "a chain that is not there": (
        put(Op.ELEMENTWISE, short(Short.IFM_REGION, 3)),
        "command 6: `add` at 0x00344 is refused: an operation addresses a missing region (0x3)",
    ),
    "a branch": (
        put(Op.CONV, Command(Long.BRANCH, 0, 0), count=1),
        "command 5: the branch at 0x002a8 does not wait for `depthwise` at 0x001e4",
    ),
    "outside of the region": (
        put(Op.CONV, address(Long.IFM_BASE0, 0x900)),
        "command 1: `conv` at 0x00158 is refused: an operation leaves its region (0x900)",
    ),
}


@pytest.fixture(scope="module")
def sound_85(tmp_path_factory: pytest.TempPathFactory) -> EthosUProgram:
    """The same network on an Ethos-U85, whose last two operations are a chain."""
    return compiled(network(), SOUND_85, tmp_path_factory.mktemp("network_85"))


@pytest.mark.parametrize("name", BROKEN_85)
def test_each_hazard_of_an_ethos_u85_is_named(name: str, sound_85: EthosUProgram) -> None:
    change, message = BROKEN_85[name]
    assert sound_85.hazards(Dataflow()) == ()
    assert message in map(str, changed(sound_85, change).hazards(Dataflow()))


@pytest.mark.parametrize("name", BROKEN)
def test_each_hazard_is_named(name: str, sound: EthosUProgram) -> None:
    change, message = BROKEN[name]
    assert sound.hazards(Dataflow()) == ()
    assert message in map(str, changed(sound, change).hazards(Dataflow()))


def test_a_table_that_vela_places_behind_the_shram_is_refused(tmp_path: Path) -> None:
    program = program_of(vela.defective(emit(transposed_table()), "ethos-u55-64", tmp_path), "npu 0")
    assert tuple(map(str, program.hazards(Dataflow()))) == (
        "command 6: `copy` at 0x00188 is refused: a copy or table leaves the SHRAM (0x4000)",
    )


def test_an_output_that_nothing_writes_is_told(tmp_path: Path) -> None:
    program = changed(compiled(network(), "ethos-u65-256", tmp_path), drop(Op.ELEMENTWISE))
    assert tuple(map(str, program.hazards(Dataflow()))) == (
        "command 6: output 0 has byte 0x480 of scratch, which nothing has written",
    )


def test_other_values_are_told(sound: EthosUProgram) -> None:
    values = watch(sound.blob, sound.stream).values
    assert watch(sound.blob, sound.stream, values).hazards == ()
    other = changed(sound, put(Op.CONV, address(Long.WEIGHT_BASE, 0xB0)))
    assert tuple(map(str, watch(other.blob, other.stream, values).hazards)) == (
        "command 1: `conv` at 0x00150 reads other values as its weights than when it was built",
    )
    fewer = changed(sound, drop(Op.ELEMENTWISE))
    assert "command 6: the commands are 6 operations and copies, not 7" in map(
        str, watch(fewer.blob, fewer.stream, values).hazards
    )


# ---- Mutants ----


def results(program: EthosUProgram, commands: Commands) -> set[bytes]:
    """Return the results of a stream in any order that it allows and for any earlier content of memory."""
    computed: set[bytes] = set()
    for schedule in SCHEDULES:
        for fill in FILLS:
            try:
                computed.add(adversarial_timing.outputs(program.stream.config, program.blob, commands, schedule, fill))
            except RefusedError:
                computed.add(b"")
    return computed


def is_overlooked(program: EthosUProgram, commands: Commands, expected: bytes) -> bool | None:
    """Return whether a mutant computes other results without a reported hazard; None if the hazard check refuses it."""
    data = written(commands, program.stream.config.word)
    blob = replace(program.blob, command_data=data)
    try:
        stream = decode(data, "npu 0")
        values = watch(program.blob, program.stream).values
        found = watch(blob, stream, values).hazards
    except DeuteronError:
        return None
    if found:
        return None
    return results(program, commands) != {expected}


@pytest.mark.slow
@pytest.mark.parametrize(
    "accelerator", full.only(["ethos-u55-64", "ethos-u55-256", "ethos-u65-512", SOUND_85], SOUND_85)
)
def test_no_mutant_is_overlooked(accelerator: str, tmp_path: Path) -> None:
    program = compiled(network(), accelerator, tmp_path)
    commands = read(program.blob.command_data)
    (expected,) = results(program, commands)
    rng = np.random.default_rng(3)
    mutated = [
        *damaged_streams.all_orders(commands),
        *(damaged_streams.any_place(commands, rng) for _ in range(PLACES)),
    ]
    told = 0
    for name, mutant in mutated:
        overlooked = is_overlooked(program, mutant, expected)
        assert not overlooked, f"{accelerator}, {name}"
        told += overlooked is None
    assert told > len(mutated) // 4


@pytest.mark.slow
def test_waits_and_blocks_are_needed(sound: EthosUProgram) -> None:
    """The adversary is one: what the watch says of waits and blocks changes results."""
    (expected,) = results(sound, read(sound.blob.command_data))
    needed = ("a table not waited for", "weights not waited for", "a copy over what is read", "blocks too early")
    for name in (*needed, "a table overwritten while it is read"):
        program = changed(sound, BROKEN[name][0])
        assert results(program, read(program.blob.command_data)) != {expected}, name


@pytest.mark.slow
def test_waits_and_blocks_of_an_ethos_u85_are_needed(sound_85: EthosUProgram) -> None:
    (expected,) = results(sound_85, read(sound_85.blob.command_data))
    for name in ("a table not waited for", "weights not waited for", "blocks too early"):
        program = changed(sound_85, BROKEN_85[name][0])
        assert results(program, read(program.blob.command_data)) != {expected}, name

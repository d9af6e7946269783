"""Ethos-U on boards: an emulated one executes the commands behind Arm's driver API, and gives the host's bits."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from tests import full, store
from tests.board import programs
from tests.frontend.ethosu import networks
from tests.npu.ethosu import mixed_network
from tests.npu.ethosu.commands import read, written
from tests.npu.ethosu.test_family import layer
from tests.npu.ethosu.vela import compiled

from deuteron import api
from deuteron.board import boards, firmware_record, image, qemu
from deuteron.board.bundle import Bundle
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.link import link
from deuteron.board.toolchain import Toolchain
from deuteron.board.translate import translate
from deuteron.errors import FormatError
from deuteron.npu.ethosu import blob
from deuteron.npu.ethosu import firmware as ethosu_firmware
from deuteron.npu.ethosu.device import Device
from deuteron.npu.ethosu.firmware import partition_of
from deuteron.npu.ethosu.isa import Short
from deuteron.npu.ethosu.stream import Branch, config_of, decode
from deuteron.npu.firmware import FirmwareBlock
from deuteron.views.events.events import SpanKind
from deuteron.views.profile import on_board, subject

BOARD = boards.load("an547")


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    made = compiled(layer(), "ethos-u65-256", tmp_path_factory.mktemp("layer"))
    assert made is not None
    return made


def test_a_partition_says_where_its_tensors_lie(payload: bytes) -> None:
    parsed = blob.parse(payload, "npu 0")
    partition = partition_of(payload, "npu 0")
    layout, commands, weights = partition.blocks
    words = struct.unpack("<9I", layout.data)
    (x,), (y,) = parsed.inputs, parsed.outputs
    assert words == (parsed.scratch_bytes, words[1], 1, 1, 0, x.offset, x.nbytes, y.offset, y.nbytes)
    assert commands == FirmwareBlock("commands", parsed.command_data)
    assert weights == FirmwareBlock("weights", parsed.weights, is_weights=True)
    assert partition.working_bytes == sum(size + -size % 16 for size in words[:2])
    assert [(port.argument, port.bytes) for port in (*partition.inputs, *partition.outputs)] == [(0, 90), (1, 81)]
    assert (partition.work, partition.arguments) == ("1 operation", 2)


def test_a_partition_has_room_for_records_where_it_is_profiled(payload: bytes) -> None:
    plain, recorded = (partition_of(payload, "npu 0", is_recorded=recorded) for recorded in (False, True))
    assert recorded.working_bytes - plain.working_bytes == 64 + 16 * 2
    assert struct.unpack_from("<5I", recorded.blocks[0].data)[4] == 1


def test_commands_with_branches_have_no_room_for_records(payload: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs would have more or fewer than there are operations."""
    plain = partition_of(payload, "npu 0")
    stream = replace(decode(plain.blocks[1].data, "npu 0"), branches=(Branch(8, 0, is_conditional=True),))
    monkeypatch.setattr(ethosu_firmware, "decode", lambda *_: stream)
    assert partition_of(payload, "npu 0", is_recorded=True) == plain


def test_the_fast_scratch_memory_is_as_large_as_the_commands_need(payload: bytes) -> None:
    parsed = blob.parse(payload, "npu 0")
    assert Device(parsed, "npu 0").fast_scratch_bytes() == 0
    commands = [
        replace(command, param=2) if command.code is Short.OFM_REGION else command
        for command in read(parsed.command_data)
    ]
    moved = replace(parsed, command_data=written(tuple(commands), config_of(parsed.command_data, "npu 0").word))
    end = parsed.outputs[0].offset + 81
    assert Device(moved, "npu 0").fast_scratch_bytes() == end + -end % 16


def test_damaged_commands_are_refused(payload: bytes) -> None:
    with pytest.raises(FormatError) as raised:
        partition_of(payload.replace(b"COP1", b"COP2"), "partition 0")
    assert str(raised.value) == "partition 0: the commands do not start with `COP1`\n\nhint: lower the model again"


@pytest.mark.slow
@pytest.mark.parametrize("target", full.first(["ethos-u85-256", "ethos-u55-128cm", "ethos-u55-128"], 2))
def test_the_board_gives_the_bits_of_the_host(target: str) -> None:
    network = networks.layer if target == "ethos-u85-256" else networks.halves
    build = mixed_network.built() if target == mixed_network.TARGET else networks.built(network, target)
    directory = store.firmware(build, BOARD)
    firmware = firmware_record.read(directory)
    data = api.seeded_inputs(api.read_manifest(build), 2)
    wanted = [[y.tobytes() for y in outputs] for outputs in api.run_each(build, data)]
    report, again = (qemu.run(directory, firmware, BOARD, data) for _ in range(2))
    assert [[y.tobytes() for y in run.outputs] for run in report.runs] == wanted
    assert [run.instructions for run in report.runs] == [run.instructions for run in again.runs]
    assert firmware.stack.gaps == ()
    assert all(0 < run.stack <= firmware.stack.bytes for run in report.runs)
    assert firmware.sizes.module("stand_in").total > 20_000
    assert firmware.sizes.module("kernels").total == 0


def said(bundle: Bundle, folder: Path) -> str:
    """Run an image of the bundle once without inputs and return its output."""
    link(bundle, BOARD, FirmwareOptions(), (), Toolchain.find(image.OBJECTS), folder)
    status, text = qemu.emulate(folder / firmware_record.ELF, BOARD, ("firmware",), folder)
    assert status == 1
    return qemu.with_texts(text)


def with_block(bundle: Bundle, name: str, data: bytes) -> Bundle:
    """The bundle with another block in its partition."""
    (delegate,) = bundle.delegates
    blocks = tuple(replace(b, data=data) if b.name == name else b for b in delegate.partition.blocks)
    return replace(bundle, delegates=(replace(delegate, partition=replace(delegate.partition, blocks=blocks)),))


@pytest.mark.slow
def test_what_no_driver_may_be_given_is_refused_on_the_board(payload: bytes, tmp_path: Path) -> None:
    make = programs.Maker()
    x, y = make.tensor((1, 6, 5, 3)), make.tensor((1, 3, 3, 9))
    make.partition(payload, x, y)
    make.delegates[0] = replace(make.delegates[0], id=blob.BACKEND_ID)
    bundle = translate(make.program((x,), (y,)), name="layer")
    layout, commands, _ = bundle.delegates[0].partition.blocks
    words = list(struct.unpack("<9I", layout.data))
    block = (
        "error: bundle version 3: a block of a delegate does not exist, or is shorter than it says itself "
        "(reason 74, detail 0)\n"
    )
    refused = "error: run 0: the NPU's driver rejected the run of a partition, or it failed (reason 79, detail {})\n"
    for i, (name, data, text) in enumerate(
        (
            ("layout", layout.data[:12], block),
            ("layout", struct.pack("<9I", *words[:2], 2, *words[3:]), block),
            ("layout", struct.pack("<9I", *words[:5], words[0] - 80, *words[6:]), block),
            ("commands", commands.data[:-4], block),
            ("commands", commands.data[:16], block),
            ("commands", b"COP2" + commands.data[4:], block),
            ("commands", written(read(commands.data)[:-1], config_of(commands.data, "").word), refused.format(6)),
            ("weights", bytes(16), refused.format(11)),
        )
    ):
        (tmp_path / str(i)).mkdir()
        assert said(with_block(bundle, name, data), tmp_path / str(i)) == text, (i, name)


@pytest.mark.slow
def test_a_profile_of_the_board_has_each_operation_of_the_npu(tmp_path: Path) -> None:
    build = mixed_network.built()
    (data,) = api.seeded_inputs(api.read_manifest(build), 1)
    profiles = [on_board.profile(subject.read(build), BOARD.name, [data]) for _ in range(2)]
    events, again = (profile.profile.stream.events for profile in profiles)
    assert events == again
    (program,) = (partition.program for partition in api.inspect(build).partitions)
    assert [e.name for e in events if e.kind is SpanKind.KERNEL] == [call.kernel for call in program.calls]
    assert sum(e.kind is SpanKind.FETCH for e in events) == len(program.commands) - len(program.calls)
    (delegate,) = (e for e in events if e.kind is SpanKind.DELEGATE)
    kernels = sum(e.stop - e.start for e in events if e.kind is SpanKind.KERNEL)
    assert 0.9 < kernels / (delegate.stop - delegate.start) < 1
    assert profiles[0].warnings == (
        "instructions of NPU operations are those of the stand-in on the core, which executes them; they are not NPU "
        "times, which `deuteron sim` estimates",
    )

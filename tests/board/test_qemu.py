"""The emulator: its command, what its ways to fail become, and the events file."""

import struct
from pathlib import Path

import numpy as np
import pytest

from deuteron.board import boards, qemu
from deuteron.board.bundle import ElementType, Memory, Value
from deuteron.board.firmware_record import Firmware, FirmwareOptions, StepInfo
from deuteron.board.flash import Flash
from deuteron.board.qemu import EmulatorEvent, EventKind
from deuteron.board.size import Sizes
from deuteron.board.stack import Bound
from deuteron.errors import CapacityError, DeuteronError, FormatError, InternalError, MissingToolError

AN505 = boards.load("an505")
VALUE = Value(0, 0, 8, ElementType.S8, (1, 2, 2, 2), (0, 2, 3, 1), "input 0")
FIRMWARE = Firmware(
    deuteron="0.1.0",
    compiler="gcc",
    board="an505",
    options=FirmwareOptions(),
    model="small",
    program_sha256="00",
    tables_crc=0,
    weights="flash",
    arenas="sram",
    kernels=(),
    inputs=(VALUE,),
    outputs=(VALUE,),
    steps=(StepInfo("a step", ""),),
    memories=(Memory(8, "an arena"),),
    state=None,
    regions=(),
    sizes=Sizes((), {}, 0, 0),
    stack=Bound(0, 0, (), (), ()),
    flash=Flash(200, 400_000_000),
    files={},
)
SAMPLE = np.arange(8, dtype=np.int8).reshape(1, 2, 2, 2)


@pytest.fixture
def emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a shell script in the emulator's place."""

    def be(script: str) -> None:
        program = tmp_path / "qemu-system-arm"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(qemu, "find_program", lambda *args: program)

    return be


def run(folder: Path, **options: float) -> qemu.EmulatorReport:
    return qemu.run(folder, FIRMWARE, AN505, [[SAMPLE], [SAMPLE]], **options)


def test_the_command_counts_instructions_and_nothing_else(emulator, tmp_path: Path):
    emulator('printf "%s\\n" "$@"; exit 9')
    status, said = qemu.emulate(tmp_path / "firmware.elf", AN505, ["firmware", "--runs", "2"], tmp_path)
    assert status == 9
    assert said.splitlines() == [
        "-M", "mps2-an505", "-nographic", "-monitor", "none", "-serial", "null",
        "-icount", "shift=6,sleep=off",
        "-semihosting-config", "enable=on,target=native,arg=firmware,arg=--runs,arg=2",
        "-kernel", str(tmp_path / "firmware.elf"),
    ]  # fmt: skip


def header(version: int = 2, runs: int = 2) -> bytes:
    return struct.pack("<6I", 0x454E5444, version, 20_000_000, 640, 8192, runs)


def test_what_the_image_wrote_is_read(emulator, tmp_path: Path):
    events = header()
    for first, ticks in ((0xFFFFFFFE, 1280), (0, 100)):
        events += struct.pack("<7I", 0, 1, 0xFFFFFFF0, (0xFFFFFFF0 + ticks) % 2**32, 1000, 2, 0)
        events += struct.pack("<4I", 0, 0, first, (first + 64) % 2**32)
        events += struct.pack("<4I", 1, 0, 100, 100 + ticks)
    (tmp_path / "events").write_bytes(events)
    (tmp_path / "out").write_bytes(bytes(range(16)))
    emulator(f"cp {tmp_path}/events events; cp {tmp_path}/out out0; cp in0 {tmp_path}/given")
    report = run(tmp_path)
    assert (report.init_instructions, report.stack_bytes) == (500, 8192)
    first, second = report.runs
    assert first.events == (EmulatorEvent(EventKind.COPY_IN, 0, 50), EmulatorEvent(EventKind.STEP, 0, 1000))
    # The step alone is as long as the run says: with the copy, the counter must have come round.
    assert (first.instructions, first.stack) == ((1280 + 2**32) * 50 >> 6, 1000)
    assert second.instructions == (100 + 2**32) * 50 >> 6
    # Inputs and outputs are in the order that the program has in memory.
    stored = SAMPLE.transpose(0, 2, 3, 1).tobytes()
    assert (tmp_path / "given").read_bytes() == stored + stored
    assert second.outputs[0].tolist() == [[[[8, 10], [12, 14]], [[9, 11], [13, 15]]]]


@pytest.mark.parametrize(
    ("script", "kind", "error"),
    [
        (
            "echo 'error: run 0: reason 65, detail 0, code 16691'; exit 1",
            FormatError,
            "firmware.elf: the firmware failed: run 0: a copy of an input or output failed or took too long "
            "(reason 65, detail 0)\n\nhint: build the firmware again",
        ),
        (
            "echo 'error: unknown option --speed' >&2; exit 2",
            InternalError,
            "firmware.elf: the firmware does not understand its command line: unknown option --speed",
        ),
        (
            "echo noise; printf 'fault: BusFault: the data could not be read\\n  pc 0x10000202, lr 0x1\\n'; exit 3",
            InternalError,
            "firmware.elf: the processor stopped with a fault: BusFault: the data could not be read; "
            "pc 0x10000202, lr 0x1",
        ),
        (
            "echo 'qemu-system-arm: unsupported machine type' >&2; exit 7",
            InternalError,
            "firmware.elf: the emulator ended with status 7: qemu-system-arm: unsupported machine type",
        ),
        (
            "exit 1",
            FormatError,
            "firmware.elf: the firmware failed: it ended with status 1 and said nothing\n\n"
            "hint: build the firmware again",
        ),
        (
            "exec sleep 10",
            CapacityError,
            "`firmware.elf` did not end within 0.2 s on `mps2-an505`\n\nhint: it hangs or waits forever; for a large "
            "model, raise the limit with `--time-out`",
        ),
    ],
)
def test_every_way_to_fail(emulator, tmp_path: Path, script: str, kind: type[DeuteronError], error: str):
    emulator(script)
    with pytest.raises(kind) as caught:
        run(tmp_path, time_out=0.2 if "sleep" in script else 10)
    assert str(caught.value) == error


def test_an_events_file_of_another_version(emulator, tmp_path: Path):
    (tmp_path / "events").write_bytes(header(version=3, runs=0))
    emulator(f"cp {tmp_path}/events events; : > out0")
    with pytest.raises(InternalError) as caught:
        run(tmp_path)
    assert str(caught.value) == "the image writes events of version 3, version 2 is known"


def test_without_an_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError) as caught:
        run(tmp_path)
    assert str(caught.value) == (
        "the emulator for Arm boards is not installed: found no `qemu-system-arm` on PATH\n\n"
        "hint: install it, on Debian with `apt-get install qemu-system-arm`"
    )

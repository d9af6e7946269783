"""Running an image in an emulator: arrays in; arrays, counted instructions and the stack in use out.

Time in the emulator is counted, not measured: one instruction takes 2^6 ns, and sleep takes none of the host's time, so
that every run of an image on the same inputs counts the same.
"""

import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from deuteron.board.arrays import Array, from_bytes, to_bytes
from deuteron.board.boards import Board
from deuteron.board.bundle import Value
from deuteron.board.record import ELF, Firmware
from deuteron.errors import CapacityError, FormatError, InternalError, OptionError
from deuteron.runtime.system_programs import find_program

PROGRAM = "qemu-system-arm"
PACKAGE = "qemu-system-arm"

TIME_OUT = 600
"""Seconds until an emulator counts as hung."""

_SHIFT = 6
INSTRUCTIONS_PER_SECOND = 1_000_000_000 >> _SHIFT
"""Of an emulated core."""

_WRAP = 1 << 32
_NS = 1_000_000_000

_MAGIC = 0x454E5444
_VERSION = 1
_HEADER = struct.Struct("<6I")
_RUN = struct.Struct("<5I")
_EVENT = struct.Struct("<4I")

_FAILED, _USAGE, _FAULT = 1, 2, 3


class EventKind(Enum):
    """What an event is about, numbered as `deuteron/executor.h` does."""

    COPY_IN = 0
    STEP = 1
    COPY_OUT = 2


@dataclass(frozen=True, slots=True)
class Event:
    """A span of a run: the input, step or output that it is about, and the instructions that it took."""

    kind: EventKind
    index: int
    instructions: int


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the program.

    Attributes:
        outputs: in their logical shapes.
        instructions: of all, with what the executor takes itself.
        events: in their order.
        stack: most bytes in use since start-up.
    """

    outputs: tuple[Array, ...]
    instructions: int
    events: tuple[Event, ...]
    stack: int


@dataclass(frozen=True, slots=True)
class Report:
    """What an emulator gave.

    Attributes:
        runs: one per sample.
        init_instructions: of checking and preparing the program, once.
        stack_bytes: what the stack may take.
        packets: events of each run (deuteron/profile.h), of an image that records them.
    """

    runs: tuple[Run, ...]
    init_instructions: int
    stack_bytes: int
    packets: bytes = b""


def run(
    directory: Path,
    firmware: Firmware,
    board: Board,
    samples: Sequence[Sequence[Array]],
    *,
    time_out: float = TIME_OUT,
    event_capacity: int = 0,
    options: Sequence[str] = (),
) -> Report:
    """The outputs and counts of a firmware directory on samples of its inputs, one after the other.

    Args:
        directory: of the firmware.
        firmware: its record.
        board: what it is for.
        samples: inputs of each run.
        time_out: seconds.
        event_capacity: of a profiling image: events of a run that it has room for; 0 for all that fit into memory.
        options: further ones of the emulator.

    Raises:
        MissingToolError: when QEMU is not installed.
        OptionError: when the image is for silicon.
        FormatError: when the image refuses its program, in the driver's words.
        CapacityError: when it does not end in time.
        InternalError: when the image or the emulator fails otherwise.
    """
    if firmware.options.ethosu_driver is not None:
        raise OptionError(
            f"`{directory}` was linked with a driver for an Ethos-U, which the emulator of `{board.name}` does not "
            "have",
            hint="build the firmware without `--ethos-u-driver`: the core then does what the NPU would",
        )
    with tempfile.TemporaryDirectory(prefix="deuteron-qemu-") as scratch:
        work = Path(scratch)
        flash = firmware.flash
        words = ["firmware", "--runs", str(len(samples)), "--events", "events"]
        words += ("--flash-latency-ns", str(flash.latency_ns), "--flash-bytes-per-second", str(flash.bandwidth))
        profiling = firmware.options.use_profiling
        if profiling:
            words += ("--profile", "packets", "--event-capacity", str(event_capacity))
        for i, value in enumerate(firmware.inputs):
            (work / f"in{i}").write_bytes(b"".join(to_bytes(value, sample[i]) for sample in samples))
            words += ("--input", f"in{i}")
        for i in range(len(firmware.outputs)):
            words += ("--output", f"out{i}")
        status, said = emulate(directory / ELF, board, words, work, time_out=time_out, options=options)
        if status:
            raise _error(status, said, directory / ELF)
        outputs = [(work / f"out{i}").read_bytes() for i in range(len(firmware.outputs))]
        report = _report((work / "events").read_bytes(), firmware, outputs)
        return replace(report, packets=(work / "packets").read_bytes()) if profiling else report


def emulate(
    elf: Path,
    board: Board,
    words: Sequence[str],
    work: Path,
    *,
    time_out: float = TIME_OUT,
    options: Sequence[str] = (),
) -> tuple[int, str]:
    """The exit status of an image, started in the directory `work` with a command line, and what it printed.

    `options` are further ones of the emulator.

    Raises:
        MissingToolError: when QEMU is not installed.
        CapacityError: when the image does not end in time.
    """
    program = find_program(PROGRAM, PACKAGE, "the emulator for Arm boards")
    semihosting = ",".join(("enable=on", "target=native", *(f"arg={word}" for word in words)))
    command = (
        program, "-M", board.machine, "-nographic", "-monitor", "none", "-serial", "null",
        "-icount", f"shift={_SHIFT},sleep=off", "-semihosting-config", semihosting, *options,
        "-kernel", elf.absolute(),
    )  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=work, capture_output=True, text=True, errors="replace", timeout=time_out, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CapacityError(
            f"`{elf.name}` did not end within {time_out:g} s on `{board.machine}`",
            hint="it hangs, or waits for what never comes; for a model this large, raise the limit with `--time-out`",
        ) from None
    return done.returncode, done.stdout + done.stderr


def instructions(ticks: int, hz: int) -> int:
    """Instructions in a span of ticks, exact but for the one that the counter was read in."""
    return ticks * (_NS // hz) >> _SHIFT


def _error(status: int, said: str, elf: Path) -> FormatError | InternalError:
    """The error for an exit status other than 0, with the first line that tells a reason."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith(("error: ", "fault: "))]
    reason = (reasons or lines or [f"it ended with status {status} and said nothing"])[0]
    reason = reason.removeprefix("error: ").removeprefix("fault: ")
    match status:
        case _ if status == _FAILED:
            return FormatError(f"the firmware failed: {reason}", where=elf.name, hint="build the firmware again")
        case _ if status == _FAULT:
            at = next((line for line in lines if line.startswith("pc ")), "")
            return InternalError(f"the processor stopped with a fault: {reason}; {at}", where=elf.name)
        case _ if status == _USAGE:
            return InternalError(f"the firmware does not understand what it is told: {reason}", where=elf.name)
        case _:
            return InternalError(f"the emulator ended with status {status}: {reason}", where=elf.name)


def _report(data: bytes, firmware: Firmware, outputs: Sequence[bytes]) -> Report:
    """What the events file and the output files tell."""
    magic, version, hz, init, stack_bytes, count = _HEADER.unpack_from(data)
    if (magic, version) != (_MAGIC, _VERSION):
        raise InternalError(f"the image writes events of version {version}, version {_VERSION} is known")
    at = _HEADER.size
    runs: list[Run] = []
    for number in range(count):
        _error_code, _steps, ticks, stack, events = _RUN.unpack_from(data, at)
        at += _RUN.size
        spans = [_EVENT.unpack_from(data, at + i * _EVENT.size) for i in range(events)]
        at += events * _EVENT.size
        known = {kind.value for kind in EventKind}  # a profile tells of what is inside of these
        lengths = [(kind, index, (stop - start) % _WRAP) for kind, index, start, stop in spans if kind in known]
        # A run may take longer than the counter needs to come round; a step of it does not.
        rounds = max(0, sum(length for *_, length in lengths) - ticks + _WRAP - 1) // _WRAP
        runs.append(
            Run(
                tuple(_part(output, value, number) for output, value in zip(outputs, firmware.outputs, strict=True)),
                instructions(ticks + rounds * _WRAP, hz),
                tuple(Event(EventKind(kind), index, instructions(length, hz)) for kind, index, length in lengths),
                stack,
            )
        )
    return Report(tuple(runs), instructions(init, hz), stack_bytes)


def _part(data: bytes, value: Value, number: int) -> Array:
    """What run `number` gave of an output."""
    return from_bytes(value, data[number * value.bytes : (number + 1) * value.bytes])

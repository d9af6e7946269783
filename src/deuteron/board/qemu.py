"""Runs an image in an emulator; returns outputs, instruction counts and stack use.

Emulated time is deterministic: one instruction takes 2^6 ns, and sleep takes no time of the host. Every run of an image
on the same inputs gives the same counts.
"""

import re
import struct
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from deuteron.board.boards import Board
from deuteron.board.bundle import Value
from deuteron.board.firmware_record import ELF, Firmware, Harness
from deuteron.board.host_executor import error_text
from deuteron.board.tensor_bytes import Array, from_bytes, to_bytes
from deuteron.errors import CapacityError, FormatError, InternalError, OptionError
from deuteron.runtime.system_programs import find_program

PROGRAM = "qemu-system-arm"
PACKAGE = "qemu-system-arm"

TIME_OUT = 600
"""Seconds after which an emulator counts as hung."""

_SHIFT = 6
INSTRUCTIONS_PER_SECOND = 1_000_000_000 >> _SHIFT
"""Instructions per second of an emulated core."""

_WRAP = 1 << 32
_NS = 1_000_000_000

_MAGIC = 0x454E5444
_VERSION = 2
_HEADER = struct.Struct("<6I")
_RUN = struct.Struct("<7I")
_EVENT = struct.Struct("<4I")

_FAILED, _USAGE, _FAULT = 1, 2, 3
_CODE = re.compile(r"reason \d+, detail \d+, code (\d+)")
"""An error of the runtime, as the firmware prints it."""


class EventKind(Enum):
    """Subject of an event, numbered as in `deuteron/executor.h`."""

    COPY_IN = 0
    STEP = 1
    COPY_OUT = 2


@dataclass(frozen=True, slots=True)
class EmulatorEvent:
    """A span of a run: its input, step or output, and its instructions."""

    kind: EventKind
    index: int
    instructions: int


@dataclass(frozen=True, slots=True)
class EmulatorRun:
    """One run of the program.

    Attributes:
        outputs: in their logical shapes.
        instructions: total of the run, including the executor's.
        events: in order.
        stack: maximum bytes in use since start-up.
    """

    outputs: tuple[Array, ...]
    instructions: int
    events: tuple[EmulatorEvent, ...]
    stack: int


@dataclass(frozen=True, slots=True)
class EmulatorReport:
    """Results of an emulator.

    Attributes:
        runs: one per sample.
        init_instructions: instructions to check and prepare the program, once.
        stack_bytes: size of the stack.
        packets: events of each run (deuteron/profile.h), for an image that records them.
    """

    runs: tuple[EmulatorRun, ...]
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
    resets: Collection[int] | None = None,
) -> EmulatorReport:
    """Run a firmware directory on samples of its inputs, one after the other, and return outputs and counts.

    One process of the emulator runs all samples. A program with state has the initial state at each sample in `resets`,
    and carries its state from the sample before into any other.

    Args:
        directory: the firmware.
        firmware: its record.
        board: its board.
        samples: inputs of each run.
        time_out: seconds.
        event_capacity: number of events that a profiling image can store per run; 0 for all that fit into memory.
        options: further options of the emulator.
        resets: numbers of the samples that start a sequence; None for all.

    Raises:
        MissingToolError: QEMU is not installed.
        OptionError: the image is for silicon.
        FormatError: the image rejects its program; the message is the driver's.
        CapacityError: it does not end in time.
        InternalError: the image or the emulator fails otherwise.
    """
    if firmware.options.ethosu_driver is not None:
        raise OptionError(
            f"`{directory}` was linked with a driver for an Ethos-U, which the emulator of `{board.name}` does not "
            "have",
            hint="build the firmware without `--ethos-u-driver`: the core then executes the NPU's commands",
        )
    if firmware.options.harness is Harness.SERIAL:
        raise OptionError(
            f"`{directory}` was built with `--harness serial`: it waits for requests on a serial line",
            hint="run it with `--on serial:PORT` or `--on tcp:HOST:PORT`, or build it without `--harness serial`",
        )
    with tempfile.TemporaryDirectory(prefix="deuteron-qemu-") as scratch:
        work = Path(scratch)
        flash = firmware.flash
        words = ["firmware", "--runs", str(len(samples)), "--events", "events"]
        words += ("--flash-latency-ns", str(flash.latency_ns), "--flash-bytes-per-second", str(flash.bandwidth))
        profiling = firmware.options.use_profiling
        if profiling:
            words += ("--profile", "packets", "--event-capacity", str(event_capacity))
        if firmware.state is not None:
            starts = range(len(samples)) if resets is None else resets
            (work / "resets").write_bytes(bytes(number in starts for number in range(len(samples))))
            words += ("--resets", "resets")
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
    """Run an image in the directory `work` with a command line; return its exit status and its output.

    `options` are further options of the emulator.

    Raises:
        MissingToolError: QEMU is not installed.
        CapacityError: the image does not end in time.
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
            hint="it hangs or waits forever; for a large model, raise the limit with `--time-out`",
        ) from None
    return done.returncode, done.stdout + done.stderr


def ticks(instructions: int, hz: int) -> int:
    """Return the ticks of instructions, rounded down."""
    return (instructions << _SHIFT) * hz // _NS


def instructions(ticks: int, hz: int) -> int:
    """Return the instructions in a span of ticks, exact except for the one that read the counter."""
    return ticks * (_NS // hz) >> _SHIFT


def with_texts(said: str) -> str:
    """Return what firmware printed with the texts of the runtime's errors, of which it prints the numbers."""
    return _CODE.sub(lambda found: error_text(int(found[1])), said)


def _error(status: int, said: str, elf: Path) -> FormatError | InternalError:
    """Return the error for an exit status other than 0, with the first line that gives a reason."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith(("error: ", "fault: "))]
    reason = (reasons or lines or [f"it ended with status {status} and said nothing"])[0]
    reason = with_texts(reason.removeprefix("error: ").removeprefix("fault: "))
    match status:
        case _ if status == _FAILED:
            return FormatError(f"the firmware failed: {reason}", where=elf.name, hint="build the firmware again")
        case _ if status == _FAULT:
            at = next((line for line in lines if line.startswith("pc ")), "")
            return InternalError(f"the processor stopped with a fault: {reason}; {at}", where=elf.name)
        case _ if status == _USAGE:
            return InternalError(f"the firmware does not understand its command line: {reason}", where=elf.name)
        case _:
            return InternalError(f"the emulator ended with status {status}: {reason}", where=elf.name)


def _report(data: bytes, firmware: Firmware, outputs: Sequence[bytes]) -> EmulatorReport:
    """Parse the events file and the output files."""
    magic, version, hz, init, stack_bytes, count = _HEADER.unpack_from(data)
    if (magic, version) != (_MAGIC, _VERSION):
        raise InternalError(f"the image writes events of version {version}, version {_VERSION} is known")
    at = _HEADER.size
    runs: list[EmulatorRun] = []
    for number in range(count):
        _error_code, _steps, start, stop, stack, events, _lost = _RUN.unpack_from(data, at)
        ticks = (stop - start) % _WRAP
        at += _RUN.size
        spans = [_EVENT.unpack_from(data, at + i * _EVENT.size) for i in range(events)]
        at += events * _EVENT.size
        known = {kind.value for kind in EventKind}  # a profile also has events inside of these
        lengths = [(kind, index, (stop - start) % _WRAP) for kind, index, start, stop in spans if kind in known]
        # A run may take longer than the counter's period; a step does not.
        rounds = max(0, sum(length for *_, length in lengths) - ticks + _WRAP - 1) // _WRAP
        runs.append(
            EmulatorRun(
                tuple(_part(output, value, number) for output, value in zip(outputs, firmware.outputs, strict=True)),
                instructions(ticks + rounds * _WRAP, hz),
                tuple(EmulatorEvent(EventKind(kind), i, instructions(length, hz)) for kind, i, length in lengths),
                stack,
            )
        )
    return EmulatorReport(tuple(runs), instructions(init, hz), stack_bytes)


def _part(data: bytes, value: Value, number: int) -> Array:
    """Return an output of run `number`."""
    return from_bytes(value, data[number * value.bytes : (number + 1) * value.bytes])

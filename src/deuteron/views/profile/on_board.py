"""Profiles of runs on boards: in an emulator, or from a board's events."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deuteron.board import boards, image, qemu
from deuteron.board import firmware_record as firmwares
from deuteron.board.bundle import Bundle, Step, StepKind
from deuteron.board.state import NO_INSTRUCTION
from deuteron.board.toolchain import Toolchain
from deuteron.errors import InputError, OptionError, unreadable
from deuteron.runtime.host import Array
from deuteron.views.events import record
from deuteron.views.events.events import SpanKind, Stream
from deuteron.views.events.exports import inspector
from deuteron.views.events.instruction_map import Instructions
from deuteron.views.events.sources import etdump, host
from deuteron.views.events.sources import packets as board
from deuteron.views.memory import arena_planning
from deuteron.views.profile import subject as builds
from deuteron.views.profile.estimates import with_estimates
from deuteron.views.profile.subject import Build

_STAND_IN = (
    "instructions of NPU operations are those of the stand-in on the core, which executes them; they are not NPU "
    "times, which `deuteron sim` estimates"
)
PLACE = "board"
"""Place of a profile whose events came in a file."""

PACKETS = "events"
"""Name in errors for the packets of an emulated board."""


@dataclass(frozen=True, slots=True)
class BoardProfile:
    """The profile of a board's events.

    Attributes:
        packets: the events that it sent, empty for an ETDump.
        warnings: sentences about missing or unreliable data.
    """

    profile: record.Profile
    packets: bytes = b""
    warnings: tuple[str, ...] = ()


def profile(
    build: Build,
    name: str,
    inputs: Sequence[Sequence[Array]],
    event_capacity: int = 0,
    *,
    time_out: float | None = None,
) -> BoardProfile:
    """Profile runs on a board in an emulator, with firmware made for profiling.

    The emulator counts as hung after `time_out` seconds, or the default.
    """
    chosen = boards.load_emulated(name)
    options = firmwares.FirmwareOptions(use_profiling=True)
    with tempfile.TemporaryDirectory(prefix="deuteron-profile-") as scratch:
        directory = Path(scratch) / "firmware"
        built = image.build(build.directory, chosen, options, Toolchain.find(image.OBJECTS))
        image.write(built, directory, force=False)
        limit = qemu.TIME_OUT if time_out is None else time_out
        report = qemu.run(directory, built.record, chosen, inputs, event_capacity=event_capacity, time_out=limit)
    received = board.read(report.packets, build.program_sha256, PACKETS)
    stream = stream_of(build, received.packets, PACKETS)
    running = replace(build, sections=_sections(built.record), arena=arena_planning(build.directory))
    made_here = with_estimates(running, builds.profile(running, name, stream), 0, has_npu=False)
    stand_in = (_STAND_IN,) if built.record.sizes.module("stand_in").total else ()
    return BoardProfile(made_here, report.packets, (*received.warnings, *stand_in))


def from_events(build: Build, path: Path, ticks_per_second: int | None = None) -> BoardProfile:
    """Profile the events in a file from a board or from ExecuTorch's runtime.

    Args:
        build: the build that ran.
        path: path of the file.
        ticks_per_second: rate of the runtime's clock, which an ETDump does not contain; packets contain theirs.

    Raises:
        OptionError: the rate is missing, or it is given for packets.
        InputError: the file cannot be read, or is neither.
        FormatError: the file is damaged, or of another program.
    """
    try:
        data = path.read_bytes()
    except OSError as e:
        raise unreadable(path, e) from e
    if etdump.is_etdump(data):
        blocks = etdump.read(data, str(path))
        if inspector.is_dumped(blocks):
            raise InputError(
                f"`{path}` is an ETDump of `deuteron profile` for ExecuTorch's Inspector",
                hint=f"show the profile: `deuteron profile {path.parent}`",
            )
        if ticks_per_second is None:
            raise OptionError(
                f"`{path}` is an ETDump, which does not contain the length of a tick",
                hint="give `--ticks-per-second N`, the rate of `et_pal_current_ticks` on the device; 1000000000 where "
                "it counts nanoseconds",
            )
        return BoardProfile(
            builds.profile(build, PLACE, host.stream(blocks, build.instructions, str(path), ticks_per_second))
        )
    if ticks_per_second is not None:
        raise OptionError(
            f"`{path}` is not an ETDump: `--ticks-per-second` is for ETDumps only",
            hint="leave it out: events of Deuteron's firmware contain the length of a tick",
        )
    if data and not board.is_packets(data):
        raise InputError(
            f"`{path}` has neither events of Deuteron's firmware nor an ETDump",
            hint="give the bytes of `dtn_port_events`, or an ETDump of ExecuTorch's runtime",
        )
    received = board.read(data, build.program_sha256, str(path))
    running = replace(build, arena=arena_planning(build.directory))
    profiled = builds.profile(running, PLACE, stream_of(build, received.packets, str(path)))
    return BoardProfile(profiled, data, received.warnings)


def stream_of(build: Build, packets: Sequence[board.Packet], where: str) -> Stream:
    """Return the events of packets from a build's firmware; `where` is their place in errors."""
    program = build.instructions
    steps = steps_of(image.bundle_of(build.directory), program)
    return board.stream(packets, steps, program, where, qemu.INSTRUCTIONS_PER_SECOND)


def steps_of(bundle: Bundle, program: Instructions) -> tuple[board.Step, ...]:
    """Return the steps of a bundle: partitions, their transposes, and operators, which may have several steps."""
    return tuple(_step(step, program) for step in bundle.steps)


def _step(step: Step, program: Instructions) -> board.Step:
    if step.kind is StepKind.DELEGATE:
        number = program.partitions[step.instruction]
        return board.Step(SpanKind.DELEGATE, f"npu {number}", number)
    if step.instruction in program.partitions:
        return board.Step(SpanKind.TRANSPOSE, step.title)
    if step.instruction == NO_INSTRUCTION:
        return board.Step(SpanKind.OPERATOR, step.title)
    name, index = program.operators[step.instruction]
    return board.Step(SpanKind.OPERATOR, name, index=index)


def _sections(firmware: firmwares.Firmware) -> tuple[record.Section, ...]:
    return tuple(record.Section(row.module, row.part, row.total) for row in firmware.sizes.rows)

"""Runs builds for profiles, and writes the files of profiles."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deuteron.arch import targets
from deuteron.board import boards
from deuteron.board.build_directory import build_directory
from deuteron.board.harness.line import is_line
from deuteron.builds import manifest as manifests
from deuteron.builds import output as outputs
from deuteron.builds.options import TfliteOptions
from deuteron.errors import OptionError, UnsupportedError
from deuteron.runtime.host import Array, HostRunner
from deuteron.runtime.inputs import Sample, check_inputs, seeded_inputs
from deuteron.runtime.tflite_model import has_c_operators
from deuteron.views.events import record
from deuteron.views.events.events import Stream
from deuteron.views.events.exports import inspector
from deuteron.views.events.exports.node_data import node_data
from deuteron.views.events.sources import etdump, host, simulated
from deuteron.views.profile import on_board as board
from deuteron.views.profile import on_line
from deuteron.views.profile import subject as builds
from deuteron.views.profile.subject import Build
from deuteron.views.run.line import LineOptions
from deuteron.views.run.samples import repeated

PLACES = ("host", "sim", *boards.names())
TRACE = "trace.perfetto-trace"
ETDUMP = "etdump.etdp"
NODE_DATA = "model_explorer.json"
EVENTS = "events.bin"


@dataclass(frozen=True, slots=True)
class Profiled:
    """A profile, sentences about missing data, and the written files."""

    profile: record.Profile
    warnings: tuple[str, ...]
    files: tuple[Path, ...]


def default_output(directory: Path, place: str) -> Path:
    """Return the default directory for the profile of a build or file; it is always replaced."""
    name = f"profile_{place}"
    return directory.with_name(f"{directory.name}.{name}") if directory.is_file() else directory / name


def profile_build(
    directory: Path,
    *,
    target: str | None = None,
    etrecord: str | Path | None = None,
    tflite: TfliteOptions = TfliteOptions(),
    on: str = "host",
    samples: Sequence[Sample] | None = None,
    runs: int | None = None,
    events: Path | None = None,
    ticks_per_second: int | None = None,
    output: Path | None = None,
    force: bool = False,
    baud: int | None = None,
    time_out: float | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Profiled:
    """Profile runs of a build.

    Args:
        directory: a build, a TFLite file or a program.
        target: target of a TFLite file.
        etrecord: ETRecord of a program.
        tflite: options of a TFLite file.
        on: one of PLACES, or a line to a board.
        samples: inputs of the runs; random ones by default.
        runs: number of runs, which repeat the samples; by default one per sample.
        events: a file from a board or from ExecuTorch; nothing runs then.
        ticks_per_second: clock rate of an ETDump in that file.
        output: a directory to write; the default one is always replaced, another with `force` only.
        force: replace `output`.
        baud: rate of a serial port in bits per second.
        time_out: seconds after which an emulator, or a run on a board, counts as hung.
        progress: called with the number of complete runs on a board at a line, and of all.

    Raises:
        OptionError: an option does not fit, or `output` exists.
        DeuteronError: the directory is not a build, or the run failed.
    """
    place = board.PLACE if events or is_line(on) else on
    if baud is not None and not is_line(on):
        raise OptionError("`--baud` is for a serial port", hint="name the port with `--on serial:PORT`")
    if time_out is not None and place in ("host", "sim"):
        raise OptionError(
            f"`--time-out` is for boards, and the profile is of `{place}`", hint="leave it out, or add `--on LINE`"
        )
    if time_out is not None and events is not None:
        raise OptionError("`--from-events` runs nothing", hint="leave out `--time-out`")
    if place not in (*PLACES, board.PLACE):
        listed = ", ".join(f"`{name}`" for name in PLACES)
        raise OptionError(
            f"unknown value `{on}` of `--on`", hint=f"choose one of {listed}, or a line: `serial:PORT`, `tcp:HOST:PORT`"
        )
    if output not in (None, default_output(directory, place)):
        outputs.check_output(output, force=force, record=record.NAME)
    build = builds.read(build_directory(directory, target, etrecord=etrecord, tflite=tflite, profiling=True))
    if place == "host" and manifests.TFLITE in build.manifest.files and has_c_operators(build.manifest.target):
        raise _only_on_boards(directory, build.manifest.target)
    if events is not None:
        sent = board.from_events(build, events, ticks_per_second)
    else:
        if samples is None:
            samples = seeded_inputs(build.manifest, runs or 1)
        for sample in samples:
            check_inputs(build.manifest, sample)
        chosen = repeated(samples, runs)
        if is_line(on):
            sent = on_line.profile(build, LineOptions(on, baud, time_out), chosen, progress)
        else:
            sent = profile_and_packets(build, ProfileRequest(place, chosen, time_out))
    written = () if output is None else write(sent.profile, build, output, sent.packets)
    warnings = (*build.warnings, *sent.warnings, *builds.warnings(build, sent.profile))
    return Profiled(sent.profile, warnings, tuple(written))


def _only_on_boards(path: Path, target: str) -> UnsupportedError:
    """Return the error for a program of C operators on the host; the hint prefers the board with the target's core."""
    core = targets.load(target).cpu.name
    emulated = [board for board in map(boards.load, boards.names()) if board.machine]
    fitting = [board for board in emulated if board.cpu == core] or emulated
    return UnsupportedError(
        "the program calls C operators of the firmware, which `profile` does not measure on the host",
        where=f"`{path}`",
        hint=f"profile it on an emulated board: {', '.join(f'`--on {board.name}`' for board in fitting)}",
    )


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """A request for a profile.

    Attributes:
        on: one of PLACES.
        inputs: one set per run.
        time_out: seconds after which an emulator counts as hung; None for the default.
    """

    on: str
    inputs: Sequence[Sequence[Array]] = ()
    time_out: float | None = None


def profile(build: Build, wanted: ProfileRequest) -> record.Profile:
    """Return the profile of runs of a build."""
    return profile_and_packets(build, wanted).profile


def profile_and_packets(build: Build, wanted: ProfileRequest) -> board.BoardProfile:
    """Return the profile, with the events as a board sent them, if one ran."""
    if wanted.on in ("host", "sim"):
        stream = _on_host(build, wanted.inputs) if wanted.on == "host" else _simulated(build)
        return board.BoardProfile(builds.profile(build, wanted.on, stream))
    return board.profile(build, wanted.on, wanted.inputs, time_out=wanted.time_out)


def _simulated(build: Build) -> Stream:
    if not build.partitions:
        raise UnsupportedError(
            f"`{build.directory}` has nothing on an NPU; the simulator supports only the NPU",
            hint="choose another place with `--on`",
        )
    return simulated.stream((run.program, run.timeline) for run, _ in build.partitions)


def _on_host(build: Build, inputs: Sequence[Sequence[Array]]) -> Stream:
    """Return the events of ExecuTorch's runtime on this machine, without a first run with cold caches."""
    runner = HostRunner(build.directory / manifests.PROGRAM, etdump=True, debug_bytes=0)
    for sample in (inputs[0], *inputs):
        runner.run(sample)
    with tempfile.TemporaryDirectory(prefix="deuteron-") as folder:
        dumped, debug = Path(folder) / ETDUMP, Path(folder) / "debug"
        runner.write_etdump(dumped, debug)
        blocks = etdump.read(dumped.read_bytes(), ETDUMP)
    runs = [block for block in blocks if any(span.name == etdump.EXECUTE for span in block.spans)]
    return host.stream(runs[1:], build.instructions, ETDUMP)


def write(profiled: record.Profile, build: Build, directory: Path, packets: bytes = b"") -> Sequence[Path]:
    """Write the files of a profile, with a board's events if there are any, and return their paths.

    Raises:
        OptionError, InputError: they cannot be written.
    """
    from deuteron.views.events.exports.trace import trace  # its package loads slowly
    from deuteron.views.report import page

    title = f"{profiled.model} on {profiled.on} ({profiled.stream.measure.value})"
    files = {
        record.NAME: record.FILE.to_json(profiled).encode(),
        TRACE: trace(profiled.stream, title, profiled),
        ETDUMP: inspector.dump(profiled.stream, build.instructions),
        NODE_DATA: node_data(profiled),
        page.FILE: page.html(profiled).encode(),
    }
    if (build.directory / manifests.ETRECORD).is_file():
        files[manifests.ETRECORD] = (build.directory / manifests.ETRECORD).read_bytes()
    if packets:
        files[EVENTS] = packets
    outputs.write(directory, files, force=True, record=record.NAME)
    return tuple(directory / name for name in files)

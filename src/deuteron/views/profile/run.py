"""Runs to be profiled, and the files that are written of them."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deuteron.builds import manifest as manifests
from deuteron.builds import output as outputs
from deuteron.errors import OptionError, UnsupportedError
from deuteron.runtime.host import Array, HostRunner
from deuteron.views.events import record
from deuteron.views.events.events import Stream
from deuteron.views.events.exports import inspector
from deuteron.views.events.exports.node_data import node_data
from deuteron.views.events.sources import etdump, host, simulated
from deuteron.views.profile import on_board as board
from deuteron.views.profile import subject as builds
from deuteron.views.profile.subject import Build

PLACES = ("host", "sim", "an505", "an547")
TRACE = "trace.perfetto-trace"
ETDUMP = "etdump.etdp"
NODE_DATA = "model_explorer.json"
EVENTS = "events.bin"


def check_output(directory: Path, on: str, output: Path | None, *, force: bool) -> Path:
    """Where the profile of a build is written, checked before the work.

    Raises:
        OptionError: for an unknown place to run on, or an output directory that may not be replaced.
    """
    if on not in (*PLACES, board.PLACE):
        listed = ", ".join(f"`{name}`" for name in PLACES)
        raise OptionError(f"unknown value `{on}` of `--on`", hint=f"choose one of {listed}")
    if output is None:
        return directory / f"profile_{on}"
    outputs.check_output(output, force=force, record=record.NAME)
    return output


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be profiled.

    Attributes:
        on: one of PLACES.
        inputs: a set per run.
    """

    on: str
    inputs: Sequence[Sequence[Array]] = ()


def profile(build: Build, wanted: Wanted) -> record.Profile:
    """The profile of runs of a build."""
    return profile_and_packets(build, wanted).profile


def profile_and_packets(build: Build, wanted: Wanted) -> board.Sent:
    """The same, with the events as a board has sent them, where one ran."""
    if wanted.on in ("host", "sim"):
        stream = _on_host(build, wanted.inputs) if wanted.on == "host" else _simulated(build)
        return board.Sent(builds.profile(build, wanted.on, stream))
    return board.profile(build, wanted.on, wanted.inputs)


def _simulated(build: Build) -> Stream:
    if not build.partitions:
        raise UnsupportedError(
            f"`{build.directory}` has nothing on an NPU, and only that is simulated",
            hint="choose another place with `--on`",
        )
    return simulated.stream((run.decoded, run.timeline) for run, _ in build.partitions)


def _on_host(build: Build, inputs: Sequence[Sequence[Array]]) -> Stream:
    """The events of ExecuTorch's runtime on this machine; a first run, which finds cold caches, is not in it."""
    runner = HostRunner(build.directory / manifests.PROGRAM, etdump=True, debug_bytes=0)
    for sample in (inputs[0], *inputs):
        runner.run(sample)
    with tempfile.TemporaryDirectory(prefix="deuteron-") as folder:
        dumped, debug = Path(folder) / ETDUMP, Path(folder) / "debug"
        runner.write_etdump(dumped, debug)
        blocks = etdump.read(dumped.read_bytes(), ETDUMP)
    runs = [block for block in blocks if any(span.name == etdump.EXECUTE for span in block.spans)]
    return host.stream(runs[1:], build.instructions, ETDUMP)


def write(made: record.Profile, build: Build, directory: Path, packets: bytes = b"") -> Sequence[Path]:
    """The files that were written, with the events as a board has sent them, if one has.

    Raises:
        OptionError, InputError: they cannot be.
    """
    from deuteron.views.events.exports.trace import trace  # its package takes a while to load
    from deuteron.views.report import page

    title = f"{made.model} on {made.on} ({made.stream.measure.value})"
    files = {
        record.NAME: record.FILE.to_json(made).encode(),
        TRACE: trace(made.stream, title, made),
        ETDUMP: inspector.dump(made.stream, build.instructions),
        NODE_DATA: node_data(made),
        page.FILE: page.html(made).encode(),
    }
    if (build.directory / manifests.ETRECORD).is_file():
        files[manifests.ETRECORD] = (build.directory / manifests.ETRECORD).read_bytes()
    if packets:
        files[EVENTS] = packets
    outputs.write(directory, files, force=True, record=record.NAME)
    return tuple(directory / name for name in files)

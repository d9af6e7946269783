"""Runs to be profiled, and the files that are written of them."""

from collections.abc import Sequence
from pathlib import Path

from deuteron.errors import OptionError
from deuteron.frontend import output as outputs
from deuteron.profile import record, simulated
from deuteron.profiling import build as builds

PLACES = ("host", "sim", "an505", "an547")
TRACE = "trace.perfetto-trace"


def check_output(directory: Path, on: str, output: Path | None, *, force: bool) -> Path:
    """Where the profile of a build is written, checked before the work.

    Raises:
        OptionError: for an unknown place to run on, or an output directory that may not be replaced.
    """
    if on not in PLACES:
        listed = ", ".join(f"`{name}`" for name in PLACES)
        raise OptionError(f"unknown value `{on}` of `--on`", hint=f"choose one of {listed}")
    if output is None:
        return directory / f"profile_{on}"
    outputs.check_output(output, force=force, record=record.NAME)
    return output


def profile(directory: Path, on: str) -> record.Profile:
    """The profile of a build."""
    build = builds.read(directory)
    runs = build.simulation.partitions
    return builds.profile(build, on, simulated.stream((run.decoded, run.timeline) for run in runs))


def write(made: record.Profile, directory: Path) -> Sequence[Path]:
    """The files that were written.

    Raises:
        OptionError, InputError: they cannot be.
    """
    from deuteron.profile.trace import trace  # its package takes a while to load

    title = f"{made.model} on {made.on} ({made.stream.measure.value})"
    files = {record.NAME: record.FILE.to_json(made).encode(), TRACE: trace(made.stream, title, made)}
    outputs.write(directory, files, force=True, record=record.NAME)
    return tuple(directory / name for name in files)

"""`deuteron profile`: measures where the time of a build goes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.cli.options import PATH, file_options, note_file_facts
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import OptionError
from deuteron.views.events.text import SORTS

if TYPE_CHECKING:
    from deuteron.builds.options import TfliteOptions
    from deuteron.views.events.record import Profile

ON = "host|sim|an500|an505|an547|LINE"
BY = ("module", "line", "operator", "kernel")


@new_command
@click.argument("directory", metavar="DIR|FILE", type=PATH, required=False)
@file_options
@click.option(
    "--on",
    metavar=ON,
    help="Host, simulator, emulated board or line to a board (`serial:PORT`, `tcp:HOST:PORT`).  [default: host]",
)
@click.option("--baud", type=click.IntRange(1), metavar="N", help="Rate of a serial port.  [default: 115200]")
@click.option("-o", "--output", metavar="OUT", type=PATH, help="Directory to write.  [default: DIR/profile_ON]")
@click.option(
    "--runs",
    type=click.IntRange(1),
    metavar="N",
    help="Number of runs.  [default: once, or with every input of the files]",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="X.npy",
    type=PATH,
    help="One file per input of the model, in order; one more dimension than the input's means several runs.",
)
@click.option("--from-events", metavar="FILE", type=PATH, help="Do not run; read the events of a board or ExecuTorch.")
@click.option("--ticks-per-second", type=click.IntRange(1), metavar="N", help="Clock rate of an ETDump in FILE.")
@click.option("--compare", metavar="A B", type=(PATH, PATH), help="Compare two profiles, largest changes first.")
@click.option("--by", type=click.Choice(BY), multiple=True, help="Tables to show; by default those that say something.")
@click.option("--sort", metavar="time|order|macs|bytes|name", help="Order of the rows; by default modules form a tree.")
@click.option("--top", type=click.IntRange(1), metavar="N", help="Show the first N rows, and one for the others.")
@click.option(
    "--time-out",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time after which an emulator, or the run of one sample on a board, counts as hung.",
)
@click.option("--force", is_flag=True, help="Replace OUT if it exists; the default OUT is always replaced.")
def command(
    printer: Printer,
    *,
    directory: Path | None,
    target: str | None,
    etrecord: Path | None,
    tflite: "TfliteOptions",
    on: str | None,
    baud: int | None,
    output: Path | None,
    runs: int | None,
    inputs: tuple[Path, ...],
    from_events: Path | None,
    ticks_per_second: int | None,
    compare: tuple[Path, Path] | None,
    by: tuple[str, ...],
    sort: str | None,
    top: int | None,
    time_out: float | None,
    force: bool,
) -> None:
    """Run a build, TFLite file or .pte and show its time by module, line, operator and kernel call.

    If DIR is the directory or `profile.json` of an existing profile, this shows its tables and runs nothing.

    Writes to OUT: `profile.json`, the page `report.html`, a trace for the Perfetto UI, an ETDump for ExecuTorch's
    Inspector, and node data for Model Explorer.
    """
    if sort is not None and sort not in SORTS:
        raise OptionError(
            f"unknown value `{sort}` of `--sort`", hint=f"choose one of {', '.join(f'`{name}`' for name in SORTS)}"
        )
    if compare is not None:
        others = {"--on": on, "--runs": runs, "--input": inputs, "--from-events": from_events}
        others |= {"DIR": directory, "--output": output, "--force": force, "--ticks-per-second": ticks_per_second}
        others |= {"--time-out": time_out}
        _refuse("`--compare` reads two profiles: it runs and writes nothing", others)
        _refuse("`--compare` always shows the largest changes first", {"--sort": sort})
        if printer.as_json:
            _refuse("`--compare --json` always gives all rows", {"--top": top})
        _compare(printer, compare, by, top)
        return
    if directory is None:
        raise OptionError(
            "give the directory of a build, or two profiles after `--compare`", hint="`deuteron profile DIR`"
        )
    from deuteron import api
    from deuteron.board.build_directory import build_directory, is_program, is_tflite
    from deuteron.views.events import record

    is_input = is_tflite(directory) or is_program(directory)
    if not is_input and (directory.is_file() or (directory / record.NAME).is_file()):
        tflite.check_unused(directory)
        others = {"--on": on, "--runs": runs, "--input": inputs, "--from-events": from_events, "--output": output}
        others |= {"--target": target, "--etrecord": etrecord, "--force": force, "--ticks-per-second": ticks_per_second}
        others |= {"--time-out": time_out}
        _refuse(f"`{directory}` is a profile: this shows its tables and runs nothing", others)
        _show(printer, api.read_profile(directory), by, sort, top)
        return
    if from_events is not None:
        _refuse("`--from-events` runs nothing", {"--on": on, "--runs": runs, "--input": inputs, "--time-out": time_out})
    else:
        _refuse("a run on this host uses the host's clock", {"--ticks-per-second": ticks_per_second})
    if on == "sim":
        _refuse("the simulator runs once, for any input", {"--runs": runs, "--input": inputs})
    from deuteron.board.harness.line import is_line
    from deuteron.views.profile.run import default_output

    place = on or "host"
    folder = "board" if from_events or is_line(on) else place
    samples = None
    if inputs:
        from deuteron.views.run.samples import read_samples

        build = build_directory(directory, target, etrecord=etrecord, tflite=tflite, profiling=True)
        samples = read_samples(api.read_manifest(build), inputs)
    with printer.work(f"profiling on {'board' if from_events else place}") as progress:
        profiled = api.profile(
            directory,
            target=target,
            etrecord=etrecord,
            tflite=tflite,
            on=place,
            samples=samples,
            runs=runs,
            events=from_events,
            ticks_per_second=ticks_per_second,
            output=output or default_output(directory, folder),
            force=force,
            baud=baud,
            time_out=time_out,
            progress=lambda done, of: progress("runs", done, of),
        )
    _show(printer, profiled.profile, by, sort, top)
    note_file_facts(printer, directory, target, etrecord)
    for warning in profiled.warnings:
        printer.warn(warning)
    for path in profiled.files:
        printer.note(f"wrote `{path}`")


def _refuse(why: str, values: Mapping[str, object]) -> None:
    """Raise an OptionError that names the options with a value."""
    if names := [f"`{name}`" for name, value in values.items() if value not in (None, (), False)]:
        raise OptionError(why, hint=f"leave out {' and '.join(names)}")


def _compare(printer: Printer, paths: tuple[Path, Path], by: Sequence[str], top: int | None) -> None:
    """Print the largest changes between two profiles."""
    from deuteron import api

    before, after = map(api.read_profile, paths)
    comparisons = [api.compare_profiles(before, after, name) for name in by or ("operator",)]
    if printer.as_json:
        printer.json([comparison.to_json() for comparison in comparisons])
        return
    for comparison in comparisons:
        for line in comparison.lines(top):
            printer.row(line)


def _show(printer: Printer, profile: "Profile", by: Sequence[str], sort: str | None, top: int | None) -> None:
    """Print the requested tables in text, or all in one JSON document."""
    from deuteron.views.events import tables, text

    chosen = by or (BY if printer.as_json else tables.telling(profile))
    rows = {
        name: text.arranged(tables.TABLES[name](profile), sort or ("order" if name == "module" else "time"), top)
        for name in chosen
    }
    if printer.as_json:
        printer.json([text.to_json(profile, rows[name], name) for name in chosen])
        return
    for line in text.summary(profile):
        printer.row(line)
    for name in chosen:
        printer.data("")
        for line in text.table(profile, rows[name], name):
            printer.row(line)

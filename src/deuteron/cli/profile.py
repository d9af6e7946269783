"""`deuteron profile`: where the time of a build goes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import OptionError

if TYPE_CHECKING:
    from deuteron.profile.record import Profile

ON = "host|sim|an505|an547"
BY = ("module", "line", "operator", "kernel")


@new_command
@click.argument("directory", metavar="DIR", type=Path, required=False)
@click.option("--on", default="host", show_default=True, metavar=ON, help="Where the build runs.")
@click.option("-o", "--output", metavar="OUT", type=Path, help="Directory to write.  [default: DIR/profile_ON]")
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="How often to run.")
@click.option("--by", type=click.Choice(BY), multiple=True, help="Tables to show; all by default.")
@click.option("--sort", metavar="time|order|macs|bytes|name", help="Order of the rows; modules are a tree by default.")
@click.option("--top", type=click.IntRange(1), metavar="N", help="Show the first N rows, the others as one.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
def command(
    printer: Printer,
    *,
    directory: Path | None,
    on: str,
    output: Path | None,
    runs: int,
    by: tuple[str, ...],
    sort: str | None,
    top: int | None,
    force: bool,
) -> None:
    """Run the build in DIR and show where its time goes: by module, line of the model, operator and kernel call.

    Writes `profile.json` and a trace for the Perfetto UI to OUT.
    """
    from deuteron import api
    from deuteron.profiling import build as builds
    from deuteron.profiling import run

    if directory is None:
        raise OptionError("give the directory of a build", hint="`deuteron profile DIR`")
    target = run.check_output(directory, on, output, force=force)
    build = builds.read(directory)
    if not build.profiles and on != "sim":
        printer.warn(
            "this build's microcode does not record its kernels: their time is not attributed; build it with "
            "`--use-profiling`"
        )
    inputs = api.seeded_inputs(build.manifest, runs)
    with printer.work(f"profiling on {on}"):
        made = run.profile(build, run.Wanted(on, inputs))
        written = run.write(made, build, target)
    _show(printer, made, by, sort, top)
    for path in written:
        printer.note(f"wrote `{path}`")


def _show(printer: Printer, made: "Profile", by: Sequence[str], sort: str | None, top: int | None) -> None:
    """The tables that are asked for, all in text and one document in JSON."""
    from deuteron.profile import tables, text

    chosen = by or BY
    rows = {
        name: text.arranged(tables.TABLES[name](made), sort or ("order" if name == "module" else "time"), top)
        for name in chosen
    }
    if printer.as_json:
        printer.json([text.to_json(made, rows[name], name) for name in chosen])
        return
    for line in text.summary(made):
        printer.data(line)
    for name in chosen:
        printer.data("")
        for line in text.table(made, rows[name], name):
            printer.data(line)

"""`deuteron report`: writes a profile as a page."""

from pathlib import Path

import click

from deuteron.cli.options import PATH
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@new_command
@click.argument("profile", metavar="PROFILE", type=PATH)
@click.option(
    "-o", "--output", metavar="FILE", type=PATH, help="Page to write.  [default: report.html next to PROFILE]"
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def command(printer: Printer, *, profile: Path, output: Path | None, force: bool) -> None:
    """Write a page that shows PROFILE, a `profile.json` or its directory; needs no build."""
    from deuteron import api

    written = api.report(profile, output, force=force)
    if printer.as_json:
        printer.json({"schema": 1, "report": str(written)})
    else:
        printer.note(f"wrote `{written}`")

"""`deuteron exec`: runs a vendor's script with our converter in place of the vendor's."""

import click

from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@new_command
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(printer: Printer, *, words: tuple[str, ...]) -> int:
    """Run COMMAND, written after `--`, with our converter as `eiq_neutron_sdk`; exit with its code.

    Runs scripts of ExecuTorch and NXP as their pages have them, such as
    `deuteron exec -- python -m executorch.examples.nxp.aot_neutron_compile -m linear -q -d`. Fails if the vendor's
    package is installed.
    """
    from deuteron import api

    printer.flush()
    return api.execute(words, refused=lambda error: printer.note(f"refused in `{words[0]}`: {error}"))

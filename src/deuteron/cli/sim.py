"""`deuteron sim`: a build's run on a model of its target."""

from pathlib import Path

import click

from deuteron.cli.memory import parse_size
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@new_command
@click.argument("directory", metavar="DIR", type=Path)
@click.option("--flash-bandwidth", metavar="RATE", help="Of the flash (`100MB/s`), instead of what was planned for.")
@click.option("--clock", metavar="HZ", help="Of NPU and CPU (`325M`), instead of the target's.")
@click.option("--first-run", is_flag=True, help="Resident weights are not in SRAM yet.")
@click.option("--trace", metavar="FILE", type=Path, help="Also write a trace for the Perfetto UI.")
@click.option("--force", is_flag=True, help="Replace the trace if it exists.")
def command(
    printer: Printer,
    *,
    directory: Path,
    flash_bandwidth: str | None,
    clock: str | None,
    first_run: bool,
    trace: Path | None,
    force: bool,
) -> int:
    """Simulate one run of the build in DIR: kernels, stalls and fetches; exit 1 when its microcode is unsound."""
    from deuteron import simulation

    found = simulation.simulate_build(
        directory,
        flash_bandwidth=None if flash_bandwidth is None else parse_size("--flash-bandwidth", flash_bandwidth),
        clock=None if clock is None else parse_size("--clock", clock),
        first_run=first_run,
    )
    if trace is not None:
        simulation.write_trace(found, trace, force=force)
        printer.note(f"wrote `{trace}`")
    if printer.as_json:
        printer.json(found.to_json())
    else:
        for line in found.lines():
            printer.data(line)
    return 0 if found.passed else 1

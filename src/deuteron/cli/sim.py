"""`deuteron sim`: simulates a build on a model of its target."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.arch.memory import Effort, FetchPolicy
from deuteron.arch.sizes import parse_size
from deuteron.cli.options import PATH, choice, file_options, note_file_facts
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import OptionError

if TYPE_CHECKING:
    from deuteron.builds.options import TfliteOptions
    from deuteron.views.simulate import Simulation, SimulationChanges


@new_command
@click.argument("path", metavar="DIR|FILE", type=PATH, required=False)
@file_options
@click.option("--compare", metavar="A B", type=(PATH, PATH), help="Compare two builds, largest changes first.")
@click.option(
    "--flash-bandwidth", metavar="RATE", help="Bandwidth of the flash (`100MB/s`), instead of the planned one."
)
@click.option("--flash-latency", metavar="NS", type=int, help="Latency of the flash before a fetch's first byte.")
@click.option("--sram-budget", metavar="SIZE", help="Plan again for this SRAM (`512Ki`); the build does not change.")
@click.option("--weights-budget", metavar="SIZE", help="Plan again with this SRAM for fetched weights.")
@click.option("--effort", metavar="fast|exact", help="Plan again with this search effort.")
@click.option("--fetch-constants-to-sram", metavar="auto|always|never", help="Plan again with this policy for fetches.")
@click.option("--clock", metavar="HZ", help="Clock of NPU and CPU (`324M`), instead of the target's.")
@click.option("--first-run", is_flag=True, help="Simulate the first run, which loads resident weights.")
@click.option("--trace", metavar="FILE", type=PATH, help="Also write a trace for the Perfetto UI.")
@click.option("--force", is_flag=True, help="Replace the trace if it exists.")
def command(
    printer: Printer,
    *,
    path: Path | None,
    target: str | None,
    etrecord: Path | None,
    tflite: "TfliteOptions",
    compare: tuple[Path, Path] | None,
    flash_bandwidth: str | None,
    flash_latency: int | None,
    sram_budget: str | None,
    weights_budget: str | None,
    effort: str | None,
    fetch_constants_to_sram: str | None,
    clock: str | None,
    first_run: bool,
    trace: Path | None,
    force: bool,
) -> int:
    """Simulate one run of a build, TFLite file or .pte: kernels, stalls, fetches; exit 1 if a check fails."""
    from deuteron import api

    numbers = {
        "flash_bandwidth": None if flash_bandwidth is None else parse_size("--flash-bandwidth", flash_bandwidth),
        "flash_latency": flash_latency,
        "sram_budget": None if sram_budget is None else parse_size("--sram-budget", sram_budget),
        "weights_budget": None if weights_budget is None else parse_size("--weights-budget", weights_budget),
        "clock": None if clock is None else parse_size("--clock", clock),
    }

    policy = fetch_constants_to_sram
    simulate = partial(
        api.simulate,
        target=target,
        etrecord=etrecord,
        tflite=tflite,
        **numbers,
        effort=None if effort is None else choice(Effort, "--effort", effort),
        fetch_constants_to_sram=policy and choice(FetchPolicy, "--fetch-constants-to-sram", policy),
        first_run=first_run,
    )
    shown: Simulation | SimulationChanges
    match path, compare:
        case None, (Path() as before, Path() as after) if trace is None:
            shown = api.compare_simulations(simulate(before), simulate(after))
        case None, (_, _):
            raise OptionError("`--trace` writes one build's run", hint="leave out `--compare`, and give the build")
        case Path() as build, None:
            shown = simulate(build, trace=trace, force=force)
            note_file_facts(printer, build, target, etrecord)
            if trace is not None:
                printer.note(f"wrote `{trace}`")
        case _:
            raise OptionError(
                "give one build, or two after `--compare`", hint="`deuteron sim DIR` or `deuteron sim --compare A B`"
            )
    if printer.as_json:
        printer.json(shown.to_json())
    else:
        for line in shown.lines():
            printer.data(line)
    return 0 if shown.passed else 1

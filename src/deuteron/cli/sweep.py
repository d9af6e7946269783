"""`deuteron sweep`: evaluates many models, targets, memories and clocks."""

from pathlib import Path

import click

from deuteron.cli.options import PATH
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import OptionError


@new_command
@click.argument("what", metavar="SPEC.toml|show")
@click.argument("directory", metavar="[DIR]", type=PATH, required=False)
@click.option(
    "-o", "--output", metavar="DIR", type=PATH, help="Directory of the dataset; an existing one is continued."
)
@click.option("--scheduler", metavar="ADDRESS", help="Dask cluster (`tcp://host:8786`), instead of this computer.")
@click.option(
    "--workers", metavar="N", type=int, help="Processes on this computer, by default one per core; 1 uses this process."
)
@click.option("--search", metavar="N", type=int, help="Evaluate only N combinations, chosen by an optimiser.")
@click.option("--at-most", metavar="MS", type=float, help="Show: omit points with a longer latency.")
@click.option("--minimise", metavar="GOALS", help="Some of latency,sram,flash,accuracy.  [default: latency,sram]")
@click.option("--page", is_flag=True, help="Show: write a page of all points instead, to DIR/sweep.html or -o.")
@click.option("--force", is_flag=True, help="Show: replace the page that -o names if it exists.")
def command(
    printer: Printer,
    *,
    what: str,
    directory: Path | None,
    output: Path | None,
    scheduler: str | None,
    workers: int | None,
    search: int | None,
    at_most: float | None,
    minimise: str | None,
    page: bool,
    force: bool,
) -> None:
    r"""Evaluate all combinations that SPEC.toml names, or show the best points in DIR.

    \b
    models = ["digits", "net.py:net", "model.tflite", "my-build"]
    targets = ["imxrt700", "mcxn947"]
    sram_budget = ["512Ki", "1Mi"]          # bytes to plan for
    flash_bandwidth = ["100MB/s", "400MB/s"]
    clock = ["150M", "324M"]

    A model's function may have parameters, with lists of values: "net.py:net(width=[0.25, 0.5], resolution=96)".

    Other axes: weights_budget, flash_latency (ns), partition, effort, fetch_constants_to_sram, vela_system_config,
    memory_mode, optimise, arena_cache_size, evaluate.
    """
    from deuteron import api

    goals = tuple(goal.strip() for goal in minimise.split(",")) if minimise else ("latency", "sram")
    if what == "show":
        if directory is None or (output and not page) or scheduler or workers or search is not None:
            raise OptionError("`show` takes only a directory", hint="`deuteron sweep show DIR`")
        if page:
            written = api.sweep_page(directory, output, force=force)
            if printer.as_json:
                printer.json({"page": str(written), "schema": 1})
            else:
                printer.data(f"wrote `{written}`")
            return
        shown = api.sweep_table(directory, at_most=None if at_most is None else at_most * 1000, minimise=goals)
        if printer.as_json:
            printer.json(shown.to_json())
        else:
            for line in shown.lines():
                printer.row(line)
        return
    searches = search is not None
    if directory is not None or output is None or at_most is not None or (minimise and not searches) or page or force:
        raise OptionError(
            "a sweep takes a specification and an output directory", hint="`deuteron sweep SPEC.toml -o DIR`"
        )
    with printer.work(f"sweeping {what}") as report:
        done = api.sweep(
            what,
            output,
            scheduler=scheduler,
            workers=workers,
            search=search,
            minimise=goals,
            progress=lambda progress: report(str(progress), progress.done - 1, progress.total),
        )
    if printer.as_json:
        printer.json(
            {
                "directory": str(output),
                "points": done.points,
                "kept": done.kept,
                "refused": done.refused,
                "blind": done.is_blind,
                "schema": 1,
            }
        )
        return
    kept = f", {done.kept:,} of them existed" if done.kept else ""
    points, do = "point" if done.points == 1 else "points", "does" if done.refused == 1 else "do"
    printer.data(f"{done.points:,} {points} in `{output}`{kept}; {done.refused:,} {do} not fit")
    if done.is_blind:
        printer.note(f"no point that fits has a figure for each of {', '.join(goals)}: the search chose at random")
    printer.note(f"`deuteron sweep show {output}` shows the best")

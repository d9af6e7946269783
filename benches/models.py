"""Networks as embedded engineers have them, on every kind of target: built, compared, run on a board, measured.

The reference models and the ordinary networks of the zoo. A cell has the NPU partitions with their shares of
multiply-accumulates and cycles (as `explain`), the build's signal to noise of its worst output, and processor time. It
names failures of `run --compare` and of the emulated board.

make bench-models ARGS="--rows build/benches/models"
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import MINUTES, ROWS, Results, Table, kept, main, only, progress, table
from quality import Subject, example_model
from zoo import NETWORKS

from deuteron import api
from deuteron.builds.manifest import PROGRAM, Manifest
from deuteron.builds.samples import evenly
from deuteron.errors import DeuteronError
from deuteron.frontend.inputs import check_example_inputs
from deuteron.views.compare.board import compare
from deuteron.views.offload_costs import costs

BOARDS = {"imxrt700cm": "an505", "cortex-m55": "an547", "imxrt700": "an505", "cortex-m33": "an505"}
"""The targets, and a board with the core of each."""

SAMPLES = 2
MUST_BUILD = ("imxrt700cm", "cortex-m55")
FEW, LEAST_WITH_FEW = 2, 26
"""Partitions that few have at most, and how many networks have as few on imxrt700cm."""
MEDIAN = 35.0

MODELS: dict[str, Callable[[], Subject]] = {
    example.name: partial(example_model, example.name) for example in api.REFERENCES
} | {n.name: lambda n=n: (n.module(), n.samples(1, seed=1)[0], n.samples(16, seed=2)) for n in NETWORKS}


@dataclass(frozen=True, slots=True)
class Row:
    """One network for one target.

    Attributes:
        model: its name.
        target: for what.
        commit: of the code that made the row.
        refused: why it is not built; empty when it is.
        partitions: on the NPU.
        macs: share of the multiply-accumulates that the NPU has.
        cycles: the NPU's share of the cycles of a run; None without counts of the CPU's.
        sqnr: of the worst output, in dB.
        agrees: whether `run --compare` passes.
        board: empty when the board gives the host's bits, else why not.
        seconds: of processor time, for the build.
    """

    model: str
    target: str
    commit: str = ""
    refused: str = ""
    partitions: int = 0
    macs: float = 0.0
    cycles: float | None = None
    sqnr: float = 0.0
    agrees: bool = False
    board: str = ""
    seconds: float = 0.0

    @property
    def problem(self) -> str:
        """The broken bound; empty if there is none."""
        if self.refused:
            return f"is refused: {self.refused}" if self.target in MUST_BUILD else ""
        if not self.agrees:
            return "does not agree with its reference"
        return "gives other bits on the board than on the host" if self.board == "differs" else ""


def row(name: str, target: str) -> Row:
    """One build, compared and run, or what it fails with: other networks are still to come."""
    try:
        return measured(name, target)
    except DeuteronError as e:
        return Row(name, target, commit(), e.message.splitlines()[0])
    except Exception as e:  # noqa: BLE001 - a network may find any defect
        return Row(name, target, commit(), f"{type(e).__name__}: {e}".splitlines()[0])


def measured(name: str, target: str) -> Row:
    """One build, compared and run."""
    module, example, calibration = MODELS[name]()
    batches = [check_example_inputs(batch) for batch in calibration]
    arrays = [[x.numpy() for x in sample] for sample in evenly(batches, SAMPLES)]
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder) / "build"
        begin = time.process_time()
        manifest = api.build(module, example, target=target, calibration=batches, output=build).manifest
        seconds = time.process_time() - begin
        host = list(api.run_each(build, arrays))
        try:
            board = list(api.run_each(build, arrays, on=BOARDS[target]))
            differs = "" if compare(BOARDS[target], board, host).passed else "differs"
        except DeuteronError as e:  # a board may lack the memory, or an operator
            differs = e.message.splitlines()[0].rstrip(":")
        macs, cycles = shares(manifest, (build / PROGRAM).read_bytes())
        return Row(
            name,
            target,
            commit(),
            "",
            len(manifest.partitions),
            macs,
            cycles,
            min((output.sqnr for output in manifest.quality.outputs if output.channels), default=0.0),
            api.compare(build, arrays).passed,
            differs,
            round(seconds, 1),
        )


def shares(manifest: Manifest, program: bytes) -> tuple[float, float | None]:
    """Return the NPU's shares of the multiply-accumulates and of the cycles."""
    macs = sum(node.macs for node in manifest.nodes)
    on_npu = sum(node.macs for node in manifest.nodes if node.partition is not None)
    spent = costs(manifest, program)
    added = [cycles for op, cycles in zip(manifest.cpu_ops, spent.added, strict=True) if not op.computes]
    unknown = None in spent.nodes.values() or None in added
    return on_npu / max(macs, 1), None if unknown else sum(i.npu for i in spent.islands) / max(spent.total, 1)


def commit() -> str:
    """The commit of this checkout, `+` where files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    folder = Path(__file__).parent
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def report(rows: Sequence[Row]) -> Table:
    """A line for each network, a column for each target."""
    of = {(r.model, r.target): r for r in rows}
    cells = {
        f"`{target}`": lambda model, target=target: cell(of[model, target]) if (model, target) in of else ""
        for target in BOARDS
        if any(r.target == target for r in rows)
    }
    return table(dict.fromkeys(r.model for r in rows), {"network": str, **cells})


def cell(r: Row) -> str:
    """A row as a cell of that table: partitions, shares of MACs and cycles, dB, seconds, and what is wrong."""
    if r.refused:
        return f"refused: {r.refused.partition(', at ')[0]}"
    cycles = "-" if r.cycles is None else f"{r.cycles:.0%}"
    on_npu = f"{r.partitions}: {r.macs:.0%}, {cycles}; " if r.partitions else ""
    wrong = [
        text
        for text, is_so in (("does not agree", not r.agrees), (f"board: {r.board.partition(', at ')[0]}", r.board))
        if is_so
    ]
    return "; ".join([f"{on_npu}{r.sqnr:.1f} dB; {r.seconds:.0f} s", *wrong])


def problems(rows: Sequence[Row]) -> list[str]:
    """Return the broken bounds of rows, and of all together once all are there."""
    listed = [f"{r.model} on {r.target} {r.problem}" for r in rows if r.problem]
    if {(r.model, r.target) for r in rows} != {(model, target) for model in MODELS for target in BOARDS}:
        return listed
    few = sum(r.target == "imxrt700cm" and not r.refused and r.partitions <= FEW for r in rows)
    median = statistics.median(r.sqnr for r in rows if not r.refused)
    listed += [] if few >= LEAST_WITH_FEW else [f"{few} networks have at most {FEW} partitions on imxrt700cm"]
    return listed + ([] if median >= MEDIAN else [f"the median signal to noise is {median:.1f} dB"])


def results(options: argparse.Namespace) -> Results:
    """Each network for each target, until the time is over."""
    rows: list[Row] = []
    end = time.monotonic() + 60 * options.minutes
    for target in options.target or BOARDS:
        for name in options.model or MODELS:
            is_there = options.rows is not None and (options.rows / f"{name}.{target}.json").exists()
            if is_there or time.monotonic() < end:
                rows.append(progress(kept(options.rows, f"{name}.{target}", Row, partial(row, name, target))))
    return Results("measured", rows, [report(rows)], problems(rows))


if __name__ == "__main__":
    sys.exit(main(results, only("--model", MODELS), only("--target", BOARDS), ROWS, MINUTES))

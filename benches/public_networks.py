"""Networks of a folder on five targets: whether they build, agree with the eager module, and how long that takes.

Each Python file of the folder has a list `NETWORKS` of functions without parameters. Such a function returns what
`deuteron build FILE.py:FUNCTION` takes: a module and its example inputs, and calibration batches if there are any. The
last quarter of these batches is kept for the measurement. Without batches, inputs are random, with the mean and the
deviation of the example inputs.

A network agrees if the program gives what quantized PyTorch gives (`--compare`), and its worst output is at least
`--least` dB from the eager module on fresh samples. Each build runs in a separate process, which ends after `--most`
seconds of processor time. Rows are kept in `--rows FILE`, and not measured again. With `--check`, `deuteron check` of
each network and target comes first, and must say the outcome of the build.

make bench-public-networks ARGS=FOLDER
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

import torch
from harness import LINES, Results, main, only, option, progress, table
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from deuteron import api
from deuteron.errors import DeuteronError
from deuteron.frontend.loader import load

TARGETS = ("cortex-m33", "cortex-m55", "imxrt700cm", "ethos-u55-128cm", "ethos-u85-256")
CALIBRATION, FRESH, COMPARED = 16, 4, 1
MEDIAN, MOST = 12.0, 60.0
"""Bounds of the processor time of a build, in seconds."""


@dataclass(frozen=True, slots=True)
class Row:
    """One network on one target.

    Attributes:
        network: `file:function`.
        target: of the build.
        outcome: agrees, differs (from quantized PyTorch), poor (fewer dB than `--least`), refused, failed, or stopped.
        sqnr: of the worst output against the eager module, in dB.
        seconds: of processor time for the build.
        message: the error.
        checked: the outcome that `deuteron check` says; empty without `--check`.
        check_seconds: of processor time for the check.
    """

    network: str
    target: str
    outcome: str
    sqnr: float | None = None
    seconds: float = 0.0
    message: str = ""
    checked: str = ""
    check_seconds: float = 0.0


def networks(folder: Path) -> Iterator[str]:
    """Yield the functions of all files, as `deuteron build` takes them; each file runs in a separate process."""
    code = "import runpy, sys; print(*(f.__name__ for f in runpy.run_path(sys.argv[1])['NETWORKS']))"
    for path in sorted(folder.glob("*.py")):
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"error: {path} has no list `NETWORKS`: {done.stderr.strip().splitlines()[-1]}")
        yield from (f"{path}:{name}" for name in done.stdout.split())


def samples(example: Sequence[Tensor], given: Iterable[object] | None) -> tuple[list[Any], list[Any]]:
    """Return calibration batches and fresh samples."""
    if given is not None:
        batches = [one if isinstance(one, tuple) else (one,) for one in given]
        kept = max(1, len(batches) // 4)
        return batches[:-kept] or batches, batches[-kept:]
    generator = torch.Generator().manual_seed(0)
    drawn = (tuple(_like(x, generator) for x in example) for _ in range(CALIBRATION + FRESH))
    return list(islice(drawn, CALIBRATION)), list(drawn)


def _like(x: Tensor, generator: torch.Generator) -> Tensor:
    if not x.is_floating_point():
        most = 2 if x.dtype == torch.bool else int(x.max()) + 1
        return torch.randint(0, most, x.shape, generator=generator).to(x.dtype)
    spread = x.std() if x.numel() > 1 else 1.0
    values = torch.randn(x.shape, generator=generator) * spread + x.mean()
    return values.clamp_min(0) if x.min() >= 0 else values


def decibels(wanted: Sequence[Sequence[Tensor]], ours: Sequence[Sequence[Any]]) -> float:
    """Return the signal-to-noise ratio of the worst float output; infinite if all are integers."""
    worst = math.inf
    for expected, actual in zip(zip(*wanted, strict=True), zip(*ours, strict=True), strict=True):
        real = torch.stack([x.double() for x in expected])
        if expected[0].is_floating_point() and (signal := float(real.square().sum())):
            noise = float((torch.stack([torch.as_tensor(x).double() for x in actual]) - real).square().sum())
            worst = min(worst, 10 * math.log10(signal / noise) if noise else math.inf)
    return worst


def measured(network: str, target: str, least: float) -> Row:
    """Build and compare one network in this process."""
    begin = time.process_time()
    try:
        model = load(network)
        module = cast(nn.Module, model.module).eval()
        calibration, fresh = samples(model.example_inputs, model.calibration)
        with torch.no_grad():
            outputs: list[Any] = [pytree.tree_leaves(module(*one)) for one in fresh]
        wanted = [[value for value in one if isinstance(value, Tensor)] for one in outputs]
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder) / "build"
            begin = _processor_time()
            api.build(module, model.example_inputs, target=target, calibration=calibration, output=build)
            seconds = round(_processor_time() - begin, 1)
            arrays = [tuple(x.numpy() for x in one) for one in fresh]
            sqnr = round(decibels(wanted, list(api.run_each(build, arrays))), 1)
            compared = api.compare(build, arrays[:COMPARED])
    except DeuteronError as e:
        outcome = "failed" if type(e).__name__ == "InternalError" else "refused"
        message = f"{f'{e.where}: ' if e.where else ''}{e.message}"
        return Row(network, target, outcome, None, round(_processor_time() - begin, 1), message)
    except Exception as e:  # noqa: BLE001 - any other exception is a failure of the build
        return Row(network, target, "failed", None, 0.0, f"{type(e).__name__}: {e}")
    if not compared.passed:
        return Row(network, target, "differs", sqnr, seconds, "; ".join(compared.failures()))
    return Row(network, target, "agrees" if sqnr >= least else "poor", sqnr, seconds)


def _processor_time() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def checked(network: str, target: str) -> tuple[str, float]:
    """Return what `deuteron check` says of one network, and the seconds of processor time."""
    begin = time.process_time()
    try:
        model = load(network)
        begin = time.process_time()
        calibration, _ = samples(model.example_inputs, model.calibration)
        found = api.check(model.module, model.example_inputs, targets=[target], calibration=calibration)
        outcome = found.targets[0].outcome.value
    except Exception as e:  # noqa: BLE001 - a check never ends with an exception of its own
        outcome = f"{type(e).__name__}: {e}"
    return outcome, round(time.process_time() - begin, 1)


def row(network: str, target: str, options: argparse.Namespace) -> Row:
    """Build and compare one network in a separate process."""
    most = int(options.most)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))

    command = [sys.executable, __file__, "--one", network, target, "--least", str(options.least)]
    command += ["--check"] if options.check else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit, env=environment)
    if done.returncode:
        return Row(network, target, "stopped", seconds=float(most), message=f"ended by signal {-done.returncode}")
    return Row(**json.loads(done.stdout.splitlines()[-1]))


def results(options: argparse.Namespace) -> Results:
    """Each network of the folder on each target."""
    rows: list[Row] = []
    if options.rows and options.rows.exists():
        rows = [Row(**json.loads(line)) for line in options.rows.read_text().splitlines()]
    known = {(one.network, one.target) for one in rows}
    for network in networks(options.folder):
        for target in options.target or TARGETS:
            if (network, target) in known:
                continue
            rows.append(progress(row(network, target, options)))
            if options.rows:
                with options.rows.open("a") as file:
                    file.write(json.dumps(asdict(rows[-1])) + "\n")
    problems = [
        f"{r.network} on {r.target} {r.outcome}: {r.message}" for r in rows if r.outcome in ("failed", "differs")
    ]
    problems += [f"{r.network} on {r.target} takes {r.seconds:.0f} s" for r in rows if r.seconds > MOST]
    problems += [
        f"{r.network} on {r.target} {r.outcome}, and the check says it {r.checked}"
        for r in rows
        if r.checked and (r.checked == "builds") != (r.sqnr is not None) and r.outcome != "stopped"
    ]
    notes: list[str] = []
    for target in options.target or TARGETS:
        same = [r for r in rows if r.target == target]
        built = [r.seconds for r in same if r.sqnr is not None]
        median = statistics.median(built) if built else 0.0
        counts = ", ".join(f"{n} {kind}" for kind in sorted({r.outcome for r in same}) if (n := _count(same, kind)))
        notes.append(f"{target}: {len(same)} networks, {counts}; median build {median:.1f} s")
        problems += [f"the median build for {target} takes {median:.0f} s"] if median > MEDIAN else []
    columns = {"network": "network", "target": "target", "outcome": "outcome", "SQNR, dB": "sqnr:.1f"}
    shown = table(
        rows,
        {
            **columns,
            "build, s": "seconds:.1f",
            "check": "checked",
            "message": lambda r: r.message.partition("\n")[0][:120],
        },
    )
    return Results("measured", rows, [shown], problems, notes)


def _count(rows: Iterable[Row], outcome: str) -> int:
    return sum(r.outcome == outcome for r in rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        said, took = checked(sys.argv[2], sys.argv[3]) if sys.argv[6:] else ("", 0.0)
        done = replace(measured(sys.argv[2], sys.argv[3], float(sys.argv[5])), checked=said, check_seconds=took)
        print(json.dumps(asdict(done)))
        sys.exit()
    sys.exit(
        main(
            results,
            option("folder", type=Path, help="a folder of Python files with a list `NETWORKS`"),
            option("--least", type=float, default=10.0, help="dB below which a network is poor"),
            option("--most", type=float, default=300.0, help="seconds of processor time after which a build ends"),
            option("--check", action="store_true", help="compare `deuteron check` with the real outcome"),
            LINES,
            only("--target", TARGETS),
        )
    )

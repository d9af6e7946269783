"""A million damaged TFLite files through the reader, the normal form, control flow, dead channels and the lowering.

Files are small models of many operators, with several subgraphs, sparse tensors and signatures. A mutation flips bits,
writes extreme words, cuts the file, copies or removes a part, or swaps two words. Each file must be refused by an error
of Deuteron's own or be taken, within a time and a memory limit. Deterministic: a finding has its seed.

make bench-fuzz-tflite
"""

import argparse
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import harness
import numpy as np
from harness import Results, option, table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.tflite.damaged import SEEDS, damaged

from deuteron.errors import DeuteronError
from deuteron.runtime.tflite_model import prepare
from deuteron.tflite.cortex_m import lower

RUNS = 1_000_000
SECONDS = 5
"""Time limit of one file."""
MEMORY = 2 << 30
"""Bytes of address space beyond those at the start."""
MAX_FINDINGS = 5


def take(data: bytes) -> str:
    """Take a file as a build does; the outcome."""
    try:
        model = prepare(data).model
    except DeuteronError as error:
        return type(error).__name__
    for index in range(len(model.operators)):
        try:
            lower(model, index)
        except DeuteronError:
            return "not lowered"
    return "taken"


def _expired(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"took more than {SECONDS} s")


def run(first: int, count: int) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Outcomes of files from a seed on, and the findings."""
    outcomes: Counter[str] = Counter()
    findings: list[tuple[int, str]] = []
    signal.signal(signal.SIGALRM, _expired)
    for seed in range(first, first + count):
        data = damaged(np.random.default_rng(seed), SEEDS)
        signal.alarm(SECONDS)
        try:
            outcomes[take(data)] += 1
        except Exception:  # noqa: BLE001  # a defect is a finding
            findings.append((seed, traceback.format_exc(limit=-9)))
        finally:
            signal.alarm(0)
        if len(findings) >= MAX_FINDINGS:
            break
    return outcomes, findings


def results(options: argparse.Namespace) -> Results:
    """Run so many files."""
    with Path("/proc/self/statm").open() as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    began = time.perf_counter()
    outcomes, findings = run(options.first, options.runs)
    row = {"runs": outcomes.total() + len(findings), **outcomes, "findings": len(findings)}
    shown = table([row], {name: name for name in row})
    problems = [f"repeated by `--runs 1 --first {seed}`:\n{report}" for seed, report in findings]
    seconds = time.perf_counter() - began
    data = {"outcomes": dict(outcomes), "findings": [seed for seed, _ in findings], "seconds": seconds}
    return Results("counted", [row], [shown], problems, [f"{seconds:.0f} s measured"], data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    del arguments
    count = option("--runs", type=int, default=RUNS, help=f"how many files (default {RUNS})")
    first = option("--first", type=int, default=1, help="seed of the first file")
    return harness.main(results, count, first, description=__doc__)


if __name__ == "__main__":
    sys.exit(main())

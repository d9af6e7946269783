"""What the benches of the C fuzz targets share: a million mutated inputs under the address and undefined sanitizers.

Counts what became of them, and findings: inputs on which a sanitizer stopped the process. Deterministic; a finding is
reported with its seed, and `build/firmware-tests/tests/TARGET 1 SEED` repeats it.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
BUILD = CHECKOUT / "build" / "firmware-tests"
RUNS = 1_000_000
CHUNK = 10_000
MAX_FINDINGS = 5


@dataclass(slots=True)
class Tally:
    """Outcomes by name (refused, too_large, failed, ran), and the seed and report of each finding."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    findings: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


def build(target: str) -> Path:
    """The program of a target, built with the sanitizers."""
    options = ("-DDTN_TESTS=ON", "-DDTN_SANITIZE=ON")
    for command in (
        ("cmake", "-S", str(CHECKOUT / "firmware"), "-B", str(BUILD), *options),
        ("cmake", "--build", str(BUILD), "--target", target, "--parallel", str(os.cpu_count() or 1)),
    ):
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return BUILD / "tests" / target


def fuzz(program: Path, first: int, count: int, tally: Tally) -> None:
    """Nothing; adds `count` runs from seed `first` on to the tally, narrowing a failure down to its seeds."""
    done = subprocess.run([program, str(count), str(first)], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    if done.returncode == 0:
        # "runs N refused N too_large N failed N ran N"
        tally.outcomes.update({name: int(number) for name, number in zip(words[2::2], words[3::2], strict=True)})
    elif words:
        sys.exit(f"error: the mutations test too little: {done.stdout.strip()}")
    elif count == 1:
        tally.findings.append((first, done.stderr))
    else:
        half = count // 2
        for start, size in ((first, half), (first + half, count - half)):
            if len(tally.findings) < MAX_FINDINGS:
                fuzz(program, start, size, tally)


def main(target: str, description: str | None) -> int:
    """Exit status: 1 when there was a finding."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=RUNS, help=f"how many inputs (default {RUNS})")
    parser.add_argument("--first", type=int, default=1, help="seed of the first input")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    program = build(target)
    tally = Tally()
    began = time.perf_counter()
    for start in range(0, arguments.runs, CHUNK):
        fuzz(program, arguments.first + start, min(CHUNK, arguments.runs - start), tally)
        if sys.stderr.isatty():
            print(f"\r{start + CHUNK} runs", end="", file=sys.stderr)
        if len(tally.findings) >= MAX_FINDINGS:
            break
    seconds = time.perf_counter() - began
    runs = tally.outcomes.total() + len(tally.findings)
    for seed, report in tally.findings:
        print(f"\nfinding with seed {seed}:\n{report}")
    outcomes = ", ".join(f"{name} {number}" for name, number in tally.outcomes.items())
    print(f"runs {runs} ({outcomes}), findings {len(tally.findings)}, {seconds:.0f} s measured")
    if arguments.json:
        machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": sys.version}
        results = {"runs": runs, "outcomes": dict(tally.outcomes), "findings": [seed for seed, _ in tally.findings]}
        arguments.json.write_text(json.dumps({"machine": machine, "seconds": seconds, **results}, indent=2))
    return int(bool(tally.findings))

"""Shared by the fuzz benches: mutated inputs under the address and undefined sanitizers.

Counts outcomes, and findings: inputs on which a sanitizer stopped the process. Deterministic; a finding is reported
with its seed and the command that repeats it.
"""

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import harness
from harness import SCHEDULER, Results, option, table

from deuteron.sweeps.campaign import Part, campaign

CHECKOUT = Path(__file__).parents[1]
RUNS = 1_000_000
CHUNK = 10_000
MAX_FINDINGS = 5
FIRST = option("--first", type=int, default=1, help="seed of the first input")


@dataclass(frozen=True, slots=True)
class Target:
    """A fuzz target.

    Attributes:
        name: of the target, and of its program.
        build: where it is built, below the checkout's `build`.
        folder: the program's folder there.
        options: of CMake, in addition to those of all targets.
        files: what the program takes after its numbers.
    """

    name: str
    build: str = "firmware-tests"
    folder: str = "tests"
    options: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def build_directory(self) -> Path:
        """Where it is built."""
        return CHECKOUT / "build" / self.build

    def command(self, count: int, first: int) -> list[str]:
        """Return the command that runs `count` inputs from seed `first` on."""
        return [str(self.build_directory / self.folder / self.name), str(count), str(first), *self.files]


@dataclass(slots=True)
class Tally:
    """Outcomes by name (refused, too_large, failed, ran), and the seed and report of each finding."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    findings: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def results(self, problems: Sequence[str], seconds: float) -> Results:
        """All runs as a row."""
        row = {"runs": self.outcomes.total() + len(self.findings), **self.outcomes, "findings": len(self.findings)}
        shown = table([row], {name.replace("_", " "): name for name in row})
        data = {"outcomes": dict(self.outcomes), "findings": [seed for seed, _ in self.findings], "seconds": seconds}
        return Results("counted", [row], [shown], problems, [f"{seconds:.0f} s measured"], data)


def build(target: Target) -> None:
    """Build the program of a target with the sanitizers."""
    options = ("-DDTN_TESTS=ON", "-DDTN_SANITIZE=ON", *target.options)
    directory = str(target.build_directory)
    for command in (
        ("cmake", "-S", str(CHECKOUT / "firmware"), "-B", directory, *options),
        ("cmake", "--build", directory, "--target", target.name, "--parallel", str(os.cpu_count() or 1)),
    ):
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def fuzz(target: Target, first: int, count: int, tally: Tally) -> None:
    """Add `count` runs from seed `first` on to the tally."""
    done = subprocess.run(target.command(count, first), capture_output=True, text=True, check=False)
    take_in(target, first, count, (done.returncode, done.stdout, done.stderr), tally)


def take_in(target: Target, first: int, count: int, done: tuple[int, str, str], tally: Tally) -> None:
    """Add what a command ended with and printed to the tally, narrowing a failure down to its seeds here."""
    status, out, err = done
    words = out.split()
    if status == 0:
        # "runs N refused N too_large N failed N ran N"
        tally.outcomes.update({name: int(number) for name, number in zip(words[2::2], words[3::2], strict=True)})
    elif words:
        sys.exit(f"error: the mutations test too little: {out.strip()}")
    elif count == 1:
        tally.findings.append((first, err))
    else:
        half = count // 2
        for start, size in ((first, half), (first + half, count - half)):
            if len(tally.findings) < MAX_FINDINGS:
                fuzz(target, start, size, tally)


def fuzzed(target: Target, chunks: Mapping[int, int], scheduler: str | None, tally: Tally) -> Iterator[None]:
    """Take in what comes of so many runs from each seed on, here or by the workers of a scheduler, a step at a time."""
    if scheduler is None:
        for first, count in chunks.items():
            yield fuzz(target, first, count, tally)
        return
    parts = [Part(str(first), tuple(target.command(count, first)), CHECKOUT) for first, count in chunks.items()]
    shared = {Path(file).parent for file in target.files}
    for part, ended in campaign(parts, scheduler, shared=[*shared]):
        first = int(part.name)
        yield take_in(target, first, chunks[first], (ended.status, ended.out, ended.err), tally)


def main(target: Target, description: str | None, runs: int = RUNS) -> int:
    """Run a fuzz target as a bench; a finding is a problem."""
    count = option("--runs", type=int, default=runs, help=f"how many inputs (default {runs})")
    return harness.main(partial(results, target), count, FIRST, SCHEDULER, description=description)


def results(target: Target, options: argparse.Namespace) -> Results:
    """Build the target, and run so many inputs."""
    build(target)
    tally, began = Tally(), time.perf_counter()
    starts = range(options.first, options.first + options.runs, CHUNK)
    chunks = {start: min(CHUNK, starts.stop - start) for start in starts}
    for number, _ in enumerate(fuzzed(target, chunks, options.scheduler, tally), start=1):
        if sys.stderr.isatty():
            print(f"\r{number * CHUNK} runs", end="", file=sys.stderr)
        if len(tally.findings) >= MAX_FINDINGS:
            break
    found = [f"repeated by `{shlex.join(target.command(1, seed))}`:\n{report}" for seed, report in tally.findings]
    return tally.results(found, time.perf_counter() - began)

"""Campaigns of tests and fuzzers: runs commands of a checkout on workers of a Dask scheduler or of this computer."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from deuteron.errors import InputError
from deuteron.sweeps.pool import Task, pool

PYTHON = "{python}"
"""Placeholder in a command for the worker's Python."""

REPORT = "{report}"
"""Placeholder in a command for a file that it writes."""


@dataclass(frozen=True, slots=True)
class CampaignCommand:
    """A command of a campaign.

    Attributes:
        name: unique name.
        command: words, which may include `PYTHON` and `REPORT`.
        folder: working directory.
    """

    name: str
    command: tuple[str, ...]
    folder: Path


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command: its status, its output, and the content of `REPORT`; empty if there is none."""

    status: int
    out: str
    err: str
    report: str

    def checked(self, part: CampaignCommand) -> "CommandResult":
        """Return the result of a command that ends with 0 or 1 and writes a report; InputError otherwise."""
        if self.status not in (0, 1) or not self.report:
            last = self.err.strip().rpartition("\n")[2]
            raise InputError(f"part {part.name} ended with {self.status}{last and ': '}{last}")
        return self


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--scheduler` to a campaign's command line."""
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="run on the workers of this Dask scheduler, which share this checkout"
    )


def campaign(
    parts: Sequence[CampaignCommand], scheduler: str | None, workers: int | None = None, shared: Sequence[Path] = ()
) -> Iterator[tuple[CampaignCommand, CommandResult]]:
    """Yield each part with its result, in the order of completion.

    Args:
        parts: the commands.
        scheduler: see `pool`.
        workers: see `pool`.
        shared: directories that all workers must have, in addition to those of the commands.

    Raises:
        DeuteronError: as `pool`.
    """
    by_name = {part.name: part for part in parts}
    folders = dict.fromkeys([*(part.folder for part in parts), *shared])
    with pool(scheduler, workers, [*folders]) as workers_of:
        tasks = [Task(part.name, run, (part,), f"part {part.name}") for part in parts]
        for task, ended in workers_of.results(tasks):
            yield by_name[task.key], cast("CommandResult", ended)


def run(part: CampaignCommand) -> CommandResult:
    """Run a part in this process."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report"
        words = {PYTHON: sys.executable, REPORT: str(report)}
        command = [words.get(word, word) for word in part.command]
        done = subprocess.run(command, cwd=part.folder, capture_output=True, text=True, errors="replace", check=False)
        return CommandResult(
            done.returncode, done.stdout, done.stderr, report.read_text("utf-8") if report.exists() else ""
        )

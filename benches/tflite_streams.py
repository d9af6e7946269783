"""TFLite files that keep state, over 200 runs after each other: the bytes of each run against LiteRT's.

A row is one file of a folder on one target; files without state are left out. The firmware's executor runs the
program on this computer, and LiteRT its reference kernels, with the same seeded inputs in the same order. All outputs
must be equal. On an Ethos-U, the NPU's rounding may differ: the row has the largest difference. Half of the runs
follow a run that is abandoned before it changes the state. Some files end LiteRT's process; their rows say so.

make bench-tflite-streams ARGS=FOLDER
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from harness import ROWS, Results, kept, main, only, option, progress, table

from deuteron import api
from deuteron.board import image
from deuteron.board.build_directory import build_directory
from deuteron.board.host_executor import HostExecutor
from deuteron.board.state import changes
from deuteron.errors import DeuteronError
from deuteron.runtime.litert import Litert

TARGETS = ("cortex-m33", "cortex-m55", "imxrt700cm", "ethos-u55-128", "ethos-u85-256")
RUNS = 200
LITERT = "LiteRT ends the process"


@dataclass(frozen=True, slots=True)
class Row:
    """One file on one target.

    Attributes:
        partitions: of an NPU.
        state: bytes of the state memory.
        different: how many values of all runs differ from LiteRT's.
        largest: the largest difference, in steps.
        problem: why there is no program.
    """

    file: str
    target: str
    partitions: int = 0
    state: int = 0
    runs: int = 0
    different: int = 0
    largest: int = 0
    problem: str = ""

    @property
    def is_broken(self) -> bool:
        """Tell whether a bound does not hold."""
        most = 1 if self.target.startswith("ethos") else 0
        return self.problem not in ("", LITERT) or self.largest > most


def has_state(path: Path) -> bool:
    """Tell whether a file keeps state from run to run."""
    try:
        return image.bundle_of(build_directory(path, "cortex-m55")).state is not None
    except DeuteronError:
        return False


def measure(path: Path, target: str) -> Row:
    """Return one row."""
    try:
        build = build_directory(path, target)
        bundle, reference = image.bundle_of(build), Litert(path.read_bytes())
    except DeuteronError as error:
        return Row(path.stem, target, problem=error.message)
    executor, different, largest = HostExecutor(bundle), 0, 0
    for number, inputs in enumerate(api.subject(path, target=target).draw(RUNS)):
        if number % 2:
            abandoned = executor.values(inputs)
            for _ in range(number % max(1, changes(bundle)[0])):
                next(abandoned)
        for ours, wanted in zip(executor.run(inputs), reference.run(inputs), strict=True):
            apart = np.abs(ours.astype(np.int64).ravel() - wanted.astype(np.int64).ravel())
            different, largest = different + int(np.count_nonzero(apart)), max(largest, int(apart.max()))
    partitions = len(api.read_manifest(build).partitions)
    return Row(path.stem, target, partitions, bundle.state_bytes, RUNS, different, largest)


def apart(path: Path, target: str) -> Row:
    """Return one row, measured in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return pool.submit(measure, path, target).result()
        except BrokenProcessPool:
            return Row(path.stem, target, problem=LITERT)


def results(options: argparse.Namespace) -> Results:
    """Each file with state on each target."""
    found: list[Row] = []
    for path in sorted(options.folder.glob("*.tflite")):
        if has_state(path):
            for target in options.target or TARGETS:
                name = f"{path.stem}-{target}"
                found.append(progress(kept(options.rows, name, Row, lambda: apart(path, target))))  # noqa: B023
    columns = {"file": "file", "target": "target", "partitions": "partitions", "state B": "state", "runs": "runs"}
    columns |= {"values that differ": "different", "largest": "largest"}
    problems = [f"{row.file} on {row.target}: {row.problem or row.largest}" for row in found if row.is_broken]
    notes = [f"{row.file} on {row.target}: {row.problem}" for row in found if row.problem]
    return Results("counted", found, [table([row for row in found if not row.problem], columns)], problems, notes)


if __name__ == "__main__":
    folder = option("folder", type=Path, help="of TFLite files")
    sys.exit(main(results, folder, only("--target", TARGETS), ROWS))

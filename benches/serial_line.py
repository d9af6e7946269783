"""Models over a serial line: on an emulated board, the harness gives the outputs and counts of the semihosting run.

A row is one model. Its build is linked twice, and run by files of the host and by requests over the board's UART. All
outputs must have the same bits, and the instructions of each step may differ by one, with which the counter is read.

make bench-serial-line ARGS="--rows build/benches/serial-line"
python benches/serial_line.py --target cortex-m33 --models 5
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from harness import ROWS, Results, kept, main, option, progress, table
from tests.board.serial_boards import SERIAL, emulated
from torch import nn
from zoo import NETWORKS
from zoo import pattern_images as images
from zoo import pattern_sequences as sequences

from deuteron import api
from deuteron.board import boards, firmware_record, image
from deuteron.board.toolchain import Toolchain
from deuteron.errors import DeuteronError
from deuteron.runtime.inputs import Sample
from deuteron.views.run.line import OnLine
from deuteron.views.run.subjects import Subject

BOARDS = {"cortex-m33": "an505", "cortex-m55": "an547"}
"""The targets, and a board with the core of each."""

MODELS = 50
SAMPLES = 2


class Model(Protocol):
    """A network or a pattern of the zoo."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def module(self) -> nn.Module:
        """The module with seeded weights."""
        ...

    def samples(self, count: int, seed: int) -> Sequence[tuple[torch.Tensor, ...]]:
        """Seeded inputs."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """One model on a board.

    Attributes:
        model: its name.
        board: the emulated board.
        refused: the first line of the error, if it is not built; else empty.
        failed: the first line of the error, if it is built and does not run; else empty.
        steps: of the program.
        outputs: whether all bits of the outputs are equal.
        most: largest difference of a step's instructions.
        instructions: of the first run, by semihosting.
        restarts: of the board.
    """

    model: str
    board: str
    refused: str = ""
    steps: int = 0
    outputs: bool = False
    most: int = 0
    instructions: int = 0
    restarts: int = 0
    failed: str = ""

    @property
    def problem(self) -> str:
        """The broken bound; empty if there is none."""
        if self.refused:
            return f"is refused: {self.refused}"
        if self.failed:
            return f"fails: {self.failed}"
        found = [] if self.outputs else ["gives other outputs over the line"]
        found += [f"counts {self.most} more or fewer instructions in a step"] if self.most > 1 else []
        found += [f"restarts {self.restarts} times"] if self.restarts else []
        return " and ".join(found)


def models() -> list[Model]:
    """All models, whole networks first; patterns with the name of another model are left out."""
    patterns = (images.activations(), images.images(), sequences.signals(), sequences.sequences(), sequences.vectors())
    named: dict[str, Model] = {}
    for model in (*NETWORKS, *(pattern for group in patterns for pattern in group)):
        named.setdefault(model.name, model)
    return list(named.values())


def measured(model: Model, target: str) -> Row:
    """Build a model, and run it both ways."""
    board, samples = BOARDS[target], model.samples(SAMPLES, seed=1)
    with tempfile.TemporaryDirectory() as scratch:
        build = Path(scratch) / "build"
        try:
            api.build(model.module(), samples[0], target=target, calibration=model.samples(16, seed=2), output=build)
        except DeuteronError as e:
            return Row(model.name, board, refused=str(e).splitlines()[0])
        try:
            return ran(model.name, build, boards.load(board), [tuple(x.numpy() for x in sample) for sample in samples])
        except DeuteronError as e:
            return Row(model.name, board, failed=str(e).splitlines()[0])


def ran(name: str, build: Path, board: boards.Board, arrays: Sequence[Sample]) -> Row:
    """Run a build both ways."""
    with tempfile.TemporaryDirectory() as scratch:
        firmware = Path(scratch) / "firmware"
        image.write(image.build(build, board, SERIAL, Toolchain.find(image.OBJECTS)), firmware, force=False)
        by_files = api.subject(build, on=board.name)
        wanted = by_files.run(arrays)
        with emulated(firmware / firmware_record.ELF, board) as line:
            by_line = api.subject(build, on=line)
            given = by_line.run(arrays)
    if not isinstance(by_line, OnLine):
        raise TypeError("the line is not a board's")
    return compared(name, board.name, wanted, given, by_files, by_line)


def compared(
    name: str, board: str, wanted: Sequence[Sample], given: Sequence[Sample], by_files: Subject, by_line: OnLine
) -> Row:
    """Compare the outputs and the reports of both runs."""
    files: Any = by_files.to_json()
    lines: Any = by_line.to_json()
    counts = [
        ([event["instructions"] for event in own["events"] if event["kind"] == "step"], other["steps"])
        for own, other in zip(files["counts"]["runs"], lines["counts"]["runs"], strict=True)
    ]
    return Row(
        name,
        board,
        "",
        len(counts[0][0]),
        [[y.tobytes() for y in sample] for sample in given] == [[y.tobytes() for y in sample] for sample in wanted],
        max(abs(a - b["instructions"]) for own, other in counts for a, b in zip(own, other, strict=True)),
        files["counts"]["runs"][0]["instructions"],
        lines["counts"].get("restarts", 0),
    )


def results(options: argparse.Namespace) -> Results:
    """As many models as requested that build for the target."""
    rows: list[Row] = []
    for model in models():
        if sum(not each.refused for each in rows) == options.models:
            break
        name = f"{model.name}.{options.target}"
        rows.append(progress(kept(options.rows, name, Row, partial(measured, model, options.target))))
    built = [each for each in rows if not each.refused]
    columns = {name: name for name in ("model", "board", "steps", "instructions", "outputs", "most")}
    problems = [f"{each.model} on {each.board} {each.problem}" for each in built if each.problem]
    if len(built) < options.models:
        problems.append(f"only {len(built)} models are built, {options.models} were requested")
    notes = [f"{each.model}: not built for {options.target}: {each.refused}" for each in rows if each.refused]
    return Results("counted", rows, [table(built, columns)], problems, notes)


if __name__ == "__main__":
    sys.exit(
        main(
            results,
            ROWS,
            option("--target", default="cortex-m55", choices=tuple(BOARDS)),
            option("--models", type=int, default=MODELS, help="models that build for the target"),
        )
    )

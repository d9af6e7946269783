"""Ethos-U builds on the AN547, where the core executes the NPU's commands: reference models and mixed networks.

A row is a model for a target. Outputs must be the host's bit for bit, two runs must count the same, and the stack must
keep its bound. The emulator counts instructions; those of the NPU's steps are the stand-in's. A model that does not fit
the board has the first line of its error. The bench takes most of an hour; `--resume` keeps each row.

make bench-ethosu-boards ARGS="--target ethos-u85-256 digits ds_cnn"
"""

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import boards
from harness import Results, Rows, main, option, progress, table

from deuteron import api
from deuteron.board import image
from deuteron.board.boards import load
from deuteron.board.toolchain import Toolchain
from deuteron.errors import DeuteronError

BOARD = load("an547")
TARGETS = ("ethos-u55-128", "ethos-u55-128cm")
MODELS = tuple(example.name for example in (*api.REFERENCES, *api.COMBINED))
"""The largest last."""


def measure(name: str, target: str, samples: int, toolchain: Toolchain) -> dict[str, object]:
    """A row as it is kept: the result with its problems, or why there is none."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            build = Path(scratch) / name
            api.build_model(name, target=target, output=build)
            result = boards.measure(build, BOARD, samples, toolchain)
        except DeuteronError as error:
            return {"refused": str(error).splitlines()[0]}
    return {"result": asdict(result), "problems": [f"{target}: {problem}" for problem in result.problems()]}


def shown(row: dict[str, Any], name: str) -> object:
    """A figure of the row, of the copies of input 0 with `copy.` before its name; a refused row has its reason."""
    result = row.get("result")
    if result is None:
        return row["refused"] if name == "weights" else None
    of, _, item = name.rpartition(".")
    return result["copies"][0][item] if of else result[item]


COLUMNS = {"model": "model", "target": "target"} | {
    title: lambda row, name=name: shown(row, name)
    for title, name in {
        "weights": "weights", "host bits": "identical", "repeats": "repeatable", "instructions": "instructions",
        "stack B": "stack", "bound": "stack_bound", "input 0, B": "copy.bytes", "copy": "copy.cpu",
        "interrupt": "copy.dma", "saved": "saved",
    }.items()
}  # fmt: skip


def results(options: argparse.Namespace) -> Results:
    """Each model for each target."""
    toolchain = Toolchain.find(image.OBJECTS)
    kept, rows = Rows(options.resume), list[dict[str, Any]]()
    for target in options.target or TARGETS:
        for name in options.models or MODELS:
            key = f"{target} {name}"
            if key not in kept:
                kept[key] = measure(name, target, 1 if name in boards.EXTERNAL else options.samples, toolchain)
            rows.append(progress({"model": name, "target": target, **kept[key]}))
    problems = [problem for row in rows for problem in row.get("problems", [])]
    return Results("counted", rows, [table(rows, COLUMNS)], problems)


OPTIONS = (
    option("--resume", type=Path, help="keep rows there, and go on behind those of the same sources"),
    option("--samples", type=int, default=2, help="inputs per model; MobileNetV2 gets one"),
    option("--target", action="append", help=f"what they are built for; {', '.join(TARGETS)}"),
    option("models", nargs="*", help="names of models; all by default"),
)

if __name__ == "__main__":
    sys.exit(main(results, *OPTIONS))

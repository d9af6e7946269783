"""Ethos-U builds on the AN547, where the core executes what the NPU would: the reference models and the mixed networks.

A row is a model for a target. Outputs must be the host's bit for bit, two runs must count the same, and the stack must
keep to its bound, which has the stand-in's part. Instructions are counted by the emulator; those of the NPU's steps are
the stand-in's, no time of an NPU. What does not fit the board, or has no place in firmware, has the first line of the
error as its row, with the bytes that are missing.

It takes most of an hour. With `--json` each row is kept when it is there, so that the bench can be stopped and goes on.

make bench-ethosu-boards
python benches/ethosu_boards.py --target ethos-u85-256 digits ds_cnn
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import boards
from ending import Rows, finish

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


def line(name: str, target: str, row: dict[str, object]) -> str:
    """A row as it is printed."""
    start = f"{name:<21}{target:<17}"
    result = row.get("result")
    if not isinstance(result, dict):
        return f"{start}{row['refused']}"
    bits = "same" if result["identical"] else "DIFFERENT"
    repeats = "yes" if result["repeatable"] else "NO"
    first, *_ = result["copies"]
    return (
        f"{start}{result['weights']:<10}{bits:<11}{repeats:<9}{result['instructions']:>16,}{result['stack']:>9,}"
        f"{result['stack_bound']:>7,}{first['bytes']:>10,}{first['cpu']:>10,}{first['dma']:>8,}{result['saved']:>10,}"
    )


def run(targets: Sequence[str], models: Sequence[str], samples: int, file: Path | None) -> list[str]:
    """Print each row as soon as it is there; what is not as it must be."""
    toolchain = Toolchain.find(image.OBJECTS)
    rows, problems = Rows(file), list[str]()
    print(
        f"{'model':<21}{'target':<17}{'weights':<10}{'host bits':<11}{'repeats':<9}{'instructions':>16}{'stack B':>9}"
        f"{'bound':>7}{'input B':>10}{'copy':>10}{'dma':>8}{'saved':>10}"
    )
    for target in targets:
        for name in models:
            key = f"{target} {name}"
            if key not in rows:
                rows[key] = measure(name, target, 1 if name in boards.EXTERNAL else samples, toolchain)
            problems += rows[key].get("problems", [])
            print(line(name, target, rows[key]), flush=True)
    return problems


def main() -> int:
    """0 when everything is as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="rows that are kept, and where")
    parser.add_argument("--samples", type=int, default=2, help="inputs per model; MobileNetV2 gets one")
    parser.add_argument("--target", action="append", help=f"what they are built for; {', '.join(TARGETS)}")
    parser.add_argument("models", nargs="*", help="names of models; all by default")
    options = parser.parse_args()
    problems = run(options.target or TARGETS, options.models or MODELS, options.samples, options.json)
    return finish({}, problems, None)


if __name__ == "__main__":
    sys.exit(main())

"""A decoder with a KV cache that generates 64 letters: the board's bits against the host's, text, and instructions.

`examples/decoder.py` trains on the topics of Python's `help`, 263,872 parameters. The host generates: 24 letters of a
prompt are given, and each next letter is the one with the best score. An emulated Cortex-M55 gets the same letters in
one process; all scores must be the host's bit for bit. On an Ethos-U the core executes the NPU's commands.
Instructions are counted. Quality is against the float model on the calibration data.

make bench-text-generation ARGS="--target cortex-m55"
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import ROWS, Results, kept, main, only, option, progress, table

from deuteron import api
from deuteron.board import boards, firmware_record, image, qemu
from deuteron.board.host_executor import HostExecutor
from deuteron.board.toolchain import Toolchain

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import decoder  # the example's folder is no package

TARGETS = ("cortex-m55", "ethos-u85-256")
BOARD = "an547"
PROMPT, LETTERS = 24, 64


@dataclass(frozen=True, slots=True)
class Row:
    """One target.

    Attributes:
        text: the prompt and the generated letters.
        is_equal: whether all scores of the board are the host's.
        instructions: of the last run.
        state: bytes of the state.
        sram: bytes of all memories, with the state.
        sqnr: of the scores, dB.
    """

    target: str
    text: str
    is_equal: bool
    instructions: int
    state: int
    sram: int
    sqnr: float


def generate(executor: HostExecutor, prompt: list[int], count: int) -> tuple[list[int], list[np.ndarray]]:
    """Return the given and the generated letters, and the scores after each but the last."""
    letters, scores = list(prompt), list[np.ndarray]()
    while len(letters) < len(prompt) + count:
        (y,) = executor.run([np.array([letters[len(scores)]], np.int64)])
        scores.append(y)
        if len(scores) == len(letters):
            letters.append(int(y.argmax()))
    return letters, scores


def measure(target: str, steps: int, layers: int, letters: int) -> Row:
    """Return one row."""
    module, example, calibration = decoder.net(steps, layers)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        build = api.build(module, example, target=target, calibration=calibration, output=folder / "build")
        bundle, board = image.bundle_of(folder / "build"), boards.load(BOARD)
        prompt = decoder.text()[50000 : 50000 + PROMPT].tolist()
        given, scores = generate(HostExecutor(bundle), prompt, letters)
        made = image.build(folder / "build", board, firmware_record.FirmwareOptions(), Toolchain.find(image.OBJECTS))
        image.write(made, folder / "firmware", force=False)
        samples = [[np.array([letter], np.int64)] for letter in given[: len(scores)]]
        runs = qemu.run(folder / "firmware", made.record, board, samples, resets=(0,), time_out=3600).runs
    is_equal = all(np.array_equal(run.outputs[0], y) for run, y in zip(runs, scores, strict=True))
    text = "".join(decoder.LETTERS[letter] for letter in given).replace("\n", " ")
    sram = sum(memory.bytes for memory in bundle.memories)
    sqnr = build.manifest.quality.outputs[0].sqnr
    return Row(target, text, is_equal, runs[-1].instructions, bundle.state_bytes, sram, sqnr)


def results(options: argparse.Namespace) -> Results:
    """Each target."""
    found = [
        progress(
            kept(
                options.rows,
                target,
                Row,
                lambda: measure(target, options.steps, options.layers, options.letters),  # noqa: B023
            )
        )
        for target in options.target or TARGETS
    ]
    columns = {"target": "target", "host bits": "is_equal", "instructions of a letter": "instructions"}
    columns |= {"state B": "state", "SRAM B": "sram", "dB": "sqnr:.1f"}
    problems = [f"{row.target}: the board has other bits than the host" for row in found if not row.is_equal]
    return Results("counted", found, [table(found, columns)], problems, [f"{row.target}: {row.text}" for row in found])


if __name__ == "__main__":
    sys.exit(
        main(
            results,
            only("--target", TARGETS),
            ROWS,
            option("--steps", type=int, default=600, help="of training"),
            option("--layers", type=int, default=decoder.LAYERS, help="of the network"),
            option("--letters", type=int, default=LETTERS, help="to generate"),
        )
    )

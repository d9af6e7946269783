"""Ordinary patterns of one to six layers: built, compared with their reference and with the float model.

"agrees" is the result of `run --compare`. "SQNR" is int8 against the float model, with random weights and calibration
batches. A refused pattern has the first line of its error.

make bench-patterns
"""

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from harness import LINES, MINUTES, NAMES, Results, add_line, main, only, read_lines, table
from zoo import pattern_images as images
from zoo import pattern_sequences as sequences
from zoo.pattern import Pattern

from deuteron import api
from deuteron.builds.quality import MOST
from deuteron.errors import DeuteronError
from deuteron.frontend.cortex_m.numerical_check import flat

TARGETS = ("imxrt700cm", "cortex-m55")
PATTERNS = (
    *images.activations(),
    *images.images(),
    *sequences.signals(),
    *sequences.sequences(),
    *sequences.vectors(),
)
LEAST_SQNR = 25.0
CALIBRATION, SAMPLES = 16, 4
"""Batches, and how many of them are compared: what others would lose says how few batches there are."""


@dataclass(frozen=True, slots=True)
class Row:
    """One pattern on one target.

    Attributes:
        pattern: its name.
        target: for what.
        refused: the first line of the error; empty when it is built.
        crashed: whether the error was none of Deuteron's.
        partitions: on the NPU.
        on_cpu: operators of the CPU, except quantization of inputs and outputs.
        agrees: whether it gives what its reference does.
        sqnr: of all outputs together, in dB.
    """

    pattern: str
    target: str
    refused: str = ""
    crashed: bool = False
    partitions: int = 0
    on_cpu: tuple[str, ...] = ()
    agrees: bool = False
    sqnr: float = 0.0

    @property
    def problem(self) -> str:
        """The broken bound; empty if there is none."""
        if self.refused:
            return f"{'fails' if self.crashed else 'is refused'}: {self.refused}"
        if not self.agrees:
            return "does not agree with its reference"
        return "" if self.sqnr >= LEAST_SQNR else f"has {self.sqnr:.1f} dB"


def row(pattern: Pattern, target: str) -> Row:
    """One pattern, built and run."""
    module, calibration = pattern.module(), pattern.samples(CALIBRATION, seed=2)
    samples = calibration[:SAMPLES]
    arrays = [[x.numpy() for x in sample] for sample in samples]
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder) / "build"
        try:
            manifest = api.build(module, samples[0], target=target, calibration=calibration, output=build).manifest
            outputs = list(api.run_each(build, arrays))
            agrees = api.compare(build, arrays).passed
        except DeuteronError as e:
            return Row(pattern.name, target, e.message.splitlines()[0])
        except Exception as e:  # noqa: BLE001 - the point is to see them
            traceback.print_exc()
            return Row(pattern.name, target, (str(e).strip() or type(e).__name__).splitlines()[0], crashed=True)
    on_cpu = tuple(op.op for op in manifest.cpu_ops if "quantize_per_tensor" not in op.op)
    return Row(
        pattern.name, target, "", False, len(manifest.partitions), on_cpu, agrees, _sqnr(module, samples, outputs)
    )


def _sqnr(
    module: torch.nn.Module, samples: Sequence[tuple[torch.Tensor, ...]], outputs: Iterable[Sequence[np.ndarray]]
) -> float:
    """The signal to noise of all float outputs together, in dB."""
    signal = noise = 0.0
    for sample, actual in zip(samples, outputs, strict=True):
        with torch.no_grad():
            wanted = [x.double().numpy() for x in flat(module(*sample))]
        floats = [(x, y) for x, y in zip(wanted, actual, strict=True) if y.dtype.kind == "f"]
        signal += sum(float((x**2).sum()) for x, _ in floats)
        noise += sum(float(((x - y) ** 2).sum()) for x, y in floats)
    if not signal:
        return MOST  # integers alone, such as places of best scores, are compared one by one
    return 10 * float(np.log10(max(signal, 1e-30) / max(noise, 1e-30)))


def results(options: argparse.Namespace) -> Results:
    """Each pattern for each target, until the time is over."""
    rows = {(r.pattern, r.target): r for r in read_lines(options.rows, Row)}
    wanted = [
        (pattern, target)
        for target in options.target or TARGETS
        for pattern in PATTERNS
        if not options.names or pattern.name.startswith(tuple(options.names))
    ]
    end = time.monotonic() + 60 * options.minutes
    for pattern, target in wanted:
        if (pattern.name, target) not in rows and time.monotonic() < end:
            rows[pattern.name, target] = row(pattern, target)
            add_line(options.rows, rows[pattern.name, target])
    shown = [rows[key] for pattern, target in wanted if (key := (pattern.name, target)) in rows]
    columns = {"pattern": "pattern", "target": "target", "partitions": "partitions", "on the CPU": "on_cpu"}
    columns |= {"agrees": "agrees", "SQNR, dB": "sqnr:.1f", "problem": "problem"}
    problems = [f"{r.pattern} on {r.target} {r.problem}" for r in shown if r.problem]
    problems += [f"{len(wanted) - len(shown)} patterns are left"] if len(shown) < len(wanted) else []
    return Results("measured", shown, [table(shown, columns)], problems)


if __name__ == "__main__":
    sys.exit(main(results, NAMES, LINES, only("--target", TARGETS), MINUTES))

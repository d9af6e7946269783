"""What a norm would lose as operators of the NPU, where each step rounds to int8, beside one that rounds once.

Rows of normal numbers, whose deviations differ by up to a factor, are normalised over their last dimension: by one
operator, as the Cortex-M has it, and by the NPU's means, products and tables: mean, difference, square, mean of
squares, root, product, each rounded to 256 steps of the range that the float model has there. Figures are signal to
noise in dB beside float64, of all rows and of the worst: a row is what a reader of a norm gets.

make bench-norms-in-steps
"""

import argparse
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from ending import finish
from rich.console import Console
from rich.table import Table

DEPTHS = (16, 64, 192)
FACTORS = (1, 2, 4, 8, 16)
"""By how much the largest deviation of a row is larger than the smallest."""

ROWS = 256
EPSILON = 1e-5

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Row:
    """Norms over so many elements, of rows whose deviations differ by a factor: dB by one operator and by steps."""

    depth: int
    factor: int
    once: float
    once_worst: float
    steps: float
    steps_worst: float


def row(depth: int, factor: int) -> Row:
    """One measurement, of seeded numbers."""
    generator = np.random.default_rng(0)
    deviations = np.exp(generator.uniform(-0.5, 0.5, (ROWS, 1)) * np.log(factor))
    x = (generator.normal(size=(ROWS, depth)) + 0.3 * generator.normal(size=(ROWS, 1))) * deviations
    wanted = normalised(x)
    stored = rounded(x, x)
    once = rounded(normalised(stored), wanted)
    steps = in_steps(stored, x, wanted)
    return Row(depth, factor, *decibels(wanted, once), *decibels(wanted, steps))


def normalised(x: Array) -> Array:
    """The norm of each row."""
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + EPSILON)


def in_steps(stored: Array, x: Array, wanted: Array) -> Array:
    """The same by operators that round, each to the range that its result has in float."""
    centred, variances = x - x.mean(1, keepdims=True), x.var(1, keepdims=True)
    difference = rounded(stored - rounded(stored.mean(1, keepdims=True), x.mean(1, keepdims=True)), centred)
    variance = rounded(rounded(difference**2, centred**2).mean(1, keepdims=True), variances)
    root = rounded(1 / np.sqrt(variance + EPSILON), 1 / np.sqrt(variances + EPSILON))
    return rounded(difference * root, wanted)


def rounded(values: Array, ranged: Array) -> Array:
    """Values in 256 steps of the range of others, 0 among them."""
    low, high = min(ranged.min(), 0.0), max(ranged.max(), 0.0)
    step = (high - low) / 255
    return np.clip(np.rint(values / step), np.rint(low / step), np.rint(low / step) + 255) * step


def decibels(wanted: Array, actual: Array) -> tuple[float, float]:
    """Signal to noise of all rows, and of the worst."""
    signal, noise = (wanted**2).sum(1), ((wanted - actual) ** 2).sum(1)
    return round(10 * float(np.log10(signal.sum() / noise.sum())), 1), round(
        10 * float(np.log10(signal / noise).min()), 1
    )


def main() -> int:
    """0: there is no bar, the figures say why norms stay on the CPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    rows = [row(depth, factor) for depth in DEPTHS for factor in FACTORS]
    table = Table("elements", "deviations differ by", "once", "worst row", "in steps", "worst row", title="dB")
    for r in rows:
        table.add_row(*map(str, asdict(r).values()))
    Console(width=100).print(table)
    return finish({"schema": 1, "rows": [asdict(r) for r in rows]}, [], options.json)


if __name__ == "__main__":
    sys.exit(main())

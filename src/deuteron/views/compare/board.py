"""Compares a board with the host: the same program on the same samples must give the same bits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Difference:
    """An output of a sample that differs from the host's: the number of different elements, and the first one."""

    sample: int
    output: int
    elements: int
    of: int
    index: tuple[int, ...]
    board: float
    host: float


@dataclass(frozen=True, slots=True)
class HostComparison:
    """Result of a comparison."""

    board: str
    samples: int
    differences: tuple[Difference, ...]

    @property
    def passed(self) -> bool:
        """Return true if all bits are equal."""
        return not self.differences

    def text(self) -> str:
        """Return the result in a line, or a line for every output that differs."""
        samples = f"{self.samples} sample{'s' if self.samples > 1 else ''}"
        if self.passed:
            return f"{self.board} and the host give the same bits for {samples}"
        lines = [
            f"sample {d.sample}  output {d.output}  {d.elements} of {d.of} elements differ, first at "
            f"{list(d.index)}: {d.board:g} on {self.board}, {d.host:g} on the host"
            for d in self.differences
        ]
        return "\n".join((*lines, f"{self.board} and the host differ"))

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON."""
        differences = [
            {
                "sample": d.sample,
                "output": d.output,
                "elements": d.elements,
                "of": d.of,
                "index": list(d.index),
                "board": d.board,
                "host": d.host,
            }
            for d in self.differences
        ]
        return {
            "schema": 1,
            "board": self.board,
            "samples": self.samples,
            "identical": self.passed,
            "differences": differences,
        }


def compare(board: str, outputs: Sequence[Sequence[Array]], wanted: Sequence[Sequence[Array]]) -> HostComparison:
    """Compare a board's outputs for some samples with the host's, bit for bit."""
    differences = [
        difference
        for i, (ours, theirs) in enumerate(zip(outputs, wanted, strict=True))
        for j, (value, reference) in enumerate(zip(ours, theirs, strict=True))
        if (difference := _difference(i, j, value, reference))
    ]
    return HostComparison(board, len(outputs), tuple(differences))


def _difference(sample: int, output: int, value: Array, reference: Array) -> Difference | None:
    bits = np.dtype(f"u{value.dtype.itemsize}")
    where = np.argwhere(np.ascontiguousarray(value).view(bits) != np.ascontiguousarray(reference).view(bits))
    if not len(where):
        return None
    index = tuple(int(i) for i in where[0])
    return Difference(sample, output, len(where), value.size, index, float(value[index]), float(reference[index]))

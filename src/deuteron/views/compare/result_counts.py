"""Shared parts of the comparisons with quantized PyTorch and with LiteRT: counts and verdict."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Steps = npt.NDArray[np.int64]

Progress = Callable[[int, int], object]
"""Called with the number of finished samples, and of all."""


class Counted(Protocol):
    """Compared results: their number, the number that differ, and the maximum difference in steps."""

    elements: int
    mismatches: int
    largest: int


class OperatorCounts(Counted, Protocol):
    """Results of an operator of a kind."""

    op: str


T = TypeVar("T", bound=OperatorCounts)


def by_kind(results: Iterable[T]) -> Mapping[str, Sequence[T]]:
    """Group the results by kind of operator, in order of first occurrence."""
    kinds: dict[str, list[T]] = {}
    for result in results:
        kinds.setdefault(result.op, []).append(result)
    return kinds


def steps_apart(ours: Array, theirs: Array) -> Steps:
    """Return the differences of stored results in steps; `theirs` may have another shape."""
    return np.abs(ours.astype(np.int64) - theirs.reshape(ours.shape).astype(np.int64))


def count(result: Counted, steps: Steps) -> None:
    """Add the differences of one sample to a result."""
    result.elements += steps.size
    result.mismatches += int(np.count_nonzero(steps))
    result.largest = max(result.largest, int(steps.max(initial=0)))


@dataclass(slots=True)
class BestScores:
    """Rows of an output whose largest value, or one of equal ones, is at the index of LiteRT's.

    Outputs of more than two dimensions and rows of one value do not count.
    """

    same: int = 0
    rows: int = 0

    def add(self, ours: Array, theirs: Array) -> None:
        """Count the rows of one sample."""
        if 0 < ours.ndim <= 2 and ours.shape[-1] > 1:
            rows, others = (side.reshape(-1, ours.shape[-1]) for side in (ours, theirs))
            best = np.take_along_axis(rows, others.argmax(axis=-1, keepdims=True), axis=-1)
            self.same += int(np.count_nonzero(best == rows.max(axis=-1, keepdims=True)))
            self.rows += len(rows)

    @property
    def text(self) -> str:
        """Return the result as the end of a sentence."""
        return f"; best score the same in {self.same:,} of {self.rows:,}" if self.rows else ""


class BoundedComparison(ABC):
    """A comparison with bounds; a frozen dataclass of plain values."""

    __slots__ = ()

    @abstractmethod
    def failures(self) -> tuple[str, ...]:
        """Return one sentence for each broken bound."""

    @property
    def passed(self) -> bool:
        """Return true if every bound holds."""
        return not self.failures()

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON values."""
        fields: Any = self
        return {"schema": 1, "passed": self.passed, "failures": list(self.failures()), **asdict(fields)}

    def verdict(self) -> list[str]:
        """Return the last lines of the report."""
        return ["", "all bounds hold" if self.passed else "bounds broken:", *(f"  {f}" for f in self.failures())]

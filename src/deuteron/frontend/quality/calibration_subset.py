"""The samples of the calibration on which a quantised model is held against the float one."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from deuteron.builds.samples import evenly
from deuteron.frontend.inputs import Inputs, copies

_MOST = 32
_LEAST = 4
"""Samples that are measured: many where that is quick."""

_MACS = 1_500_000_000
"""Multiply-accumulates that measuring may take beyond the fewest samples: a second or so of processor time."""

_HELD = 64 << 20
"""Bytes that samples may take in memory beyond the fewest that are measured."""

_FACTOR = 16.0
"""By how much calibration and example inputs may differ in magnitude; images of 0 to 255 and of 0 to 1 do more."""


@dataclass(slots=True)
class Kept:
    """Some of the batches that went by, the first and others at even distances, and what is said of all.

    Attributes:
        batches: those that are kept.
        total: how many there were.
    """

    batches: list[Inputs] = field(default_factory=list[Inputs])
    total: int = 0
    _stride: int = 1
    _ends: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    _are_equal: bool = True

    def passing(self, batches: Iterator[Inputs]) -> Iterator[Inputs]:
        """The batches, anew from the first."""
        self.batches, self.total, self._stride, self._ends, self._are_equal = [], 0, 1, [], True
        for batch in batches:
            self._count(batch)
            if self.total % self._stride == 0:
                self.batches.append(copies(batch))
            self.total += 1
            count = len(self.batches)
            if count == 2 * _MOST or (count >= 2 * _LEAST and count * _bytes(batch) > _HELD):
                del self.batches[1::2]
                self._stride *= 2
            yield batch

    def some(self, macs: int) -> list[Inputs]:
        """As many as a model of so many multiply-accumulates allows, from first to last."""
        return evenly(self.batches, min(_MOST, max(_LEAST, _MACS // max(1, macs))))

    def _count(self, batch: Inputs) -> None:
        """Take the batch into what is said of all."""
        ends = [(float(x.min()) + 0.0, float(x.max()) + 0.0) for x in batch]  # 0 for -0
        before = self._ends or ends
        self._ends = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(before, ends, strict=True)]
        self._are_equal = self._are_equal and all(map(torch.equal, batch, self.batches[0] if self.batches else batch))

    def findings(self, example: Inputs) -> tuple[str, ...]:
        """A sentence for each input whose calibration cannot be right, or is not like the example input."""
        found: list[str] = []
        for i, like in enumerate(example):
            if not like.is_floating_point():
                continue
            low, high = self._ends[i]
            largest, expected = max(abs(low), abs(high)), float(like.abs().max())
            if low == high:
                found.append(
                    f"input {i} is {low:.4g} everywhere in all calibration batches: its range, and all that is "
                    "computed from it, say nothing of real data; calibrate with inputs as the application has them"
                )
            elif expected and not 1 / _FACTOR <= largest / expected <= _FACTOR:
                found.append(
                    f"input {i} reaches {largest:.4g} in the calibration batches, and {expected:.4g} in the example "
                    "input: if these are scaled unlike each other, ranges are wrong; give both as the application does"
                )
        if self.total > 1 and not found and self._are_equal:
            found.append("all calibration batches are equal, and measure no more than one does; give unlike ones")
        return tuple(found)


def _bytes(batch: Inputs) -> int:
    return sum(x.numel() * x.element_size() for x in batch)

"""The samples of the calibration on which a quantised model is held against the float one."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from deuteron.frontend.inputs import Inputs, copies

_MOST = 32
_LEAST = 4
"""Samples that are measured: many where that is quick."""

_MACS = 1_500_000_000
"""Multiply-accumulates that measuring may take beyond the fewest samples: a second or so of processor time."""

_BYTES = 4 << 20
"""What the samples that a build keeps may take."""

_FACTOR = 16.0
"""By how much calibration and example inputs may differ in magnitude; images of 0 to 255 and of 0 to 1 do more."""


@dataclass(slots=True)
class Kept:
    """Some of the batches that went by, the first and others at even distances; `total` counts all."""

    batches: list[Inputs] = field(default_factory=list[Inputs])
    total: int = 0
    _stride: int = 1

    def passing(self, batches: Iterator[Inputs]) -> Iterator[Inputs]:
        """The batches, anew from the first."""
        self.batches, self.total, self._stride = [], 0, 1
        for batch in batches:
            if self.total % self._stride == 0:
                self.batches.append(copies(batch))
            self.total += 1
            if len(self.batches) == 2 * _MOST:
                del self.batches[1::2]
                self._stride *= 2
            yield batch

    def some(self, macs: int) -> list[Inputs]:
        """As many as a model of so many multiply-accumulates allows, from first to last."""
        size = sum(x.numel() * x.element_size() for x in self.batches[0])
        most = min(_MOST, max(_LEAST, _MACS // max(1, macs)), max(1, _BYTES // max(1, size)))
        count = min(most, len(self.batches))
        return [self.batches[i * len(self.batches) // count] for i in range(count)]

    def findings(self, example: Inputs) -> tuple[str, ...]:
        """A sentence for each input whose calibration cannot be right, or is not like the example input."""
        found: list[str] = []
        for i, like in enumerate(example):
            if not like.is_floating_point():
                continue
            values = torch.cat([batch[i].reshape(-1) for batch in self.batches])
            low, high = float(values.min()), float(values.max())
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
        first, *others = self.batches
        if others and not found and all(all(map(torch.equal, batch, first)) for batch in others):
            found.append("all calibration batches are equal, and measure no more than one does; give unlike ones")
        return tuple(found)

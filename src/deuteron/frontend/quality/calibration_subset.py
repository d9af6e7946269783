"""Selects the calibration samples on which a quantized model is compared with the float model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from deuteron.builds.samples import evenly
from deuteron.frontend.eager.variables import Variable
from deuteron.frontend.inputs import First, Inputs, copies

_MOST = 32
_LEAST = 4
"""The least and the largest number of samples; the number depends on the speed of the model."""

_MOST_STEPS = 100
"""The largest number of steps of a sequence."""

_MACS = 1_500_000_000
"""Multiply-accumulates for samples beyond the least number: about a second of processor time."""

_HELD = 64 << 20
"""Bytes of memory for samples beyond the least number."""

_GROWTH = 1.25
"""The largest expected ratio of a variable's magnitude at the end of a sequence to that before."""

_CLIPPED = 1.25
"""The largest expected ratio of a variable's magnitude to the end of its quantized range."""

_FACTOR = 16.0
"""The largest expected ratio of magnitudes between calibration and example inputs; 0..255 against 0..1 exceeds it."""

ONE_SAMPLE = "calibration has one sample, and all ranges are its own: give a few dozen representative inputs"


@dataclass(slots=True)
class CalibrationSubset:
    """Batches of a calibration at equal distances, including the first one, and statistics of all batches.

    Attributes:
        variables: those of the model, whose values are the last of each batch. Batches are then steps, and the first
            ones of the first sequence are selected.
        batches: the selected batches.
        total: the number of all batches.
    """

    variables: Sequence[Variable] = ()
    batches: list[Inputs] = field(default_factory=list[Inputs])
    total: int = 0
    _stride: int = 1
    _ends: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    _are_equal: bool = True
    _steps: list[list[float]] = field(default_factory=list[list[float]])
    _longest: list[list[float]] = field(default_factory=list[list[float]])
    """The largest magnitude of each variable before each step, of the current and of the longest sequence."""
    _largest: list[float] = field(default_factory=list[float])
    """The largest magnitude of each variable."""

    @property
    def is_sequence(self) -> bool:
        """Return true for the steps of a model with variables."""
        return bool(self.variables)

    def observe(self, batches: Iterator[Inputs]) -> Iterator[Inputs]:
        """Yield the batches unchanged; forget those of an earlier calibration."""
        self.batches, self.total, self._stride, self._ends, self._are_equal = [], 0, 1, [], True
        self._steps, self._longest, self._largest = [], [], []
        is_over = False
        for batch in batches:
            self._count(batch)
            self._follow(batch)
            is_over = is_over or (self.is_sequence and self.total > 0 and isinstance(batch, First))
            if not is_over and self.total % self._stride == 0:
                self.batches.append(copies(batch))
            self.total += 1
            count = len(self.batches)
            if self.is_sequence:
                del self.batches[_MOST_STEPS:]
            elif count == 2 * _MOST or (count >= 2 * _LEAST and count * _bytes(batch) > _HELD):
                del self.batches[1::2]
                self._stride *= 2
            yield batch

    def some(self, macs: int) -> list[Inputs]:
        """Select batches at equal distances, fewer for a model with more multiply-accumulates."""
        most = _MOST_STEPS if self.is_sequence else _MOST
        count = min(most, max(_LEAST, _MACS // max(1, macs)))
        return self.batches[:count] if self.is_sequence else evenly(self.batches, count)

    def _count(self, batch: Inputs) -> None:
        """Update the statistics of all batches."""
        ends = [(float(x.min()) + 0.0, float(x.max()) + 0.0) for x in batch]  # 0 for -0
        before = self._ends or ends
        self._ends = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(before, ends, strict=True)]
        self._are_equal = self._are_equal and all(map(torch.equal, batch, self.batches[0] if self.batches else batch))

    def _follow(self, batch: Inputs) -> None:
        """Record the magnitudes of the variables before a step."""
        if isinstance(batch, First) or not self._steps:
            self._steps = []
        values = batch[len(batch) - len(self.variables) :]
        sizes = [float(x.abs().max()) if x.dtype != torch.bool else 0.0 for x in values]
        self._steps.append(sizes)
        self._largest = [max(pair) for pair in zip(self._largest or sizes, sizes, strict=True)]
        self._longest = max(self._longest, self._steps, key=len)

    def _growing(self) -> Iterator[str]:
        """Warn about variables that are larger in the last quarter of the longest sequence than before."""
        start = len(self._longest) * 3 // 4
        if start < _LEAST:
            return
        for variable, sizes in zip(self.variables, zip(*self._longest, strict=True), strict=True):
            before, after = max(sizes[:start]), max(sizes[start:])
            what = "it" if variable.initial.is_floating_point() else "real numbers that are computed from it"
            if after > _GROWTH * before:
                yield (
                    f"{_named(variable)} reaches {after:.4g} in the last quarter of {len(sizes)} steps of calibration, "
                    f"and {before:.4g} before: it still grows, and runs clamp {what} to this range; give a longer "
                    "sequence"
                )

    def clipped(self, ranges: Mapping[int, tuple[float, float]]) -> Iterator[str]:
        """Warn about variables that calibration has seen far outside of their quantized ranges, by their numbers."""
        for index, (low, high) in ranges.items():
            most = max(abs(low), abs(high))
            if self._largest and self._largest[index] > _CLIPPED * most:
                yield (
                    f"{_named(self.variables[index])} reaches {self._largest[index]:.4g} in calibration, and its range "
                    f"ends at {most:.4g}: runs clamp it, and all later steps keep the error; use "
                    "`--calibration-method minmax`, or `--state-dtype int16`"
                )

    def findings(self, example: Inputs) -> tuple[str, ...]:
        """Warn about inputs with implausible calibration data, or with other magnitudes than the example input."""
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
        if self.total == 1 and not found and all(x.dim() == 0 or x.shape[0] == 1 for x in example):
            found.append(ONE_SAMPLE)
        return (*found, *self._growing())


def _named(variable: Variable) -> str:
    """Return the name and the line of a variable."""
    source = variable.source
    return f"the variable `{variable.name}`{f', at {source.short}: `{source.code}`,' if source else ''}"


def _bytes(batch: Inputs) -> int:
    return sum(x.numel() * x.element_size() for x in batch)

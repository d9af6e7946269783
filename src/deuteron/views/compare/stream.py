"""Compares a stream through a program with quantized PyTorch, which steps from the same initial state."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deuteron.builds import manifest as manifests
from deuteron.builds.quality import LITTLE, decibels
from deuteron.errors import InputError
from deuteron.frontend import saved
from deuteron.runtime.host import HostRunner
from deuteron.views.compare.pytorch import one_thread, real_inputs, reference_of
from deuteron.views.compare.result_counts import Array, BoundedComparison, Progress

Real = npt.NDArray[np.float64]

PART = 100
"""The number of samples at the start and at the end that are compared; half of a shorter stream."""

ALLOWED = 1.0
"""Tolerance in dB between the first and the last part."""

GOOD = 40.0
"""A part with this SQNR (dB) is as good as 8-bit values are, even if another part is better."""

STEPS = 2.0
"""Allowed difference of all values in steps of an output's scale, for any SQNR: the values may be small."""

OTHERS = 0.1
"""Allowed share of different integers."""


@dataclass(frozen=True, slots=True)
class StreamOutput:
    """One output against quantized PyTorch.

    Attributes:
        index: its number.
        first: SQNR (dB) of the first part.
        last: SQNR (dB) of the last part.
        whole: SQNR (dB) of the whole stream.
        steps: the greatest difference in steps of its scale; None without a scale, and for infinity or NaN.
        elements: the number of its values.
        mismatches: the number of values that differ.
        are_integers: whether its values are integers or bools without a scale, such as the results of `argmax`.
    """

    index: int
    first: float
    last: float
    whole: float
    steps: float | None
    elements: int
    mismatches: int
    are_integers: bool = False

    @property
    def is_wrong(self) -> bool:
        """Return true if the output is something else than quantized PyTorch's, from the first sample or later."""
        if self.are_integers:
            return self.mismatches > OTHERS * self.elements
        return self.whole < LITTLE and (self.steps is None or self.steps > STEPS)

    @property
    def drifts(self) -> bool:
        """Return true if the last part is worse than the first."""
        return self.last < min(self.first - ALLOWED, GOOD)


@dataclass(frozen=True, slots=True)
class StreamComparison(BoundedComparison):
    """Result of the comparison: `part` samples at each end of a stream of `samples`."""

    samples: int
    part: int
    outputs: tuple[StreamOutput, ...]

    def failures(self) -> tuple[str, ...]:
        """Return one sentence for each output that is wrong or drifts."""
        wrong = (
            f"output {out.index}: {_far(out)}: the program computes something else"
            for out in self.outputs
            if out.is_wrong
        )
        drifting = (
            f"output {out.index}: {out.last:.1f} dB in the last {self.part} samples, {out.first:.1f} dB in the first: "
            "the state drifts from quantized PyTorch's"
            for out in self.outputs
            if out.drifts and not out.is_wrong
        )
        return (*wrong, *drifting)

    def text(self) -> str:
        """Return the result as lines for a terminal."""
        lines = [
            f"compared on a stream of {self.samples} samples with quantized PyTorch, stepped in the same order",
            "",
        ]
        lines += [
            f"  output {out.index}: {out.mismatches:,} of {out.elements:,} values differ; signal to noise "
            f"{out.first:.1f} dB in the first {self.part}, {out.last:.1f} dB in the last {self.part}"
            for out in self.outputs
        ]
        return "\n".join([*lines, *self.verdict()])


def _far(out: StreamOutput) -> str:
    if out.are_integers:
        share = out.mismatches / out.elements
        return f"{share:.1%} of its integers are not quantized PyTorch's, where {OTHERS:.0%} are allowed"
    return f"{out.whole:.1f} dB of the whole stream, where {LITTLE:.0f} dB are the least, against quantized PyTorch"


def compare(
    directory: str | Path,
    samples: Sequence[Sequence[Array]],
    progress: Progress | None = None,
    resets: Collection[int] = (0,),
) -> StreamComparison:
    """Compare the build in `directory` with the quantized PyTorch model on these samples, one after the other.

    Both have their initial state before the samples whose numbers are in `resets`.

    Raises:
        FormatError: the directory is damaged.
        InputError: there are fewer than two samples, or they do not fit the model.
    """
    folder = Path(directory)
    manifest = manifests.read(folder)
    if len(samples) < 2:
        raise InputError("a stream of one sample has no end to compare", hint="give two samples or more")
    _, reference = reference_of(folder, manifest)
    runner = HostRunner(folder / manifests.PROGRAM)
    ours: list[list[Real]] = []
    theirs: list[list[Real]] = []
    are_integers: list[bool] = []
    with one_thread():
        starts = sorted({0, *resets, len(samples)})
        parts = (samples[start:end] for start, end in pairwise(starts))
        wanted = chain.from_iterable(reference.steps(real_inputs(reference, x) for x in part) for part in parts)
        for done, (sample, outputs) in enumerate(zip(samples, wanted, strict=True)):
            if done in starts:
                runner.reset()
            actual = runner.run(sample)
            ours.append([_real(x, affine) for x, affine in zip(actual, reference.outputs, strict=True)])
            are_integers = [not x.is_floating_point() for x in outputs]
            theirs.append([x.numpy().astype(np.float64) for x in outputs])
            if progress is not None:
                progress(done + 1, len(samples))
    part = min(PART, len(samples) // 2)
    pairs = zip(zip(*ours, strict=True), zip(*theirs, strict=True), strict=True)
    outputs = tuple(
        replace(_output(i, np.stack(a), np.stack(b), part, affine), are_integers=integers)
        for i, ((a, b), affine, integers) in enumerate(zip(pairs, reference.outputs, are_integers, strict=True))
    )
    return StreamComparison(len(samples), part, outputs)


def _real(value: Array, affine: saved.Affine | None) -> Real:
    real = value.astype(np.float64)
    if affine is None or value.dtype.name not in ("int8", "int16"):
        return real
    return (real - affine.zero_point) * affine.scale


def _output(index: int, ours: Real, theirs: Real, part: int, affine: saved.Affine | None) -> StreamOutput:
    first, last, whole = (_sqnr(ours[end], theirs[end]) for end in (slice(part), slice(-part, None), slice(None)))
    differ = ~np.isclose(ours, theirs, rtol=1e-6, atol=1e-12)
    steps = None if affine is None else round(float(np.abs(ours - theirs).max()) / affine.scale, 2)
    steps = None if steps is None or not math.isfinite(steps) else steps
    return StreamOutput(index, first, last, whole, steps, ours.size, int(np.count_nonzero(differ)))


def _sqnr(ours: Real, theirs: Real) -> float:
    return decibels(float(np.square(theirs).sum()), float(np.square(ours - theirs).sum()))

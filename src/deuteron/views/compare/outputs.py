"""A model's outputs against quantised PyTorch's: how far they are, and how far they may be."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deuteron.builds.manifest import Manifest
from deuteron.frontend import saved
from deuteron.views.compare.result_counts import Array
from deuteron.views.compare.rounding_spread import Moves

AskedMoves = Callable[[], Moves]
Real = npt.NDArray[np.float64]

MAX_STEPS = 2
"""How many quantisation steps an output may be from PyTorch's."""

MAX_WIDE_STEPS = 128
"""How many it may be where an Ethos-U computes in int16: half a step of int8, what int8 loses by rounding an output.

TOSA scales sums of 48 bits by numbers of 15 bits, so that each operator may be off by 2^-15 of its value, a whole step
at the ends of int16, and its tables have 513 entries with straight lines between; PyTorch has neither. Later operators
add up what earlier ones are off.
"""

MAX_TIED_STEPS = 16
"""How many steps ties may explain, where the bound is not that large anyway.

They explain that many where the model magnifies its own roundings, as a softmax does: what it gives is then as far from
the float model as from this one, and no comparison with it says that a build is right.
"""

MAX_TIED_WIDE_STEPS = MAX_TIED_STEPS << 8
"""The same for an output in int16 behind values in int8, whose steps are so much larger."""


@dataclass(slots=True)
class OutputResult:
    """One output of the model against PyTorch's.

    Attributes:
        index: which output.
        scores: True where each row is the scores of classes.
        bound: how many steps it may be from PyTorch's in any case.
        allowed: the same, or the most that ties allow of a sample, where they had to be asked for.
        most_tied: how many of it ties may explain.
        step: its quantisation step, or the 255th part of its range where the CPU computes it in float.
        integer: True where the CPU computes integers or bools, which have no step and must be equal.
        tied: integers that differ by no more than ties alone move them in PyTorch, such as where one of equals is.
        elements: values compared.
        unlike: those where one is NaN or infinite and the other is not the same; none is allowed.
        mismatches: those that differ by more than half a step.
        largest: the largest difference, in steps.
        rows: rows of scores, but for those with a NaN.
        top1: rows whose best score is at the same place, or shares its value with the one that is.
        worse: rows whose best score is more than a step below PyTorch's best, and than ties explain; none may be.
        beyond: the largest difference of a sample that is more than its bound; 0 if none is.
        broken: that bound.
        explained: how many steps ties explain of that sample.
    """

    index: int
    scores: bool = False
    bound: int = MAX_STEPS
    allowed: int = MAX_STEPS
    most_tied: int = MAX_TIED_STEPS
    step: float = 0.0
    integer: bool = False
    tied: int = 0
    elements: int = 0
    unlike: int = 0
    mismatches: int = 0
    largest: float = 0.0
    rows: int = 0
    top1: int = 0
    worse: int = 0
    beyond: float = 0.0
    broken: int = 0
    explained: float = 0.0

    def failures(self, otherwise: str) -> list[str]:
        """One sentence for each bound that is broken; `otherwise` is what else is to be said of one."""
        broken: list[str] = []
        count = f"output {self.index}: {{}} of {self.elements}"
        if self.unlike:
            broken.append(f"{count.format(self.unlike)} values are NaN or infinite unlike PyTorch's")
        if self.integer and self.mismatches > self.tied:
            ties = f", and ties explain {self.tied}" if self.tied else ""
            broken.append(f"{count.format(self.mismatches)} integers differ from PyTorch's{ties}")
        elif not self.integer and self.beyond:
            steps = f"{self.beyond:g} steps from PyTorch's, at most {self.broken} are allowed"
            tied = f", though ties explain {self.explained:.0f}" if self.explained > self.broken else ""
            broken.append(f"output {self.index}: {steps}{tied}{otherwise}")
        if self.worse:
            best = f"another best score than PyTorch's in {self.worse} of {self.rows}"
            broken.append(f"output {self.index}: {best}, which no tie explains")
        return broken

    def line(self) -> str:
        """The result for a terminal."""
        count = f"  output {self.index}: {self.mismatches:,} of {self.elements:,}"
        if self.integer:
            ties = f", of which ties explain {self.tied:,}" if self.tied else ""
            return f"{count} integers differ{ties}, the largest by {self.largest:.0f}"
        best = f"; best score the same in {self.top1} of {self.rows}" if self.scores else ""
        ties = f", of which ties explain {self.allowed}" if self.allowed > self.bound else ""
        return f"{count} values differ, the largest by {self.largest:.3g} steps of {self.step:.4g}{ties}{best}"


def results(manifest: Manifest, affines: Sequence[saved.Affine | None], *, is_wide: bool) -> list[OutputResult]:
    """The outputs of a build before anything is compared; `is_wide` where an Ethos-U computes in int16."""
    batches = {info.shape[0] for info in manifest.inputs if info.shape}
    allowed, is_mixed = MAX_WIDE_STEPS if is_wide else MAX_STEPS, manifest.options.min_sqnr is not None
    return [
        OutputResult(
            index,
            are_scores(info.shape, batches),
            allowed,
            allowed,
            MAX_TIED_WIDE_STEPS if is_mixed and affine and affine.most > np.iinfo(np.int8).max else MAX_TIED_STEPS,
        )
        for index, (info, affine) in enumerate(zip(manifest.outputs, affines, strict=True))
    ]


def check(
    result: OutputResult, actual: Array, affine: saved.Affine | None, wanted: Array, moves: AskedMoves = lambda: ()
) -> None:
    """Add one output of one sample to its result; `moves` tells by how much ties alone move PyTorch's outputs."""
    ours = actual.astype(np.float64)
    if affine is not None and actual.dtype.name in ("int8", "int16"):
        ours = (ours - affine.zero_point) * affine.scale
    reference = wanted.astype(np.float64)
    finite = np.isfinite(ours) & np.isfinite(reference)
    same = (ours == reference) | (np.isnan(ours) & np.isnan(reference))
    span = float(np.ptp(reference[finite])) if finite.any() else 0.0
    result.integer = affine is None and actual.dtype.kind in "iub"
    inexact = max(result.step, span / 255, float(np.finfo(np.float32).tiny))
    result.step = affine.scale if affine else 1.0 if result.integer else inexact

    def in_steps(values: Real) -> Real:
        steps = values / result.step
        return np.rint(steps) if affine else steps  # both are whole steps; only float32 stands between

    def explained() -> Real:
        none = np.zeros(ours.shape)
        return in_steps(dict(enumerate(moves())).get(result.index, none).reshape(ours.shape))

    steps = in_steps(np.abs(ours[finite] - reference[finite]))
    result.elements += ours.size
    result.unlike += int(np.count_nonzero(~finite & ~same))
    result.mismatches += int(np.count_nonzero(steps > 0.5))
    largest = float(steps.max(initial=0))
    if result.integer and largest:
        result.tied += int(np.count_nonzero((steps > 0.5) & (steps <= explained()[finite])))
    if largest > result.bound and not result.integer:
        of_ties = float(explained().max(initial=0))
        bound = max(result.bound, min(math.ceil(of_ties), result.most_tied))
        result.allowed = max(result.allowed, bound)
        if largest > max(bound, result.beyond):
            result.beyond, result.broken, result.explained = largest, bound, of_ties
    result.largest = max(result.largest, largest)
    if result.scores and not result.integer:
        width = ours.shape[-1]
        ranked = ~(np.isnan(ours) | np.isnan(reference)).reshape(-1, width).any(axis=1)
        rows, expected = ours.reshape(-1, width)[ranked], reference.reshape(-1, width)[ranked]
        is_same = _same_best(rows, expected)
        result.rows += len(rows)
        result.top1 += int(np.count_nonzero(is_same))
        below = in_steps(_below_best(rows, expected))
        if (is_far := ~is_same & (below > 1)).any():
            moved = explained().reshape(-1, width)[ranked]
            number = np.arange(len(rows))
            pair = moved[number, rows.argmax(axis=1)] + moved[number, expected.argmax(axis=1)]
            result.worse += int(np.count_nonzero(is_far & (below > pair)))


def are_scores(shape: Sequence[int], batches: Collection[int]) -> bool:
    """True for [classes] and [samples, classes].

    The last dimension of an image, also of one of [height, width], or of a sequence holds no classes: where its largest
    value is says nothing, and one step moves it. So the first of two dimensions must be 1, or the first of an input.
    """
    samples, classes = (1, *shape)[-2:] if 1 <= len(shape) <= 2 else (0, 0)
    return classes > 1 and (samples == 1 or samples in batches)


def _below_best(ours: Real, wanted: Real) -> Real:
    """Per row: how far below its best the other's score is at the place of ours."""
    return wanted.max(axis=1) - wanted[np.arange(len(ours)), ours.argmax(axis=1)]


def _same_best(ours: Real, wanted: Real) -> npt.NDArray[np.bool_]:
    """Per row: the best is at the same place, or shares its value with the other's best."""
    rows = np.arange(len(ours))
    a, b = ours.argmax(axis=1), wanted.argmax(axis=1)
    return (ours[rows, b] == ours[rows, a]) | (wanted[rows, a] == wanted[rows, b])

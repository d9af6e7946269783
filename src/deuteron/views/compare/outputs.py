"""Compares a model's outputs with quantized PyTorch's, with bounds."""

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
AskedOutput = Callable[[], Array | None]
Real = npt.NDArray[np.float64]

MAX_STEPS = 2
"""Allowed quantization steps between an output and PyTorch's."""

MAX_INT16_STEPS = 128
"""Allowed steps if an Ethos-U computes in int16: half a step of int8, the rounding error of an int8 output.

TOSA scales sums of 48 bits by numbers of 15 bits, so that each operator may be off by 2^-15 of its value, which is one
step at the ends of int16. Its tables have 513 entries with linear interpolation. PyTorch has neither, and errors of
operators accumulate.
"""

MAX_TIED_STEPS = 16
"""Maximum steps that rounding ties may explain, if the bound is not that large anyway.

Ties explain that many steps where the model amplifies its own rounding, as a softmax does. The output is then equally
far from the float model, and no comparison of outputs can show that a build is right; one of all operators can.
"""

MAX_TIED_INT16_STEPS = MAX_TIED_STEPS << 8
"""The same for an int16 output computed from int8 values, whose steps are 256 times as large."""


@dataclass(slots=True)
class OutputResult:
    """One output of the model compared with PyTorch's.

    Attributes:
        index: index of the output.
        scores: true if each row is class scores.
        bound: steps that it may always be from PyTorch's.
        allowed: the bound, or the most that ties allowed for a sample, if ties were computed.
        most_tied: maximum steps that ties may explain.
        step: its quantization step, or 1/255 of its range if the CPU computes it in float.
        integer: true if the CPU computes integers or bools, which have no step and must be equal.
        tied: integers that differ by no more than ties alone move them in PyTorch, such as argmax of equal values.
        elements: values compared.
        unlike: values where one is NaN or infinite and the other is not the same; none is allowed.
        mismatches: values that differ by more than half a step.
        largest: the largest difference, in steps.
        rows: rows of scores without NaN.
        top1: rows with the best score at the same index, or of equal value.
        worse: rows whose best score is below PyTorch's best by more than one step and more than ties explain; none may
            be.
        beyond: the largest difference of a sample above its bound; 0 if none is.
        broken: that bound.
        explained: steps of that sample that ties explain.
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
        """Return one sentence for each broken bound; `otherwise` is appended to it."""
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
        """Return the result as a line for a terminal."""
        count = f"  output {self.index}: {self.mismatches:,} of {self.elements:,}"
        if self.integer:
            ties = f", of which ties explain {self.tied:,}" if self.tied else ""
            return f"{count} integers differ{ties}, the largest by {self.largest:.0f}"
        best = f"; best score the same in {self.top1} of {self.rows}" if self.scores else ""
        ties = f", of which ties explain {self.allowed}" if self.allowed > self.bound else ""
        return f"{count} values differ, the largest by {self.largest:.3g} steps of {self.step:.4g}{ties}{best}"


def results(manifest: Manifest, affines: Sequence[saved.Affine | None], *, is_int16: bool) -> list[OutputResult]:
    """Return the outputs of a build before any comparison; `is_int16` if an Ethos-U computes in int16."""
    batches = {info.shape[0] for info in manifest.inputs if info.shape}
    allowed, is_mixed = MAX_INT16_STEPS if is_int16 else MAX_STEPS, manifest.options.has_mixed_activations
    return [
        OutputResult(
            index,
            are_scores(info.shape, batches),
            allowed,
            allowed,
            MAX_TIED_INT16_STEPS if is_mixed and affine and affine.most > np.iinfo(np.int8).max else MAX_TIED_STEPS,
        )
        for index, (info, affine) in enumerate(zip(manifest.outputs, affines, strict=True))
    ]


def check(
    result: OutputResult,
    actual: Array,
    affine: saved.Affine | None,
    wanted: Array,
    moves: AskedMoves = lambda: (),
    asked: AskedOutput = lambda: None,
) -> None:
    """Add one output of one sample to its result.

    `moves` returns how far ties alone move PyTorch's outputs. If all operators of the program compute what PyTorch does
    of the same operands, except for ties, `asked` returns the output that they lead to. Ties explain any difference of
    an equal output.
    """
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
        return np.rint(steps) if affine else steps  # both are whole steps, except for float32 rounding

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
        exact = asked()
        near = None if exact is None else in_steps(np.abs(ours - exact.astype(np.float64))) <= result.bound
        is_proven = near is not None and bool(near.all())
        of_ties = largest if is_proven else float(explained().max(initial=0))
        bound = max(result.bound, math.ceil(of_ties) if is_proven else min(math.ceil(of_ties), result.most_tied))
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
    """Return true for [classes] and [samples, classes].

    The last dimension of an image, also of [height, width], or of a sequence is not classes: the index of its largest
    value means nothing, and one step moves it. So the first of two dimensions must be 1, or equal an input's first.
    """
    samples, classes = (1, *shape)[-2:] if 1 <= len(shape) <= 2 else (0, 0)
    return classes > 1 and (samples == 1 or samples in batches)


def _below_best(ours: Real, wanted: Real) -> Real:
    """Return per row how far the other's score at our best index is below its best."""
    return wanted.max(axis=1) - wanted[np.arange(len(ours)), ours.argmax(axis=1)]


def _same_best(ours: Real, wanted: Real) -> npt.NDArray[np.bool_]:
    """Return per row whether the best is at the same index, or equals the other's best."""
    rows = np.arange(len(ours))
    a, b = ours.argmax(axis=1), wanted.argmax(axis=1)
    return (ours[rows, b] == ours[rows, a]) | (wanted[rows, a] == wanted[rows, b])

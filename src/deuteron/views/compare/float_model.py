"""Compares a program with the float model: SQNR of its outputs, on the build's stored samples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from deuteron.builds.manifest import Manifest
from deuteron.builds.quality import PROGRAM, OutputQuality, Quality, decibels
from deuteron.builds.samples import Array, Sample
from deuteron.errors import OptionError
from deuteron.views.compare.result_counts import BoundedComparison

ALLOWED = 0.1
"""Tolerance in dB below the build's figure: equal bits give equal figures."""

SAME = 100.0
"""Figures from this SQNR (dB) on count as equal: float code of another processor rounds differently."""

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FloatComparison(BoundedComparison):
    """Figures of this run, figures of the build, and warnings; `board` ran the program, the host if it is empty."""

    samples: int
    outputs: tuple[OutputQuality, ...]
    built: tuple[OutputQuality, ...]
    warnings: tuple[str, ...]
    board: str = ""

    def failures(self) -> tuple[str, ...]:
        """Return one sentence for each output that is further from the float model than at the build."""
        pairs = list(enumerate(zip(self.outputs, self.built, strict=True)))
        return (
            *(
                f"output {i}: {ours.sqnr:.1f} dB, the build measured {then.sqnr:.1f} dB"
                for i, (ours, then) in pairs
                if ours.sqnr < min(then.sqnr, SAME) - ALLOWED
            ),
            *(
                f"output {i}: {ours.equal:.1%} of its integers equal the float model's, the build measured "
                f"{then.equal:.1%}"
                for i, (ours, then) in pairs
                if ours.equal < then.equal
            ),
        )

    def text(self) -> str:
        """Return the result as lines for a terminal."""
        samples = f"{self.samples} sample{'' if self.samples == 1 else 's'}"
        of = f" of `{self.board}`" if self.board else ""
        lines = [f"signal to quantization noise{of} against the float model, on {samples} of the calibration", ""]
        lines += [line for i, output in enumerate(self.outputs) for line in output.lines(i)]
        lines += [line for text in self.warnings for line in ("", f"warning: {text}")]
        verdict = ["", "no output is further from the float model than the build measured"]
        return "\n".join([*lines, *(verdict if self.passed else self.verdict())])


def check(build: Manifest) -> None:
    """Reject a build that did not measure its program.

    Raises:
        OptionError: its figures are those of quantized PyTorch, from which the program may differ by some steps.
    """
    if build.quality.measured != PROGRAM:
        raise OptionError(
            f"the figures of this build are of {build.quality.measured}, not of its program, which could not run where "
            "it was built",
            hint="build on a computer that runs the program, or use `--compare reference`",
        )


def compare(build: Manifest, outputs: Sequence[Sample], wanted: Sequence[Sample], board: str = "") -> FloatComparison:
    """Compare a program's outputs for its build's samples with the float model's; `board` ran it, or else the host."""
    quality = build.quality
    return FloatComparison(len(outputs), measured(quality, outputs, wanted), quality.outputs, build.warnings, board)


def measured(quality: Quality, outputs: Sequence[Sample], wanted: Sequence[Sample]) -> tuple[OutputQuality, ...]:
    """Return the quality entries of a program's outputs."""
    return tuple(
        (_measured if entry.channels else _equal)(
            entry, [sample[i] for sample in outputs], [sample[i] for sample in wanted]
        )
        for i, entry in enumerate(quality.outputs)
    )


def _equal(entry: OutputQuality, ours: Sequence[Array], wanted: Sequence[Array]) -> OutputQuality:
    """Return the entry of integers."""
    same = [float((a == b).mean()) for a, b in zip(ours, wanted, strict=True)]
    return replace(entry, equal=sum(same) / len(same))


def _measured(entry: OutputQuality, ours: Sequence[Array], wanted: Sequence[Array]) -> OutputQuality:
    actual = np.stack([_real(entry, value) for value in ours])
    model = np.stack(wanted).astype(np.float64)
    axis = entry.axis + 1 if model.ndim > 1 else 0
    signal, noise = _channels(model, axis), _channels(actual - model, axis)
    if model.ndim == 1:  # an output without dimensions is one channel
        signal, noise = signal.sum(keepdims=True), noise.sum(keepdims=True)
    channels = tuple(decibels(float(s), float(n)) for s, n in zip(signal, noise, strict=True))
    return replace(entry, sqnr=decibels(float(signal.sum()), float(noise.sum())), channels=channels)


def _channels(values: F64, axis: int) -> F64:
    """Return the sum of squares of each channel."""
    return np.square(values).sum(axis=tuple(dim for dim in range(values.ndim) if dim != axis))


def _real(entry: OutputQuality, value: Array) -> F64:
    real = value.astype(np.float64)
    return (real - entry.zero_point) * entry.scale if entry.scale else real

"""Quality of a program against the float model: figures that a build measures and stores; free of PyTorch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from deuteron.errors import counted
from deuteron.records import Source

MOST = 150.0
"""Decibels of equal values: float32 has no more."""

LITTLE = 20.0
"""Decibels that most int8 networks exceed."""

CONSTANT = "is constant on the calibration data"

_LISTED = 8
"""Number of channels in a text."""

PROGRAM, PYTORCH = "program", "quantized PyTorch"
"""Measured object: the program in ExecuTorch's runtime on the host, or the quantized model if that cannot run."""


@dataclass(frozen=True, slots=True)
class OutputQuality:
    """One output compared with the float model's, over all samples.

    Attributes:
        sqnr: signal to quantization noise, in dB.
        axis: the dimension of its channels.
        channels: SQNR of each channel; none if it has no such dimension.
        scale: scale of the stored integers of a quantized output, else 0.
        zero_point: their zero point.
        equal: for integers and bools, which have no channels, the share of values that equal the float model's.
        constant: true if the float model gives the same values for all samples: the ratio then says nothing.
    """

    sqnr: float
    axis: int
    channels: tuple[float, ...]
    scale: float = 0.0
    zero_point: int = 0
    equal: float = 0.0
    constant: bool = False

    def lines(self, index: int) -> Iterator[str]:
        """Yield the text for output `index`, with its worst channels."""
        if not self.channels:
            yield f"output {index}: integers, {self.equal:.1%} equal the float model's"
            return
        if self.constant:
            yield f"output {index} {CONSTANT}"
            return
        yield f"output {index}: {self.sqnr:.1f} dB"
        worst = sorted(range(len(self.channels)), key=self.channels.__getitem__)
        if len(worst) > 1:
            named = ", ".join(f"{channel}: {self.channels[channel]:.1f}" for channel in worst[:_LISTED])
            others = f", {len(worst) - _LISTED} others" if len(worst) > _LISTED else ""
            yield f"  channels of dimension {self.axis}, worst first: {named}{others}"


@dataclass(frozen=True, slots=True)
class LayerQuality:
    """One quantized intermediate value.

    Attributes:
        name: name of the node that computes it, as `manifest.Node.quantised`.
        op: its operator.
        source: its line of the model.
        sqnr: SQNR of everything computed up to it, in dB.
        own: SQNR of this operator alone: its inputs are the float model's, rounded.
    """

    name: str
    op: str
    source: tuple[Source, ...]
    sqnr: float
    own: float


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of the user's function, for the float model and for the program."""

    name: str
    model: float
    program: float

    def text(self) -> str:
        """Return both values in a line."""
        return f"{self.name}: {self.program:.6g}, of the float model {self.model:.6g}"


@dataclass(frozen=True, slots=True)
class Quality:
    """Quality figures.

    Attributes:
        samples: number of samples from the calibration batches.
        kept: number of these stored with the build; outputs of PROGRAM are measured on them alone.
        measured: PROGRAM or PYTORCH, for the outputs; layers are always those of quantized PyTorch.
        outputs: one entry each.
        layers: ordered by `own`, smallest first.
        metrics: results of the user's function.
    """

    samples: int = 0
    kept: int = 0
    measured: str = PYTORCH
    outputs: tuple[OutputQuality, ...] = ()
    layers: tuple[LayerQuality, ...] = ()
    metrics: tuple[Metric, ...] = ()

    def summary(self, *, advises: bool = True) -> str:
        """Return the SQNR of each output, empty if none has any; if one is low and `advises`, with options to try."""
        listed = [
            f"output {i} {CONSTANT}"
            if output.constant
            else f"output {i} {output.sqnr:.1f} dB"
            if output.channels
            else f"output {i} {output.equal:.1%} equal"
            for i, output in enumerate(self.outputs)
        ]
        is_little = any(output.sqnr < LITTLE for output in self.outputs if output.channels)
        more = "; `--equalise --correct-biases` may give more" if is_little and advises else ""
        return f"signal to quantization noise: {', '.join(listed)}{more}" if listed else ""

    @property
    def title(self) -> str:
        """Return a title for the figures."""
        samples = counted(self.samples, "sample")
        if self.measured == PROGRAM and self.kept < self.samples:
            samples = f"{self.kept} of {samples}"
        return f"signal to quantization noise against the float model, on {samples}, of {self.measured}"


NOT_MEASURED = Quality()


def decibels(signal: float, noise: float) -> float:
    """Return the ratio of two sums of squares in dB, to two places; MOST for no noise, or nearly none."""
    if not math.isfinite(signal) or not math.isfinite(noise):
        return -MOST
    if noise <= signal * 10 ** (-MOST / 10):
        return MOST
    return round(max(-MOST, 10 * math.log10(signal / noise)), 2) if signal else -MOST

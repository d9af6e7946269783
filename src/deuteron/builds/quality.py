"""How far a program is from the float model: what a build measures, and keeps in its manifest; free of PyTorch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from deuteron.errors import counted
from deuteron.records import Source

MOST = 150.0
"""Decibels of what is equal: float32 itself has no more."""

LITTLE = 20.0
"""Decibels that int8 has of most networks and more."""

_LISTED = 8
"""Channels that a text lists."""

PROGRAM, PYTORCH = "program", "quantised PyTorch"
"""What was measured: the program in ExecuTorch's runtime on the host, or the quantised model where it does not run."""


@dataclass(frozen=True, slots=True)
class OutputQuality:
    """One output beside the float model's, over all samples.

    Attributes:
        sqnr: signal to quantisation noise, in dB.
        axis: the dimension of its channels.
        channels: the same for each channel; none where it has no such dimension.
        scale: of the stored integers where the program gives such, else 0.
        zero_point: the same.
        equal: of integers and bools, which have no channels, the share of values that equal the float model's.
    """

    sqnr: float
    axis: int
    channels: tuple[float, ...]
    scale: float = 0.0
    zero_point: int = 0
    equal: float = 0.0

    def lines(self, index: int) -> Iterator[str]:
        """As text, for output `index`, with its worst channels."""
        if not self.channels:
            yield f"output {index}: integers, {self.equal:.1%} equal the float model's"
            return
        yield f"output {index}: {self.sqnr:.1f} dB"
        worst = sorted(range(len(self.channels)), key=self.channels.__getitem__)
        if len(worst) > 1:
            named = ", ".join(f"{channel}: {self.channels[channel]:.1f}" for channel in worst[:_LISTED])
            others = f", {len(worst) - _LISTED} others" if len(worst) > _LISTED else ""
            yield f"  channels of dimension {self.axis}, worst first: {named}{others}"


@dataclass(frozen=True, slots=True)
class LayerQuality:
    """One value between operators that is quantised.

    Attributes:
        name: of the node that computes it, as `manifest.Node.quantised`.
        op: its operator.
        source: its line of the model.
        sqnr: of all that was computed up to it, in dB.
        own: of this operator alone: its inputs are the float model's, rounded.
    """

    name: str
    op: str
    source: tuple[Source, ...]
    sqnr: float
    own: float


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of the user's own: of the float model, and of the program."""

    name: str
    model: float
    program: float

    def text(self) -> str:
        """Both, in a line."""
        return f"{self.name}: {self.program:.6g}, of the float model {self.model:.6g}"


@dataclass(frozen=True, slots=True)
class Quality:
    """What was measured.

    Attributes:
        samples: how many, of the calibration batches.
        kept: how many of these are stored with the build; outputs of PROGRAM are measured on them alone.
        measured: what, of PROGRAM and PYTORCH, for the outputs; layers are always those of quantised PyTorch.
        outputs: one entry each.
        layers: those with the least `own` first.
        metrics: what the user's function gave.
    """

    samples: int = 0
    kept: int = 0
    measured: str = PYTORCH
    outputs: tuple[OutputQuality, ...] = ()
    layers: tuple[LayerQuality, ...] = ()
    metrics: tuple[Metric, ...] = ()

    @property
    def summary(self) -> str:
        """The signal to noise of each output, and what may give more where one has little; empty where none has any."""
        listed = [
            f"output {i} {output.sqnr:.1f} dB" if output.channels else f"output {i} {output.equal:.1%} equal"
            for i, output in enumerate(self.outputs)
        ]
        is_little = any(output.sqnr < LITTLE for output in self.outputs if output.channels)
        more = "; `--equalise --correct-biases` may give more" if is_little else ""
        return f"signal to quantisation noise: {', '.join(listed)}{more}" if listed else ""

    @property
    def title(self) -> str:
        """What its figures are of."""
        samples = counted(self.samples, "sample")
        if self.measured == PROGRAM and self.kept < self.samples:
            samples = f"{self.kept} of {samples}"
        return f"signal to quantisation noise beside the float model, on {samples}, of {self.measured}"


NOT_MEASURED = Quality()


def decibels(signal: float, noise: float) -> float:
    """The ratio of two sums of squares in dB, to two places; MOST where there is no noise, or next to none."""
    if not math.isfinite(signal) or not math.isfinite(noise):
        return -MOST
    if noise <= signal * 10 ** (-MOST / 10):
        return MOST
    return round(max(-MOST, 10 * math.log10(signal / noise)), 2) if signal else -MOST

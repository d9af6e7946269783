"""Converts TFLite attributes to IR values: fused activations and SAME padding."""

from collections.abc import Callable, Mapping
from fractions import Fraction

from deuteron.npu.neutron.ir.ops import Clamp, Pads, Pair
from deuteron.npu.neutron.ir.shapes import same_padding
from deuteron.tflite.quantization import Quant


def _relu(quant: Quant) -> Clamp:
    return Clamp(lo=max(-128, quant.zero_point))


def _relu6(quant: Quant) -> Clamp:
    six = quant.zero_point + round(6 / Fraction(quant.scale))
    return Clamp(lo=max(-128, quant.zero_point), hi=min(127, six))


def _relu_n1_to_1(quant: Quant) -> Clamp:
    one = round(1 / Fraction(quant.scale))
    return Clamp(lo=max(-128, quant.zero_point - one), hi=min(127, quant.zero_point + one))


ACTIVATIONS: Mapping[str, Callable[[Quant], Clamp]] = {
    "NONE": lambda _: Clamp(),
    "RELU": _relu,
    "RELU_N1_TO_1": _relu_n1_to_1,
    "RELU6": _relu6,
}
"""Fused activation -> clamp in the output's quantization; limits are rounded to nearest, ties to even."""


def same_pads(size: Pair, window: Pair, stride: Pair, dilation: Pair = (1, 1)) -> Pads:
    """Return the SAME padding for a map of `size`."""
    (top, bottom), (left, right) = (
        same_padding(s, w, t, d) for s, w, t, d in zip(size, window, stride, dilation, strict=True)
    )
    return Pads(top, bottom, left, right)

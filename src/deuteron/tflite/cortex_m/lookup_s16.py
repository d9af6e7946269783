"""Functions of one int16 tensor: tables of 512 pieces of straight lines, and LOGISTIC and TANH."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from deuteron.operators.tflite import BY_TFLITE_OPERATOR, LookupS16Params, SigmoidS16Params
from deuteron.tflite.cortex_m.call import Constant, CpuCall
from deuteron.tflite.cortex_m.fixed_point import Reals, rounded
from deuteron.tflite.cortex_m.operator_view import Site

_PIECES = 512
_LOW, _HIGH = -32768, 32767
_SIGMOID_VALUES = 256
_SIGMOID_STEPS = 24
"""Values of the table per unit."""


def piecewise_table(
    real: type[np.float32] | type[np.float64],
    given: tuple[float, int],
    result: tuple[float, int],
    function: Callable[[Reals], Reals],
) -> npt.NDArray[np.int16]:
    """Return the 513 values of a function: each is moved by half of the error that a line has in its middle.

    Args:
        real: the type that the reference kernel computes in.
        given: scale and zero point of the input.
        result: the same of the output.
        function: of numbers of that type.
    """
    (in_scale, in_zp), (out_scale, out_zp) = given, result
    least, most = (real(in_scale) * real(end - in_zp) for end in (_LOW, _HIGH))
    out_least, out_most = (real(out_scale) * real(end - out_zp) for end in (_LOW, _HIGH))
    step = (most - least) / real(_PIECES)
    inverse = real(_HIGH - _LOW + 1) / (out_most - out_least)
    i = np.arange(_PIECES).astype(real)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        here, middle, after = (
            function(x) * inverse
            for x in (least + i * step, least + i * step + step / real(2), least + (i + real(1)) * step)
        )
        sample = rounded(here)
        line = rounded((after + sample) / real(2))
        bias = rounded((line - rounded(middle)) / real(2))
        last = rounded(function(np.array([most], real)) * inverse)
    return np.clip(np.concatenate([sample - bias, last]), _LOW, _HIGH).astype(np.int16)


def by_function(function: Callable[[Reals], Reals], site: Site) -> tuple[CpuCall, ...]:
    """Return the look-up of a function of float32."""
    x, out = site.input(), site.output()
    given, result = ((float(site.scale(t)), site.zero_point(t)) for t in (x, out))
    table = piecewise_table(np.float32, given, result, function)
    params = LookupS16Params(math.prod(out.shape))
    return (CpuCall(BY_TFLITE_OPERATOR["lookup_s16"], (site.ref(), Constant(table)), (site.out(),), params),)


def sigmoid(site: Site, *, tanh: bool) -> tuple[CpuCall, ...]:
    """Lower LOGISTIC and TANH: the input in steps of 1/12288, and one table for both."""
    x, out = site.input(), site.output()
    site.zero_point(x)
    if float(site.scale(out)) != 1 / 32768 or site.zero_point(out) != 0:
        raise site.unsupported(f"tensor `{out.name}` has the scale {site.scale(out)}; 1/32768 is allowed")
    multiplier, shift = _input_factor(float(site.scale(x)), most_left=1 if tanh else 0)
    params = SigmoidS16Params(math.prod(out.shape), multiplier, shift, int(tanh))
    inputs = (site.ref(), Constant(sigmoid_table()))
    return (CpuCall(BY_TFLITE_OPERATOR["sigmoid_s16"], inputs, (site.out(),), params),)


def _input_factor(scale: float, most_left: int) -> tuple[int, int]:
    """Multiplier and shift to the right that bring a scale to 1/12288."""
    mantissa, exponent = math.frexp(scale)
    left = 12 + exponent - 1
    if mantissa == 0.5 and 0 <= left <= most_left:
        return 3 << left, 0
    real, shift = scale * 4096.0 * 3.0, 0
    while real <= 32767.0 / 2.0 and shift <= 30:
        shift, real = shift + 1, real * 2.0
    return int(real), shift


def sigmoid_table() -> npt.NDArray[np.int32]:
    """Return the logistic function in steps of 2^-16, moved by half of the error that a line has in its middle."""

    def exact(at: float) -> float:
        return 65536 / (1 + math.exp(-at / _SIGMOID_STEPS))

    def moved(i: int) -> int:
        error = (exact(i) + exact(i + 1)) / 2 - exact(i + 0.5)
        return math.floor(exact(i) - error / 2 + 0.5)

    values = [moved(i) for i in range(_SIGMOID_VALUES)]
    return np.array([*values[:-1], 65535], np.int32)

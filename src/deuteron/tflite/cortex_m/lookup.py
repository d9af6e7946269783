"""Functions of one tensor: of int8 a table of 256 bytes, as the reference kernels compute it."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from deuteron.operators.cortex_m import BY_OPERATOR
from deuteron.operators.kernel_params import LutParams
from deuteron.operators.tflite import BY_TFLITE_OPERATOR, PreluParams, RequantizeParams
from deuteron.tflite.cortex_m import float32, lookup_s16, unquantized
from deuteron.tflite.cortex_m.call import Constant, CpuCall, FileTensor
from deuteron.tflite.cortex_m.fixed_point import (
    F32,
    I64,
    divided_by_power,
    factor,
    inverse_square_root,
    product,
    rounded,
    times,
)
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import Site

STORED = np.arange(-128, 128)
"""All int8 numbers."""

_Real = Callable[[F32], F32]


def table_call(site: Site, table: npt.ArrayLike, source: FileTensor | None = None) -> tuple[CpuCall, ...]:
    """Return the look-up of each element of an int8 tensor."""
    entries = np.clip(np.asarray(table), -128, 127).astype(np.int8)
    params = LutParams(math.prod(site.output().shape))
    inputs = (source or site.ref(), Constant(entries))
    return (CpuCall(BY_OPERATOR["quantized_activation"], inputs, (site.out(),), params),)


def real_table(site: Site, function: _Real) -> I64:
    """Return a table made in float32: numbers, the function, and quotients rounded with ties away from zero."""
    x, out = site.input(), site.output()
    numbers = site.scale(x) * (STORED - site.zero_point(x)).astype(np.float32)
    inverse = np.float32(1) / site.scale(out)
    with np.errstate(over="ignore"):
        steps = rounded(function(numbers) * inverse) + np.float32(site.zero_point(out))
    return np.clip(steps.astype(np.float64), -1e9, 1e9).astype(np.int64)


def exact(function: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> _Real:
    """Return a function of float32 numbers that is computed in float64 and rounded once."""

    def rounded_once(numbers: F32) -> F32:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return function(numbers.astype(np.float64)).astype(np.float32)

    return rounded_once


def logistic_of(numbers: F32) -> F32:
    """The logistic function in float32 steps."""
    one = np.float32(1)
    with np.errstate(over="ignore"):
        return one / (one + exact(np.exp)(-numbers))


def _elu_of(numbers: F32) -> F32:
    return np.where(numbers < 0, exact(np.expm1)(numbers), numbers)


def _gelu_of(numbers: F32) -> F32:
    scaled = (numbers * np.float32(-math.sqrt(0.5))).astype(np.float32)
    errors = np.array([math.erfc(x) for x in scaled.tolist()]).astype(np.float32)
    return (np.float32(0.5) * numbers * errors).astype(np.float32)


def _gelu_approximate_of(numbers: F32) -> F32:
    half, one, coefficient = np.float32(0.5), np.float32(1), np.float32(0.044715)
    root = np.float32(2 / math.sqrt(math.pi) * math.sqrt(0.5))
    cube = numbers * numbers * numbers
    inner = (root * (numbers + coefficient * cube)).astype(np.float32)
    return (half * numbers * (one + exact(np.tanh)(inner))).astype(np.float32)


def _by_function(function: _Real) -> Callable[[Site], tuple[CpuCall, ...]]:
    def lower(site: Site) -> tuple[CpuCall, ...]:
        return table_call(site, real_table(site, function))

    return lower


def logistic(site: Site) -> tuple[CpuCall, ...]:
    """Lower LOGISTIC of int8."""
    if float(site.scale(site.output())) != 1 / 256:
        raise site.unsupported(
            f"tensor `{site.output().name}` has the scale {site.scale(site.output())}; 1/256 is allowed"
        )
    return table_call(site, real_table(site, logistic_of))


def gelu(site: Site) -> tuple[CpuCall, ...]:
    """Lower GELU."""
    return table_call(site, real_table(site, _gelu_approximate_of if site.option("Approximate") else _gelu_of))


def logarithm(site: Site) -> tuple[CpuCall, ...]:
    """Lower LOG: numbers of 0 or less get the least result."""
    out = site.output()
    least = np.float32(-128 - site.zero_point(out)) * site.scale(out)
    return table_call(site, real_table(site, _log_of(least)))


def square_root(site: Site) -> tuple[CpuCall, ...]:
    """Lower SQRT, which cuts the quotient off; the reference kernel refuses numbers below 0, which get that of 0."""
    x, out = site.input(), site.output()
    numbers = np.maximum(site.scale(x) * (STORED - site.zero_point(x)).astype(np.float32), np.float32(0))
    return table_call(site, np.trunc(np.sqrt(numbers) / site.scale(out)).astype(np.int64) + site.zero_point(out))


def inverse_root(site: Site) -> tuple[CpuCall, ...]:
    """Lower RSQRT; 0 and negative numbers, which the reference kernel refuses, get the largest result."""
    x, out = site.input(), site.output()
    real = 1 / np.float64(np.sqrt(site.scale(x)) * site.scale(out))
    multiplier, shift = factor(float(real))
    table: list[int] = []
    for value in (STORED - site.zero_point(x)).tolist():
        if value <= 0:
            table.append(127)
            continue
        inverse, down = inverse_square_root(value)
        fraction = 20
        number = int(product(1, (inverse, down + fraction)))
        table.append(int(product(number, (multiplier, shift - fraction))) + site.zero_point(out))
    return table_call(site, table)


def absolute(site: Site) -> tuple[CpuCall, ...]:
    """Lower ABS."""
    x, out = site.input(), site.output()
    values = np.abs(STORED - site.zero_point(x))
    if site.scale(x) != site.scale(out):
        values = product(values, factor(float(site.scale(x) / site.scale(out))))
    return table_call(site, values + site.zero_point(out))


def leaky(site: Site) -> tuple[CpuCall, ...]:
    """Lower LEAKY_RELU."""
    x, out = site.input(), site.output()
    alpha = np.float32(site.op.options.get("Alpha", 0))
    real = site.scale(x) * alpha / site.scale(out)
    below = product(STORED - site.zero_point(x), factor(abs(float(real)))) * (-1 if real < 0 else 1)
    above = product(STORED - site.zero_point(x), factor(float(site.scale(x) / site.scale(out))))
    table = np.where(site.zero_point(x) <= STORED, above, below) + site.zero_point(out)
    return table_call(site, table)


def _relu(low: float | None, high: float | None) -> Callable[[Site], tuple[CpuCall, ...]]:
    def lower(site: Site) -> tuple[CpuCall, ...]:
        x, out = site.input(), site.output()
        multiplier, shift = factor(float(site.scale(x) / site.scale(out)))
        act_min, act_max = site.stored_range(low, high)
        if x.dtype == "INT16":
            params = RequantizeParams(math.prod(out.shape), 0, multiplier, shift, 0, act_min, act_max)
            return (CpuCall(BY_TFLITE_OPERATOR["requantize"], (site.ref(),), (site.out(),), params),)
        values = product(STORED - site.zero_point(x), (multiplier, shift)) + site.zero_point(out)
        return table_call(site, np.clip(values, act_min, act_max))

    return lower


def _relus(low: float, high: float | None, *types: str) -> Lowering:
    stored = _relu(low, high)

    def lower(site: Site) -> tuple[CpuCall, ...]:
        if site.input().dtype == "FLOAT32":
            return (float32.clamp(site.ref(), site.out(), low, high),)
        return stored(site)

    return Lowering(lower, (*types, "FLOAT32"))


def hard_swish(site: Site) -> tuple[CpuCall, ...]:
    """Lower HARD_SWISH: fixed-point numbers of 16 bits, input and output on scales 128 times as fine."""
    x, out = site.input(), site.output()
    fine = np.float32(1 / 128) * site.scale(x)
    out_multiplier, out_exponent = factor(float(fine / site.scale(out)))
    relu_multiplier, relu_exponent = factor(float(fine / np.float32(3 / 32768)))
    if out_exponent > 0:
        raise site.unsupported(
            f"the scale of `{out.name}` is less than 1/128 of the scale of `{x.name}`",
            "check the calibration data: the output's range does not fit its input's",
        )
    value = (STORED - site.zero_point(x)) * 128
    value = ((value + 32768) % 65536) - 32768
    preshift = times(value, _reduced(out_multiplier), 16)
    relu = value
    if relu_exponent > 0:
        relu = _saturated(relu * (1 << (relu_exponent - 1)))
    relu = times(relu, _reduced(relu_multiplier), 16)
    if relu_exponent > 0:
        relu = _saturated(relu * 2)
    if relu_exponent < 0:
        relu = divided_by_power(relu, -relu_exponent)
    relu = (relu + 32768) >> 1
    doubled = relu * preshift
    doubled = np.minimum(np.sign(doubled) * (np.abs(doubled) // 32768), 32767)
    return table_call(site, divided_by_power(doubled, -out_exponent) + site.zero_point(out))


def _reduced(multiplier: int) -> int:
    """A multiplier of 31 bits in 15."""
    return min((multiplier + (1 << 15)) >> 16, 32767) if multiplier < 0x7FFF8000 else 32767


def _saturated(values: npt.ArrayLike) -> I64:
    return np.clip(np.asarray(values, np.int64), -32768, 32767)


def _either(
    narrow: Callable[[Site], tuple[CpuCall, ...]],
    wide: Callable[[Site], tuple[CpuCall, ...]] | None = None,
    real: int | Callable[[Site], tuple[CpuCall, ...]] | None = None,
    note: str = "",
) -> Lowering:
    """A lowering by type: of int8, of int16 if there is one, and of float32 by the kind of `function_f32`."""
    by_type: dict[str, Callable[[Site], tuple[CpuCall, ...]]] = {"INT8": narrow}
    if wide is not None:
        by_type["INT16"] = wide
    if real is not None:
        by_type["FLOAT32"] = partial(float32.function, kind=real) if isinstance(real, int) else real
    return Lowering(lambda site: by_type[site.input().dtype](site), tuple(by_type), note=note)


def _log_of(least: np.float32) -> _Real:
    def function(numbers: F32) -> F32:
        return np.where(numbers <= 0, least, exact(np.log)(np.maximum(numbers, np.float32(1e-30))))

    return function


def _logarithm_s16(site: Site) -> tuple[CpuCall, ...]:
    return lookup_s16.by_function(_log_of(np.float32(-32768) * site.scale(site.output())), site)


def _inverse_root_s16(site: Site) -> tuple[CpuCall, ...]:
    most = np.float32(32767) * site.scale(site.output())

    def function(numbers: F32) -> F32:
        return np.where(numbers <= 0, most, np.float32(1) / np.sqrt(np.maximum(numbers, np.float32(1e-30))))

    return lookup_s16.by_function(function, site)


def _gelu_s16(site: Site) -> tuple[CpuCall, ...]:
    return lookup_s16.by_function(_gelu_approximate_of if site.option("Approximate") else _gelu_of, site)


def _gelu_f32(site: Site) -> tuple[CpuCall, ...]:
    return float32.function(site, float32.GELU_BY_TANH if site.option("Approximate") else float32.GELU)


def _negative(site: Site) -> tuple[CpuCall, ...]:
    """NEG of int8: the negatives of stored values, whatever their zero points; that of -128 is itself."""
    return table_call(site, np.where(STORED == -128, -128, -STORED))


def _leaky_s16(site: Site) -> tuple[CpuCall, ...]:
    """LEAKY_RELU of int16."""
    return _sloped_s16(site, np.float32(site.op.options.get("Alpha", 0)))


def _absolute_s16(site: Site) -> tuple[CpuCall, ...]:
    """ABS of int16: below zero the slope is -1."""
    return _sloped_s16(site, np.float32(-1))


def _sloped_s16(site: Site, slope: np.float32) -> tuple[CpuCall, ...]:
    """A PReLU of int16 with 1 or -1 for alpha, and the rest of the slope in its factor."""
    x, out = site.input(), site.output()
    alpha = site.scale(x) * slope / site.scale(out)
    elements = math.prod(out.shape)
    dims = (1, 1, 1, 1, elements)
    sign = np.array([-1 if alpha < 0 else 1], np.int16)
    params = PreluParams(
        dims, (0, 0, 0, 0, 1), (0, 0, 0, 0, 0), site.zero_point(x), 0, site.zero_point(out),
        *factor(float(site.scale(x) / site.scale(out))), *factor(abs(float(alpha))),
    )  # fmt: skip
    return (CpuCall(BY_TFLITE_OPERATOR["prelu"], (site.ref(), Constant(sign)), (site.out(),), params),)


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "LOGISTIC": _either(
            logistic,
            partial(lookup_s16.sigmoid, tanh=False),
            float32.LOGISTIC,
            "output scale 1/256 of int8, 1/32768 of int16",
        ),
        "TANH": _either(
            _by_function(exact(np.tanh)),
            partial(lookup_s16.sigmoid, tanh=True),
            float32.TANH,
            "output scale 1/32768 of int16",
        ),
        "ELU": _either(_by_function(_elu_of), real=float32.ELU),
        "EXP": _either(_by_function(exact(np.exp)), partial(lookup_s16.by_function, exact(np.exp)), float32.EXP),
        "GELU": _either(gelu, _gelu_s16, _gelu_f32),
        "HARD_SWISH": _either(hard_swish, real=float32.HARD_SWISH),
        "LEAKY_RELU": _either(leaky, _leaky_s16, unquantized.leaky),
        "RELU": _relus(0.0, None, "INT8", "INT16"),
        "RELU6": _relus(0.0, 6.0, "INT8", "INT16"),
        "RELU_N1_TO_1": _relus(-1.0, 1.0, "INT8"),
        "RELU_0_TO_1": _relus(0.0, 1.0, "INT8"),
        "ABS": _either(absolute, _absolute_s16, float32.ABS),
        "LOG": _either(logarithm, _logarithm_s16, float32.LOG),
        "SQRT": _either(square_root, real=float32.SQRT),
        "RSQRT": _either(inverse_root, _inverse_root_s16, float32.RSQRT),
        "NEG": _either(_negative, real=float32.NEG),
        **{
            name: Lowering(partial(float32.function, kind=kind), ("FLOAT32",))
            for name, kind in (
                ("SQUARE", float32.SQUARE),
                ("FLOOR", float32.FLOOR),
                ("CEIL", float32.CEIL),
                ("ROUND", float32.ROUND),
                ("SIN", float32.SIN),
                ("COS", float32.COS),
                ("SIGN", float32.SIGN),
            )
        },
    }
)

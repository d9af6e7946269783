"""Layer, root mean square and group norms."""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import (
    Array,
    Definition,
    LoweredCall,
    LoweringPattern,
    Patterns,
    Site,
    first_operand,
    stored,
)
from deuteron.numerics import rne_shift
from deuteron.operators.custom_ops import NormaliseParams

aten = torch.ops.aten

_ONE_BITS = 61
"""Bits of the numerator for division by a root of 31 bits."""

_MOST = 1 << 22
"""The maximum number of elements in a group."""

_MOST_FRACTION = 46

Dims = tuple[int, int, int, int]
"""Batches, groups, channels of a group, and elements of a channel: their numbers, or their strides in memory."""


def _layer(site: Site) -> LoweredCall | None:
    """`layer_norm`: input, normalised shape, weight, bias, epsilon."""
    weight, bias = (site.argument(i, name, None) for i, name in ((2, "weight"), (3, "bias")))
    sizes, strides = _rows(site)
    return _call(site, sizes, strides, weight, bias, cast(float, site.argument(4, "eps", 1e-5)))


def _root_mean_square(site: Site) -> LoweredCall | None:
    """`rms_norm`: input, normalised shape, weight, epsilon."""
    sizes, strides = _rows(site)
    epsilon = site.argument(3, "eps", None)
    least = torch.finfo(torch.float32).eps if epsilon is None else cast(float, epsilon)
    return _call(site, sizes, strides, site.argument(2, "weight", None), None, least, centred=False)


def _group(site: Site) -> LoweredCall | None:
    """`group_norm`: input, groups, weight, bias, epsilon."""
    batches, channels, *others = site.shape
    groups, spatial = cast(int, site.node.args[1]), math.prod(others)
    each = channels // groups
    channel, element = (1, channels) if site.is_channels_last else (spatial, 1)
    sizes, strides = (batches, groups, each, spatial), (channels * spatial, each * channel, channel, element)
    weight, bias = (site.argument(i, name, None) for i, name in ((2, "weight"), (3, "bias")))
    return _call(site, sizes, strides, weight, bias, cast(float, site.argument(4, "eps", 1e-5)))


def _rows(site: Site) -> tuple[Dims, Dims]:
    """Sizes and strides for norms over the last dimensions."""
    depth = math.prod(cast("Sequence[int]", site.node.args[1]))
    return (math.prod(site.shape) // depth, 1, depth, 1), (depth, depth, 1, 1)


def _call(
    site: Site, sizes: Dims, strides: Dims, weight: object, bias: object, epsilon: float, *, centred: bool = True
) -> LoweredCall | None:
    """The call; None if the group has too many elements, or epsilon or factors do not fit the record."""
    (x,), y, count = site.operands, site.result, sizes[2] * sizes[3]
    least = Fraction(epsilon) * count**2 / Fraction(x.scale) ** 2
    fraction = next((f for f in range(_MOST_FRACTION, -1, -2) if (count**2 * 2**16 + least) * 2**f < 2**62 - 1), None)
    # No normalised value is above the square root of the count.
    value_bits = 30 - ((count - 1).bit_length() + 1) // 2
    gains, offsets = (
        _constants(site, arg, default).double().numpy() / y.scale for arg, default in ((weight, 1.0), (bias, 0.0))
    )
    gains, offsets = np.broadcast_arrays(gains, offsets)
    bits = _shift(gains, 30)
    bits = min(bits, _shift(offsets, 60) - value_bits, 62 - value_bits)
    if count > _MOST or fraction is None or value_bits + bits < 1:
        return None
    steps = np.rint(offsets * 2.0 ** (value_bits + bits))
    offset_shift = max(0, 32 - _shift(steps, 62))
    params = NormaliseParams(
        *sizes, *strides, int(centred), x.zero_point, *_halves(round(least * 2**fraction)), fraction, value_bits,
        int(gains.size > 1), offset_shift, value_bits + bits, y.zero_point,
    )  # fmt: skip
    factors = np.rint(gains * 2.0**bits).astype(np.int32)
    return LoweredCall(
        "normalise", params, tuple(map(_tensor, (factors, np.rint(steps / 2.0**offset_shift).astype(np.int32))))
    )


def _constants(site: Site, node: object, default: float) -> Tensor:
    """The values of weights or biases; `default` without these."""
    return site.constant(node).detach().flatten() if isinstance(node, fx.Node) else torch.full((1,), default)


def _shift(values: npt.NDArray[np.float64], bits: int) -> int:
    """The left shift after which the largest value is below 2^bits; `bits` if all are 0."""
    largest = float(np.abs(values).max())
    return bits - math.frexp(largest)[1] if largest else bits


def _halves(number: int) -> tuple[int, int]:
    """The low and the high 32 bits, as words."""
    low = number & 0xFFFFFFFF
    return low - (low >> 31 << 32), number >> 32


def _tensor(values: npt.NDArray[np.int32]) -> Tensor:
    return torch.from_numpy(values)  # pyright: ignore[reportUnknownMemberType]


def _compute(p: NormaliseParams, x: Array, factors: Array, offsets: Array) -> Array:
    sizes = (p.batches, p.groups, p.channels, p.spatial)
    strides = (p.batch_stride, p.group_stride, p.channel_stride, p.spatial_stride)
    values = np.lib.stride_tricks.as_strided(x, sizes, strides).astype(np.int64) - p.in_zp
    count = np.int64(p.channels * p.spatial)
    sums = values.sum(axis=(2, 3), keepdims=True) * p.centred
    variances = (values**2).sum(axis=(2, 3), keepdims=True) * count - sums**2
    scales = [_scale(p, int(variance)) for variance in variances.flatten()]
    factor, shift = (np.array(column, np.int64).reshape(sums.shape) for column in zip(*scales, strict=True))
    normalised = rne_shift((values * count - sums) * factor, shift)
    each = (1, p.groups, p.channels, 1) if p.factor_step else (1, 1, 1, 1)
    gain, offset = (constant.astype(np.int64).reshape(each) for constant in (factors, offsets))
    steps = rne_shift(normalised * gain + (offset << np.int64(p.offset_shift)), p.out_shift)
    result = np.empty_like(x)
    np.lib.stride_tricks.as_strided(result, sizes, strides)[...] = stored(steps + p.out_zp)
    return result


def _scale(p: NormaliseParams, variance: int) -> tuple[int, int]:
    """Factor and shift of a group."""
    if variance == 0:
        return 0, 1
    number = (variance << p.fraction) + (p.epsilon_high << 32) + (p.epsilon_low & 0xFFFFFFFF)
    doubled = (_ONE_BITS + 1 - number.bit_length()) // 2
    root = math.isqrt(number << 2 * doubled)
    return ((1 << _ONE_BITS) - 1) // root, _ONE_BITS - p.fraction // 2 - doubled - p.value_bits


def _takes(node: fx.Node) -> bool:
    """True if weights and biases are constants."""
    return all(arg is node.args[0] or arg.op == "get_attr" for arg in node.all_input_nodes)


def _norm(call: Callable[[Site], LoweredCall | None], *, any_order: bool = False) -> LoweringPattern:
    return LoweringPattern(call, takes=_takes, operands=first_operand, whole=True, any_order=any_order)


PATTERNS: Patterns = {
    torch.int8: {
        aten.layer_norm.default: _norm(_layer),
        aten.rms_norm.default: _norm(_root_mean_square),
        aten.group_norm.default: _norm(_group, any_order=True),
    }
}

DEFINITIONS: Mapping[str, Definition] = {"normalise": Definition(_compute, rounds=True)}

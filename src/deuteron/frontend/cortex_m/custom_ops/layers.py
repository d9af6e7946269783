"""Convolutions and linear layers of int16 activations."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

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
    clipped,
    first_operand,
    value_of,
)
from deuteron.frontend.cortex_m.layout import is_channels_last
from deuteron.numerics import rne_shift
from deuteron.operators.int16 import BIAS_BITS, ConvolutionS16Params, PoolS16Params

aten = torch.ops.aten

_MULTIPLIER_BITS = 22
_LEAST_SHIFT, _MOST_SHIFT = BIAS_BITS, 40
_MOST_PRODUCTS = 65536
_MOST_LENGTH = 32767


def _convolution(site: Site) -> LoweredCall | None:
    """`convolution`: input, weight, bias, stride, padding, dilation, transposed, output padding, groups."""
    _, _, _, stride, padding, dilation, transposed, _, groups = cast("tuple[Any, ...]", site.node.args)
    if transposed or not is_channels_last(value_of(site.stored[0])) or not is_channels_last(value_of(site.node)):
        return None
    (batches, in_c, in_h, in_w), (_, out_c, out_h, out_w) = site.shape, value_of(site.node).shape
    weights, scales = site.weights(cast(fx.Node, site.node.args[1]))
    kernel = weights.shape[2:]
    sizes = batches, in_h, in_w, in_c, out_h, out_w, out_c, groups
    return _layer(site, weights.permute(0, 2, 3, 1), scales, (*sizes, *kernel, *stride, *padding, *dilation))


def _linear(site: Site) -> LoweredCall | None:
    """`linear`: input, weight, bias."""
    if not value_of(site.stored[0]).is_contiguous():
        return None
    weights, scales = site.weights(cast(fx.Node, site.node.args[1]))
    out_c, in_c = weights.shape
    rows = value_of(site.stored[0]).numel() // in_c
    return _layer(site, weights, scales, (rows, 1, 1, in_c, 1, 1, out_c, 1, 1, 1, 1, 1, 0, 0, 1, 1))


def _layer(site: Site, weights: Tensor, scales: Tensor, sizes: Sequence[int]) -> LoweredCall | None:
    """The call; None for sizes or factors that do not fit the record."""
    y = site.result
    factors = [Fraction(site.operands[0].scale) * Fraction(float(s)) / Fraction(y.scale) for s in scales]
    shifts = [_shift(factor) for factor in factors]
    bias = site.node.args[2] if len(site.node.args) > 2 else None
    offsets = torch.zeros(len(factors)) if bias is None else site.constant(cast(fx.Node, bias)).detach().double()
    offsets = (offsets / y.scale * 2**BIAS_BITS).round()
    products = weights[0].numel()
    if max(sizes) > _MOST_LENGTH or products > _MOST_PRODUCTS or min(shifts) < _LEAST_SHIFT:
        return None
    if float(offsets.abs().max()) >= 2**31:
        return None
    multipliers = [round(factor * (1 << shift)) for factor, shift in zip(factors, shifts, strict=True)]
    columns = (torch.tensor(multipliers), torch.tensor(shifts), offsets)
    params = ConvolutionS16Params.from_words((*sizes, *site.limits))
    return LoweredCall(
        "convolution_s16", params, (weights.contiguous(), *(column.to(torch.int32) for column in columns))
    )


def _shift(factor: Fraction) -> int:
    """The largest number of fraction bits with which a factor fits a multiplier."""
    shift = _MOST_SHIFT
    while shift >= _LEAST_SHIFT and round(factor * (1 << shift)) >= 1 << _MULTIPLIER_BITS:
        shift -= 1
    return shift


def _takes_layer(node: fx.Node) -> bool:
    """True for layers with constant weights."""
    x, weight = cast("tuple[fx.Node, fx.Node]", node.args[:2])
    return weight.op == "get_attr" and x.op != "get_attr" and weight.meta["val"][0].numel() <= _MOST_PRODUCTS


def windows(p: ConvolutionS16Params | PoolS16Params, x: npt.NDArray[Any], fill: int) -> Any:
    """Yield the elements at each position of the window, for all outputs; outside of the image they are `fill`."""
    steps = (p.dilation_h, p.dilation_w) if isinstance(p, ConvolutionS16Params) else (1, 1)
    reach = [(size - 1) * step + 1 for size, step in zip((p.kernel_h, p.kernel_w), steps, strict=True)]
    wanted = (p.out_h - 1) * p.stride_h + reach[0], (p.out_w - 1) * p.stride_w + reach[1]
    pads = ((0, 0), (p.pad_h, max(0, wanted[0] - p.pad_h - p.in_h)), (p.pad_w, max(0, wanted[1] - p.pad_w - p.in_w)))
    padded = np.pad(x, (*pads, (0, 0)), constant_values=fill)
    for ky in range(p.kernel_h):
        for kx in range(p.kernel_w):
            rows = slice(ky * steps[0], ky * steps[0] + (p.out_h - 1) * p.stride_h + 1, p.stride_h)
            columns = slice(kx * steps[1], kx * steps[1] + (p.out_w - 1) * p.stride_w + 1, p.stride_w)
            yield ky, kx, padded[:, rows, columns]


def _compute_convolution(
    p: ConvolutionS16Params, x: Array, weights: Array, multipliers: Array, shifts: Array, bias: Array
) -> Array:
    values = x.reshape(p.batches, p.in_h, p.in_w, p.in_c).astype(np.float64)  # sums are far below 2^53
    kernels = weights.reshape(p.groups, p.out_c // p.groups, p.kernel_h, p.kernel_w, p.in_c // p.groups)
    sums = np.zeros((p.batches, p.out_h, p.out_w, p.groups, p.out_c // p.groups))
    for ky, kx, part in windows(p, values, 0):
        grouped = part.reshape(p.batches, p.out_h, p.out_w, p.groups, 1, p.in_c // p.groups)
        sums += (grouped @ kernels[:, :, ky, kx].astype(np.float64).swapaxes(1, 2))[..., 0, :]
    total = sums.reshape(p.batches, p.out_h, p.out_w, p.out_c).astype(np.int64) * multipliers.astype(np.int64)
    shift = shifts.astype(np.int64)
    total += bias.astype(np.int64) << (shift - BIAS_BITS)
    return clipped(rne_shift(total, shift), p.act_min, p.act_max)


def _is_layer_of_images(values: Sequence[Tensor]) -> bool:
    return values[1].dim() == 4


_LAYER = LoweringPattern(_convolution, takes=_takes_layer, operands=first_operand, any_order=True)

WEIGHTED = frozenset({aten.conv2d.default, aten.linear.default})
"""Operators with weights."""

PATTERNS: Patterns = {
    torch.int16: {
        aten.conv2d.default: _LAYER,
        aten.convolution.default: _LAYER,
        aten.linear.default: LoweringPattern(_linear, takes=_takes_layer, operands=first_operand, any_order=True),
    }
}

DEFINITIONS: Mapping[str, Definition] = {
    "convolution_s16": Definition(_compute_convolution, rounds=True, dtype=torch.int16, is_last=_is_layer_of_images),
}

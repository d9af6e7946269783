"""Operators whose activations have 16 bits, between int16 with the zero point 0.

Layers, sums, products, pools, means, extrema and pads.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.added import reductions
from deuteron.frontend.cortex_m.added.broadcast_binary import dims_of, spread
from deuteron.frontend.cortex_m.added.lowering_pattern import (
    Affine,
    Array,
    Call,
    Definition,
    Form,
    Result,
    Site,
    value_of,
)
from deuteron.frontend.cortex_m.layout import is_channels_last
from deuteron.npu.neutron.kernels.params import ExtremumParams
from deuteron.numerics import I64, requant, requants, rne_divide, rne_shift
from deuteron.operators.cortex_m import PadParams
from deuteron.operators.int16 import (
    BIAS_BITS,
    SUM_BITS,
    TABLE_BITS,
    ConvolutionS16Params,
    InterpolateS16Params,
    PoolS16Params,
    ProductS16Params,
    ReduceSumS16Params,
    RequantiseParams,
    SumS16Params,
)

aten = torch.ops.aten

MOST = 32767
"""Of an activation, with either sign."""

_MULTIPLIER_BITS = 22
_LEAST_SHIFT, _MOST_SHIFT = BIAS_BITS, 40
_MOST_PRODUCTS = 65536
_MOST_LENGTH = 32767
_PAIR = 2
_MOST_RANK = 4
"""Of what is padded."""


def _convolution(site: Site) -> Call | None:
    """`convolution`: input, weight, bias, stride, padding, dilation, transposed, output padding, groups."""
    _, _, _, stride, padding, dilation, transposed, _, groups = cast("tuple[Any, ...]", site.node.args)
    if transposed or not is_channels_last(value_of(site.stored[0])) or not is_channels_last(value_of(site.node)):
        return None
    (batches, in_c, in_h, in_w), (_, out_c, out_h, out_w) = site.shape, value_of(site.node).shape
    weights, scales = site.weights(cast(fx.Node, site.node.args[1]))
    kernel = weights.shape[2:]
    sizes = batches, in_h, in_w, in_c, out_h, out_w, out_c, groups
    return _layer(site, weights.permute(0, 2, 3, 1), scales, (*sizes, *kernel, *stride, *padding, *dilation))


def _linear(site: Site) -> Call | None:
    """`linear`: input, weight, bias."""
    if not value_of(site.stored[0]).is_contiguous():
        return None
    weights, scales = site.weights(cast(fx.Node, site.node.args[1]))
    out_c, in_c = weights.shape
    rows = value_of(site.stored[0]).numel() // in_c
    return _layer(site, weights, scales, (rows, 1, 1, in_c, 1, 1, out_c, 1, 1, 1, 1, 1, 0, 0, 1, 1))


def _layer(site: Site, weights: Tensor, scales: Tensor, sizes: Sequence[int]) -> Call | None:
    """The call; None for sizes or factors beyond all sane layers."""
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
    return Call("convolution_s16", params, (weights.contiguous(), *(column.to(torch.int32) for column in columns)))


def _shift(factor: Fraction) -> int:
    """The most digits behind the point with which a factor has the bits of a multiplier."""
    shift = _MOST_SHIFT
    while shift >= _LEAST_SHIFT and round(factor * (1 << shift)) >= 1 << _MULTIPLIER_BITS:
        shift -= 1
    return shift


def _sum(site: Site, sign: int) -> Call | None:
    if len(site.operands) != _PAIR or (dims := dims_of(site)) is None:
        return None
    (a, b), y, alpha = site.operands, site.result, cast(float, site.node.kwargs.get("alpha", 1))
    factors = [Fraction(a.scale) / Fraction(y.scale), abs(Fraction(alpha)) * Fraction(b.scale) / Fraction(y.scale)]
    (first, second), shift = requants(factors)
    second = second if (alpha > 0) == (sign > 0) else -second
    return Call("sum_s16", SumS16Params(*dims, first, second, shift, *site.limits))


def _plus(site: Site) -> Call | None:
    return _sum(site, 1)


def _minus(site: Site) -> Call | None:
    return _sum(site, -1)


def _product(site: Site) -> Call | None:
    if len(site.operands) != _PAIR or (dims := dims_of(site)) is None:
        return None
    a, b = site.operands
    factor = requant(Fraction(a.scale) * Fraction(b.scale) / Fraction(site.result.scale))
    return Call("product_s16", ProductS16Params(*dims, factor.multiplier, factor.shift, *site.limits))


def _extremum(site: Site, *, maximum: int) -> Call | None:
    if len(site.operands) != _PAIR or (dims := dims_of(site)) is None:
        return None
    return Call("extremum_s16", ExtremumParams(*dims, maximum))


def _pad(site: Site) -> Call:
    """`constant_pad_nd`: input, elements before and after each dimension, the last one first, and their value."""
    sides, rank = cast("Sequence[int]", site.node.args[1]), len(site.shape)
    pairs = [*zip(sides[::2], sides[1::2], strict=True)][::-1]
    whole = [(0, 0)] * (_MOST_RANK - len(pairs)) + pairs
    dims = (1,) * (_MOST_RANK - rank) + site.shape
    steps = round(cast(float, site.argument(2, "value", 0)) / site.result.scale)
    words = (*dims, *(before for before, _ in whole), *(after for _, after in whole), max(-MOST, min(MOST, steps)))
    return Call("pad_s16", PadParams.from_words(words))


def _average(site: Site) -> Call | None:
    """`avg_pool2d`: input, window, stride, padding, whether the size is rounded up, whether padding counts."""
    window, counts = cast("Sequence[int]", site.node.args[1]), site.argument(5, "count_include_pad", True)
    padding = cast("Sequence[int]", site.argument(3, "padding", (0, 0)))
    return _pool(site, 0, window[0] * window[-1] if counts and any(padding) else 0)


def _largest(site: Site) -> Call | None:
    """`max_pool2d`: input, window, stride, padding, and dilation and rounding up, which are not taken."""
    return _pool(site, 1, 0)


def _pool(site: Site, maximum: int, divisor: int) -> Call | None:
    value, result = value_of(site.stored[0]), value_of(site.ends[0])
    if not is_channels_last(value) or not is_channels_last(result):
        return None
    (batches, channels, in_h, in_w), (*_, out_h, out_w) = value.shape, result.shape
    window, stride = (cast("Sequence[int]", site.node.args[i]) for i in (1, 2))
    padding = cast("Sequence[int]", site.argument(3, "padding", (0, 0)))
    pairs = [number for both in (window, stride, padding) for number in (both[0], both[-1])]
    sizes = batches, in_h, in_w, channels, out_h, out_w
    return Call("pool_s16", PoolS16Params.from_words((*sizes, *pairs, maximum, divisor)))


def _reduction(site: Site, *, is_mean: bool) -> Call:
    params = reductions.total(site, is_mean=is_mean, most=SUM_BITS)
    return Call("reduce_sum_s16", ReduceSumS16Params.from_words(params.words()))


def requantisation(result: Tensor, x: Affine, y: Affine) -> Call:
    """The call that brings values to another dtype and scale: those of a result."""
    factor = requant(Fraction(x.scale) / Fraction(y.scale))
    numbers = (x.zero_point, factor.multiplier, factor.shift, y.zero_point)
    name = "requantise_s8" if result.dtype == torch.int8 else "requantise_s16"
    return Call(name, RequantiseParams(result.numel(), *numbers))


def _takes_layer(node: fx.Node) -> bool:
    """True for layers of constant weights."""
    x, weight = cast("tuple[fx.Node, fx.Node]", node.args[:2])
    return weight.op == "get_attr" and x.op != "get_attr" and weight.meta["val"][0].numel() <= _MOST_PRODUCTS


def _takes_pair(node: fx.Node) -> bool:
    """True for arithmetic of two tensors of more than one element each."""
    operands = [arg for arg in node.args[:2] if isinstance(arg, fx.Node)]
    return len(operands) == _PAIR and all(arg.op != "get_attr" or value_of(arg).numel() > 1 for arg in operands)


def _takes_average(node: fx.Node) -> bool:
    """True where a mean's divisor is its window, or what lies on the map."""
    return not _at(node, 4, default=False) and _at(node, 6, default=None) is None


def _takes_largest(node: fx.Node) -> bool:
    """True for windows without gaps, of which as many as fit into the map."""
    dilation = _at(node, 4, default=1)
    steps = cast("Sequence[object]", dilation if isinstance(dilation, list | tuple) else [dilation])
    return not _at(node, 5, default=False) and all(step == 1 for step in steps)


def _takes_pad(node: fx.Node) -> bool:
    """True for what adds elements of one number."""
    sides = cast("Sequence[int]", node.args[1])
    if node.target is aten.pad.default:
        takes = _at(node, 2, default="constant") == "constant"
    else:
        takes = _at(node, 2, default=0) == 0
    return takes and min(sides) >= 0 and value_of(node).dim() <= _MOST_RANK


def _at(node: fx.Node, index: int, *, default: object) -> object:
    return node.args[index] if index < len(node.args) else default


def _operands(node: fx.Node) -> list[fx.Node]:
    """The tensors of a sum or product."""
    return [arg for arg in node.args[:2] if isinstance(arg, fx.Node)]


def _first(node: fx.Node) -> list[fx.Node]:
    return [cast(fx.Node, node.args[0])]


def _form(call: Any, takes: Any, operands: Any = _first, result: Result = Result.MEASURED) -> Form:
    return Form(call, result, takes, operands, any_order=True)


_LAYER = _form(_convolution, _takes_layer)
_AVERAGE = _form(_average, _takes_average, result=Result.SHARED)
_LARGEST = _form(_largest, _takes_largest, result=Result.SHARED)
_MEAN, _TOTAL = (Form(partial(_reduction, is_mean=is_mean), takes=reductions.takes) for is_mean in (True, False))
_MOST_OF, _LEAST_OF = (
    Form(partial(reductions.extremum, maximum=maximum, operator="reduce_extremum_s16"), Result.SHARED, reductions.takes)
    for maximum in (1, 0)
)
_LARGER, _SMALLER = (
    _form(partial(_extremum, maximum=maximum), _takes_pair, _operands, Result.SHARED) for maximum in (1, 0)
)
_PAD = Form(_pad, Result.SHARED, _takes_pad, _first)

FORMS: Mapping[object, Form] = {
    aten.conv2d.default: _LAYER,
    aten.convolution.default: _LAYER,
    aten.linear.default: _form(_linear, _takes_layer),
    **dict.fromkeys((aten.add.Tensor, aten.add_.Tensor), _form(_plus, _takes_pair, _operands)),
    **dict.fromkeys((aten.sub.Tensor, aten.sub_.Tensor), _form(_minus, _takes_pair, _operands)),
    **dict.fromkeys((aten.mul.Tensor, aten.mul_.Tensor), _form(_product, _takes_pair, _operands)),
    aten.avg_pool2d.default: _AVERAGE,
    aten.max_pool2d.default: _LARGEST,
    aten.max_pool2d_with_indices.default: _LARGEST,
    **dict.fromkeys((aten.mean.default, aten.mean.dim), _MEAN),
    **dict.fromkeys((aten.sum.default, aten.sum.dim_IntList), _TOTAL),
    aten.amax.default: _MOST_OF,
    aten.amin.default: _LEAST_OF,
    aten.maximum.default: _LARGER,
    aten.minimum.default: _SMALLER,
    **dict.fromkeys((aten.pad.default, aten.constant_pad_nd.default), _PAD),
}
"""The forms for int16, by the operators of PyTorch's registry, exported and of the edge dialect."""

LAYERS = frozenset({aten.conv2d.default, aten.linear.default})
"""Those with weights."""

LIMITED = LAYERS | {aten.add.Tensor, aten.add_.Tensor, aten.sub.Tensor, aten.sub_.Tensor, aten.mul.Tensor}
"""Those that can cut off values of their results."""


def clipped(steps: I64, low: int = -MOST - 1, high: int = MOST) -> Array:
    """Numbers of steps as int16, within limits."""
    return steps.clip(low, high).astype(np.int16)


def _windows(p: ConvolutionS16Params | PoolS16Params, x: npt.NDArray[Any], fill: int) -> Any:
    """For each place in the window the elements that it has at all outputs; beside the map there is a number."""
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
    for ky, kx, part in _windows(p, values, 0):
        grouped = part.reshape(p.batches, p.out_h, p.out_w, p.groups, 1, p.in_c // p.groups)
        sums += (grouped @ kernels[:, :, ky, kx].astype(np.float64).swapaxes(1, 2))[..., 0, :]
    total = sums.reshape(p.batches, p.out_h, p.out_w, p.out_c).astype(np.int64) * multipliers.astype(np.int64)
    shift = shifts.astype(np.int64)
    total += bias.astype(np.int64) << (shift - BIAS_BITS)
    return clipped(rne_shift(total, shift), p.act_min, p.act_max)


def _compute_sum(p: SumS16Params, a: Array, b: Array) -> Array:
    left, right = spread(a, p.a_strides, p.dims), spread(b, p.b_strides, p.dims)
    return clipped(rne_shift(left * p.a_mult + right * p.b_mult, p.shift), p.act_min, p.act_max)


def _compute_product(p: ProductS16Params, a: Array, b: Array) -> Array:
    left, right = spread(a, p.a_strides, p.dims), spread(b, p.b_strides, p.dims)
    return clipped(rne_shift(left * right * p.mult, p.shift), p.act_min, p.act_max)


def _compute_extremum(p: ExtremumParams, a: Array, b: Array) -> Array:
    sides = spread(a, p.a_strides, p.dims), spread(b, p.b_strides, p.dims)
    return clipped(np.maximum(*sides) if p.maximum else np.minimum(*sides))


def _compute_mean(p: ReduceSumS16Params, x: Array) -> Array:
    return clipped(reductions.steps_of(p, x))


def _compute_pad(p: PadParams, x: Array) -> Array:
    sides = [*zip(p.before, p.after, strict=True)]
    return np.pad(x.reshape(p.dims), sides, constant_values=np.int16(p.value))


def interpolate(p: InterpolateS16Params, x: Array, table: Array) -> Array:
    """What `interpolate_s16` computes."""
    place = x.astype(np.int64).clip(p.low, p.high) - p.low
    piece, rest, entries = place >> p.bits, place & ((1 << p.bits) - 1), table.astype(np.int64)
    values = (entries[piece] << np.int64(p.bits)) + (entries[piece + 1] - entries[piece]) * rest
    return clipped(rne_shift(values, p.bits + TABLE_BITS))


def _compute_pool(p: PoolS16Params, x: Array) -> Array:
    values = x.reshape(p.batches, p.in_h, p.in_w, p.channels).astype(np.int64)
    shape = (p.batches, p.out_h, p.out_w, p.channels)
    if p.maximum:
        largest = np.full(shape, -MOST - 1, np.int64)
        for _, _, part in _windows(p, values, -MOST - 1):
            largest = np.maximum(largest, part)
        return largest.astype(np.int16)
    sums, counts = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for _, _, part in _windows(p, values, 0):
        sums += part
    for _, _, part in _windows(p, np.ones_like(values), 0):
        counts += part
    return clipped(rne_divide(sums, np.full_like(sums, p.divisor) if p.divisor else counts))


def _compute_wide(p: RequantiseParams, x: Array) -> Array:
    return clipped(rne_shift((x.astype(np.int64) - p.in_zp) * p.mult, p.shift) + p.out_zp)


def _compute_narrow(p: RequantiseParams, x: Array) -> Array:
    steps = rne_shift((x.astype(np.int64) - p.in_zp) * p.mult, p.shift) + p.out_zp
    return steps.clip(-128, 127).astype(np.int8)


def _is_layer_of_images(values: Sequence[Tensor]) -> bool:
    return values[1].dim() == 4


def _of_images(_: Sequence[Tensor]) -> bool:
    return True


DEFINITIONS: Mapping[str, Definition] = {
    "convolution_s16": Definition(_compute_convolution, rounds=True, dtype=torch.int16, is_last=_is_layer_of_images),
    "sum_s16": Definition(_compute_sum, rounds=True, dtype=torch.int16),
    "product_s16": Definition(_compute_product, rounds=True, dtype=torch.int16),
    "interpolate_s16": Definition(interpolate, rounds=True, dtype=torch.int16),
    "pool_s16": Definition(_compute_pool, rounds=True, dtype=torch.int16, is_last=_of_images),
    "reduce_sum_s16": Definition(_compute_mean, rounds=True, dtype=torch.int16),
    "reduce_extremum_s16": Definition(reductions.compute_extremum, rounds=False, dtype=torch.int16),
    "extremum_s16": Definition(_compute_extremum, rounds=False, dtype=torch.int16),
    "pad_s16": Definition(_compute_pad, rounds=False, dtype=torch.int16),
    "requantise_s16": Definition(_compute_wide, rounds=True, dtype=torch.int16),
    "requantise_s8": Definition(_compute_narrow, rounds=True),
}

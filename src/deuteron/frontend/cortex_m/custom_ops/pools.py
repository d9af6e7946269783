"""Pools and pads of int16 activations."""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.custom_ops.layers import windows
from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import (
    INT16_MOST,
    Array,
    Definition,
    LoweredCall,
    LoweringPattern,
    Patterns,
    Result,
    Site,
    clipped,
    first_operand,
    value_of,
)
from deuteron.frontend.cortex_m.layout import is_channels_last
from deuteron.numerics import rne_divide
from deuteron.operators.cortex_m import PadParams
from deuteron.operators.int16 import PoolS16Params

aten = torch.ops.aten

_MOST_RANK = 4
"""The maximum rank of a padded tensor."""


def _pad(site: Site) -> LoweredCall:
    """`constant_pad_nd`: input, elements before and after each dimension, the last one first, and their value."""
    pads, rank = cast("Sequence[int]", site.node.args[1]), len(site.shape)
    pairs = [*zip(pads[::2], pads[1::2], strict=True)][::-1]
    whole = [(0, 0)] * (_MOST_RANK - len(pairs)) + pairs
    dims = (1,) * (_MOST_RANK - rank) + site.shape
    steps = round(cast(float, site.argument(2, "value", 0)) / site.result.scale)
    value = max(-INT16_MOST, min(INT16_MOST, steps))
    words = (*dims, *(before for before, _ in whole), *(after for _, after in whole), value)
    return LoweredCall("pad_s16", PadParams.from_words(words))


def _average(site: Site) -> LoweredCall | None:
    """`avg_pool2d`: input, window, stride, padding, ceil mode, whether padding counts."""
    window, counts = cast("Sequence[int]", site.node.args[1]), site.argument(5, "count_include_pad", True)
    padding = cast("Sequence[int]", site.argument(3, "padding", (0, 0)))
    return _pool(site, 0, window[0] * window[-1] if counts and any(padding) else 0)


def _largest(site: Site) -> LoweredCall | None:
    """`max_pool2d`: input, window, stride, padding; dilation and ceil mode are not supported."""
    return _pool(site, 1, 0)


def _pool(site: Site, maximum: int, divisor: int) -> LoweredCall | None:
    value, result = value_of(site.stored[0]), value_of(site.ends[0])
    if not is_channels_last(value) or not is_channels_last(result):
        return None
    (batches, channels, in_h, in_w), (*_, out_h, out_w) = value.shape, result.shape
    window, stride = (cast("Sequence[int]", site.node.args[i]) for i in (1, 2))
    padding = cast("Sequence[int]", site.argument(3, "padding", (0, 0)))
    pairs = [number for both in (window, stride, padding) for number in (both[0], both[-1])]
    sizes = batches, in_h, in_w, channels, out_h, out_w
    return LoweredCall("pool_s16", PoolS16Params.from_words((*sizes, *pairs, maximum, divisor)))


def _takes_average(node: fx.Node) -> bool:
    """True if the divisor of a mean is the window's size, or the number of its elements inside the image."""
    return not _at(node, 4, default=False) and _at(node, 6, default=None) is None


def _takes_largest(node: fx.Node) -> bool:
    """True for windows without dilation that are inside the padded image."""
    dilation = _at(node, 4, default=1)
    steps = cast("Sequence[object]", dilation if isinstance(dilation, list | tuple) else [dilation])
    return not _at(node, 5, default=False) and all(step == 1 for step in steps)


def _takes_pad(node: fx.Node) -> bool:
    """True for positive pads with a constant."""
    pads = cast("Sequence[int]", node.args[1])
    if node.target is aten.pad.default:
        takes = _at(node, 2, default="constant") == "constant"
    else:
        takes = _at(node, 2, default=0) == 0
    return takes and min(pads) >= 0 and value_of(node).dim() <= _MOST_RANK


def _at(node: fx.Node, index: int, *, default: object) -> object:
    return node.args[index] if index < len(node.args) else default


def _compute_pad(p: PadParams, x: Array) -> Array:
    pads = [*zip(p.before, p.after, strict=True)]
    return np.pad(x.reshape(p.dims), pads, constant_values=np.int16(p.value))


def _compute_pool(p: PoolS16Params, x: Array) -> Array:
    values = x.reshape(p.batches, p.in_h, p.in_w, p.channels).astype(np.int64)
    shape = (p.batches, p.out_h, p.out_w, p.channels)
    if p.maximum:
        largest = np.full(shape, -INT16_MOST - 1, np.int64)
        for _, _, part in windows(p, values, -INT16_MOST - 1):
            largest = np.maximum(largest, part)
        return largest.astype(np.int16)
    sums, counts = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for _, _, part in windows(p, values, 0):
        sums += part
    for _, _, part in windows(p, np.ones_like(values), 0):
        counts += part
    return clipped(rne_divide(sums, np.full_like(sums, p.divisor) if p.divisor else counts))


def _always(_: Sequence[Tensor]) -> bool:
    return True


_AVERAGE = LoweringPattern(_average, Result.SHARED, _takes_average, first_operand, any_order=True)
_LARGEST = LoweringPattern(_largest, Result.SHARED, _takes_largest, first_operand, any_order=True)
_PAD = LoweringPattern(_pad, Result.SHARED, _takes_pad, first_operand)

PATTERNS: Patterns = {
    torch.int16: {
        aten.avg_pool2d.default: _AVERAGE,
        aten.max_pool2d.default: _LARGEST,
        aten.max_pool2d_with_indices.default: _LARGEST,
        **dict.fromkeys((aten.pad.default, aten.constant_pad_nd.default), _PAD),
    }
}

DEFINITIONS: Mapping[str, Definition] = {
    "pool_s16": Definition(_compute_pool, rounds=True, dtype=torch.int16, is_last=_always),
    "pad_s16": Definition(_compute_pad, rounds=False, dtype=torch.int16),
}

"""The logarithm of the softmax (`log_softmax`)."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import cast

import numpy as np
import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import (
    Array,
    Definition,
    LoweredCall,
    LoweringPattern,
    Patterns,
    Site,
    stored,
    value_of,
)
from deuteron.frontend.cortex_m.custom_ops.reductions import runs
from deuteron.numerics import requant, rne_shift, softmax_table
from deuteron.operators.custom_ops import LogSoftmaxParams

aten = torch.ops.aten

_ONE_BITS = 30
_LOG_BITS = 26
_MOST_SHIFT = 40
_MOST_DEPTH = 65536


def _log_softmax(site: Site) -> LoweredCall | None:
    (x,), y = site.operands, site.result
    outer, depth, inner = runs(site.shape, [cast(int, site.argument(1, "dim", -1))]) or (0, 0, 0)
    factor = Fraction(x.scale) / Fraction(y.scale)
    shift = min(requant(factor).shift, _MOST_SHIFT)
    log = requant(Fraction(math.log(2)) / Fraction(y.scale) * Fraction(2) ** (shift - _LOG_BITS))
    table: Tensor = torch.from_numpy(softmax_table(x.scale, 1.0).astype(np.int32))  # pyright: ignore[reportUnknownMemberType]
    params = LogSoftmaxParams(
        outer, depth, inner, round(factor * 2**shift), shift, log.multiplier, log.shift, y.zero_point
    )
    return LoweredCall("log_softmax", params, (table,))


def _compute(p: LogSoftmaxParams, x: Array, table: Array) -> Array:
    values = x.reshape(p.outer, p.depth, p.inner).astype(np.int64)
    below = values.max(axis=1, keepdims=True) - values
    sums = table.astype(np.int64)[below].sum(axis=1, keepdims=True)
    logs = np.array([_logarithm(int(total)) for total in sums.flatten()], np.int64).reshape(sums.shape)
    return stored(rne_shift(-below * p.mult - rne_shift(logs * p.log_mult, p.log_shift), p.shift) + p.out_zp)


def _logarithm(total: int) -> int:
    """log2(total / 2^30) with 26 fraction bits."""
    whole = total.bit_length() - 1 - _ONE_BITS
    result, number = whole << _LOG_BITS, total >> whole
    for bit in range(_LOG_BITS - 1, -1, -1):
        number = number * number >> _ONE_BITS
        if number >> _ONE_BITS >= 2:
            number, result = number >> 1, result + (1 << bit)
    return result


def _takes(node: fx.Node) -> bool:
    dim = cast(int, node.args[1])
    return value_of(node).dim() > 0 and value_of(node).shape[dim] <= _MOST_DEPTH


PATTERNS: Patterns = {
    torch.int8: {
        aten.log_softmax.int: LoweringPattern(_log_softmax, takes=_takes),
        aten._log_softmax.default: LoweringPattern(_log_softmax, takes=_takes),  # noqa: SLF001
    }
}

DEFINITIONS: Mapping[str, Definition] = {"log_softmax": Definition(_compute, rounds=True)}

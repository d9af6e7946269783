"""Softmax over the elements that a constant mask selects, as attention uses it."""

from collections.abc import Mapping
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
from deuteron.numerics import rne_divide, softmax_multiplier, softmax_table
from deuteron.operators.custom_ops import MaskedSoftmaxParams

aten = torch.ops.aten


def _takes(node: fx.Node) -> bool:
    """True for a constant mask, over the last dimension."""
    _, mask, dim = cast("tuple[object, fx.Node, int | None]", (*node.args, None)[:3])
    rank = value_of(node).dim()
    return mask.op == "get_attr" and dim is not None and dim % rank == rank - 1


def _call(site: Site) -> LoweredCall:
    excluded = site.constant(cast(fx.Node, site.node.args[1]))
    *_, depth = site.shape
    rows = int(np.prod(site.shape[:-1]))
    mask = _shortest_period(~excluded.reshape(rows, depth))
    mult, shift = softmax_multiplier(site.result.scale)
    table = torch.from_numpy(softmax_table(site.operands[0].scale, 1.0).astype(np.int32))  # pyright: ignore[reportUnknownMemberType]
    params = MaskedSoftmaxParams(rows, depth, len(mask), mult, shift, site.result.zero_point)
    return LoweredCall("masked_softmax", params, (table, mask.to(torch.int8).contiguous()))


def _shortest_period(mask: Tensor) -> Tensor:
    """The first rows of a mask, if the other rows repeat them."""
    rows = len(mask)
    repeats = (n for n in range(1, rows + 1) if rows % n == 0 and torch.equal(mask[:n].repeat(rows // n, 1), mask))
    return mask[: next(repeats)]


def _compute(p: MaskedSoftmaxParams, x: Array, table: Array, mask: Array) -> Array:
    values = x.reshape(p.rows, p.depth).astype(np.int64)
    selected = np.tile(mask.reshape(p.mask_rows, p.depth), (p.rows // p.mask_rows, 1)) != 0
    largest = np.where(selected, values, -128).max(axis=1, keepdims=True)
    weights = np.where(selected, table.astype(np.int64)[np.where(selected, largest - values, 0)], 0)
    sums = np.maximum(weights.sum(axis=1, keepdims=True), 1)
    return stored(rne_divide(weights * p.mult, sums << p.shift) + p.out_zp)


PATTERNS: Patterns = {
    torch.int8: {
        aten._masked_softmax.default: LoweringPattern(_call, takes=_takes, whole=True)  # noqa: SLF001
    }
}

DEFINITIONS: Mapping[str, Definition] = {"masked_softmax": Definition(_compute, rounds=True)}

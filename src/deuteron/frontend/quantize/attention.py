"""Decomposes attention and matrix products into the batched products that kernels support."""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.errors import UnsupportedError
from deuteron.frontend.operators import operator_name
from deuteron.frontend.quantize.decompositions import call, constant, constant_value, value_of
from deuteron.frontend.source_lines import source_of

aten = torch.ops.aten

LEAST = -1e4
"""An addend of masked scores: minus infinity, or a number that makes the softmax zero."""


def attention(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Attention becomes two products with a softmax between them; None with dropout."""
    query, key, value, mask, dropout, is_causal = cast("Any", (*node.args, *(None, 0.0, False)[len(node.args) - 3 :]))
    allowed = None if mask is None else constant_value(model, mask)
    if dropout:
        return None
    width = query.meta["val"].shape[-1]
    scale = cast("float | None", node.kwargs.get("scale"))
    query = call(node, aten.mul.Tensor, query, 1 / math.sqrt(width) if scale is None else scale)
    times = query.meta["val"].shape[-3] // key.meta["val"].shape[-3] if node.kwargs.get("enable_gqa") else 1
    if times > 1:
        key, value = (call(node, aten.repeat_interleave.self_int, x, times, -3) for x in (key, value))
    scores = call(node, aten.matmul.default, query, call(node, aten.transpose.int, key, -2, -1))
    left_out = None
    if is_causal:
        sizes = scores.meta["val"].shape[-2:]
        later = constant(model, node, f"{node.name}_later", torch.ones(sizes, dtype=torch.bool).triu(1))
        scores = call(node, aten.masked_fill.Scalar, scores, later, -math.inf)
    elif mask is not None and mask.meta["val"].dtype == torch.bool:
        left_out = hidden = call(node, aten.logical_not.default, mask)
        if allowed is not None and not (rows := allowed.any(-1, keepdim=True)).all():
            hidden = constant(model, node, f"{node.name}_hidden", ~allowed & rows)
        scores = call(node, aten.masked_fill.Scalar, scores, hidden, -math.inf)
    elif mask is not None:
        scores = call(node, aten.add.Tensor, scores, mask)
    shares = call(node, aten.softmax.int, scores, -1)
    if left_out is not None and (allowed is None or not allowed.any(-1).all()):
        shares = call(node, aten.masked_fill.Scalar, shares, left_out, 0.0)  # of a row that keeps no score, too
    return call(node, aten.matmul.default, shares, value)


def masked_attention(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Attention in the same form; None for one without a mask."""
    mask, _, is_causal = (*node.args[3:], *(None, 0.0, False)[len(node.args) - 3 :])
    return None if mask is None and not is_causal else attention(model, node)


def softmax(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A softmax with a constant mask becomes one operator; None for others."""
    scores, dim = cast("tuple[fx.Node, int]", node.args[:2])
    rank = node.meta["val"].dim()
    if dim % rank != rank - 1:
        return None
    match scores.target, scores.args:
        case aten.masked_fill.Scalar, (fx.Node() as x, fx.Node() as mask, float() | int() as value) if value <= LEAST:
            excluded = constant_value(model, mask)
        case aten.where.ScalarOther, (fx.Node() as mask, fx.Node() as x, float() | int() as value) if value <= LEAST:
            allowed = constant_value(model, mask)
            excluded = None if allowed is None else ~allowed
        case aten.add.Tensor, (fx.Node() as x, fx.Node() as bias) if not scores.kwargs:
            added = constant_value(model, bias)
            return None if added is None or not (added <= LEAST).any() else _biased(model, node, x, bias, added)
        case _:
            return None
    if excluded is None:
        return None
    empty = excluded.all(-1, keepdim=True)
    if empty.any() and math.isfinite(value):  # equal scores, whatever the number
        kept = constant(model, node, f"{node.name}_kept", (~empty).float())
        x, excluded = call(node, aten.mul.Tensor, x, kept), excluded & ~empty
    return masked_softmax(model, node, x, excluded)


def product(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A matrix product with a weight becomes a linear layer, another one a batched product."""
    a, b = cast("tuple[fx.Node, fx.Node]", node.args)
    left, right = ([*x.meta["val"].shape] for x in (a, b))
    if b.op == "get_attr" and len(right) == 2:
        weight = value_of(model, b)
        rows = constant(model, node, f"{b.target}_rows", weight.t().contiguous(), like=weight)
        return call(node, aten.linear.default, a, rows)
    if b.op == "get_attr" and len(right) == 1:
        vector = value_of(model, b)
        row = constant(model, node, f"{b.target}_row", vector.reshape(1, -1), like=vector)
        return call(node, aten.reshape.default, call(node, aten.linear.default, a, row), [*node.meta["val"].shape])
    a = call(node, aten.reshape.default, a, [1, *left]) if len(left) == 1 else a
    b = call(node, aten.reshape.default, b, [*right, 1]) if len(right) == 1 else b
    result = _batched(node, a, b)
    is_matrix = result.meta["val"].shape == node.meta["val"].shape
    return result if is_matrix else call(node, aten.reshape.default, result, [*node.meta["val"].shape])


def _batched(node: fx.Node, a: fx.Node, b: fx.Node) -> fx.Node:
    """The batched product of matrices; the backend's own pass fails for parameters."""
    left, right = ([*x.meta["val"].shape] for x in (a, b))
    if len(left) == len(right) == 3 and left[0] == right[0]:
        return call(node, aten.bmm.default, a, b)
    batch = [*cast("Any", torch).broadcast_shapes(left[:-2], right[:-2])]
    operands = [
        call(node, aten.reshape.default, _expanded(node, x, batch), [math.prod(batch), *x.meta["val"].shape[-2:]])
        for x in (a, b)
    ]
    shape = [*batch, left[-2], right[-1]]
    return call(node, aten.reshape.default, call(node, aten.bmm.default, *operands), shape)


def _expanded(node: fx.Node, x: fx.Node, batch: list[int]) -> fx.Node:
    """Expand the matrices to a batch shape."""
    shape = [*batch, *x.meta["val"].shape[-2:]]
    return x if [*x.meta["val"].shape] == shape else call(node, aten.expand.default, x, shape)


def _biased(model: fx.GraphModule, node: fx.Node, scores: fx.Node, source: fx.Node, bias: Tensor) -> fx.Node:
    """The softmax of scores with a constant addend, which masks scores that are far below all others."""
    excluded = bias <= LEAST
    finite = bias[excluded & bias.isfinite()]
    if len(finite):
        _check_rows(node, excluded & ~bias.isneginf().all(-1, keepdim=True), float(finite[0]))
    rest, weight = bias.masked_fill(excluded, 0), _trained(model, source)
    if weight is not None or rest.any():
        of = source.target if source.op == "get_attr" else node.name  # readers of one weight share its training
        scores = call(node, aten.add.Tensor, scores, constant(model, node, f"{of}_bias", rest, like=weight))
    return masked_softmax(model, node, scores, excluded) if excluded.any() else call(node, aten.softmax.int, scores, -1)


def _check_rows(node: fx.Node, excluded: Tensor | None, value: float) -> None:
    """Refuse finite numbers that mask a whole row: PyTorch's result would depend on their rounding.

    Raises:
        UnsupportedError: a finite number masks a whole row.
    """
    if excluded is None or math.isinf(value) or not excluded.all(-1).any():
        return
    source = source_of(node)
    raise UnsupportedError(
        f"`{operator_name(node.target)}` masks all scores of a row by {value:g}"
        f"{f', at `{source.code}`' if source else ''}",
        where=str(source) if source else None,
        hint="keep at least one score of each row",
    )


def _trained(model: fx.GraphModule, node: fx.Node) -> Tensor | None:
    """The trained weight that a value is computed from; None if there is none."""
    if node.op == "get_attr":
        return value if (value := value_of(model, node)).requires_grad else None
    weights = (_trained(model, arg) for arg in node.all_input_nodes)
    return next((weight for weight in weights if weight is not None), None)


def masked_softmax(model: fx.GraphModule, node: fx.Node, scores: fx.Node, excluded: Tensor) -> fx.Node:
    """The softmax over the last dimension, without the excluded scores."""
    if not scores.meta["val"].is_contiguous():  # PyTorch's masked softmax ignores strides
        scores = call(node, aten.clone.default, scores, memory_format=torch.contiguous_format)
    whole = excluded.expand(scores.meta["val"].shape).contiguous()
    mask = constant(model, node, f"{node.name}_left_out", whole)
    masked: Callable[..., Any] = aten._masked_softmax.default  # noqa: SLF001
    return call(node, masked, scores, mask, -1, _SAME_SHAPE)


_SAME_SHAPE = 2
"""PyTorch's `mask_type` for a mask with one element per score."""

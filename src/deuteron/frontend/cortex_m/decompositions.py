"""Decomposes operators of a float model that the Cortex-M's quantizer and kernels lack."""

import operator
from collections.abc import Mapping
from functools import partial

import torch
from torch import fx

from deuteron.frontend.quantize import arithmetic, attention, indexing, recurrent, recurrent_layers, signals
from deuteron.frontend.quantize.decompositions import Decomposition, apply, fold, values_alone

aten = torch.ops.aten


def write(
    model: fx.GraphModule,
    *,
    is_indexed: bool = True,
    has_slopes: bool = False,
    has_loops: bool = False,
    trains: bool = False,
) -> None:
    """Decompose layers into their operators, and operators into those with kernels.

    Without `is_indexed`, operators that select elements are not written with indices. With `has_slopes`, functions with
    one slope per channel stay, because an NPU may have them; else they become sums. With `has_loops`, recurrent layers
    become one operator each; else operators of each step. `trains` says that weights may still change.
    """
    apply(model, {**_LAYERS, **(recurrent_layers.LAYERS if has_loops else {})})
    fold(model)
    masked = {aten.softmax.int: attention.softmax} if is_indexed else {}
    slopes = {} if has_slopes else {aten.prelu.default: partial(arithmetic.sloped, trains=trains)}
    apply(model, {**_OPERATORS, **masked, **slopes})
    signals.write(model)
    if is_indexed:
        apply(model, arithmetic.WITHOUT_AXES)
    apply(model, {**_SHAPES, **_INDEXED} if is_indexed else _SHAPES)


_LAYERS: Mapping[object, Decomposition] = {
    **recurrent.LAYERS,
    **recurrent.CELLS,
    aten.scaled_dot_product_attention.default: attention.attention,
    aten.pow.Tensor_Tensor: arithmetic.power,
}

_LOGARITHMS = (
    *(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other),
    *(aten.special_xlogy.default, aten.special_xlogy.self_scalar, aten.special_xlogy.other_scalar),
)

WITHOUT_KERNELS: Mapping[object, Decomposition] = {
    aten.avg_pool3d.default: arithmetic.averaged_depth,
    aten.rrelu.default: arithmetic.rectified,
    aten.cosine_similarity.default: arithmetic.cosine_of_rows,
}
"""Decompositions of operators that neither ExecuTorch's backends nor its portable kernels have, or not in all forms."""

_OPERATORS: Mapping[object, Decomposition] = {
    **WITHOUT_KERNELS,
    aten.div.Tensor: arithmetic.normalised,
    aten.instance_norm.default: arithmetic.instances,
    aten.glu.default: arithmetic.gated,
    aten.cosine_similarity.default: arithmetic.cosine,
    aten.to.dtype: arithmetic.bool_to_float,
    aten.floor_divide.default: arithmetic.floored,
    **dict.fromkeys((aten.clamp.default, aten.clamp_min.default), arithmetic.bounded),
    **dict.fromkeys(_LOGARITHMS, arithmetic.with_logarithm),
    aten.matmul.default: attention.product,
    aten.mm.default: attention.product,
    operator.getitem: values_alone,
}
"""Decompositions of operators, also of those in decomposed layers."""

_ARITHMETIC = (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.maximum.default)

_SHAPES: Mapping[object, Decomposition] = {
    aten.conv_transpose2d.input: arithmetic.transposed,
    **dict.fromkeys((*_ARITHMETIC, aten.minimum.default), arithmetic.broadcast),
}
"""Decompositions of operators, also of those in signals as images."""

_SQUEEZES = (aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default)

_INDEXED: Mapping[object, Decomposition] = {
    **dict.fromkeys(_SQUEEZES, arithmetic.reshaped),
    aten.pad.default: indexing.padded,
    aten.flip.default: indexing.flipped,
    aten.embedding.default: indexing.embedded,
}

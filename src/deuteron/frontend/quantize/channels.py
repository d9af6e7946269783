"""The channel axis of layers with weights."""

from torch import Tensor

LAYERS = frozenset({"linear", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"})
"""Operators with weights and one bias per channel."""


def axis_of(weight: Tensor) -> int:
    """The channel dimension of a layer's result, counted from the last: before the image sizes, for any batch.

    Weights have an output and an input channel and the sizes; a linear layer has no sizes.
    """
    return 1 - weight.dim()


def rows_of(values: Tensor, axis: int) -> Tensor:
    """One row per channel with all of its values, in double precision."""
    return values.double().movedim(axis, 0).reshape(values.shape[axis], -1)

"""Layers, and where the channels of what they read and compute are."""

from torch import Tensor

LAYERS = frozenset({"linear", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"})
"""Operators with weights and a bias for each channel."""


def axis_of(weight: Tensor) -> int:
    """The dimension of a layer's channels, from the last: an image's before its sizes, whether it has a batch or not.

    Weights have an output's channel and an input's, and the sizes: a linear layer has none.
    """
    return 1 - weight.dim()


def rows_of(values: Tensor, axis: int) -> Tensor:
    """A row for each channel, of all that it has, in double precision."""
    return values.double().movedim(axis, 0).reshape(values.shape[axis], -1)

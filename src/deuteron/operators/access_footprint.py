"""The bytes of its operands that a call accesses."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from deuteron.operators import kernel_params as p

Ints = npt.NDArray[np.int64]


def reached_by(params: p.KernelParams) -> dict[int, Ints]:
    """Return for each operand with strides the offsets of the bytes that the call accesses, from its first byte."""
    match params:
        case p.CopyParams():
            return {
                0: params.in_start + _grid(params.dims, params.in_strides),
                1: _grid(params.dims, params.out_strides),
            }
        case p.Conv2DParams():
            positions = params.batches * params.out_h * params.out_w
            return {4: _grid((positions, params.out_c), (params.out_pitch, 1))}
        case p.BinaryParams():
            return {0: _grid(params.dims, params.a_strides), 1: _grid(params.dims, params.b_strides)}
        case _:
            return {}


def _grid(dims: Sequence[int], strides: Sequence[int]) -> Ints:
    reached = np.zeros(1, np.int64)
    for dim, stride in zip(dims, strides, strict=True):
        steps = np.arange(dim) * stride if stride else np.zeros(1, np.int64)
        reached = (reached[:, None] + steps).ravel()
    return reached

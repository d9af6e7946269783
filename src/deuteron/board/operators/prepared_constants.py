"""Constants that are precomputed when a bundle is made, and scratch memory for steps."""

import numpy as np

from deuteron.board.operators.lowering import Tensor
from deuteron.runtime.program import Constant, TensorSpec, TensorValue


def kernel_sum(weights: Tensor, bias: Tensor | None, in_offset: int, weight_offset: int = 0) -> Tensor | None:
    """Add the input offset's contribution to the bias for each row of weights; None unless all of it is constant."""
    constants = (weights.value.constant, bias.value.constant if bias else None)
    if constants[0] is None or (bias and constants[1] is None):
        return None
    rows = np.frombuffer(constants[0].data, np.int8).reshape(weights.spec.shape[0], -1).astype(np.int64)
    sums = (rows + weight_offset).sum(axis=1) * in_offset
    if constants[1]:
        sums += np.frombuffer(constants[1].data, np.int32)
    # Sums keep their low 32 bits, as the operators' sums do.
    return _constant(sums.astype(np.uint32).tobytes(), TensorSpec((len(sums),), "int32", (0,)))


def channels_first(weights: Tensor) -> Tensor | None:
    """Return weights [1, height, width, channels] as [channels, height, width, 1]; None if they are not constant."""
    if weights.value.constant is None:
        return None
    rows = np.frombuffer(weights.value.constant.data, np.int8).reshape(weights.spec.shape).transpose(3, 1, 2, 0)
    return _constant(np.ascontiguousarray(rows).tobytes(), TensorSpec(rows.shape, "int8", (0, 1, 2, 3)))


def integer(number: int, dtype: str) -> Tensor:
    """Return a number as a tensor without dimensions."""
    return _constant(np.array(number, dtype).tobytes(), TensorSpec((), dtype, ()))


def scratch_of(size: int) -> Tensor:
    """Return scratch memory for one step, which the program's plan does not have."""
    return Tensor(None, TensorValue(TensorSpec((size,), "uint8", (0,)), size, None, None, False, False))


def _constant(data: bytes, spec: TensorSpec) -> Tensor:
    return Tensor(None, TensorValue(spec, len(data), None, Constant(data, 0, len(data)), False, False))

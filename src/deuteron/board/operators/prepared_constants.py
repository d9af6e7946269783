"""Constants that are worked out when a bundle is made, so that no inference has to, and scratch memory for them."""

import numpy as np

from deuteron.board.operators.lowering import Tensor
from deuteron.runtime.program import Constant, TensorSpec, TensorValue


def kernel_sum(weights: Tensor, bias: Tensor | None, in_offset: int, weight_offset: int = 0) -> Tensor | None:
    """The bias with what the input's offset adds to each row of weights; None when not all of it is constant."""
    constants = (weights.value.constant, bias.value.constant if bias else None)
    if constants[0] is None or (bias and constants[1] is None):
        return None
    rows = np.frombuffer(constants[0].data, np.int8).reshape(weights.spec.shape[0], -1).astype(np.int64)
    sums = (rows + weight_offset).sum(axis=1) * in_offset
    if constants[1]:
        sums += np.frombuffer(constants[1].data, np.int32)
    # Sums keep their low 32 bits, as those of the operators do.
    return _constant(sums.astype(np.uint32).tobytes(), TensorSpec((len(sums),), "int32", (0,)))


def channels_first(weights: Tensor) -> Tensor | None:
    """Weights [1, height, width, channels] as [channels, height, width, 1]; None when they are not constant."""
    if weights.value.constant is None:
        return None
    rows = np.frombuffer(weights.value.constant.data, np.int8).reshape(weights.spec.shape).transpose(3, 1, 2, 0)
    return _constant(np.ascontiguousarray(rows).tobytes(), TensorSpec(rows.shape, "int8", (0, 1, 2, 3)))


def scratch_of(size: int) -> Tensor:
    """Memory for one step that the program's plan has none for."""
    return Tensor(None, TensorValue(TensorSpec((size,), "uint8", (0,)), size, None, None, False, False))


def _constant(data: bytes, spec: TensorSpec) -> Tensor:
    return Tensor(None, TensorValue(spec, len(data), None, Constant(data, 0, len(data)), False, False))

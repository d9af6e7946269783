"""Values that LiteRT leaves open: its host's float functions, memory that it does not write, bytes behind a bias."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from deuteron.tflite.custom_options import DETECTION
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import Buffer, FlatModel, FlatOperator
from deuteron.tflite.normalize import bias_without_type

Array = npt.NDArray[np.generic]

FLOAT_STEPS = 2
"""Largest difference between float32 functions and LiteRT's, in steps of float32 (spec/rounding.md, section 7)."""

SOFTMAX_STEPS = 4
"""The same for SOFTMAX: an exponential, a sum of exponentials and their quotient each add to the difference."""

_FLOAT_FUNCTIONS = frozenset(("COS", "ELU", "EXP", "GELU", "LOG", "LOGISTIC", "LOG_SOFTMAX", "SIN", "SOFTMAX", "TANH"))


def is_float_function(model: FlatModel, op: FlatOperator) -> bool:
    """Return true if an operator computes a float function that LiteRT takes from its host's library."""
    return op.name in _FLOAT_FUNCTIONS and bool(op.outputs) and model.tensors[op.outputs[0]].dtype == "FLOAT32"


def float_bound(op: FlatOperator) -> int:
    """Return the largest difference of a float function, in steps of float32."""
    return SOFTMAX_STEPS if op.name == "SOFTMAX" else FLOAT_STEPS


def smallest_step_of(op: FlatOperator) -> float:
    """Return the magnitude whose float32 step is the smallest that counts.

    GELU multiplies its operand by 1 + erf or 1 + tanh, which are steps of 1 apart and near 0 for operands from about -6
    on. So its results differ by steps of the operand.
    """
    return 4.0 if op.name == "GELU" else 0.0


def has_biases_without_type(source: Buffer) -> bool:
    """Return true if LiteRT reads an int32 bias of the file as int64 numbers, and what follows it."""
    model = decode(source, partial=True)
    return any(bias_without_type(op, model.tensors) is not None for op in model.operators)


def float_steps(ours: Array, theirs: Array, least: float = 0.0) -> npt.NDArray[np.float64]:
    """Return differences of finite float32 values, in steps of the smaller, or of `least`."""
    a, b = ours.astype(np.float32), theirs.astype(np.float32)
    step = np.spacing(np.maximum(np.minimum(np.abs(a), np.abs(b)), np.float32(least)))
    return np.abs(a.astype(np.float64) - b.astype(np.float64)) / step


def written(model: FlatModel, values: Mapping[int, Array]) -> Iterator[tuple[int, Array]]:
    """Yield the results of LiteRT's detections with zeros behind the last, where LiteRT writes nothing.

    Args:
        model: the file.
        values: LiteRT's results by tensor.
    """
    for op in model.operators:
        if op.title == DETECTION and op.outputs[3] in values:
            count = int(values[op.outputs[3]].reshape(-1)[0])
            for tensor in (i for i in op.outputs[:3] if i in values):
                kept = values[tensor].copy()
                kept[:, count:] = 0
                yield tensor, kept


def as_written(model: FlatModel, tensors: Sequence[int], results: Sequence[Array]) -> list[Array]:
    """Return LiteRT's results of some tensors, with zeros where LiteRT writes nothing."""
    values = dict(zip(tensors, results, strict=True))
    values |= written(model, values)
    return [values[tensor] for tensor in tensors]

"""Values that LiteRT leaves open: its host's float functions, bytes behind a bias."""

import numpy as np
import numpy.typing as npt

from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import Buffer, FlatModel, FlatOperator
from deuteron.tflite.normalize import bias_without_type

Array = npt.NDArray[np.generic]

FLOAT_STEPS = 2
"""Largest difference between float32 functions and LiteRT's, in steps of float32 (spec/rounding.md, section 7)."""

SOFTMAX_STEPS = 4
"""The same for SOFTMAX: an exponential, a sum of exponentials and their quotient each add to the difference."""

GELU_STEPS = 12
"""The same for GELU: its complementary error function is off by up to ten steps in LiteRT's host libraries."""

GELU_BY_TANH_STEPS = 3
"""The same for GELU by tanh, in steps of its operand."""

_GELU_END = 6.0

_FLOAT_FUNCTIONS = frozenset(("COS", "ELU", "EXP", "GELU", "LOG", "LOGISTIC", "LOG_SOFTMAX", "SIN", "SOFTMAX", "TANH"))


def is_float_function(model: FlatModel, op: FlatOperator) -> bool:
    """Return true if an operator computes a float function that LiteRT takes from its host's library."""
    return op.name in _FLOAT_FUNCTIONS and bool(op.outputs) and model.tensors[op.outputs[0]].dtype == "FLOAT32"


def adds_in_other_order(model: FlatModel, op: FlatOperator) -> bool:
    """Return true if LiteRT adds the products of an operator in the order of its host's vectors."""
    return op.name == "SVDF" and bool(op.outputs) and model.tensors[op.outputs[0]].dtype == "FLOAT32"


def float_bound(op: FlatOperator) -> int:
    """Return the largest difference of a float function, in steps of float32."""
    if op.name == "GELU":
        return GELU_BY_TANH_STEPS if op.options.get("Approximate") else GELU_STEPS
    return SOFTMAX_STEPS if op.name == "SOFTMAX" else FLOAT_STEPS


def smallest_steps_of(op: FlatOperator, operand: Array) -> Array:
    """Return the magnitude for each result whose float32 step is the smallest that counts.

    GELU by tanh multiplies its operand by 1 + tanh, whose errors are steps of 1 even where it is near 0. So its results
    differ by steps of the operand; from 6 on, 1 + tanh is 0 or 2 in float32, and they do not.
    """
    if op.name == "GELU" and op.options.get("Approximate"):
        return np.where(np.abs(operand) < _GELU_END, np.abs(operand), np.float32(0))
    return np.zeros_like(operand)


def has_biases_without_type(source: Buffer) -> bool:
    """Return true if LiteRT reads an int32 bias of the file as int64 numbers, and what follows it."""
    model = decode(source, partial=True)
    return any(bias_without_type(op, model.tensors) is not None for op in model.operators)


def float_steps(ours: Array, theirs: Array, least: Array | float = 0.0) -> npt.NDArray[np.float64]:
    """Return differences of finite float32 values, in steps of the smaller, or of `least` where that is larger."""
    a, b = ours.astype(np.float32), theirs.astype(np.float32)
    step = np.spacing(np.maximum(np.minimum(np.abs(a), np.abs(b)), np.asarray(least, np.float32)))
    return np.abs(a.astype(np.float64) - b.astype(np.float64)) / step

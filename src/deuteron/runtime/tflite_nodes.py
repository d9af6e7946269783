"""Operators of TFLite files as nodes of a manifest: their work and bytes."""

import math
from dataclasses import replace

import numpy as np

from deuteron.arch.cores import Work
from deuteron.builds.manifest import Node
from deuteron.tflite.flat_model import FlatModel, FlatOperator

LAYERS = {
    "CONV_2D": Work.CONVOLUTION,
    "DEPTHWISE_CONV_2D": Work.DEPTHWISE,
    "FULLY_CONNECTED": Work.LINEAR,
    "TRANSPOSE_CONV": Work.CONVOLUTION,
}
"""Operators whose multiply-accumulates are counted."""


def node_of(model: FlatModel, index: int, name: str, op: str, partition: int) -> Node:
    """Return what a manifest says of an operator in a partition; `name` and `op` are its names there."""
    operator = model.operators[index]
    work = LAYERS.get(operator.name, Work.UNKNOWN)
    moved = {i for i in (*operator.inputs, *operator.outputs) if i >= 0 and model.tensors[i].data is None}
    return Node(
        name=name,
        op=op,
        quantised="",
        source=(),
        partition=partition,
        why="",
        work=work,
        elements=sum(math.prod(model.tensors[i].shape) for i in operator.outputs),
        terms=terms(model, index) if work.multiplies else 0,
        nbytes=sum(nbytes(model, i) for i in moved),
    )


def terms(model: FlatModel, operator: int) -> int:
    """Return the multiply-accumulates of a layer."""
    op = model.operators[operator]
    tensors = model.tensors
    weights, results = tensors[op.inputs[1]].shape, math.prod(tensors[op.outputs[0]].shape)
    if op.name == "TRANSPOSE_CONV":
        return math.prod(tensors[op.inputs[2]].shape) * math.prod(weights[:3])
    return results * math.prod(weights[1:3] if op.name == "DEPTHWISE_CONV_2D" else weights[1:])


def nbytes(model: FlatModel, tensor: int) -> int:
    """Return the bytes of a tensor."""
    return math.prod(model.tensors[tensor].shape) * np.dtype(model.tensors[tensor].dtype.lower()).itemsize


def with_origins(model: FlatModel, source: FlatModel) -> FlatModel:
    """Return the model with what files do not say of operators: their numbers in the source, and which were uint8."""
    given = {source.tensors[i].name: op for op in source.operators for i in op.outputs}
    operators = list[FlatOperator]()
    for op in model.operators:
        before = given.get(model.tensors[op.outputs[0]].name) if op.outputs else None
        is_unsigned = before is not None and before.is_unsigned and before.title == op.title
        operators.append(replace(op, origin=before.origin, is_unsigned=is_unsigned) if before else op)
    return replace(model, operators=tuple(operators))

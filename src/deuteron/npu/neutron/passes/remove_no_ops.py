"""Removes operators whose output equals their input."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import (
    Add,
    AveragePool2D,
    Clamp,
    Concat,
    Maximum,
    MaxPool2D,
    Minimum,
    MirrorPad,
    Mul,
    Op,
    Pad,
    Pads,
    Quantize,
    ReductionOp,
    Reshape,
    ResizeBilinear,
    ResizeNearest,
    Slice,
    Sub,
    Transpose,
    Unary,
)
from deuteron.npu.neutron.ir.types import DType
from deuteron.npu.neutron.passes.activation_clamp import stored_clamp
from deuteron.npu.neutron.passes.base import final_name, rename_tensors
from deuteron.numerics import FACTOR_LIMIT


@dataclass(frozen=True, slots=True)
class RemoveNoOps:
    """Removes ops that change nothing; between a graph input and a graph output a reshape stays, as a copy."""

    name: ClassVar[str] = "remove-no-ops"

    def apply(self, graph: Graph) -> Graph:
        """Return the graph without ops that change nothing."""
        produced = {name for op in graph.ops for name in op.outputs}
        names: dict[str, str] = {}
        ops: list[Op] = []
        for op in graph.ops:
            if not is_no_op(graph, op):
                ops.append(op)
                continue
            (output,), source = op.outputs, final_name(op.inputs[0], names)
            if output not in graph.outputs:
                names[output] = source
            elif source in produced and source not in graph.outputs:
                names[source] = output
            else:
                ops.append(Reshape(inputs=op.inputs[:1], outputs=op.outputs, origin=op.origin))
        return graph.with_ops(rename_tensors(ops, names)).without_dead_ops()


def is_no_op(graph: Graph, op: Op) -> bool:
    """Return True if the op's output equals its first input, in type and values."""
    if graph.type(op.inputs[0]) != graph.type(op.outputs[0]):
        return False
    match op:
        case Reshape() | Quantize() | Slice() | Pad() | MirrorPad() | ResizeBilinear() | ResizeNearest():
            # With equal types these do nothing: the slice is the whole box, the resize has the same size.
            return True
        case ReductionOp():
            return True  # over single elements
        case Transpose():
            return op.perm == tuple(range(len(op.perm)))
        case Concat():
            return len(op.inputs) == 1
        case Unary() | Maximum() | Minimum():
            return stored_clamp(graph, op) == Clamp()
        case MaxPool2D() | AveragePool2D():
            return (op.window, op.stride, op.pads, op.clamp) == ((1, 1), (1, 1), Pads(), Clamp())
        case Add() | Sub():
            return op.clamp == Clamp() and _is_constant(graph, op.inputs[1], 0.0) and _is_taken(graph, op)
        case Mul():
            return op.clamp == Clamp() and _is_constant(graph, op.inputs[1], 1.0)
        case _:
            return False


def _is_taken(graph: Graph, op: Add | Sub) -> bool:
    """Return True if the NPU supports the scale of the second operand, even if that is zero, as for the interpreter."""
    return graph.type(op.inputs[1]).q.scale / graph.type(op.outputs[0]).q.scale < FACTOR_LIMIT


def _is_constant(graph: Graph, name: str, real: float) -> bool:
    """Return True if every element of a constant int8 tensor is exactly `real`."""
    tensor = graph.tensor(name)
    if not tensor.is_const or tensor.type.dtype is not DType.INT8:
        return False
    values: Iterable[int] = map(int, np.unique(tensor.array()))
    return all((value - tensor.type.q.zero_point) * tensor.type.q.scale == real for value in values)

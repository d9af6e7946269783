"""LiteRT as the judge of each operator alone, all operators of a graph in one run, on the interpreter's values."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.runtime.litert import run
from deuteron.views.compare.litert import compared, computes

__all__ = ["apart", "compared", "computes", "results"]

Array = npt.NDArray[np.generic]


def apart(graph: Graph, chosen: tuple[ops.Op, ...]) -> Graph:
    """A graph of these operators side by side: each reads inputs and constants only, each result is an output."""
    fed = dict.fromkeys(name for op in chosen for name in op.inputs if not graph.tensor(name).is_const)
    names = {name: f"{name}.in" for name in fed}
    moved = tuple(replace(op, inputs=tuple(names.get(name, name) for name in op.inputs)) for op in chosen)
    results = tuple(name for op in chosen for name in op.outputs)
    constants = dict.fromkeys(name for op in chosen for name in op.inputs if graph.tensor(name).is_const)
    tensors = (
        *(replace(graph.tensor(name), name=new) for name, new in names.items()),
        *(graph.tensor(name) for name in (*constants, *results)),
    )
    return Graph("apart", tensors, tuple(names.values()), results, moved)


def results(graph: Graph, chosen: tuple[ops.Op, ...], values: Mapping[str, Array]) -> dict[str, Array]:
    """LiteRT's result of each of these operators by name, their operands taken from `values`."""
    found: dict[str, Array] = {}
    # A file with a sum is not run by the reference kernels, and one with roots not at all unless all are of positive
    # numbers, so that both get files of their own.
    for apart_from_others in (ops.Sum, ops.Function.RSQRT, None):
        some = tuple(op for op in chosen if _special(op) is apart_from_others)
        if not some:
            continue
        alone = apart(graph, some)
        operands = [values[name.removesuffix(".in")] for name in alone.inputs]
        if apart_from_others is ops.Function.RSQRT:
            least = [alone.type(name).q.zero_point + 1 for name in alone.inputs]
            operands = [np.maximum(value, np.int8(low)) for value, low in zip(operands, least, strict=True)]
        found |= zip(alone.outputs, run(emit(alone), operands), strict=True)
    return found


def _special(op: ops.Op) -> object:
    """Properties for which an operator runs apart from others."""
    match op:
        case ops.Sum():
            return ops.Sum
        case ops.Unary(function=ops.Function.RSQRT):
            return ops.Function.RSQRT
        case _:
            return None

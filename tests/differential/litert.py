"""LiteRT as the judge of each operator alone, all operators of a graph in one run, on the interpreter's values."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from deuteron.ir import ops
from deuteron.ir.graph import Graph
from deuteron.ir.types import Quant
from deuteron.litert import run
from deuteron.tflite.emit import emit

Array = npt.NDArray[np.generic]

_RESULTS = {
    ops.Function.LOGISTIC: Quant((1 / 256,), (-128,)),
    ops.Function.TANH: Quant((1 / 128,), (0,)),
}


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
    # A file with a sum is not run by the reference kernels, so that sums get a file of their own.
    for sums in (False, True):
        if some := tuple(op for op in chosen if isinstance(op, ops.Sum) is sums):
            alone = apart(graph, some)
            outputs = run(emit(alone), [values[name.removesuffix(".in")] for name in alone.inputs])
            found |= zip(alone.outputs, outputs, strict=True)
    return found


def computes(op: ops.Op, graph: Graph, values: Mapping[str, Array]) -> bool:
    """True when LiteRT's reference kernel takes this operator and means the same by it."""
    x, out = graph.type(op.inputs[0]).q, graph.type(op.outputs[0]).q
    match op:
        case ops.Softmax():
            # Its preparation ends the process when the input's factor is not above 1.
            return out == Quant((1 / 256,), (-128,)) and op.beta * x.scale * 2**26 > 1
        case ops.Unary(function=ops.Function.LOGISTIC | ops.Function.TANH):
            return out == _RESULTS[op.function]
        case ops.Unary(function=ops.Function.HARD_SWISH):
            return x.scale < 128 * out.scale  # its factor must not exceed 1
        case ops.Unary(function=ops.Function.RSQRT):
            return bool((values[op.inputs[0]] > x.zero_point).all())  # refuses the run for any other value
        case _:
            return True


def compared(op: ops.Op, graph: Graph, values: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
    """Which elements of the result mean something in LiteRT: a logarithm has none at 0 and below."""
    shape = values[op.outputs[0]].shape
    if isinstance(op, ops.Unary) and op.function is ops.Function.LOG:
        return values[op.inputs[0]] > graph.type(op.inputs[0]).q.zero_point
    return np.ones(shape, np.bool_)

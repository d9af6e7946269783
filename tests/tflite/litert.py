"""LiteRT as the second oracle: its reference kernels, on whole graphs and on one op at a time."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from deuteron.ir.graph import Graph
from deuteron.ir.ops import Op
from deuteron.tflite.emit import emit
from deuteron.tflite.reader import op_names

Array = npt.NDArray[np.generic]


def run_bytes(model: bytes, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a TFLite model in the order of its subgraph, computed by LiteRT's reference kernels.

    A model with a SUM is left to the other builtin kernels: the reference one returns -1 for int8 whatever it is given.
    """
    resolver = (
        OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if "SUM" in op_names(model) else OpResolverType.BUILTIN_REF
    )
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def one_op_graph(graph: Graph, op: Op) -> Graph:
    """A graph of this op alone, whose inputs are the op's operands that are not constant."""
    names = tuple(dict.fromkeys((*op.inputs, *op.outputs)))
    tensors = tuple(graph.tensor(name) for name in names)
    inputs = tuple(t.name for t in tensors if not t.is_const and t.name in op.inputs)
    return Graph("one_op", tensors, inputs, op.outputs, (op,))


def run_op(graph: Graph, op: Op, values: Mapping[str, Array]) -> Array:
    """The op's output in LiteRT, its operands taken from `values` by name."""
    alone = one_op_graph(graph, op)
    (output,) = run_bytes(emit(alone), [values[name] for name in alone.inputs])
    return output

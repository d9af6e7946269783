"""The float edges of a TFLite model: QUANTIZE right after an input, DEQUANTIZE right before an output.

TensorFlow's converter writes them unless it is told that inputs and outputs are int8. They stay outside what is
compiled: whoever runs the file quantises and dequantises.
"""

from collections import Counter
from dataclasses import dataclass

from deuteron.tflite.flat_model import FlatModel


@dataclass(frozen=True, slots=True)
class Edges:
    """What lies inside the edges.

    Attributes:
        inputs: tensors (indices) that the inner graph reads, one per input of the model.
        outputs: tensors that it writes, one per output of the model.
        operators: the operators (indices) at the edges, which are not part of it.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[int, ...] = ()


def find_edges(model: FlatModel) -> Edges:
    """The edges of a model; one that has none is all inside."""
    readers = Counter(index for op in model.operators for index in op.inputs)
    after = {op.inputs[0]: i for i, op in enumerate(model.operators) if _quantizes(model, i)}
    before = {op.outputs[0]: i for i, op in enumerate(model.operators) if _dequantizes(model, i)}
    operators: list[int] = []
    inputs, outputs = list(model.inputs), list(model.outputs)
    for position, index in enumerate(model.inputs):
        if model.tensors[index].dtype == "FLOAT32" and index in after and readers[index] == 1:
            operators.append(after[index])
            inputs[position] = model.operators[after[index]].outputs[0]
    for position, index in enumerate(model.outputs):
        if index in before and readers[index] == 0:
            operators.append(before[index])
            outputs[position] = model.operators[before[index]].inputs[0]
    return Edges(tuple(inputs), tuple(outputs), tuple(sorted(operators)))


def _quantizes(model: FlatModel, operator: int) -> bool:
    op = model.operators[operator]
    return op.name == "QUANTIZE" and (len(op.inputs), len(op.outputs)) == (1, 1)


def _dequantizes(model: FlatModel, operator: int) -> bool:
    op = model.operators[operator]
    return (
        op.name == "DEQUANTIZE"
        and (len(op.inputs), len(op.outputs)) == (1, 1)
        and op.inputs[0] >= 0
        and model.tensors[op.outputs[0]].dtype == "FLOAT32"
    )

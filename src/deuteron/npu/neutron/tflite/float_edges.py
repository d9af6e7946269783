"""The float edges of a TFLite model: QUANTIZE right after an input, DEQUANTIZE right before an output.

TensorFlow's converter writes them unless its options make inputs and outputs int8. They are not compiled: the
application quantizes inputs and dequantizes outputs.
"""

from collections import Counter
from dataclasses import dataclass

from deuteron.tflite.flat_model import FlatModel


@dataclass(frozen=True, slots=True)
class Edges:
    """The graph inside the edges.

    Attributes:
        inputs: indices of the tensors that the inner graph reads, one per input of the model.
        outputs: indices of the tensors that it writes, one per output of the model.
        operators: indices of the operators at the edges.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[int, ...] = ()


def find_edges(model: FlatModel) -> Edges:
    """Find the edges of a model; without edges, the inner graph is the whole model."""
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

"""Files with uint8 activations, as TensorFlow 1 wrote them: the same model in int8, with zero points 128 less."""

from dataclasses import replace

import numpy as np

from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

FROM_UINT8 = "DeuteronFromUint8"
"""An option of our own, of operators that had uint8 operands: the reference kernels round some of these otherwise."""

_OFFSET = 128


def as_int8(model: FlatModel) -> FlatModel:
    """Return a model without quantised uint8 tensors but its inputs and outputs, or the model itself if it has none.

    A QUANTIZE stands behind each uint8 input and before each uint8 output; both have one scale, so that it is exact.
    """
    shifted = {index: _shifted(t, t.quant) for index, t in enumerate(model.tensors) if t.dtype == "UINT8" and t.quant}
    if not shifted:
        return model
    changed = set(shifted)
    tensors = [shifted.get(index, t) for index, t in enumerate(model.tensors)]

    def outside(index: int) -> int:
        """The uint8 tensor in the place of an input or output."""
        if index not in changed:
            return index
        tensors.append(model.tensors[index])
        tensors[index] = replace(tensors[index], name=f"{tensors[index].name};int8")
        return len(tensors) - 1

    inputs, outputs = tuple(map(outside, model.inputs)), tuple(map(outside, model.outputs))
    before = [_quantize(a, b) for a, b in zip(inputs, model.inputs, strict=True) if a != b]
    behind = [_quantize(b, a) for a, b in zip(outputs, model.outputs, strict=True) if a != b]
    operators = (*before, *(_marked(op, changed) for op in model.operators), *behind)
    return replace(model, tensors=tuple(tensors), inputs=inputs, outputs=outputs, operators=operators)


def _shifted(tensor: FlatTensor, quant: Quant) -> FlatTensor:
    zero_points = tuple(zero_point - _OFFSET for zero_point in quant.zero_points)
    stored = None if tensor.data is None else (np.frombuffer(tensor.data, np.uint8) ^ _OFFSET).tobytes()
    return replace(tensor, dtype="INT8", quant=Quant(quant.scales, zero_points, quant.axis), data=stored)


def _marked(op: FlatOperator, changed: set[int]) -> FlatOperator:
    if changed.isdisjoint((*op.inputs, *op.outputs)):
        return op
    return replace(op, options={**op.options, FROM_UINT8: 1})


def _quantize(source: int, target: int) -> FlatOperator:
    return FlatOperator("QUANTIZE", (source,), (target,), "QuantizeOptions")

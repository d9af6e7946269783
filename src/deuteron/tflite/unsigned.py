"""uint8 files as int8: the same reals, stored 128 lower.

Files of TensorFlow 1 have uint8 activations and weights with zero points of their own. Kernels here take int8, so each
tensor of uint8 becomes one of int8 with a zero point that is 128 less; inputs and outputs stay uint8, behind a QUANTIZE
that only moves the zero point.
"""

from dataclasses import replace

import numpy as np

from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

_OFFSET = 128


def is_unsigned(model: FlatModel) -> bool:
    """Return True if operators compute on uint8; a QUANTIZE of inputs or outputs does not count."""
    return any(_computes(model, op) for op in model.operators)


def signed(model: FlatModel) -> FlatModel:
    """The model in int8; the model itself where nothing computes on uint8."""
    if not is_unsigned(model):
        return model
    tensors = [_signed(tensor) for tensor in model.tensors]
    outer = dict[int, int]()
    for index in dict.fromkeys((*model.inputs, *model.outputs)):
        if _is_stored(model.tensors[index]):
            outer[index] = len(tensors)
            tensors.append(replace(model.tensors[index], data=None))
            tensors[index] = replace(tensors[index], name=f"{tensors[index].name}/int8")
    inputs, outputs = ([i for i in dict.fromkeys(end) if i in outer] for end in (model.inputs, model.outputs))
    before = [FlatOperator("QUANTIZE", (outer[i],), (i,)) for i in inputs]
    after = [FlatOperator("QUANTIZE", (i,), (outer[i],)) for i in outputs if i not in inputs]
    operators = [replace(op, is_unsigned=_computes(model, op)) for op in model.operators]
    return replace(
        model,
        tensors=tuple(tensors),
        inputs=tuple(outer.get(i, i) for i in model.inputs),
        outputs=tuple(outer.get(i, i) for i in model.outputs),
        operators=(*before, *operators, *after),
    )


def _is_stored(tensor: FlatTensor) -> bool:
    return tensor.dtype == "UINT8" and tensor.quant is not None


def _computes(model: FlatModel, op: FlatOperator) -> bool:
    return op.name != "QUANTIZE" and any(i >= 0 and _is_stored(model.tensors[i]) for i in (*op.inputs, *op.outputs))


def _signed(tensor: FlatTensor) -> FlatTensor:
    if not _is_stored(tensor) or tensor.quant is None:
        return tensor
    quant = Quant(tensor.quant.scales, tuple(point - _OFFSET for point in tensor.quant.zero_points), tensor.quant.axis)
    data = tensor.data
    if data is not None:
        data = (np.frombuffer(data, np.uint8) ^ np.uint8(_OFFSET)).tobytes()
    return replace(tensor, dtype="INT8", quant=quant, data=data)

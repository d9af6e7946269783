"""Finds operators that Vela merges with data movement before or after them, and whose commands are wrong then.

Vela lets an operator read a slice, or write into a padded or concatenated tensor, in place. On Ethos-U55 and -U65, a
matrix product loses the offset of a slice, and overwrites the tensor that it is padded or concatenated with; after an
UNPACK also on Ethos-U85. If the CPU computes the slices, Vela takes one of them for another that it transposes.

A padded layer of several samples, and a depthwise convolution with several output channels per input channel, read
other elements than the slice's. Such a depthwise convolution also overwrites the tensor that it is joined with, and on
Ethos-U55 a bilinear resize of half pixels does. A resize of several samples stops Vela, and on Ethos-U85 nearest
neighbours of a size that is no multiple are others. Readers of a slice with a step read elements between the steps.
On Ethos-U85, a reshaped mirror pad has other elements.
"""

from collections.abc import Iterator

import numpy as np

from deuteron.runtime.tflite_program import VIEWS
from deuteron.tflite.flat_model import FlatModel, FlatOperator
from deuteron.tflite.normalize import RESIZES

SLICES = ("SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V", "UNPACK")
"""Operators that Vela turns into an offset of the readers of their results."""

_JOINS = ("CONCATENATION", "PACK", "PAD", "PADV2")
_LAYERS = ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D")
_PRODUCT, _NEAREST = "BATCH_MATMUL", "RESIZE_NEAREST_NEIGHBOR"
_SAME = 0
"""The number of TFLite's padding that keeps the size."""


def is_wrong(source: FlatModel, op: FlatOperator) -> bool:
    """Return True for a slice, a join, a product, a mirror pad or a resize that the CPU has to compute."""
    if op.name in SLICES:
        return _has_steps(source, op) or any(
            _reads_wrongly(source, reader) for i in op.outputs for reader in _readers(source, i)
        )
    if op.name == "MIRROR_PAD":
        return any(one.name in VIEWS and op.outputs[0] in one.inputs for one in source.operators)
    if op.name in RESIZES:
        return _is_resized_wrongly(source, op)
    if op.name == _PRODUCT:
        return any(one.name in SLICES for i in op.inputs for one in _writers(source, i))
    return op.name in _JOINS and any(_overwrites(one) for i in op.inputs for one in _writers(source, i))


def _has_steps(source: FlatModel, op: FlatOperator) -> bool:
    """Return True for a strided slice with a step other than 1, or an unknown one."""
    if op.name != "STRIDED_SLICE":
        return False
    data = source.tensors[op.inputs[3]].data
    return data is None or bool((np.frombuffer(data, np.int32) != 1).any())


def _is_resized_wrongly(source: FlatModel, op: FlatOperator) -> bool:
    before, after = source.tensors[op.inputs[0]].shape, source.tensors[op.outputs[0]].shape
    is_multiple = all(size % own == 0 for size, own in zip(after[1:3], before[1:3], strict=True))
    is_other = op.name == _NEAREST and not is_multiple and not _aligns(op)
    return after[0] > 1 or is_other


def _aligns(op: FlatOperator) -> bool:
    return bool(op.options.get("AlignCorners", 0) or op.options.get("HalfPixelCenters", 0))


def _overwrites(op: FlatOperator) -> bool:
    """Return True for an operator whose commands write into other parts of a joined tensor."""
    is_bilinear = op.name in RESIZES and op.name != _NEAREST
    return op.name == _PRODUCT or _multiplies(op) or (is_bilinear and _aligns(op))


def _multiplies(op: FlatOperator) -> bool:
    return op.options.get("DepthMultiplier", 1) > 1


def _readers(source: FlatModel, tensor: int) -> Iterator[FlatOperator]:
    """Yield the operators that read a tensor, as it is or reshaped."""
    for op in source.operators:
        if tensor in op.inputs:
            if op.name in VIEWS:
                yield from _readers(source, op.outputs[0])
            else:
                yield op


def _reads_wrongly(source: FlatModel, reader: FlatOperator) -> bool:
    if reader.name not in _LAYERS:
        return False
    has_samples = source.tensors[reader.outputs[0]].shape[0] > 1
    is_padded = reader.options.get("Padding", _SAME) == _SAME
    return (has_samples and is_padded) or _multiplies(reader)


def _writers(source: FlatModel, tensor: int) -> Iterator[FlatOperator]:
    """Yield the operator that computes a tensor, as it is, reshaped or in another quantization."""
    for op in source.operators:
        if tensor in op.outputs:
            yield from _writers(source, op.inputs[0]) if op.name in (*VIEWS, "QUANTIZE") else (op,)

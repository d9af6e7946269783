"""Finds operators that Vela merges with data movement before or after them, and whose commands are wrong then.

Vela lets an operator read a slice, or write into a padded or concatenated tensor, in place. On Ethos-U55 and -U65, a
matrix product loses the offset of a slice, and overwrites the tensor that it is padded or concatenated with; after an
UNPACK also on Ethos-U85. If the CPU computes the slices, Vela takes one of them for another that it transposes.

A padded layer of several samples, and a depthwise convolution with several output channels per input channel, read
other elements than the slice's. A resize of several samples stops Vela.
"""

from collections.abc import Iterator, Sequence

from deuteron.runtime.tflite_program import VIEWS
from deuteron.tflite.flat_model import FlatModel, FlatOperator
from deuteron.tflite.normalize import RESIZES

SLICES = ("SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V", "UNPACK")
"""Operators that Vela turns into an offset of the readers of their results."""

_JOINS = ("CONCATENATION", "PACK", "PAD", "PADV2")
_LAYERS = ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D")
_PRODUCT = "BATCH_MATMUL"
_SAME = 0
"""The number of TFLite's padding that keeps the size."""


def is_wrong(source: FlatModel, op: FlatOperator) -> bool:
    """Return True for a slice, a join, a product or a resize that the CPU has to compute."""
    if op.name in SLICES:
        return any(_reads_wrongly(source, reader) for i in op.outputs for reader in _readers(source, i))
    if op.name in RESIZES:
        return source.tensors[op.outputs[0]].shape[0] > 1
    if op.name == _PRODUCT:
        return any(_comes_from(source, i, SLICES) for i in op.inputs)
    return op.name in _JOINS and any(_comes_from(source, i, (_PRODUCT,)) for i in op.inputs)


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
    return (has_samples and is_padded) or reader.options.get("DepthMultiplier", 1) > 1


def _comes_from(source: FlatModel, tensor: int, names: Sequence[str]) -> bool:
    """Return True for the result of such an operator, as it is, reshaped or in another quantisation."""
    for op in source.operators:
        if tensor in op.outputs:
            is_same = op.name in VIEWS or op.name == "QUANTIZE"
            return op.name in names or (is_same and _comes_from(source, op.inputs[0], names))
    return False

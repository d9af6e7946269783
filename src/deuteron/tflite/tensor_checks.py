"""Checks of a file's tensors: sizes, bytes of constants, and numbers of scales."""

import math

from deuteron.errors import FormatError, UnsupportedError
from deuteron.tflite.constants import DTYPES
from deuteron.tflite.flat_model import HINT_MALFORMED, FlatTensor

MOST_BYTES = 1 << 28
MOST_DIMENSIONS = 8


def check_tensor(tensor: FlatTensor) -> None:
    """Check a tensor whose shape is known.

    Raises:
        FormatError: its parts contradict each other.
        UnsupportedError: it is too large.
    """
    where = f"tensor `{tensor.name}`"
    if len(tensor.shape) > MOST_DIMENSIONS:
        raise UnsupportedError(
            f"it has {len(tensor.shape)} dimensions; at most {MOST_DIMENSIONS} are allowed",
            where=where,
            hint="export the model with fewer dimensions",
        )
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None or min(tensor.shape, default=0) < 0:
        return
    size = math.prod(tensor.shape) * dtype.itemsize
    if math.prod(n or 1 for n in tensor.shape) * dtype.itemsize > MOST_BYTES:
        raise UnsupportedError(
            f"its shape {[*tensor.shape]} takes more than {MOST_BYTES:,} bytes",
            where=where,
            hint="make the model smaller",
        )
    if tensor.data is not None and len(tensor.data) != size:
        raise FormatError(
            f"its shape {[*tensor.shape]} takes {size:,} bytes, the file has {len(tensor.data):,}",
            where=where,
            hint=HINT_MALFORMED,
        )
    quant = tensor.quant
    if quant is None or quant.axis is None:
        return
    if not 0 <= quant.axis < len(tensor.shape) or tensor.shape[quant.axis] != len(quant.scales):
        raise FormatError(
            f"it has {len(quant.scales)} scales along dimension {quant.axis} of {[*tensor.shape]}",
            where=where,
            hint=HINT_MALFORMED,
        )

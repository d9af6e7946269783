"""Checks that the operators of a TFLite file can run in their order."""

from deuteron.errors import FormatError, UnsupportedError
from deuteron.tflite.flat_model import CUSTOM, HINT_MALFORMED, FlatModel


def check_order(model: FlatModel) -> None:
    """Check that each tensor is written once, before it is read.

    Raises:
        FormatError: naming the first tensor for which that is wrong.
        UnsupportedError: it is the memory that a custom operator asks for, which some compilers write in this way.
    """
    writers: dict[int, int] = {}
    for i, op in enumerate(model.operators):
        for tensor in op.outputs:
            if tensor in writers or tensor in model.inputs:
                other = f"op {writers[tensor]} has written" if tensor in writers else "is an input"
                raise _malformed(f"op {i} {op.title} writes `{model.tensors[tensor].name}`, which {other}")
            writers[tensor] = i
    has_values = {*writers, *model.inputs, *(i for i, tensor in enumerate(model.tensors) if tensor.has_values)}
    for i, op in enumerate(model.operators):
        for tensor in op.inputs:
            if tensor >= 0 and tensor not in has_values and op.name == CUSTOM:
                name = model.tensors[tensor].name
                raise UnsupportedError(
                    f"op {i} is the custom operator `{op.title}`, which works in the memory of tensor `{name}`",
                    hint="give the file that this one was compiled from; another vendor's compiler has changed it",
                )
            if tensor >= 0 and tensor not in has_values:
                raise _malformed(f"op {i} {op.title} reads `{model.tensors[tensor].name}`, which nothing writes")
            if writers.get(tensor, -1) >= i:
                raise _malformed(f"op {i} {op.title} reads `{model.tensors[tensor].name}` before it is written")
    for tensor in model.outputs:
        if tensor not in has_values:
            raise _malformed(f"nothing writes the output `{model.tensors[tensor].name}`")


def _malformed(message: str) -> FormatError:
    return FormatError(message, hint=HINT_MALFORMED)

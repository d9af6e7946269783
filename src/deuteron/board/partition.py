"""A partition for an NPU in a program, and the layout changes of its tensors."""

import math

from deuteron.board.bundle import Delegate
from deuteron.errors import UnsupportedError
from deuteron.npu import families
from deuteron.npu.firmware import FirmwarePort
from deuteron.runtime import program
from deuteron.runtime.program import TensorValue

Matrices = tuple[int, int, int]
"""Batches, rows and columns of a transpose."""


def matrices_of(port: FirmwarePort, tensor: TensorValue) -> Matrices | None:
    """Return the transpose from the tensor's memory order to the NPU's; None if they are the same.

    Raises:
        UnsupportedError: this tensor cannot be transposed to the NPU's order.
    """
    spec = tensor.spec
    if port.dtype not in (None, spec.dtype) or tensor.bytes != port.bytes:
        message = f"{port.name} is {spec.dtype} of {tensor.bytes} bytes, the NPU needs {port.dtype or 'a tensor'}"
        raise UnsupportedError(f"{message} of {port.bytes}", hint="build the model again")
    if port.channels_last is None:
        return None
    rank = len(spec.shape)
    if spec.dim_order == tuple(range(rank)):
        channels, positions = (spec.shape[1], math.prod(spec.shape[2:])) if rank > 2 else (1, 1)
        moves = port.channels_last and channels > 1 and positions > 1 and tensor.bytes > 0
        return (spec.shape[0], channels, positions) if moves else None
    if port.channels_last and spec.channels_last:
        return None
    allowed = "contiguous or channels last" if port.channels_last else "contiguous"
    message = f"{port.name} has its dimensions in the order {spec.dim_order} in memory; allowed is {allowed}"
    raise UnsupportedError(message, hint="export the model with contiguous inputs")


def delegate_of(delegate: program.Delegate, index: int, *, is_recorded: bool = False) -> Delegate:
    """Return the partition of a program, checked by its NPU family; optionally with memory for command records.

    Raises:
        UnsupportedError: it is for a backend without an NPU, or for an NPU without firmware.
        FormatError: it is damaged.
    """
    name = f"partition {index}"
    family = families.family_of(delegate.id)
    if family is None:
        known = " and ".join(f"`{known.delegate_id}`" for known in families.FAMILIES if known.firmware)
        message = f"{name} is for the backend `{delegate.id}`, firmware supports {known} only"
        raise UnsupportedError(message, hint="build the program with `deuteron build`")
    if family.firmware is None:
        raise UnsupportedError(
            f"{name} is for the backend `{delegate.id}`, and there is no firmware for its NPU",
            hint="run it on this computer: `deuteron run` and `profile` without a board, `sim` for estimated times",
        )
    read = family.firmware.recorded if is_recorded else None
    return Delegate(family.firmware, (read or family.firmware.partition)(delegate.payload, name))

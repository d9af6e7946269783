"""A partition for the NPU as firmware runs it: its blocks, and what each of its tensors must be."""

import math
from dataclasses import dataclass

from deuteron.board.tensor_places import padded
from deuteron.errors import FormatError, UnsupportedError
from deuteron.npu.neutron import payload as payloads
from deuteron.npu.neutron.microcode.decode import Decoded, decode
from deuteron.runtime.program import Delegate, TensorValue

POINTER_BYTES = 8
"""DTN_POINTER_BYTES of deuteron/bundle.h."""

Matrices = tuple[int, int, int]
"""Batches, rows and columns of a transpose."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of the NPU.

    Attributes:
        name: for messages and readers.
        argument: which argument of the call it takes.
        bytes: its size.
        channels_last: whether the NPU wants dimension 1 innermost.
    """

    name: str
    argument: int
    bytes: int
    channels_last: bool

    def matrices(self, tensor: TensorValue) -> Matrices | None:
        """What to transpose to get from the tensor's order to the NPU's; None if they are the same.

        Raises:
            UnsupportedError: when this tensor cannot be had in the NPU's order.
        """
        spec = tensor.spec
        if spec.dtype != "int8" or tensor.bytes != self.bytes:
            message = f"{self.name} is {spec.dtype} of {tensor.bytes} bytes, the microcode takes int8"
            raise UnsupportedError(f"{message} of {self.bytes}", hint="build the model again")
        rank = len(spec.shape)
        if spec.dim_order == tuple(range(rank)):
            channels, positions = (spec.shape[1], math.prod(spec.shape[2:])) if rank > 2 else (1, 1)
            moves = self.channels_last and channels > 1 and positions > 1 and tensor.bytes > 0
            return (spec.shape[0], channels, positions) if moves else None
        if self.channels_last and spec.channels_last:
            return None
        allowed = "contiguous or channels last" if self.channels_last else "contiguous"
        message = f"{self.name} has its dimensions in the order {spec.dim_order} in memory, allowed is {allowed}"
        raise UnsupportedError(message, hint="export the model with contiguous inputs")


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition.

    Attributes:
        name: for messages and readers.
        payload: the bytes in the program.
        decoded: its container.
        arguments: how many arguments a call of it has.
        inputs: in the NPU's order.
        outputs: the same.
    """

    name: str
    payload: bytes
    decoded: Decoded
    arguments: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @property
    def working_bytes(self) -> int:
        """What a run needs of the working memory, beside the driver's context: `bundle.h` has the formula."""
        header = self.decoded.header
        pointers = len(self.inputs) + len(self.outputs) + 2
        return padded(POINTER_BYTES * pointers) + header.scratch_bytes + header.profile_bytes + header.prefetch_bytes


def partition_of(delegate: Delegate, index: int) -> Partition:
    """The partition, checked down to its last command.

    Raises:
        UnsupportedError: when it is for another backend than the NPU.
        FormatError: when it is damaged.
    """
    name = f"partition {index}"
    if delegate.id != payloads.BACKEND_ID:
        message = f"{name} is for the backend `{delegate.id}`, firmware has `{payloads.BACKEND_ID}` only"
        raise UnsupportedError(message, hint="build the program with `deuteron build`")
    payload = payloads.parse(delegate.payload, name)
    try:
        decoded = decode(payload.container)
    except FormatError as error:
        raise FormatError(error.message, where=f"{name}, {error.where}", hint=error.hint) from error
    inputs = tuple(
        Port(f"input {i} of {name}", argument, size, last)
        for i, (argument, size, last) in enumerate(
            zip(payload.input_map, decoded.input_bytes, payload.input_formats, strict=True)
        )
    )
    outputs = tuple(
        Port(f"output {i} of {name}", payload.input_args + place, size, last)
        for i, (place, size, last) in enumerate(
            zip(payload.output_map, decoded.output_bytes, payload.output_formats, strict=True)
        )
    )
    return Partition(name, delegate.payload, decoded, payload.input_args + len(outputs), inputs, outputs)

"""The bytes of a partition that ExecuTorch's Ethos-U backend writes: blocks of a 32-byte header and a payload.

`firmware/executorch/ethosu/blob.h` documents the layout.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from deuteron.errors import FormatError, UnsupportedError

BACKEND_ID = "EthosUBackend"
"""Delegate id of such partitions."""

_HEADER = struct.Struct("<16sIB11x")
_RECORD = struct.Struct("<9i")
_FIRST, _LAST = "vela_bin_stream", "vela_end_stream"
_RANK = 6
_SCRATCH_REGION = 1
_MOST_TENSORS = 255
_HINT = "lower the model again with ExecuTorch's Ethos-U backend"


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output: its shape, bytes per element, and offset in scratch."""

    shape: tuple[int, ...]
    element_bytes: int
    offset: int

    @property
    def nbytes(self) -> int:
        """Its size."""
        return prod(self.shape) * self.element_bytes


@dataclass(frozen=True, slots=True)
class Blob:
    """A decoded partition.

    Attributes:
        command_data: the input of Arm's driver: a header, and the command stream.
        weights: region 0 of the commands: compressed constants.
        scratch_bytes: size of region 1.
        inputs: inputs in region 1.
        outputs: outputs in region 1.
    """

    command_data: bytes
    weights: bytes
    scratch_bytes: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def is_ours(delegate_id: str) -> bool:
    """Return True if this is the delegate id of Ethos-U partitions."""
    return delegate_id == BACKEND_ID


def parse(payload: bytes, where: str) -> Blob:
    """Decode a partition.

    Raises:
        FormatError: the bytes are no partition of this backend, or damaged; with `where`.
        UnsupportedError: its constants are in another file.
    """
    blocks = dict(_blocks(payload, where))
    missing = [name for name in ("cmd_data", "scratch_size", "inputs", "outputs") if name not in blocks]
    if missing:
        raise FormatError(f"the partition has no block `{missing[0]}`", where=where, hint=_HINT)
    if len(blocks["scratch_size"]) != 4:
        raise FormatError("the partition does not say how much scratch memory it needs", where=where, hint=_HINT)
    scratch = int.from_bytes(blocks["scratch_size"], "little")
    inputs, outputs = (tuple(_tensors(blocks[side], side, scratch, where)) for side in ("inputs", "outputs"))
    for first, second in pairwise(sorted(inputs, key=lambda tensor: tensor.offset)):
        if first.offset + first.nbytes > second.offset:
            message = f"two inputs share byte {second.offset} of the scratch memory"
            raise FormatError(message, where=where, hint=_HINT)
    return Blob(blocks["cmd_data"], blocks.get("weight_data", b""), scratch, inputs, outputs)


def compose(blob: Blob) -> bytes:
    """Return the bytes that `parse` reads."""
    blocks = {
        _FIRST: b"",
        "cmd_data": blob.command_data,
        "weight_data": blob.weights,
        "scratch_size": blob.scratch_bytes.to_bytes(4, "little"),
        "inputs": _listed(blob.inputs),
        "outputs": _listed(blob.outputs),
        _LAST: b"",
    }
    return b"".join(
        _HEADER.pack(name.encode(), len(data), 0) + data + bytes(-len(data) % 16) for name, data in blocks.items()
    )


def _listed(tensors: Sequence[Tensor]) -> bytes:
    """A block of tensors; dimensions beyond those that a record has are joined, those that it has more are 1."""
    records = [len(tensors).to_bytes(4, "little")]
    for tensor in tensors:
        shape = (*(1,) * (_RANK - len(tensor.shape)), *tensor.shape)
        shape = (prod(shape[: len(shape) - _RANK + 1]), *shape[len(shape) - _RANK + 1 :])
        records.append(_RECORD.pack(*shape, tensor.element_bytes, tensor.offset, _SCRATCH_REGION))
    return b"".join(records)


def input_count(payload: bytes) -> int | None:
    """Return the number of inputs of a delegate call; None for a damaged partition."""
    at = 0
    while at + _HEADER.size <= len(payload):
        name, size, _ = _HEADER.unpack_from(payload, at)
        start = at + _HEADER.size
        if name.rstrip(b"\0") == b"inputs":
            found = int.from_bytes(payload[start : start + 4], "little", signed=True)
            return found if 4 <= size <= len(payload) - start and found >= 0 else None
        at = start + -(-size // 16) * 16
    return None


def _blocks(payload: bytes, where: str) -> Iterator[tuple[str, bytes]]:
    """Yield (name, payload) of the blocks between the first and the last, which are required."""
    at, name = 0, ""
    while name != _LAST:
        if at + _HEADER.size > len(payload):
            raise FormatError(f"the partition ends at byte {at}, before its last block", where=where, hint=_HINT)
        padded, size, external = _HEADER.unpack_from(payload, at)
        # Messages contain names: other characters of a damaged file are escaped.
        name = padded.rstrip(b"\0").decode("latin-1").encode("unicode_escape").decode("ascii")
        if at == 0 and name != _FIRST:
            raise FormatError("the partition is none of ExecuTorch's Ethos-U backend", where=where)
        start = at + _HEADER.size
        if start + size > len(payload):
            raise FormatError(f"block `{name}` leaves the partition: {size:,} B", where=where, hint=_HINT)
        if external:
            message = f"block `{name}` is in a separate file"
            raise UnsupportedError(message, where=where, hint="lower the model without `external_block_placements`")
        if name not in (_FIRST, _LAST):
            yield name, payload[start : start + size]
        at = start + -(-size // 16) * 16


def _tensors(block: bytes, side: str, scratch: int, where: str) -> Iterator[Tensor]:
    count = int.from_bytes(block[:4], "little", signed=True) if len(block) >= 4 else -1
    if count > _MOST_TENSORS:
        message = f"block `{side}` has {count} tensors, at most {_MOST_TENSORS} are possible"
        raise FormatError(message, where=where, hint=_HINT)
    if count < 0 or len(block) < 4 + count * _RECORD.size:
        raise FormatError(f"block `{side}` is no list of tensors", where=where, hint=_HINT)
    for i in range(count):
        *shape, element, offset, region = _RECORD.unpack_from(block, 4 + i * _RECORD.size)
        tensor = Tensor(tuple(shape), element, offset)
        sound = min(shape) > 0 and element in (1, 2, 4) and region == _SCRATCH_REGION and offset >= 0
        if not sound or offset + tensor.nbytes > scratch:
            message = f"tensor {i} of block `{side}` leaves the scratch memory of {scratch:,} B"
            raise FormatError(message, where=where, hint=_HINT)
        yield tensor

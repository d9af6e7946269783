"""The bytes of a partition that ExecuTorch's Ethos-U backend writes: blocks of a 32-byte header and a payload.

`firmware/executorch/ethosu/blob.h` has the layout; both read the same.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from deuteron.errors import FormatError, UnsupportedError

BACKEND_ID = "EthosUBackend"
"""What programs call delegates of this kind."""

_HEADER = struct.Struct("<16sIB11x")
_RECORD = struct.Struct("<9i")
_FIRST, _LAST = "vela_bin_stream", "vela_end_stream"
_SCRATCH_REGION = 1
_MOST_TENSORS = 255
_HINT = "lower the model again with ExecuTorch's Ethos-U backend"


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output: its shape, bytes of an element, and where it lies in the scratch memory."""

    shape: tuple[int, ...]
    element_bytes: int
    offset: int

    @property
    def nbytes(self) -> int:
        """Its size."""
        return prod(self.shape) * self.element_bytes


@dataclass(frozen=True, slots=True)
class Blob:
    """A partition, taken apart.

    Attributes:
        command_data: what Arm's driver gets: a header, and the command stream.
        weights: region 0 of the commands: constants, compressed.
        scratch_bytes: size of region 1.
        inputs: in it.
        outputs: in it.
    """

    command_data: bytes
    weights: bytes
    scratch_bytes: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def is_ours(delegate_id: str) -> bool:
    """Whether delegates with this id are partitions of this kind."""
    return delegate_id == BACKEND_ID


def parse(payload: bytes, where: str) -> Blob:
    """The partition with these bytes.

    Raises:
        FormatError: they are no partition of this backend, or damaged; placed at `where`.
        UnsupportedError: its constants lie in another file.
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


def input_count(payload: bytes) -> int | None:
    """How many tensors of a delegate call are inputs; None for a damaged partition."""
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
    """(name, payload) of the blocks between the first, which must be there, and the last."""
    at, name = 0, ""
    while name != _LAST:
        if at + _HEADER.size > len(payload):
            raise FormatError(f"the partition ends at byte {at}, before its last block", where=where, hint=_HINT)
        padded, size, external = _HEADER.unpack_from(payload, at)
        # Names end up in messages: what is no plain letter of a damaged file's is escaped.
        name = padded.rstrip(b"\0").decode("latin-1").encode("unicode_escape").decode("ascii")
        if at == 0 and name != _FIRST:
            raise FormatError("the partition is none of ExecuTorch's Ethos-U backend", where=where)
        start = at + _HEADER.size
        if start + size > len(payload):
            raise FormatError(f"block `{name}` leaves the partition: {size:,} B", where=where, hint=_HINT)
        if external:
            message = f"block `{name}` lies in a file of its own"
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

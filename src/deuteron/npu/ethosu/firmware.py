"""Ethos-U partitions in firmware; `firmware/src/executor/ethosu/npu_ethosu.c` runs them."""

import struct
from collections.abc import Sequence
from functools import partial

from deuteron.npu.ethosu import blob as blobs
from deuteron.npu.ethosu.blob import Tensor
from deuteron.npu.ethosu.device import Device
from deuteron.npu.ethosu.stream import decode
from deuteron.npu.firmware import Firmware, FirmwareBlock, FirmwarePartition, FirmwarePort

_ALIGNMENT = 16
_RECORD_BYTES = 16
"""DTN_PROFILE_RECORD_BYTES of deuteron/microcode.h."""
_RECORDS_GAP = 64
"""DTN_ETHOSU_RECORDS_GAP of deuteron/npu.h."""


def partition_of(data: bytes, name: str, *, is_recorded: bool = False) -> FirmwarePartition:
    """Decode the partition with these bytes; FormatError if it is damaged.

    With `is_recorded`, runs record each operation and copy. Command streams with branches are not recorded, because
    they skip and repeat operations, and records have the index of the operation.
    """
    blob = blobs.parse(data, name)
    stream = decode(blob.command_data, name)
    calls = sum(operation.target is None for operation in stream.operations)
    fast = Device(blob, name).fast_scratch_bytes()
    tensors = (*blob.inputs, *blob.outputs)
    recorded = len(stream.operations) if is_recorded and not stream.branches else 0
    layout = (blob.scratch_bytes, fast, len(blob.inputs), len(blob.outputs), recorded)
    words = (*layout, *(word for tensor in tensors for word in (tensor.offset, tensor.nbytes)))
    return FirmwarePartition(
        name=name,
        work=f"{calls} operation{'' if calls == 1 else 's'}",
        arguments=len(tensors),
        inputs=_ports(f"of {name}", "input", 0, blob.inputs),
        outputs=_ports(f"of {name}", "output", len(blob.inputs), blob.outputs),
        blocks=(
            FirmwareBlock("layout", struct.pack(f"<{len(words)}I", *words)),
            FirmwareBlock("commands", blob.command_data),
            FirmwareBlock("weights", blob.weights, is_weights=True),
        ),
        working_bytes=_aligned(blob.scratch_bytes)
        + _aligned(fast)
        + (_RECORDS_GAP + _RECORD_BYTES * (recorded + 1) if recorded else 0),
        accelerator=stream.config.name,
    )


def _ports(owner: str, side: str, first: int, tensors: Sequence[Tensor]) -> tuple[FirmwarePort, ...]:
    return tuple(
        FirmwarePort(f"{side} {i} {owner}", first + i, tensor.nbytes, channels_last=None, dtype=None)
        for i, tensor in enumerate(tensors)
    )


def _aligned(size: int) -> int:
    return size + -size % _ALIGNMENT


FIRMWARE = Firmware(
    "dtn_npu_ethosu",
    partition_of,
    recorded=partial(partition_of, is_recorded=True),
    stand_in=("src/ethosu/*.c", "src/ethosu_driver/*.c", "port/ethosu/simulated.c"),
)
"""The family's description."""

"""Neutron partitions in firmware; `firmware/src/executor/npu_neutron.c` runs them."""

from collections.abc import Sequence

from deuteron.errors import FormatError
from deuteron.npu.firmware import Firmware, FirmwareBlock, FirmwarePartition, FirmwarePort
from deuteron.npu.neutron import payload as payloads
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import Fetch, decode
from deuteron.npu.neutron.microcode.format import ALIGNMENT, Region

POINTER_BYTES = 8
"""DTN_POINTER_BYTES of deuteron/bundle.h."""


def blocks_of(container: Container) -> tuple[FirmwareBlock, ...]:
    """Return the blocks of a container, which contain checksums."""
    return (
        FirmwareBlock("microcode", container.microcode, has_checksum=True),
        FirmwareBlock("weights", container.weights, is_weights=True, has_checksum=True),
        FirmwareBlock("kernels", container.kernels, has_checksum=True),
    )


def partition_of(data: bytes, name: str) -> FirmwarePartition:
    """Decode and check the partition with this payload; FormatError if it is damaged."""
    payload = payloads.parse(data, name)
    try:
        decoded = decode(payload.container)
    except FormatError as error:
        raise FormatError(error.message, where=f"{name}, {error.where}", hint=error.hint) from error
    output_arguments = tuple(payload.input_args + place for place in payload.output_map)
    inputs = _ports(f"of {name}", "input", payload.input_map, decoded.input_bytes, payload.input_formats)
    outputs = _ports(f"of {name}", "output", output_arguments, decoded.output_bytes, payload.output_formats)
    header, calls = decoded.header, len(decoded.calls)
    budget = header.scratch_bytes + header.prefetch_bytes
    pointers = POINTER_BYTES * (len(inputs) + len(outputs) + 2)
    scratch = pointers + -pointers % ALIGNMENT
    ends = [(Region.INPUT, i) for i in range(len(inputs))] + [(Region.OUTPUT, i) for i in range(len(outputs))]
    return FirmwarePartition(
        name=name,
        work=f"{calls} kernel call" if calls == 1 else f"{calls} kernel calls",
        arguments=payload.input_args + len(outputs),
        inputs=inputs,
        outputs=outputs,
        blocks=blocks_of(payload.container),
        working_bytes=scratch + header.profile_bytes + budget,
        budget_bytes=budget,
        places=tuple(scratch + decoded.places[end] if end in decoded.places else None for end in ends),
        linked_bytes=decoded.linked_bytes,
        fetches_weights=any(isinstance(command, Fetch) for command in decoded.commands),
        kernels=frozenset(call.kernel.name for call in decoded.calls),
    )


def _ports(
    owner: str, side: str, arguments: Sequence[int], sizes: Sequence[int], formats: Sequence[bool]
) -> tuple[FirmwarePort, ...]:
    return tuple(
        FirmwarePort(f"{side} {i} {owner}", argument, size, channels_last)
        for i, (argument, size, channels_last) in enumerate(zip(arguments, sizes, formats, strict=True))
    )


FIRMWARE = Firmware("dtn_npu_neutron", partition_of)
"""The family's description."""

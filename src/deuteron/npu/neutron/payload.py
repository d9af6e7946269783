"""The delegate payload of a `.pte`: header, microcode, weights and kernels in the layout of ExecuTorch's NXP backend.

`firmware/executorch/payload.h` documents the layout; its parser makes the same checks.
"""

import struct
from dataclasses import dataclass

from deuteron.errors import FormatError, counted
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.format import (
    ALIGNMENT,
    DEUTERON_MAGIC,
    HEADER_WORDS,
    MAGIC,
    WORD_BYTES,
    Header,
)
from deuteron.npu.neutron.microcode.layout import HeaderFields, parse_header

BACKEND_ID = "NeutronBackend"
"""Delegate id of such payloads in a `.pte`."""

_REBUILD = "the file is damaged or truncated: build it again"
_NEWER = "it was written by a newer ExecuTorch: update Deuteron"


@dataclass(frozen=True, slots=True)
class Payload:
    """One payload.

    Attributes:
        input_args: number of input arguments of the delegate call; the output arguments follow.
        input_formats: per NPU input, whether it is channels last.
        output_formats: the same per NPU output.
        input_map: per NPU input, the index of its argument.
        output_map: per NPU output, the index of its argument, from the first output argument.
        version: 0, or 1 for microcode with profiling.
        container: the three blocks.
    """

    input_args: int
    input_formats: tuple[bool, ...]
    output_formats: tuple[bool, ...]
    input_map: tuple[int, ...]
    output_map: tuple[int, ...]
    version: int
    container: Container


def input_count(payload: bytes) -> int | None:
    """Return the number of input arguments of a delegate call; None if the bytes are too few."""
    return payload[2] if len(payload) > 2 else None


def parse(payload: bytes, where: str = "delegate payload") -> Payload:
    """Parse a payload; FormatError if a size, an index or a magic word is wrong.

    `deuteron.npu.neutron.microcode.decode` checks the commands of the microcode.
    """
    head, start = _parse_header(payload, where)
    inputs, outputs = len(head.input_map), len(head.output_map)
    words = _words(payload, start, HEADER_WORDS + inputs + outputs, "microcode header", where)
    header = _checked_header(words, head, where)
    end_of_microcode = start + header.microcode_bytes
    end_of_weights = end_of_microcode + header.weights_bytes
    for what, end in (("microcode", end_of_microcode), ("weights", end_of_weights)):
        if end > len(payload):
            raise _error(f"the {what} end at byte {end}, the payload has {len(payload)}", where)
    count = _words(payload, end_of_weights, 1, "kernel list", where)[0]
    end = end_of_weights + WORD_BYTES * (count + 1)
    if end > len(payload):
        raise _error(f"the kernel list ends at byte {end}, the payload has {len(payload)}", where)
    microcode, weights = payload[start:end_of_microcode], payload[end_of_microcode:end_of_weights]
    return Payload(
        input_args=head.input_args,
        input_formats=head.input_formats,
        output_formats=head.output_formats,
        input_map=head.input_map,
        output_map=head.output_map,
        version=head.version,
        container=Container(microcode, weights, payload[end_of_weights:end]),
    )


def compose(payload: Payload) -> bytes:
    """Return the bytes of a payload; the inverse of `parse`."""
    header = bytes(
        (
            len(payload.input_map),
            len(payload.output_map),
            payload.input_args,
            *payload.input_formats,
            *payload.output_formats,
            *payload.input_map,
            *payload.output_map,
            payload.version,
        )
    )
    container = payload.container
    blocks = (header, container.microcode, container.weights, container.kernels)
    return b"".join(block + bytes(-len(block) % ALIGNMENT) for block in blocks)


def _parse_header(payload: bytes, where: str) -> tuple[Payload, int]:
    """Return the payload of the header, with an empty container, and the offset of the microcode."""
    if len(payload) < 3:
        raise _error(f"the payload has {len(payload)} bytes, its header needs more", where)
    inputs, outputs, input_args = payload[:3]
    size = 4 + 2 * (inputs + outputs)
    start = size + -size % ALIGNMENT
    if len(payload) < start:
        extent = f"{len(payload)} bytes of {start}"
        counts = f"{counted(inputs, 'input')} and {counted(outputs, 'output')}"
        raise _error(f"the payload ends inside its header of {counts}: {extent}", where)
    formats = payload[3 : 3 + inputs + outputs]
    maps = payload[3 + inputs + outputs : size - 1]
    version = payload[size - 1]
    if version > 1:
        raise FormatError(f"the payload has version {version}, 0 and 1 are known", where=where, hint=_NEWER)
    for i, value in enumerate(formats):
        if value > 1:
            side = f"input {i}" if i < inputs else f"output {i - inputs}"
            raise _error(f"the format of {side} is {value}, not 0 or 1", where)
    for i, argument in enumerate(maps[:inputs]):
        if argument >= input_args:
            raise _error(f"input {i} is mapped to argument {argument} of {input_args}", where)
    for i, place in enumerate(maps[inputs:]):
        if place >= outputs:
            raise _error(f"output {i} is mapped to {place} of {outputs}", where)
        if (before := maps.index(place, inputs) - inputs) < i:
            raise _error(f"outputs {before} and {i} are both mapped to {place}", where)
    flags = tuple(value == 1 for value in formats)
    header = Payload(
        input_args=input_args,
        input_formats=flags[:inputs],
        output_formats=flags[inputs:],
        input_map=tuple(maps[:inputs]),
        output_map=tuple(maps[inputs:]),
        version=version,
        container=Container(b"", b"", b""),
    )
    return header, start


def _checked_header(words: tuple[int, ...], head: Payload, where: str) -> HeaderFields:
    """Return the microcode's header, checked against that of the payload."""
    if words[Header.MAGIC] != MAGIC:
        raise _error(f"the microcode starts with 0x{words[Header.MAGIC]:08X}, not 0x{MAGIC:08X}", where)
    if words[Header.DEUTERON_MAGIC] != DEUTERON_MAGIC:
        message = f"the microcode is not Deuteron's: word 1 is 0x{words[Header.DEUTERON_MAGIC]:08X}"
        raise FormatError(message, where=where, hint="a vendor's microcode runs on the vendor's NPU only")
    header = parse_header(words)
    if header.profiling != (head.version == 1):
        kind = "with" if header.profiling else "without"
        raise _error(f"payload version {head.version} does not go with microcode {kind} profiling", where)
    if (header.inputs, header.outputs) != (len(head.input_map), len(head.output_map)):
        counts = f"{counted(len(head.input_map), 'input')} and {counted(len(head.output_map), 'output')}"
        raise _error(f"the payload has {counts}, its microcode {header.inputs} and {header.outputs}", where)
    least, size = WORD_BYTES * len(words), header.microcode_bytes
    if size < least or size % ALIGNMENT:
        message = f"the microcode size {size} is below its header's {least} or no multiple of {ALIGNMENT}"
        raise _error(message, where)
    if header.weights_bytes % ALIGNMENT:
        raise _error(f"the weights size {header.weights_bytes} is no multiple of {ALIGNMENT}", where)
    return header


def _words(payload: bytes, start: int, count: int, what: str, where: str) -> tuple[int, ...]:
    if start + WORD_BYTES * count > len(payload):
        size = f"{len(payload) - start} bytes of {WORD_BYTES * count}"
        raise _error(f"the payload ends inside its {what}: {size}", where)
    return struct.unpack_from(f"<{count}I", payload, start)


def _error(message: str, where: str) -> FormatError:
    return FormatError(message, where=where, hint=_REBUILD)

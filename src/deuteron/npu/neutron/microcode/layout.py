"""The header of the microcode as a record."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from deuteron.errors import FormatError
from deuteron.npu.neutron.microcode import format as fmt
from deuteron.npu.neutron.microcode.format import Header, LayoutA, LayoutB


@dataclass(frozen=True, slots=True)
class HeaderFields:
    """Content of the header, without magic words, major version and the CRC of the microcode."""

    profiling: bool
    commands: int
    microcode_bytes: int
    weights_bytes: int
    weights_crc: int
    scratch_bytes: int
    prefetch_bytes: int
    resident_bytes: int
    profile_bytes: int
    debug_bytes: int
    inputs: int
    outputs: int
    first_command: int
    minor: int = 0
    has_places: bool = False


def header_words(fields: HeaderFields) -> tuple[int, ...]:
    """Return the 20 words, with CRC 0."""
    words = [0] * fmt.HEADER_WORDS
    words[Header.MAGIC] = fmt.MAGIC
    words[Header.DEUTERON_MAGIC] = fmt.DEUTERON_MAGIC
    words[Header.VERSION] = fmt.VERSION_MAJOR << 16 | fields.minor
    words[Header.FLAGS] = fmt.Flag.PROFILING * fields.profiling | fmt.Flag.PLACES * fields.has_places
    words[Header.COMMANDS] = fields.commands
    words[Header.MICROCODE_BYTES] = fields.microcode_bytes
    words[Header.WEIGHTS_BYTES] = fields.weights_bytes
    words[Header.WEIGHTS_CRC] = fields.weights_crc
    words[Header.SCRATCH_BYTES] = fields.scratch_bytes
    words[Header.FIRST_COMMAND] = fields.first_command
    words[Header.RESIDENT_BYTES] = fields.resident_bytes
    layout = LayoutB if fields.profiling else LayoutA
    words[layout.PREFETCH_BYTES] = fields.prefetch_bytes
    words[layout.INPUTS] = fields.inputs
    words[layout.OUTPUTS] = fields.outputs
    if fields.profiling:
        words[LayoutB.PROFILE_BYTES] = fields.profile_bytes
        words[LayoutB.DEBUG_BYTES] = fields.debug_bytes
    return tuple(words)


def read_header(microcode: bytes) -> HeaderFields:
    """Read the header of a microcode without checks.

    Raises:
        FormatError: the bytes are fewer than a header.
    """
    least = fmt.HEADER_WORDS * fmt.WORD_BYTES
    if len(microcode) < least:
        raise FormatError(
            f"microcode of {len(microcode)} bytes; its header alone has {least}", hint="convert the model again"
        )
    return parse_header(struct.unpack_from(f"<{fmt.HEADER_WORDS}I", microcode))


def parse_header(words: Sequence[int]) -> HeaderFields:
    """Parse 20 header words without checks."""
    profiling = bool(words[Header.FLAGS] & fmt.Flag.PROFILING)
    layout = LayoutB if profiling else LayoutA
    return HeaderFields(
        profiling=profiling,
        commands=words[Header.COMMANDS],
        microcode_bytes=words[Header.MICROCODE_BYTES],
        weights_bytes=words[Header.WEIGHTS_BYTES],
        weights_crc=words[Header.WEIGHTS_CRC],
        scratch_bytes=words[Header.SCRATCH_BYTES],
        prefetch_bytes=words[layout.PREFETCH_BYTES],
        resident_bytes=words[Header.RESIDENT_BYTES],
        profile_bytes=words[LayoutB.PROFILE_BYTES] if profiling else 0,
        debug_bytes=words[LayoutB.DEBUG_BYTES] if profiling else 0,
        inputs=words[layout.INPUTS],
        outputs=words[layout.OUTPUTS],
        first_command=words[Header.FIRST_COMMAND],
        minor=words[Header.VERSION] & 0xFFFF,
        has_places=bool(words[Header.FLAGS] & fmt.Flag.PLACES),
    )

"""Frames of the serial line: COBS, ended by a zero byte, with a CRC-32 at the end (`spec/harness.md`)."""

import zlib

_CRC_BYTES = 4
_LONGEST = 254


def encode(content: bytes) -> bytes:
    """Return the bytes of a frame on the line, with a zero byte before it, which ends noise."""
    data = content + zlib.crc32(content).to_bytes(_CRC_BYTES, "little")
    coded = bytearray(b"\0")
    for block in data.split(b"\0"):
        for at in range(0, len(block) - _LONGEST + 1, _LONGEST):
            coded += b"\xff" + block[at : at + _LONGEST]
        rest = block[len(block) // _LONGEST * _LONGEST :]
        coded += bytes((len(rest) + 1,)) + rest
    return bytes(coded) + b"\0"


def decode(coded: bytes) -> bytes | None:
    """Return the content of a frame, given without its zero bytes; None if it is damaged."""
    data = bytearray()
    at = 0
    while at < len(coded):
        code = coded[at]
        block = coded[at + 1 : at + code]
        if code == 0 or len(block) != code - 1:
            return None
        data += block
        at += code
        if code <= _LONGEST and at < len(coded):
            data.append(0)
    content, crc = bytes(data[:-_CRC_BYTES]), bytes(data[-_CRC_BYTES:])
    return content if crc == zlib.crc32(content).to_bytes(_CRC_BYTES, "little") else None


class Decoder:
    """Splits a stream of bytes into frames.

    Args:
        longest: bytes of a frame on the line; more are noise, and are dropped.
    """

    def __init__(self, longest: int = 1 << 17) -> None:
        self._longest = longest
        self._open = bytearray()

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the content of each frame that these bytes complete, None for a damaged one."""
        contents: list[bytes | None] = []
        *ended, rest = data.split(b"\0")
        for part in ended:
            self._open += part
            if self._open:
                contents.append(decode(bytes(self._open)))
                self._open.clear()
        self._open += rest
        if len(self._open) > self._longest:
            self._open.clear()
            contents.append(None)
        return contents

    def clear(self) -> None:
        """Drop an incomplete frame."""
        self._open.clear()

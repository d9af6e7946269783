"""Reads the linker's map: address, section and object of each input section."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from deuteron.errors import FormatError

_HEAD = "Linker script and memory map"
_OUTPUT = re.compile(r"^([._A-Za-z]\S*)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)(?:\s+load address 0x[0-9a-f]+)?$")
_INPUT = re.compile(r"^ (\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)(?:\s+(\S.*))?$")
_NAME_ONLY = re.compile(r"^ ?[._A-Za-z][^\s()]*$")
_MEMBER = re.compile(r"^.*\((.+)\)$")

PADDING = "*fill*"


@dataclass(frozen=True, slots=True)
class Piece:
    """An input section in the image.

    Attributes:
        output: output section of the image.
        section: its name in its object; `PADDING` for bytes that the linker inserted.
        address: start address.
        size: its bytes, above 0.
        file: the object, or the archive with the member in brackets; empty for padding.
    """

    output: str
    section: str
    address: int
    size: int
    file: str

    @property
    def object(self) -> str:
        """Return the object's name without directory, archive and suffix."""
        member = _MEMBER.match(self.file)
        return (member[1] if member else self.file.rpartition("/")[2]).removesuffix(".o")


def pieces(text: str) -> tuple[Piece, ...]:
    """Return every input section of the image with a size above 0; discarded sections are left out.

    Raises:
        FormatError: this is not a map of GNU ld.
    """
    _, listed, body = text.partition(_HEAD)
    if not listed:
        raise FormatError("the linker's map has no memory map", hint="build the firmware again")
    listed = list(_pieces(body))
    # ld counts merged strings of two objects in both, but only the second piece starts after them.
    for i, (piece, after) in enumerate(pairwise(listed)):
        if piece.output == after.output and after.address < piece.address + piece.size:
            listed[i] = replace(piece, size=after.address - piece.address)
    return tuple(piece for piece in listed if piece.size)


def _pieces(body: str) -> Iterator[Piece]:
    output = ""
    for line in _unwrapped_lines(body):
        if match := _OUTPUT.match(line):
            output = match[1]
        elif (match := _INPUT.match(line)) and int(match[3], 16):
            yield Piece(output, match[1], int(match[2], 16), int(match[3], 16), match[4] or "")


def _unwrapped_lines(body: str) -> Iterator[str]:
    """Yield the lines; joins those that ld broke after a long name."""
    name = ""
    for line in map(str.rstrip, body.splitlines()):
        if _NAME_ONLY.match(line):
            name = line
        else:
            yield name + line
            name = ""

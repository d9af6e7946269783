"""Which value each operand of a partition's program is: the record that a plan is checked against.

Such a program knows addresses only. With this record, what a kernel finds at an address can be held against what the
program means it to find there.
"""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Use:
    """An operand: it stands for buffer `buffer` from byte `offset` on; as text `buffer+offset`."""

    buffer: str
    offset: int

    def __str__(self) -> str:
        return f"{self.buffer}+{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The use of that text; ValueError when it is none."""
        buffer, _, offset = text.rpartition("+")
        return cls(buffer, int(offset))


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant: `nbytes` bytes from `offset` on in the weights block."""

    name: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Part:
    """A buffer that holds, of a value that never stands in memory as a whole, the bytes from `offset` on."""

    buffer: str
    value: str
    offset: int


@dataclass(frozen=True, slots=True)
class Dataflow:
    """The values of a program.

    Attributes:
        inputs: the buffer of each input.
        outputs: the buffer of each output.
        constants: what the weights block holds.
        calls: the use that each operand of each call makes, in the catalogue's order, as text.
        parts: buffers that hold some bytes of another value.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    constants: tuple[Constant, ...] = ()
    calls: tuple[tuple[str, ...], ...] = ()
    parts: tuple[Part, ...] = ()

    def values(self) -> tuple[tuple[Use, ...], ...]:
        """`uses`, of the values that parts are of; ValueError when a text is none of a use."""
        parts = {part.buffer: part for part in self.parts}
        return tuple(tuple(_of_value(use, parts.get(use.buffer)) for use in call) for call in self.uses())

    def uses(self) -> tuple[tuple[Use, ...], ...]:
        """`calls`, read; ValueError when a text is none of a use."""
        return tuple(tuple(Use.parse(text) for text in call) for call in self.calls)


def _of_value(use: Use, part: Part | None) -> Use:
    return use if part is None else Use(part.value, part.offset + use.offset)

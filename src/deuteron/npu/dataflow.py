"""Dataflow record of a partition's program: the value of each operand, for checks of its plan.

A program contains addresses only. With this record, a check can compare the value at an address with the value that the
program expects there.
"""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Use:
    """An operand: buffer `buffer` from byte `offset` on; as text `buffer+offset`."""

    buffer: str
    offset: int

    def __str__(self) -> str:
        return f"{self.buffer}+{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a use; ValueError if it is invalid."""
        buffer, _, offset = text.rpartition("+")
        return cls(buffer, int(offset))


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant: `nbytes` bytes from `offset` on in the weights block."""

    name: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class ValuePart:
    """A buffer that holds the bytes from `offset` on of a value that is never whole in memory."""

    buffer: str
    value: str
    offset: int


@dataclass(frozen=True, slots=True)
class Dataflow:
    """The values of a program.

    Attributes:
        inputs: the buffer of each input.
        outputs: the buffer of each output.
        constants: the constants in the weights block.
        calls: the use of each operand of each call, in the catalogue's order, as text.
        parts: buffers that hold some bytes of another value.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    constants: tuple[Constant, ...] = ()
    calls: tuple[tuple[str, ...], ...] = ()
    parts: tuple[ValuePart, ...] = ()

    def values(self) -> tuple[tuple[Use, ...], ...]:
        """`uses`, with parts replaced by their whole values; ValueError if a text is invalid."""
        parts = {part.buffer: part for part in self.parts}
        return tuple(tuple(_of_value(use, parts.get(use.buffer)) for use in call) for call in self.uses())

    def uses(self) -> tuple[tuple[Use, ...], ...]:
        """`calls`, parsed; ValueError if a text is invalid."""
        return tuple(tuple(Use.parse(text) for text in call) for call in self.calls)


def _of_value(use: Use, part: ValuePart | None) -> Use:
    return use if part is None else Use(part.value, part.offset + use.offset)

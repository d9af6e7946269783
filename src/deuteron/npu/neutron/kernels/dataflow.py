"""Which value each operand of a program is: the record that a plan is checked against.

Microcode knows addresses only. With this record, what a kernel finds at an address can be held against what the
program means it to find there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from deuteron.npu.neutron.kernels.program import Program


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
class Dataflow:
    """The values of a program.

    Attributes:
        inputs: the buffer of each input.
        outputs: the buffer of each output.
        constants: what the weights block holds.
        calls: the use that each operand of each call makes, in the catalogue's order, as text.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    constants: tuple[Constant, ...] = ()
    calls: tuple[tuple[str, ...], ...] = ()

    def uses(self) -> tuple[tuple[Use, ...], ...]:
        """`calls`, read; ValueError when a text is none of a use."""
        return tuple(tuple(Use.parse(text) for text in call) for call in self.calls)


def dataflow(program: Program, weights: Mapping[str, int]) -> Dataflow:
    """The values of `program`, whose constants lie at these offsets of the weights block."""
    return Dataflow(
        program.inputs,
        program.outputs,
        tuple(Constant(b.name, weights[b.name], b.nbytes) for b in program.buffers if b.name in weights),
        tuple(tuple(str(Use(ref.buffer, ref.offset)) for ref in call.operands) for call in program.calls),
    )

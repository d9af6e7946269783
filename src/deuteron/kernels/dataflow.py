"""Which value each operand of a program is: the record that a plan is checked against.

Microcode knows addresses only. With this record, what a kernel finds at an address can be held against what the
program means it to find there.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from deuteron.kernels.program import Program


@dataclass(frozen=True, slots=True)
class Use:
    """An operand: it stands for buffer `buffer` from byte `offset` on."""

    buffer: str
    offset: int


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
        calls: the use that each operand of each call makes, in the catalogue's order.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[Constant, ...]
    calls: tuple[tuple[Use, ...], ...]


def dataflow(program: Program, weights: Mapping[str, int]) -> Dataflow:
    """The values of `program`, whose constants lie at these offsets of the weights block."""
    return Dataflow(
        program.inputs,
        program.outputs,
        tuple(Constant(b.name, weights[b.name], b.nbytes) for b in program.buffers if b.name in weights),
        tuple(tuple(Use(ref.buffer, ref.offset) for ref in call.operands) for call in program.calls),
    )

"""The shapes and constant values that a TFLite operator reads, and their errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from deuteron.errors import counted
from deuteron.tflite.flat_model import FlatOperator

Shape = tuple[int, ...]
Array = npt.NDArray[Any]


class ShapeError(Exception):
    """The shapes that an operator reads contradict each other; the message is the second half of a sentence."""


class NotConstantError(Exception):
    """The shape depends on an operand that has no constant value."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The shapes and constant values of an operator's inputs.

    Attributes:
        op: the operator.
        shapes: of the inputs; an optional input that is left out has the shape ().
        values: of the inputs that are constants, None of the others.
        recorded: the shapes of the outputs that the file records.
    """

    op: FlatOperator
    shapes: Sequence[Shape]
    values: Sequence[Array | None]
    recorded: Sequence[Shape]

    def numbers(self, position: int) -> list[int]:
        """The whole numbers of a constant input."""
        values = self.values[position] if position < len(self.values) else None
        if values is None:
            raise NotConstantError
        return [int(value) for value in values.ravel()]

    def option(self, name: str) -> int:
        """A whole-number option; 0, the schema's default, where the table is left out."""
        return int(self.op.options.get(name, 0))

    def vector(self, name: str) -> tuple[int, ...] | None:
        """A vector among the options; None where it is left out or empty."""
        found: tuple[int, ...] = self.op.options.get(name, ())
        return found or None

    def axis(self, number: int, rank: int) -> int:
        """A dimension, counted from the end where it is negative."""
        if not -rank <= number < rank:
            raise ShapeError(f"axis {number} of a tensor of {counted(rank, 'dimension')}")
        return number % rank

"""How the families of operators are listed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deuteron.tflite.cortex_m.call import CpuCall
from deuteron.tflite.cortex_m.operator_view import HINT_QUANTIZE, Site

ACTIVATIONS = ("INT8", "INT16")
"""The types of quantized activations."""


@dataclass(frozen=True, slots=True)
class Lowering:
    """The lowering of one TFLite operator.

    Attributes:
        lower: returns the calls.
        types: allowed types of the input `operand`, by their schema names.
        operand: the input whose type decides.
        note: further constraints of the operator, for the reference; may be empty.
        hint: what to write instead with another type.
    """

    lower: Callable[[Site], tuple[CpuCall, ...]]
    types: tuple[str, ...]
    operand: int = 0
    note: str = ""
    hint: str = HINT_QUANTIZE


def by_type(
    lowerings: Mapping[str, Callable[[Site], tuple[CpuCall, ...]]], operand: int = 0, note: str = ""
) -> Lowering:
    """Return a lowering with one for each type of the operand that decides."""
    return Lowering(lambda site: lowerings[site.input(operand).dtype](site), tuple(lowerings), operand, note)

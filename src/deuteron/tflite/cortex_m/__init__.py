"""TFLite operators as calls of C operators on a Cortex-M, bit for bit as LiteRT's reference kernels."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from deuteron.tflite.cortex_m import (
    arithmetic,
    comparison,
    conversion,
    convolution,
    lookup,
    matmul,
    movement,
    padding,
    pooling,
    recurrent,
    reduction,
    resize,
    softmax,
)
from deuteron.tflite.cortex_m.call import Constant, CpuCall, FileTensor, Operand, Temporary
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.site import Site
from deuteron.tflite.flat_model import FlatModel

__all__ = [
    "Constant",
    "CpuCall",
    "FileTensor",
    "Operand",
    "SupportedOperator",
    "Temporary",
    "lower",
    "supported_operators",
]

_FAMILIES = (
    arithmetic,
    comparison,
    conversion,
    convolution,
    lookup,
    matmul,
    movement,
    padding,
    pooling,
    recurrent,
    reduction,
    resize,
    softmax,
)
_OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {name: lowering for family in _FAMILIES for name, lowering in family.OPERATORS.items()}
)
_HINT_OPERATOR = "write it with other operators, or leave it to the host; docs/reference lists what a Cortex-M runs"


@dataclass(frozen=True, slots=True)
class SupportedOperator:
    """A row of the reference: an operator, the types of its activations, and what else is asked of it."""

    name: str
    types: tuple[str, ...]
    note: str


def supported_operators() -> tuple[SupportedOperator, ...]:
    """Return the operators that `lower` takes, by name."""
    return tuple(SupportedOperator(name, found.types, found.note) for name, found in sorted(_OPERATORS.items()))


def lower(model: FlatModel, index: int) -> tuple[CpuCall, ...]:
    """Return the calls that compute an operator of a model; its uint8 tensors are int8 by now (`tflite.unsigned`).

    Raises:
        UnsupportedError: the operator, or a type or form of its operands, has no C operator.
    """
    site = Site(model, index)
    lowering = _OPERATORS.get(site.op.name)
    if lowering is None:
        raise site.unsupported("no C operator computes it on a Cortex-M", _HINT_OPERATOR)
    site.require(site.input(lowering.operand), *lowering.types)
    return lowering.lower(site)

"""TFLite operators as calls of C operators on a Cortex-M, bit for bit as LiteRT's reference kernels."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from deuteron.errors import FormatError, MissingOperatorError, UnsupportedError
from deuteron.tflite.cortex_m import (
    arithmetic,
    comparison,
    conversion,
    convolution,
    detection,
    float32_layers,
    gathering,
    lookup,
    matmul,
    movement,
    padding,
    pooling,
    recurrent,
    reduction,
    resize,
    signal_library,
    signal_streams,
    softmax,
    unquantized,
)
from deuteron.tflite.cortex_m.call import Constant, CpuCall, FileTensor, Operand, Temporary
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.cortex_m.unsupported_hints import OTHER, hint_of
from deuteron.tflite.flat_model import HINT_MALFORMED, FlatModel

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
    detection,
    gathering,
    lookup,
    matmul,
    movement,
    padding,
    unquantized,
    pooling,
    float32_layers,
    recurrent,
    reduction,
    resize,
    signal_library,
    signal_streams,
    softmax,
)
_OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {name: lowering for family in _FAMILIES for name, lowering in family.OPERATORS.items()}
)
_CONTRADICTIONS = (ArithmeticError, LookupError, TypeError, ValueError)
"""Errors of arrays for operands of unsuitable shapes, where `tflite.shapes` has no rule for the operator."""

_HINT_CONTROL_FLOW = "export each branch as a model of its own, or compute both and choose with SELECT"


@dataclass(frozen=True, slots=True)
class SupportedOperator:
    """A row of the reference: an operator, the types of its activations, and its other constraints."""

    name: str
    types: tuple[str, ...]
    note: str


def supported_operators() -> tuple[SupportedOperator, ...]:
    """Return the operators that `lower` takes, by name."""
    return tuple(SupportedOperator(name, found.types, found.note) for name, found in sorted(_OPERATORS.items()))


def lower(model: FlatModel, index: int) -> tuple[CpuCall, ...]:
    """Return the calls that compute an operator of a model; its uint8 tensors are int8 by now (`tflite.unsigned`).

    Raises:
        MissingOperatorError: the operator has no C operator.
        UnsupportedError: a type or form of its operands has none.
        FormatError: its operands contradict each other.
    """
    site = Site(model, index)
    lowering = _OPERATORS.get(site.op.title)
    if site.op.name in ("IF", "WHILE"):
        inputs = site.op.inputs
        if site.op.name == "IF" and inputs:
            what = f"is tensor `{model.tensors[inputs[0]].name}`, which is computed at run time"
        else:
            what = "is computed at run time"
        raise site.unsupported(f"its condition {what}; {site.op.name} needs a constant condition", _HINT_CONTROL_FLOW)
    if lowering is None:
        raise MissingOperatorError("no C operator computes it on a Cortex-M", hint=hint_of(site.op), where=site.where)
    site.require(site.input(lowering.operand), *lowering.types, hint=lowering.hint)
    try:
        return lowering.lower(site)
    except UnsupportedError as error:
        if error.where is not None:
            raise
        raise site.unsupported(error.message, error.hint or OTHER) from error
    except _CONTRADICTIONS as error:
        message = "its operands contradict each other, or the shapes that the file records"
        raise FormatError(message, where=site.where, hint=HINT_MALFORMED) from error

"""Hints for TFLite operators that no processor runs: their alternatives."""

from collections.abc import Mapping
from types import MappingProxyType

from deuteron.tflite.custom_options import HINT_CUSTOM
from deuteron.tflite.flat_model import CUSTOM, FlatOperator

ALTERNATIVES: Mapping[str, str] = MappingProxyType(
    {
        "ATAN2": "compute the angle outside of the model",
        "BIDIRECTIONAL_SEQUENCE_LSTM": "two layers of one direction, the second on a reversed sequence",
        "CONV_3D": "CONV_2D for each slice, and ADD",
        "FFT2D, RFFT2D, STFT": "compute the spectrum before the model",
        "HASHTABLE, HASHTABLE_FIND, HASHTABLE_LOOKUP": "look words up outside of the model",
        "LOCAL_RESPONSE_NORMALIZATION": "train with batch normalisation, which folds into layers",
        "NON_MAX_SUPPRESSION_V4, NON_MAX_SUPPRESSION_V5": "TFLite_Detection_PostProcess, or code behind the model",
        "ONE_HOT": "EQUAL with a constant range",
        "POW": "MUL for whole exponents, SQRT or RSQRT for halves",
        "REVERSE_SEQUENCE": "REVERSE_V2 of sequences of one length",
        "SCATTER_ND": "SELECT_V2 with a constant mask",
        "TOPK_V2": "ARG_MAX for the first; sort the others outside of the model",
        "UNIQUE, WHERE": "the shape of the result depends on values; compute it outside of the model",
    }
)
"""Alternatives by the operators that they replace."""

_BY_OPERATOR = {name: text for names, text in ALTERNATIVES.items() for name in names.split(", ")}
_COMPILED = "the file is compiled for {}: give the file before that compiler"
_BY_PREFIX = {
    "edgetpu": _COMPILED.format("an Edge TPU"),
    "XC_": _COMPILED.format("an XCORE"),
    "FlexTensorList": "convert the recurrent layer with a fixed batch size, and with `unroll=True` if it is no LSTM",
    "Flex": "convert the model without `SELECT_TF_OPS`, or run the operator in the application, before or behind the "
    "model",
}
OTHER = "write it with other operators, or leave it to the host; docs/reference lists what a Cortex-M runs"


def hint_of(op: FlatOperator) -> str:
    """Return the hint for an operator that has no C operator."""
    if op.name == CUSTOM:
        return next((hint for prefix, hint in _BY_PREFIX.items() if op.custom_code.startswith(prefix)), HINT_CUSTOM)
    if op.name in _BY_OPERATOR:
        return f"instead of {op.name}: {_BY_OPERATOR[op.name]}"
    return OTHER

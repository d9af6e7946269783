"""The table of TFLite operators and the processors that run them, for the reference."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from deuteron.tflite.cortex_m import supported_operators
from deuteron.tflite.cortex_m.unsupported_hints import ALTERNATIVES

VELA = frozenset(
    name
    for names in (
        "ABS ADD ARG_MAX AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D EXP EXPAND_DIMS FULLY_CONNECTED",
        "HARD_SWISH LEAKY_RELU LOG LOGISTIC MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL PACK PAD PRELU QUANTIZE",
        "RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR RSQRT SHAPE SLICE SOFTMAX",
        "SPLIT SPLIT_V SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB TANH TRANSPOSE TRANSPOSE_CONV",
        "UNIDIRECTIONAL_SEQUENCE_LSTM UNPACK",
    )
    for name in names.split()
)
"""Operators that Vela 5 may place on an Ethos-U; its conditions are those of `vela --supported-ops-report`."""

CONDITIONS: Mapping[str, str] = MappingProxyType(
    {
        "LOGISTIC": "NPU, int16: CPU",
        "MIRROR_PAD": "NPU, batches and channels: CPU",
        "NEG": "CPU",
        "RESHAPE": "NPU, between two quantizations: CPU",
        "RESIZE_BILINEAR": "NPU, between two quantizations: CPU",
        "RESIZE_NEAREST_NEIGHBOR": "NPU, between two quantizations: CPU",
        "SOFTMAX": "NPU, int16: CPU",
        "TANH": "NPU, int16: CPU",
    }
)
"""Operators that builds for an Ethos-U leave to the CPU in some forms."""

KEPT = frozenset({"UNIDIRECTIONAL_SEQUENCE_LSTM"})
"""Operators that builds for an Ethos-U leave to the CPU, because they keep state."""

VARIABLES = ("ASSIGN_VARIABLE", "CALL_ONCE", "CIRCULAR_BUFFER", "READ_VARIABLE", "VAR_HANDLE")
"""Operators that become the state of a program."""

FOLDED = ("RANGE", "RANK", "SHAPE")
"""Operators whose results are constants once shapes are known."""


def markdown(neutron: Collection[str]) -> str:
    """Return the section of the page.

    Args:
        neutron: the operators that a Neutron runs.
    """
    return "\n".join(_lines(neutron)) + "\n"


def _lines(neutron: Collection[str]) -> Iterator[str]:
    yield "## TFLite files"
    yield ""
    yield "A Cortex-M runs the operators of a TFLite file with the bytes of LiteRT's reference kernels"
    yield "([rounding](../../spec/rounding.md), section 7), those whose name begins with Signal with the bytes of"
    yield "TFLite Micro's interpreter. An NPU takes what it supports, and its Cortex-M runs the rest. Types are those"
    yield "of the activations; uint8 files run as int8. The CPU of `imxrt700` has no C operators, and"
    yield "`deuteron run` leaves the rest of a file to LiteRT on the host."
    yield ""
    yield "| operator | Cortex-M | condition on a Cortex-M | Ethos-U | Neutron |"
    yield "|---|---|---|---|---|"
    for row in supported_operators():
        types = ", ".join(name.lower() for name in row.types)
        ethosu = CONDITIONS.get(row.name, _processor(row.name, VELA - KEPT))
        yield f"| {row.name} | {types} | {row.note} | {ethosu} | {_processor(row.name, neutron)} |"
    yield ""
    folded = " and ".join((", ".join(FOLDED[:-1]), FOLDED[-1]))
    yield f"The compiler computes {folded}, whose results are constants once shapes are known."
    yield "It decodes the weights that TFLM_DECODE stores."
    yield f"{', '.join(VARIABLES[:-1])} and {VARIABLES[-1]} become state of the program, in all types."
    yield ""
    yield "No processor runs these operators; an error names them and their place:"
    yield ""
    yield "| operator | write instead |"
    yield "|---|---|"
    for name, rewrite in ALTERNATIVES.items():
        yield f"| {name} | {rewrite} |"


def _processor(name: str, taken: Collection[str]) -> str:
    return "NPU" if name in taken else "CPU"

"""Parameter records of the operators that Deuteron adds to ExecuTorch's Cortex-M backend.

All have one form, in the namespace `deuteron` of PyTorch's registry: tensors, the shape of the output, and the words of
a parameter record. Their results are the values that they write, the output last. This table is the one definition for
their C functions, the header, the registration with ExecuTorch's runtime and the calls in bundles;
`deuteron.frontend.cortex_m.custom_ops` creates the calls. CONTRIBUTING.md explains how to add one.
"""

from dataclasses import dataclass
from types import MappingProxyType

from deuteron.operators.cortex_m import CpuOperator
from deuteron.operators.int16 import INT16_OPERATORS
from deuteron.operators.kernel_params import (
    AddParams,
    BroadcastParams,
    Dims5,
    KernelParams,
    LutParams,
    MulParams,
    ReduceExtremumParams,
    ReduceSumParams,
    ReductionParams,
    ResizeBilinearParams,
)
from deuteron.operators.recurrent import RECURRENT

NAMESPACE = "deuteron"
"""Namespace of the operators, in PyTorch's registry and in programs."""


@dataclass(frozen=True, slots=True)
class MaskedSoftmaxParams(KernelParams):
    """Softmax as SoftmaxParams over the elements with a mask other than 0; the others get the zero point.

    Row r has row r % mask_rows of the mask. The table is that of the NPU's softmax.
    """

    rows: int
    depth: int
    mask_rows: int
    mult: int
    shift: int
    out_zp: int


@dataclass(frozen=True, slots=True)
class NormaliseParams(KernelParams):
    """Normalises groups of channels * spatial elements by their mean and variance, or by their mean square.

    Element [b, g, c, s] is at the sum of its indices times the strides, in elements. With n elements of a group, each
    less in_zp, S their sum if `centred`, else 0, Q the sum of their squares, and e = epsilon_high * 2^32 + epsilon_low:

        y = (n * x - S) / sqrt(n * Q - S^2 + e / 2^fraction), with value_bits fraction bits
        out = sat(out_zp + rne((y * factor + offset * 2^offset_shift) / 2^out_shift))

    Factors and offsets are int32, one per channel of all groups where factor_step is 1, one for all where it is 0.
    spec/rounding.md defines the rounding of y.
    """

    batches: int
    groups: int
    channels: int
    spatial: int
    batch_stride: int
    group_stride: int
    channel_stride: int
    spatial_stride: int
    centred: int
    in_zp: int
    epsilon_low: int
    epsilon_high: int
    fraction: int
    value_bits: int
    factor_step: int
    offset_shift: int
    out_shift: int
    out_zp: int


@dataclass(frozen=True, slots=True)
class ArgmaxArgminParams(ReductionParams):
    """Argmax (`maximum` 1) or argmin (0) over the middle of [outer, reduced, inner]; the first of equal values wins.

    The output is int64.
    """

    maximum: int


@dataclass(frozen=True, slots=True)
class CumsumParams(KernelParams):
    """Cumulative sum over the middle of [outer, depth, inner].

    out = sat(out_zp + rne(sum(x - in_zp) * mult / 2^shift)), shift 1..62.
    """

    outer: int
    depth: int
    inner: int
    in_zp: int
    mult: int
    shift: int
    out_zp: int


@dataclass(frozen=True, slots=True)
class LogSoftmaxParams(KernelParams):
    """Logarithm of the softmax over the middle, at most 65536 elements, of [outer, depth, inner].

    The table has 256 numbers, e[k] = round(2^30 * exp(-k * scale)). With m the largest x and l = log2(sum(e[m - x]) /
    2^30) with 26 fraction bits:

        out = sat(out_zp + rne(((x - m) * mult - rne(l * log_mult / 2^log_shift)) / 2^shift))

    shift 1..40, log_shift 1..62.
    """

    outer: int
    depth: int
    inner: int
    mult: int
    shift: int
    log_mult: int
    log_shift: int
    out_zp: int


@dataclass(frozen=True, slots=True)
class CompareParams(BroadcastParams):
    """Broadcasting comparison of stored values; strides are in elements, 0 repeats; the output is bool.

    `kind` 0: a < b, 1: a <= b, 2: a = b, 3: a != b.
    """

    kind: int


@dataclass(frozen=True, slots=True)
class WhereParams(KernelParams):
    """Broadcasting select; strides are in elements, 0 repeats: a where the condition is true, else b."""

    dims: Dims5
    condition_strides: Dims5
    a_strides: Dims5
    b_strides: Dims5


ADDED: tuple[CpuOperator, ...] = (
    CpuOperator("reduce_sum", ("input",), ReduceSumParams),
    CpuOperator("reduce_extremum", ("input",), ReduceExtremumParams),
    CpuOperator("argmax_argmin", ("input",), ArgmaxArgminParams),
    CpuOperator("cumsum", ("input",), CumsumParams),
    CpuOperator("normalise", ("input", "factors", "offsets"), NormaliseParams),
    CpuOperator("log_softmax", ("input", "table"), LogSoftmaxParams),
    CpuOperator("broadcast_add", ("a", "b"), AddParams),
    CpuOperator("broadcast_mul", ("a", "b"), MulParams),
    CpuOperator("compare", ("a", "b"), CompareParams),
    CpuOperator("compare_scalar", ("input", "table"), LutParams),
    CpuOperator("where", ("condition", "a", "b"), WhereParams),
    CpuOperator("resize_bilinear", ("input",), ResizeBilinearParams),
    CpuOperator("masked_softmax", ("input", "table", "mask"), MaskedSoftmaxParams),
    *INT16_OPERATORS,
    *RECURRENT,
)

FORMER_NAMES = MappingProxyType(
    {
        "reduce_argument": "argmax_argmin",
        "cumulate": "cumsum",
        "decide": "compare_scalar",
        "choose": "where",
        "requantise_s16": "requantize_s16",
        "requantise_s8": "requantize_s8",
        "sum_s16": "broadcast_add_s16",
        "product_s16": "broadcast_mul_s16",
    }
)
"""Names of operators in programs of older releases, which still run."""

BY_NAME = MappingProxyType({f"{NAMESPACE}::{operator.name}.out": operator for operator in ADDED})
"""The operators by their names in programs."""

BY_FORMER_NAME = MappingProxyType(
    {f"{NAMESPACE}::{former}.out": BY_NAME[f"{NAMESPACE}::{name}.out"] for former, name in FORMER_NAMES.items()}
)

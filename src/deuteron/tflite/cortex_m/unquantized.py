"""Operators of float32 and of plain whole numbers: arithmetic, reductions and running sums."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.tflite import BY_TFLITE_OPERATOR
from deuteron.operators.tflite_unquantized import ArithmeticParams, CumsumParams, ReduceParams
from deuteron.tflite.cortex_m import int32_sums
from deuteron.tflite.cortex_m.broadcasting import broadcast_dims
from deuteron.tflite.cortex_m.call import Constant, CpuCall, FileTensor, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import bits_of
from deuteron.tflite.cortex_m.lowering import Lowering, by_type
from deuteron.tflite.cortex_m.operator_view import LIMITS, NUMPY, Site
from deuteron.tflite.cortex_m.reduction_strides import along, reduced_axes
from deuteron.tflite.cortex_m.regions import copies, whole

ADD, SUB, MUL, DIV, FLOOR_DIV, FLOOR_MOD, SQUARED_DIFFERENCE, PRELU = range(8)
"""Kinds of arithmetic."""

SUM, MEAN, PRODUCT, LARGEST, LEAST = range(5)
"""Kinds of reductions."""

WHOLE = ("INT32", "INT64")
TYPES = ("FLOAT32", *WHOLE)

_MOST = float(np.finfo(np.float32).max)


def real_limits(site: Site) -> tuple[int, int]:
    """Return the bits of the limits of a fused activation function; without one, of the largest finite numbers."""
    low, high = site.activation()
    return bits_of(-_MOST if low is None else low), bits_of(_MOST if high is None else high)


def _limits(site: Site, *, activation: bool) -> tuple[int, int]:
    if site.input().dtype == "FLOAT32":
        return real_limits(site) if activation else (bits_of(-math.inf), bits_of(math.inf))
    least, most = LIMITS["INT32"]
    low, high = site.activation() if activation else (None, None)
    return least if low is None else int(low), most if high is None else int(high)


def arithmetic(kind: int, *, activation: bool = True) -> Callable[[Site], tuple[CpuCall, ...]]:
    """Return the lowering of an operator of two tensors."""

    def lower(site: Site) -> tuple[CpuCall, ...]:
        site.require(site.input(1), site.input().dtype)
        dims, (a, b) = broadcast_dims(site, site.input(0).shape, site.input(1).shape)
        params = ArithmeticParams(dims, a, b, kind, *_limits(site, activation=activation))
        return (CpuCall(BY_TFLITE_OPERATOR["arithmetic"], (site.ref(0), site.ref(1)), (site.out(),), params),)

    return lower


def leaky(site: Site) -> tuple[CpuCall, ...]:
    """Lower LEAKY_RELU of float32."""
    elements = math.prod(site.output().shape)
    dims, steps, none = (1, 1, 1, 1, elements), (0, 0, 0, 0, 1), (0, 0, 0, 0, 0)
    infinite = bits_of(-math.inf), bits_of(math.inf)
    alpha = Constant(np.array([site.op.options.get("Alpha", 0)], np.float32))
    params = ArithmeticParams(dims, steps, none, PRELU, *infinite)
    return (CpuCall(BY_TFLITE_OPERATOR["arithmetic"], (site.ref(), alpha), (site.out(),), params),)


def add_n(site: Site) -> tuple[CpuCall, ...]:
    """Lower ADD_N: one tensor after the other."""
    shape, dtype = site.output().shape, NUMPY[site.input().dtype]
    if len(site.op.inputs) == 1:
        return copies(dtype, site.ref(), site.out(), shape, whole(shape), whole(shape))
    calls: list[CpuCall] = []
    total: Operand = site.ref(0)
    for position in range(1, len(site.op.inputs)):
        target = site.out() if position == len(site.op.inputs) - 1 else Temporary(shape, dtype)
        calls.append(_sum(site, total, site.ref(position), target))
        total = target
    return tuple(calls)


def add_n_s8(site: Site) -> tuple[CpuCall, ...]:
    """Lower ADD_N of int8: a sum in int32."""
    one_quantization(site)
    calls = [int32_sums.widened(site, 0)]
    for position in range(1, len(site.op.inputs)):
        term = int32_sums.widened(site, position)
        (total,), (added,) = calls[-1].outputs, term.outputs
        calls += [term, _sum(site, total, added, Temporary(site.output().shape, "int32"))]
    return *calls, int32_sums.narrowed(site, calls[-1].outputs[0], site.out())


def one_quantization(site: Site) -> None:
    """Check that all operands have the scale and zero point of the first."""
    first = site.input()
    for position in range(1, len(site.op.inputs)):
        other = site.input(position)
        site.require(other, first.dtype)
        if (site.scale(other), site.zero_point(other)) != (site.scale(first), site.zero_point(first)):
            raise site.unsupported(
                f"tensors `{first.name}` and `{other.name}` differ in scale or zero point; one for all operands is "
                "allowed",
                "put a QUANTIZE before one of them, or write the sum with ADD",
            )


def _sum(site: Site, a: Operand, b: Operand, target: FileTensor | Temporary) -> CpuCall:
    """The sum of two tensors of one shape and type."""
    dims, steps = (1, 1, 1, 1, math.prod(site.output().shape)), (0, 0, 0, 0, 1)
    params = ArithmeticParams(dims, steps, steps, ADD, *_limits(site, activation=False))
    return CpuCall(BY_TFLITE_OPERATOR["arithmetic"], (a, b), (target,), params)


def reduction(kind: int) -> Callable[[Site], tuple[CpuCall, ...]]:
    """Return the lowering of a reduction."""

    def lower(site: Site) -> tuple[CpuCall, ...]:
        axes = reduced_axes(site)
        kept = tuple(axis for axis in range(len(site.input().shape)) if axis not in axes)
        params = ReduceParams(*along(site, kept, "keeps"), *along(site, axes, "reduces"), kind)
        return (CpuCall(BY_TFLITE_OPERATOR["reduce"], (site.ref(),), (site.out(),), params),)

    return lower


def cumsum(site: Site) -> tuple[CpuCall, ...]:
    """Lower CUMSUM."""
    shape = site.input().shape
    axis = site.integers(1)[0] % len(shape)
    params = CumsumParams(
        math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]),
        site.option("Exclusive"), site.option("Reverse"),
    )  # fmt: skip
    if site.input().dtype != "INT8":
        return (CpuCall(BY_TFLITE_OPERATOR["cumsum"], (site.ref(),), (site.out(),), params),)
    wide, total = int32_sums.widened(site, 0), Temporary(shape, "int32")
    return (
        wide,
        CpuCall(BY_TFLITE_OPERATOR["cumsum"], wide.outputs, (total,), params),
        int32_sums.narrowed(site, total, site.out()),
    )


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "ADD_N": by_type({"INT8": add_n_s8, **dict.fromkeys(("FLOAT32", "INT32"), add_n)}),
        "CUMSUM": Lowering(cumsum, ("INT8", *TYPES), note="constant axis"),
        "FLOOR_DIV": Lowering(arithmetic(FLOOR_DIV, activation=False), ("FLOAT32", "INT8", "INT16", "INT32")),
        "FLOOR_MOD": Lowering(arithmetic(FLOOR_MOD, activation=False), ("FLOAT32", "INT8", "INT16", *WHOLE)),
        "REDUCE_PROD": Lowering(reduction(PRODUCT), TYPES),
        "REDUCE_ANY": Lowering(reduction(LARGEST), ("BOOL",)),
        "REDUCE_ALL": Lowering(reduction(LEAST), ("BOOL",)),
    }
)

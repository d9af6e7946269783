"""Sums, products, tables and softmax."""

from fractions import Fraction

from deuteron import numerics
from deuteron.ir.ops import Add, Mul, Quantize, Softmax, Unary
from deuteron.ir.types import TensorType
from deuteron.kernels import params as p
from deuteron.kernels.catalogue import ADD, LUT, MUL, SOFTMAX
from deuteron.passes.lowering.builder import Builder
from deuteron.passes.lowering.strides import broadcast_strides, collapse, contiguous_strides, fill_rank


def add(build: Builder, op: Add) -> None:
    """Lowers a sum: both inputs are scaled to the output by multipliers of one shift."""
    a, b, out = _binary_types(build, op)
    (a_mult, b_mult), shift = numerics.requants(
        (Fraction(a.q.scale) / Fraction(out.q.scale), Fraction(b.q.scale) / Fraction(out.q.scale))
    )
    dims, a_strides, b_strides = _binary_dims(build, op)
    params = p.AddParams(
        dims=dims, a_strides=a_strides, b_strides=b_strides, a_zp=a.q.zero_point, b_zp=b.q.zero_point,
        a_mult=a_mult, b_mult=b_mult, shift=shift, out_zp=out.q.zero_point, act_min=op.clamp.lo, act_max=op.clamp.hi,
    )  # fmt: skip
    build.call(op, ADD, tuple(map(build.tensor, (*op.inputs, *op.outputs))), params)


def mul(build: Builder, op: Mul) -> None:
    """Lowers a product."""
    a, b, out = _binary_types(build, op)
    factor = numerics.requant(Fraction(a.q.scale) * Fraction(b.q.scale) / Fraction(out.q.scale))
    dims, a_strides, b_strides = _binary_dims(build, op)
    params = p.MulParams(
        dims=dims, a_strides=a_strides, b_strides=b_strides, a_zp=a.q.zero_point, b_zp=b.q.zero_point,
        mult=factor.multiplier, shift=factor.shift, out_zp=out.q.zero_point, act_min=op.clamp.lo, act_max=op.clamp.hi,
    )  # fmt: skip
    build.call(op, MUL, tuple(map(build.tensor, (*op.inputs, *op.outputs))), params)


def table(build: Builder, op: Unary | Quantize) -> None:
    """Lowers a function of one stored value to a table of its 256 results."""
    (x,), (y,) = op.inputs, op.outputs
    function = op.function if isinstance(op, Unary) else None
    entries = build.array(f"{y}/table", numerics.unary_table(function, build.type(x).q, build.type(y).q))
    build.call(op, LUT, (build.tensor(x), entries, build.tensor(y)), p.LutParams(build.type(y).numel))


def softmax(build: Builder, op: Softmax) -> None:
    """Lowers a softmax: a table of exponentials and one division per element."""
    (x,), (y,) = op.inputs, op.outputs
    depth = build.type(x).shape[-1]
    mult, shift = numerics.softmax_multiplier(build.type(y).q.scale)
    exponentials = numerics.softmax_table(build.type(x).q.scale, op.beta).astype("<u4")
    params = p.SoftmaxParams(build.type(x).numel // depth, depth, mult, shift, build.type(y).q.zero_point)
    operands = (build.tensor(x), build.array(f"{y}/exponentials", exponentials), build.tensor(y))
    build.call(op, SOFTMAX, operands, params)


def _binary_types(build: Builder, op: Add | Mul) -> tuple[TensorType, TensorType, TensorType]:
    return build.type(op.inputs[0]), build.type(op.inputs[1]), build.type(op.outputs[0])


def _binary_dims(build: Builder, op: Add | Mul) -> tuple[p.Dims5, p.Dims5, p.Dims5]:
    """The fewest dimensions that describe the broadcast, and the strides of both inputs over them."""
    shape = build.type(op.outputs[0]).shape
    a, b = (broadcast_strides(build.type(name).shape, shape) for name in op.inputs)
    dims, (a, b, _) = collapse(shape, (a, b, contiguous_strides(shape)))
    if len(dims) > p.BINARY_RANK:
        raise build.unsupported(
            op, f"the broadcast takes {len(dims)} dimensions to describe, at most {p.BINARY_RANK} are allowed"
        )
    d0, d1, d2, d3, d4 = fill_rank(dims, p.BINARY_RANK, 1)
    a0, a1, a2, a3, a4 = fill_rank(a, p.BINARY_RANK, 0)
    b0, b1, b2, b3, b4 = fill_rank(b, p.BINARY_RANK, 0)
    return (d0, d1, d2, d3, d4), (a0, a1, a2, a3, a4), (b0, b1, b2, b3, b4)

"""Operators of two broadcasting inputs, functions of one stored value, and softmax."""

from fractions import Fraction

import numpy as np

from deuteron import numerics
from deuteron.npu.neutron.ir.ops import Add, BinaryOp, Maximum, Minimum, Mul, Prelu, Softmax, Sub
from deuteron.npu.neutron.ir.tables import Tabled, function_table
from deuteron.npu.neutron.ir.types import TensorType
from deuteron.npu.neutron.kernels.catalogue import ADD, EXTREMUM, LUT, MUL, PRELU, SOFTMAX
from deuteron.npu.neutron.passes.lowering.builder import Builder
from deuteron.npu.neutron.passes.lowering.strides import broadcast_strides, collapse, contiguous_strides, fill_rank
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Ref


def add(build: Builder, op: Add | Sub) -> None:
    """Lowers a sum or difference: both inputs are scaled to the output by multipliers of one shift."""
    a, b, out = _binary_types(build, op)
    (a_mult, b_mult), shift = numerics.requants(
        (Fraction(a.q.scale) / Fraction(out.q.scale), Fraction(b.q.scale) / Fraction(out.q.scale))
    )
    dims, a_strides, b_strides = _binary_dims(build, op)
    params = p.AddParams(
        dims=dims, a_strides=a_strides, b_strides=b_strides, a_zp=a.q.zero_point, b_zp=b.q.zero_point,
        a_mult=a_mult, b_mult=-b_mult if isinstance(op, Sub) else b_mult, shift=shift, out_zp=out.q.zero_point,
        act_min=op.clamp.lo, act_max=op.clamp.hi,
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


def extremum(build: Builder, op: Maximum | Minimum) -> None:
    """Lowers a maximum or minimum; an input with another quantization is converted by a table first."""
    dims, a_strides, b_strides = _binary_dims(build, op)
    params = p.ExtremumParams(dims, a_strides, b_strides, maximum=int(isinstance(op, Maximum)))
    a, b = (_requantized(build, op, name) for name in op.inputs)
    build.call(op, EXTREMUM, (a, b, build.tensor(op.outputs[0])), params)


def prelu(build: Builder, op: Prelu) -> None:
    """Lowers a parametric relu: one factor at and above zero, one for the product with alpha below."""
    x, alpha, out = _binary_types(build, op)
    above = numerics.requant(Fraction(x.q.scale) / Fraction(out.q.scale))
    below = numerics.requant(Fraction(x.q.scale) * Fraction(alpha.q.scale) / Fraction(out.q.scale))
    dims, a_strides, b_strides = _binary_dims(build, op)
    params = p.PreluParams(
        dims=dims, a_strides=a_strides, b_strides=b_strides, a_zp=x.q.zero_point, b_zp=alpha.q.zero_point,
        mult=above.multiplier, shift=above.shift, alpha_mult=below.multiplier, alpha_shift=below.shift,
        out_zp=out.q.zero_point,
    )  # fmt: skip
    build.call(op, PRELU, tuple(map(build.tensor, (*op.inputs, *op.outputs))), params)


def table(build: Builder, op: Tabled) -> None:
    """Lowers a function of one stored value to a table of its 256 results."""
    (x,), (y,) = op.inputs, op.outputs
    entries = build.array(f"{y}/table", function_table(op, build.graph))
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


def _binary_types(build: Builder, op: BinaryOp) -> tuple[TensorType, TensorType, TensorType]:
    return build.type(op.inputs[0]), build.type(op.inputs[1]), build.type(op.outputs[0])


def _requantized(build: Builder, op: BinaryOp, name: str) -> Ref:
    """Return an input requantized to the output's quantization; a constant at compile time, another by a call."""
    source, target = build.graph.tensor(name), build.type(op.outputs[0])
    if source.type.q == target.q:
        return build.tensor(name)
    entries = numerics.unary_table(None, source.type.q, target.q)
    if source.is_const:
        return build.array(f"{name}/requantized", entries[source.array().astype(np.int64) + 128])
    result = build.scratch(f"{op.outputs[0]}/{name}", source.type.nbytes)
    table = build.array(f"{op.outputs[0]}/table", entries)
    build.call(op, LUT, (build.tensor(name), table, result), p.LutParams(source.type.numel))
    return result


def _binary_dims(build: Builder, op: BinaryOp) -> tuple[p.Dims5, p.Dims5, p.Dims5]:
    """Return the smallest number of dimensions that describe the broadcast, and the strides of both inputs."""
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

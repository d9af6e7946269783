"""Products of two activations."""

from fractions import Fraction
from math import prod

from deuteron.npu.neutron.ir.ops import BatchMatMul
from deuteron.npu.neutron.kernels.catalogue import MATMUL
from deuteron.npu.neutron.passes.lowering.builder import Builder
from deuteron.npu.neutron.passes.lowering.movement import move_box
from deuteron.npu.neutron.passes.lowering.strides import contiguous_strides
from deuteron.numerics import requant
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Ref


def batch_matmul(build: Builder, op: BatchMatMul) -> None:
    """Lowers a stack of matrix products to one call; a transposed operand is copied first."""
    x, y, out = (build.type(name) for name in (*op.inputs, *op.outputs))
    factor = requant(Fraction(x.q.scale) * Fraction(y.q.scale) / Fraction(out.q.scale))
    *leading, rows, columns = out.shape
    params = p.MatMulParams(
        batches=prod(leading), rows=rows, depth=x.shape[-2 if op.adj_x else -1], columns=columns,
        x_zp=x.q.zero_point, y_zp=y.q.zero_point, mult=factor.multiplier, shift=factor.shift,
        out_zp=out.q.zero_point, act_min=op.clamp.lo, act_max=op.clamp.hi,
    )  # fmt: skip
    flags = zip(op.inputs, (op.adj_x, op.adj_y), strict=True)
    left, right = (_transposed(build, op, name) if adjoint else build.tensor(name) for name, adjoint in flags)
    build.call(op, MATMUL, (left, right, build.tensor(op.outputs[0])), params)


def _transposed(build: Builder, op: BatchMatMul, name: str) -> Ref:
    """Return the operand with its last two dimensions swapped; a constant at compile time, another by a copy."""
    tensor = build.graph.tensor(name)
    if tensor.is_const:
        return build.array(f"{name}/transposed", tensor.array().swapaxes(-1, -2))
    *leading, rows, columns = tensor.type.shape
    *outer, row, column = contiguous_strides(tensor.type.shape)
    dims, walk = (*leading, columns, rows), (*outer, column, row)
    target = build.scratch(f"{op.outputs[0]}/{name}", tensor.type.nbytes)
    move_box(build, op, dims, (build.tensor(name), 0, walk), (target, 0, contiguous_strides(dims)))
    return target

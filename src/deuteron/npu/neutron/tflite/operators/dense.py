"""Operators on vectors and matrices, element by element, and reductions."""

import math
from collections.abc import Callable

from deuteron.npu.neutron.ir.ops import (
    Add,
    BatchMatMul,
    FullyConnected,
    Function,
    LeakyRelu,
    Lookup,
    Maximum,
    Mean,
    Minimum,
    Mul,
    Op,
    Prelu,
    Quantize,
    ReduceMax,
    ReduceMin,
    Softmax,
    Sub,
    Sum,
    Unary,
)
from deuteron.npu.neutron.ir.tables import ENTRIES
from deuteron.npu.neutron.tflite.operator_view import Site


def fully_connected(site: Site) -> Op:
    """The default weights format; a bias of INT32 or none; without one, matrices of any zero points as BATCH_MATMUL."""
    weights = site.input_tensor(1)
    if site.option("WeightsFormat"):
        raise site.unsupported("shuffled weights; the default weights format is allowed")
    if len(weights.shape) != 2:
        raise site.malformed(f"weights `{weights.name}` have {len(weights.shape)} dimensions instead of 2")
    if _is_product(site):
        return BatchMatMul(
            inputs=(site.operand(0), site.operand(1)),
            outputs=(site.output(),),
            origin=(site.index,),
            adj_y=True,
            clamp=site.clamp(),
        )
    return FullyConnected(
        inputs=(site.operand(0), site.weights(), site.bias(2, weights.shape[0])),
        outputs=(site.output(),),
        origin=(site.index,),
        clamp=site.clamp(),
    )


def _is_product(site: Site) -> bool:
    """True for two matrices, quantized like activations: exporters write `a @ b.T` as a fully connected layer."""
    x, y = (site.input_tensor(position) for position in (0, 1))
    matrices = len(x.shape) == 2 and x.shape[1] == y.shape[1]
    shifted = y.quant is not None and y.quant.axis is None and any(y.quant.zero_points)
    return matrices and shifted and not site.has_input(2)


def batch_matmul(site: Site) -> Op:
    """Both operands are stacks of equally many matrices, either of which may come transposed."""
    stacks = [site.input_tensor(position).shape[:-2] for position in (0, 1)]
    if stacks[0] != stacks[1]:
        raise site.unsupported(f"stacks {list(stacks[0])} and {list(stacks[1])} of matrices; they must be equal")
    return BatchMatMul(
        inputs=(site.operand(0), site.operand(1)),
        outputs=(site.output(),),
        origin=(site.index,),
        adj_x=bool(site.option("AdjX")),
        adj_y=bool(site.option("AdjY")),
    )


def binary(kind: type[Add | Sub | Mul]) -> Callable[[Site], Op]:
    """The reader of one kind of arithmetic."""

    def lower(site: Site) -> Op:
        """The operands broadcast; fused activations as listed."""
        return kind(
            inputs=(site.operand(0), site.operand(1)),
            outputs=(site.output(),),
            origin=(site.index,),
            clamp=site.clamp(),
        )

    return lower


def extremum(kind: type[Maximum | Minimum]) -> Callable[[Site], Op]:
    """The reader of an element-wise maximum or minimum."""

    def lower(site: Site) -> Op:
        """The operands broadcast."""
        return kind(inputs=(site.operand(0), site.operand(1)), outputs=(site.output(),), origin=(site.index,))

    return lower


def prelu(site: Site) -> Op:
    """The slopes broadcast to the input."""
    return Prelu(inputs=(site.operand(0), site.operand(1)), outputs=(site.output(),), origin=(site.index,))


def leaky_relu(site: Site) -> Op:
    """Any quantization of input and output."""
    alpha = float(site.op.options.get("Alpha", 0.0))
    if math.isnan(alpha):
        raise site.malformed("the slope is not a number")
    return LeakyRelu(inputs=(site.operand(0),), outputs=(site.output(),), origin=(site.index,), alpha=alpha)


def reduction(kind: type[Mean | Sum | ReduceMax | ReduceMin], name: str) -> Callable[[Site], Op]:
    """The reader of one kind of reduction, called `name` in messages."""

    def lower(site: Site) -> Op:
        """Axes are constant, at least one."""
        rank = len(site.input_tensor(0).shape)
        axes = tuple(sorted({site.axis(value, rank) for value in site.integers(1, "axes")}))
        if not axes:
            raise site.unsupported(f"a {name} over no axes; at least one is required")
        source = site.moved(0) if kind in (ReduceMax, ReduceMin) else site.operand(0)
        return kind(inputs=(source,), outputs=(site.output(),), origin=(site.index,), axes=axes)

    return lower


def softmax(site: Site) -> Op:
    """Over the innermost dimension; beta is positive."""
    beta = float(site.op.options.get("Beta", 0.0))
    if not (math.isfinite(beta) and beta > 0):
        raise site.malformed(f"beta {beta:g}; a positive number is required")
    return Softmax(inputs=(site.operand(0),), outputs=(site.output(),), origin=(site.index,), beta=beta)


def quantize(site: Site) -> Op:
    """From INT8 to INT8: another quantization of the same values."""
    return Quantize(inputs=(site.operand(0),), outputs=(site.output(),), origin=(site.index,))


def lookup(site: Site) -> Op:
    """Any function: the operator's 256 bytes are the results for the stored values -128 to 127."""
    table = site.op.custom_options
    if len(table) != ENTRIES:
        raise site.malformed(f"a table of {len(table)} entries instead of {ENTRIES}")
    entries = tuple(entry - 256 if entry > 127 else entry for entry in table)
    return Lookup(inputs=(site.operand(0),), outputs=(site.output(),), origin=(site.index,), entries=entries)


def unary(function: Function) -> Callable[[Site], Op]:
    """The reader of one function."""

    def lower(site: Site) -> Op:
        """Any quantization of input and output."""
        return Unary(inputs=(site.operand(0),), outputs=(site.output(),), origin=(site.index,), function=function)

    return lower

"""The NPU's constraints as a table: a rule is a function whose docstring is the sentence that users read.

A rule returns what it found when it is broken, else None. `select` asks them before it lowers an op. Rules rely on a
verified graph, and on those above them in the table.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from math import gcd, prod
from types import MappingProxyType

import numpy as np

from deuteron import numerics
from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.types import Tensor
from deuteron.npu.neutron.ir.verify import SPATIAL, WEIGHTED
from deuteron.npu.neutron.passes.lowering.strides import Ints, broadcast_strides, collapse, contiguous_strides
from deuteron.operators.kernel_params import BINARY_RANK, RANK
from deuteron.operators.limits import MAX_DIMENSION, MAX_MATMUL_DEPTH, MAX_REDUCTION

Constraint = Callable[[ops.Op, Graph], str | None]

MAX_NEAREST_COPIES = 256
LARGEST_WEIGHT = 128


def check(op: ops.Op, graph: Graph) -> None:
    """Check every constraint of the op.

    Raises:
        UnsupportedError: with the constraint's sentence and what was found; it does not say where.
    """
    for kinds, rule in CONSTRAINTS:
        problem = rule(op, graph) if isinstance(op, kinds) else None
        if problem is not None:
            text = sentence(rule).rstrip(".")
            raise UnsupportedError(f"{text[0].lower()}{text[1:]}; {problem}", hint=_HINTS.get(rule))


def sentence(rule: Constraint) -> str:
    """The sentence of a constraint."""
    return " ".join(str(rule.__doc__).split())


# Sizes.


def _map_size(op: ops.Op, graph: Graph) -> str | None:
    """Dimensions, windows, strides and dilations are at most 65,536."""
    for name in (*op.inputs[:2], *op.outputs):
        if max(graph.type(name).shape, default=1) > MAX_DIMENSION:
            return f"`{name}` has shape {list(graph.type(name).shape)}"
    for field in ("window", "stride", "dilation"):
        if max(getattr(op, field, (1, 1))) > MAX_DIMENSION:
            return f"{field} is {getattr(op, field)}"
    return None


def _matrix_size(op: ops.Op, graph: Graph) -> str | None:
    """Matrices have at most 65,536 rows and columns, and a stack has at most 65,536 of them."""
    shapes = [graph.type(name).shape for name in (*op.inputs[:2], *op.outputs)]
    if isinstance(op, ops.FullyConnected):
        height, width = shapes[1]
        shapes = [(prod(shapes[0]) // width, width), (height, width)]
    sizes = ([prod(shape[:-2]), *shape[-2:]] for shape in shapes)
    return next((f"found {' x '.join(map(str, size))}" for size in sizes if max(size) > MAX_DIMENSION), None)


def _matmul_depth(op: ops.Op, graph: Graph) -> str | None:
    """A sum of a matrix product has at most 32,768 terms."""
    depth = graph.type(op.inputs[0]).shape[-2 if isinstance(op, ops.BatchMatMul) and op.adj_x else -1]
    return None if depth <= MAX_MATMUL_DEPTH else f"found {depth}"


def _window_area(op: ops.Op, _: Graph) -> str | None:
    """The window of an average pool has at most 8,388,608 elements."""
    area = prod(op.window) if isinstance(op, ops.AveragePool2D) else 1
    return None if area <= MAX_REDUCTION else f"found {area}"


def _reduced_size(op: ops.Op, graph: Graph) -> str | None:
    """A reduction covers at most 8,388,608 elements."""
    count = graph.type(op.inputs[0]).numel // graph.type(op.outputs[0]).numel
    return None if count <= MAX_REDUCTION else f"found {count}"


def _kept_size(op: ops.Op, graph: Graph) -> str | None:
    """Before and after the reduced dimensions of a tensor are at most 65,536 elements."""
    shape = graph.type(op.inputs[0]).shape
    axes = [axis for axis in _axes(op) if shape[axis] > 1]
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    first, last = (axes[0], axes[-1]) if axes else (len(shape), len(shape))
    if any(first < axis < last and shape[axis] > 1 for axis in kept):
        first = last = len(shape)  # a copy moves the reduced dimensions to the end
    before, after = (prod(shape[axis] for axis in kept if (axis < first) is side) for side in (True, False))
    return None if max(before, after) <= MAX_DIMENSION else f"found {before} and {after}"


def _axes(op: ops.Op) -> tuple[int, ...]:
    return op.axes if isinstance(op, ops.ReductionOp) else ()


def _softmax_size(op: ops.Op, graph: Graph) -> str | None:
    """A softmax has at most 65,536 rows of at most 65,536 elements."""
    *outer, depth = graph.type(op.inputs[0]).shape
    return None if max(prod(outer), depth) <= MAX_DIMENSION else f"found {prod(outer)} rows of {depth}"


# Strided walks.


def _broadcast_walk(op: ops.Op, graph: Graph) -> str | None:
    """A broadcast takes at most 5 dimensions of at most 65,536; adjacent ones with one access pattern count as one."""
    shape = graph.type(op.outputs[0]).shape
    a, b = (broadcast_strides(graph.type(name).shape, shape) for name in op.inputs)
    return _walk_problem(shape, (a, b, contiguous_strides(shape)), BINARY_RANK)


def _copy_walk(op: ops.Op, graph: Graph) -> str | None:
    """A copy takes at most 6 dimensions of at most 65,536; adjacent ones with one access pattern count as one."""
    problems = (_walk_problem(shape, strides, RANK) for shape, *strides in _copies(op, graph))
    return next((problem for problem in problems if problem), None)


def _copies(op: ops.Op, graph: Graph) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Shape, strides read and strides written of each copy that the op becomes."""
    read = [contiguous_strides(graph.type(name).shape) for name in op.inputs]
    shape, write = graph.type(op.outputs[0]).shape, contiguous_strides(graph.type(op.outputs[0]).shape)
    match op:
        case ops.Transpose():
            yield shape, tuple(read[0][axis] for axis in op.perm), write
        case ops.Slice():
            yield shape, read[0], write
        case ops.MirrorPad():
            source = graph.type(op.inputs[0]).shape
            sides = ((dim, *(pad for pad in pads if pad)) for dim, pads in zip(source, op.paddings, strict=True))
            for sizes in product(*sides):
                signs = (1 if size == dim else -1 for size, dim in zip(sizes, source, strict=True))
                yield sizes, tuple(stride * sign for stride, sign in zip(read[0], signs, strict=True)), write
        case _:
            for name, strides in zip(op.inputs, read, strict=True):
                yield graph.type(name).shape, strides, write


def _walk_problem(shape: Ints, strides: tuple[Ints, ...] | list[Ints], rank: int) -> str | None:
    dims, _ = collapse(shape, tuple(strides))
    return None if len(dims) <= rank and max(dims, default=1) <= MAX_DIMENSION else f"found {list(dims)}"


def _nearest_copies(op: ops.Op, graph: Graph) -> str | None:
    """A nearest resize takes at most 256 copies: one per row and column between which its pattern repeats."""
    (_, in_h, in_w, _), (_, out_h, out_w, _) = (graph.type(name).shape for name in (*op.inputs, *op.outputs))
    runs = [min(size, out) // gcd(size, out) for size, out in ((in_h, out_h), (in_w, out_w))]
    return None if prod(runs) <= MAX_NEAREST_COPIES else f"{in_h}x{in_w} to {out_h}x{out_w} takes {prod(runs)}"


# Values.


def _constant_bias(op: ops.Op, graph: Graph) -> str | None:
    """A bias is a constant, whose values bound the sums."""
    return None if graph.tensor(op.inputs[2]).is_const else f"`{op.inputs[2]}` is computed"


def _constant_weights(op: ops.Op, graph: Graph) -> str | None:
    """The weights of a transposed convolution are constants, which are turned round before the model runs."""
    return None if graph.tensor(op.inputs[1]).is_const else f"`{op.inputs[1]}` is computed"


def _accumulators(op: ops.Op, graph: Graph) -> str | None:
    """For each output channel, 255 times the sum of its weights' magnitudes, plus that of its bias, is below 2^31."""
    weights, bias = (graph.tensor(name) for name in op.inputs[1:])
    rows = _rows(weights, 3 if isinstance(op, ops.DepthwiseConv2D) else 0)
    return _refusal(lambda: numerics.check_accumulators(rows, bias.array()))


def _rows(weights: Tensor, axis: int) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """The weights of each channel; where they are not known yet, the sum of the largest there are."""
    channels = weights.type.shape[axis]
    if not weights.is_const:
        return np.full((channels, 1), LARGEST_WEIGHT * (weights.type.numel // channels), np.int64)
    return np.moveaxis(weights.array(), axis, 0).reshape(channels, -1)


def _factor(op: ops.Op, graph: Graph) -> str | None:
    """The factors from input to output steps are below 2^30."""
    largest = max(_factors(op, graph))
    return None if largest < numerics.FACTOR_LIMIT else f"found {float(largest):g}"


def _factors(op: ops.Op, graph: Graph) -> Iterator[Fraction]:
    """The largest factors of the op's sums or products."""
    quants = [graph.type(name).q for name in (*op.inputs[:2], *op.outputs)]
    x, out = quants[0].scale, Fraction(quants[-1].scale)
    match op:
        case ops.Add() | ops.Sub():
            yield from (Fraction(quant.scale) / out for quant in quants[:2])
        case ops.AveragePool2D() | ops.Mean() | ops.Sum():
            yield Fraction(x) / out
        case _:
            yield Fraction(x) * Fraction(max(quants[1].scales)) / out
            if isinstance(op, ops.Prelu):
                yield Fraction(x) / out


def _softmax_scale(op: ops.Op, graph: Graph) -> str | None:
    """The scale of a softmax's result is within 2^-31..2^16."""
    scale = graph.type(op.outputs[0]).q.scale
    return None if _refusal(lambda: numerics.softmax_multiplier(scale)) is None else f"found {scale:g}"


def _refusal(compute: Callable[[], object]) -> str | None:
    """Return the message of an error that the computation raises; None without one."""
    try:
        compute()
    except UnsupportedError as error:
        return error.message
    return None


RESIZES = (ops.ResizeBilinear, ops.ResizeNearest)
MOVING = (ops.Transpose, ops.Slice, ops.Pad, ops.MirrorPad, ops.Concat)
SCALED = (*WEIGHTED, ops.BatchMatMul, ops.Add, ops.Sub, ops.Mul, ops.Prelu, ops.AveragePool2D, ops.Mean, ops.Sum)

CONSTRAINTS: tuple[tuple[type[ops.Op] | tuple[type[ops.Op], ...], Constraint], ...] = (
    ((*SPATIAL, *RESIZES), _map_size),
    ((ops.FullyConnected, ops.BatchMatMul), _matrix_size),
    (ops.BatchMatMul, _matmul_depth),
    (ops.AveragePool2D, _window_area),
    (ops.ReductionOp, _reduced_size),
    (ops.ReductionOp, _kept_size),
    (ops.Softmax, _softmax_size),
    (ops.BinaryOp, _broadcast_walk),
    (MOVING, _copy_walk),
    (ops.ResizeNearest, _nearest_copies),
    (WEIGHTED, _constant_bias),
    (ops.TransposeConv, _constant_weights),
    (WEIGHTED, _accumulators),
    (SCALED, _factor),
    (ops.Softmax, _softmax_scale),
)

_HINTS: Mapping[Constraint, str] = MappingProxyType(
    {
        _accumulators: "split the layer, or recalibrate: an outsized bias comes from a tiny input or weight scale",
        _factor: numerics.HINT_SCALES,
        _softmax_scale: numerics.HINT_SCALES,
    }
)
"""Hints for rules that the general hint does not fit."""

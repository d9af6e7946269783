"""Operators that take axes away."""

from tests.graphs.builder import Builder

from deuteron.npu.neutron.ir.ops import Mean, ReduceMax, ReduceMin, Sum
from deuteron.npu.neutron.ir.types import Tensor


def reduction(build: Builder, x: Tensor) -> None:
    """A mean, a sum or an extremum over some axes, which stay or go."""
    rank = len(x.type.shape)
    axes = tuple(axis for axis in range(rank) if build.chance(0.5)) or (rank - 1,)
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(x.type.shape))
    keep = build.chance(0.5) or len(axes) == rank  # numpy has no arrays of rank 0, only scalars
    shape = kept if keep else tuple(dim for axis, dim in enumerate(x.type.shape) if axis not in axes)
    count = x.type.numel / max(1, _product(shape))
    kind = build.pick((Mean, Mean, Sum, ReduceMax, ReduceMin))
    quant = x.type.q
    if kind is Mean and build.chance(0.5):
        quant = build.quant(x.type.q.scale * build.factor(0.3, 1.5))
    if kind is Sum:
        quant = build.quant(x.type.q.scale * count**0.5 * build.factor(0.5, 4))
    outputs, origin = build.fields()
    build.emit(kind(inputs=(x.name,), outputs=outputs, origin=origin, axes=axes), quant, shape)


def _product(shape: tuple[int, ...]) -> int:
    total = 1
    for dim in shape:
        total *= dim
    return total

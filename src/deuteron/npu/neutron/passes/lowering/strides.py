"""Shapes and strides for the strided kernels."""

from deuteron.operators.limits import MAX_DIMENSION

Ints = tuple[int, ...]


def contiguous_strides(shape: Ints) -> Ints:
    """Return the strides of a row-major array in elements."""
    strides: list[int] = []
    step = 1
    for dim in reversed(shape):
        strides.append(step)
        step *= dim
    return tuple(reversed(strides))


def broadcast_strides(shape: Ints, target: Ints) -> Ints:
    """Return the strides that broadcast a row-major array of `shape` to `target`."""
    missing = len(target) - len(shape)
    strides = zip(shape, contiguous_strides(shape), strict=True)
    return (0,) * missing + tuple(0 if dim == 1 else stride for dim, stride in strides)


def collapse(shape: Ints, operands: tuple[Ints, ...]) -> tuple[Ints, tuple[Ints, ...]]:
    """Return the smallest number of dimensions with the same accesses of all operands.

    Dimensions of 1 are removed, and neighbours merged if they are contiguous for every operand, up to the largest
    dimension of a kernel. A larger dimension is split if it has a suitable divisor.
    """
    dims: list[int] = []
    walks: list[Ints] = []
    for axis, whole in enumerate(shape):
        walk = tuple(strides[axis] for strides in operands)
        for dim, times in _parts(whole):
            step = tuple(stride * times for stride in walk)
            joins = dims and all(outer == inner * dim for outer, inner in zip(walks[-1], step, strict=True))
            if joins and dims[-1] * dim <= MAX_DIMENSION:
                dims[-1] *= dim
                walks[-1] = step
            else:
                dims.append(dim)
                walks.append(step)
    return tuple(dims), tuple(tuple(walk[i] for walk in walks) for i in range(len(operands)))


def _parts(dim: int) -> tuple[tuple[int, int], ...]:
    """Split `dim` into nested dimensions, outermost first: (size, elements per step); none if it is 1."""
    if dim == 1:
        return ()
    if dim > MAX_DIMENSION:
        for inner in range(MAX_DIMENSION, dim // MAX_DIMENSION, -1):
            if dim % inner == 0:
                return (dim // inner, inner), (inner, 1)
    return ((dim, 1),)


def fill_rank(values: Ints, rank: int, filler: int) -> Ints:
    """Return `values` padded with `filler` in front to `rank` items."""
    return (filler,) * (rank - len(values)) + values

"""Collapsed dimensions walk the same elements in the same order."""

from itertools import product

import numpy as np
import pytest

from deuteron.npu.neutron.passes.lowering.strides import Ints, broadcast_strides, collapse, contiguous_strides


def _offsets(dims: Ints, strides: Ints) -> list[int]:
    return [sum(i * s for i, s in zip(index, strides, strict=True)) for index in product(*map(range, dims))]


@pytest.mark.parametrize(
    ("shape", "perm", "rank"),
    [
        ((2, 3, 4), (0, 1, 2), 1),
        ((2, 3, 4), (0, 2, 1), 3),
        ((1, 3, 4, 5), (0, 2, 3, 1), 2),
        ((2, 3, 1, 5), (3, 2, 0, 1), 2),
        ((1, 1), (1, 0), 0),
        ((2, 3, 2, 3, 2), (4, 3, 2, 1, 0), 5),
    ],
)
def test_transposes(shape: Ints, perm: Ints, rank: int) -> None:
    dims = tuple(shape[axis] for axis in perm)
    read = tuple(contiguous_strides(shape)[axis] for axis in perm)
    fewer, (fewer_read, fewer_write) = collapse(dims, (read, contiguous_strides(dims)))
    assert len(fewer) == rank
    assert _offsets(fewer, fewer_read) == _offsets(dims, read)
    assert _offsets(fewer, fewer_write) == list(range(int(np.prod(dims))))


@pytest.mark.parametrize(
    ("shape", "target", "dims", "strides"),
    [
        ((2, 3, 4), (2, 3, 4), (24,), (1,)),
        ((), (2, 3, 4), (24,), (0,)),
        ((4,), (2, 3, 4), (6, 4), (0, 1)),
        ((2, 1, 1), (2, 3, 4), (2, 12), (1, 0)),
        ((1, 3, 1), (2, 3, 4), (2, 3, 4), (0, 1, 0)),
    ],
)
def test_broadcasts(shape: Ints, target: Ints, dims: Ints, strides: Ints) -> None:
    found, (walk, _) = collapse(target, (broadcast_strides(shape, target), contiguous_strides(target)))
    assert (found, walk) == (dims, strides)


def test_no_dimension_exceeds_what_kernels_take() -> None:
    assert collapse((256, 512), ((512, 1),)) == ((256, 512), ((512, 1),))
    assert collapse((100_000,), ((1,),)) == ((2, 50_000), ((50_000, 1),))
    assert collapse((65_537,), ((1,),)) == ((65_537,), ((1,),))  # prime: the kernel's limit is for the caller to tell

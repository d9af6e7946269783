"""Operators that only move elements: the copies that they become, followed step by step, move what numpy moves."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from deuteron.board.operators import Argument, RefusedError, Tensor, lower
from deuteron.operators.cortex_m import GatherParams, RegionCopyParams
from deuteron.runtime.program import Constant, Place, TensorSpec, TensorValue

Array = npt.NDArray[np.int16]

X = np.arange(2 * 3 * 4 * 5, dtype=np.int16).reshape(2, 3, 4, 5)
ORDERS = ((0, 1, 2, 3), (0, 2, 3, 1))

CASES: dict[str, tuple[str, Sequence[Argument], Array]] = {
    "permute": ("aten::permute_copy.out", [(0, 3, 1, 2)], X.transpose(0, 3, 1, 2)),
    "view": ("aten::view_copy.out", [(6, 20)], X.reshape(6, 20)),
    "select": ("aten::select_copy.int_out", [-2, 3], X[:, :, 3]),
    "slice": ("aten::slice_copy.Tensor_out", [3, 1, 5, 2], X[:, :, :, 1:5:2]),
    "slice from the end": ("aten::slice_copy.Tensor_out", [1, -2, None, 1], X[:, -2:]),
    "expand": ("aten::expand_copy.out", [(7, 2, 3, 4, 5), False], np.broadcast_to(X, (7, *X.shape))),
    "upsample": ("aten::upsample_nearest2d.vec_out", [None, (1.0, 3.0)], X.repeat(3, axis=3)),
    "clone": ("dim_order_ops::_clone_dim_order.out", [False, (0, 1, 2, 3)], X),
    "unsqueeze": ("aten::unsqueeze_copy.out", [1], X[:, None]),
}


def tensor(index: int, shape: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
    """An int16 tensor."""
    spec = TensorSpec(shape, "int16", order)
    return Tensor(index, TensorValue(spec, 2 * math.prod(shape), None, None, dynamic=False, external=False))


def follow(operator: str, args: Sequence[Argument], memories: dict[int, bytes], outputs: Sequence[Tensor]) -> None:
    """Fills the memories of the outputs, which stand twice at the end of the arguments."""
    written = {y.index: bytearray(b"\xee" * y.bytes) for y in outputs}
    for call in lower(operator, args):
        assert call.function == "dtn_cm_copy"
        signed = tuple(word - (word >> 31 << 32) for word in call.params)
        p = RegionCopyParams.from_words(signed)
        source, target = memories[call.inputs[0].index], written[call.outputs[0].index]
        for at in itertools.product(*map(range, p.dims)):
            to = p.out_start + sum(i * step for i, step in zip(at, p.out_strides, strict=True))
            target[to] = source[p.in_start + sum(i * step for i, step in zip(at, p.in_strides, strict=True))]
    memories |= {index: bytes(data) for index, data in written.items()}


def stored(x: Array, order: tuple[int, ...]) -> bytes:
    """The bytes of an array in memory."""
    return np.ascontiguousarray(x.transpose(order)).tobytes()


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_one_output(name: str, order: tuple[int, ...]) -> None:
    operator, args, expected = CASES[name]
    x, y = tensor(0, X.shape, order), tensor(1, expected.shape, tuple(range(expected.ndim)))
    memories = {0: stored(X, order)}
    follow(operator, [x, *args, y, y], memories, [y])
    assert memories[1] == stored(expected, tuple(range(expected.ndim)))


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenation(axis: int, order: tuple[int, ...]) -> None:
    expected = np.concatenate([X, X + 500], axis=axis)
    a, b, y = tensor(0, X.shape, (0, 1, 2, 3)), tensor(1, X.shape, order), tensor(2, expected.shape, order)
    memories = {0: stored(X, (0, 1, 2, 3)), 1: stored(X + 500, order)}
    follow("aten::cat.out", [(a, b), axis, y, y], memories, [y])
    assert memories[2] == stored(expected, order)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("axis", [0, 2, -1])
def test_stack(axis: int, order: tuple[int, ...]) -> None:
    expected = np.stack([X, X + 500, X - 7], axis=axis)
    parts = [tensor(i, X.shape, order) for i in range(3)]
    y = tensor(3, expected.shape, tuple(range(5)))
    memories = {0: stored(X, order), 1: stored(X + 500, order), 2: stored(X - 7, order)}
    follow("aten::stack.out", [tuple(parts), axis, y, y], memories, [y])
    assert memories[3] == stored(expected, tuple(range(5)))


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("indices", [[2, 1, 0, 1, 2, 3, 2, 1], [0, 0, 0, 1, 3, 3], [1], [3, 0, 2], []], ids=str)
def test_constant_indices(indices: list[int], dtype: str, order: tuple[int, ...]) -> None:
    """Reflected, repeated at the edge, one, in no order, none: each run of one step is a copy."""
    expected = X[:, :, indices]
    data = np.array(indices, dtype).tobytes()
    spec = TensorSpec((len(indices),), dtype, (0,))
    chosen = TensorValue(spec, len(data), None, Constant(data, 0, len(data)), dynamic=False, external=False)
    x, y = tensor(0, X.shape, order), tensor(1, expected.shape, order)
    memories = {0: stored(X, order)}
    follow("aten::index_select.out", [x, -2, Tensor(2, chosen), y, y], memories, [y])
    assert memories[1] == stored(expected, order)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_other_indices_are_gathered(dtype: str) -> None:
    indices = Tensor(2, TensorValue(TensorSpec((2, 3), dtype, (0, 1)), 24, Place(1, 0), None, False, False))
    x, y = tensor(0, X.shape, ORDERS[0]), tensor(1, (2, 6, 4, 5), ORDERS[0])
    (call,) = lower("aten::index_select.out", [x, 1, indices, y, y])
    assert (call.function, call.params) == ("dtn_cm_gather", GatherParams(2, 3, 40, 6).words())
    last = tensor(0, X.shape, ORDERS[1])
    with pytest.raises(
        RefusedError, match=r"^gathers from a tensor in channels-last memory, firmware supports only the order"
    ):
        lower("aten::index_select.out", [last, 1, indices, y, y])


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_split(order: tuple[int, ...]) -> None:
    parts = np.split(X, [1, 4], axis=3)
    x = tensor(0, X.shape, order)
    outputs = [tensor(i, part.shape, order) for i, part in enumerate(parts, 1)]
    memories = {0: stored(X, order)}
    follow("aten::split_with_sizes_copy.out", [x, (1, 3, 1), 3, tuple(outputs), None], memories, outputs)
    for i, part in enumerate(parts, 1):
        assert memories[i] == stored(part, order)


@pytest.mark.parametrize(
    ("shape", "orders", "innermost"),
    [
        ((1, 3, 32, 32), ((0, 1, 2, 3), (0, 2, 3, 1)), (1024, 2, 6)),  # three channels of a map
        ((1, 64, 5, 5), ((0, 2, 3, 1), (0, 1, 2, 3)), (64, 2, 50)),
        ((1, 8, 3, 100), ((0, 1, 2, 3), (0, 2, 1, 3)), (200, 1, 1)),  # rows of 100 elements change places
    ],
    ids=str,
)
def test_a_copy_walks_innermost_along_words_or_the_longest_side(
    shape: tuple[int, ...], orders: tuple[tuple[int, ...], tuple[int, ...]], innermost: tuple[int, int, int]
) -> None:
    x, y = (tensor(i, shape, order) for i, order in enumerate(orders))
    (call,) = lower("dim_order_ops::_clone_dim_order.out", [x, False, (0, 1, 2, 3), y, y])
    p = RegionCopyParams.from_words(call.params)
    assert (p.dims[-1], p.in_strides[-1], p.out_strides[-1]) == innermost

"""Pad and copy of the Cortex-M operators."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.cortex_m.executorch_definitions import wheel
from tests.cortex_m.operator_library import Array, OperatorLibrary, RefusedError

from deuteron.board import operators
from deuteron.operators.cortex_m import GatherParams, PadParams, RegionCopyParams
from deuteron.operators.kernel_params import CopyParams, Dims4
from deuteron.runtime.program import Place, TensorSpec, TensorValue

COPY = RegionCopyParams(1, 2, (1, 1, 1, 1, 2, 3), (0, 0, 0, 0, 5, 1), (0, 0, 0, 0, 1, 2))


@pytest.mark.parametrize("channels_last", [False, True])
def test_pad(c_operators: OperatorLibrary, channels_last: bool, seed: int) -> None:
    generator = np.random.default_rng([8, seed])
    a, b, c, d = (int(n) for n in generator.integers(1, 7, 4))
    x = generator.integers(-128, 128, (a, b, c, d)).astype(np.int8)
    before, after = ([int(n) for n in generator.integers(0, 4, 4)] for _ in range(2))
    value = int(generator.choice([-128, 127, 0, -5]))
    if not channels_last and (b == 1 or c == d == 1):
        x = np.repeat(np.repeat(x, 2, axis=1), 2, axis=3)  # where the wheel would take either order
    p = PadParams(x.shape, tuple(before), tuple(after), value)  # pyright: ignore[reportArgumentType]
    expected = wheel("pad", x, before, after, value, channels_last=channels_last)
    np.testing.assert_array_equal(c_operators.run("pad", (x,), p, np.empty(expected.shape, np.int8)), expected)


@pytest.mark.parametrize(
    "change",
    [
        {"value": 128}, {"value": -129}, {"dims": (1, 2, 3, 0)}, {"dims": (1, 2, 3, 5)}, {"before": (0, 0, 0, -1)},
        {"after": (0, 0, 1, 0)}, {"dims": (65537, 1, 1, 1)}, {"before": (65537, 0, 0, 0)},
        {"after": (65536, 65536, 65536, 65536)},
    ],
    ids=str,
)  # fmt: skip
def test_pad_refuses(c_operators: OperatorLibrary, change: dict[str, int]) -> None:
    p = PadParams((1, 2, 3, 4), (0, 0, 0, 0), (0, 0, 0, 1), 0)
    x, out = np.zeros((1, 2, 3, 4), np.int8), np.zeros((1, 2, 3, 5), np.int8)
    c_operators.run("pad", (x,), p, out)
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("pad", (x,), replace(p, **change), out)


@pytest.mark.parametrize(
    ("before", "is_taken"),
    [((0, -2, 0, 0), True), ((0, -3, 0, 0), False), ((-1, 0, 0, 0), False), ((0, 0, -1, 0), False)],
    ids=["a row", "no row", "batches", "columns"],
)
def test_pad_leaves_out_rows_alone(c_operators: OperatorLibrary, before: Dims4, *, is_taken: bool) -> None:
    p = PadParams((2, 3, 2, 4), before, (0, 0, 0, 0), 5)
    x = np.arange(48, dtype=np.int8).reshape(2, 3, 2, 4)
    shape = tuple(dim + more for dim, more in zip(x.shape, before, strict=True))
    if is_taken:
        np.testing.assert_array_equal(c_operators.run("pad", (x,), p, np.empty(shape, np.int8)), x[:, 2:])
        return
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("pad", (x,), p, np.empty(shape, np.int8))


def tensor(index: int, x: Array, order: Sequence[int]) -> operators.Tensor:
    """A value of a program in this order of dimensions."""
    spec = TensorSpec(x.shape, x.dtype.name, tuple(order))
    return operators.Tensor(index, TensorValue(spec, x.nbytes, Place(1, 0), None, dynamic=False, external=False))


def test_transpose(c_operators: OperatorLibrary, seed: int) -> None:
    generator = np.random.default_rng([9, seed])
    for rank in range(1, 5):
        x = generator.integers(-128, 128, generator.integers(1, 6, rank)).astype(np.int8)
        perm = tuple(int(n) for n in generator.permutation(rank))
        expected = wheel("transpose", x, list(perm))
        orders = [[int(n) for n in generator.permutation(rank)] for _ in range(2)]
        given, wanted = tensor(0, x, orders[0]), tensor(1, expected, orders[1])
        (call,) = operators.lower("cortex_m::transpose.out", (given, perm, wanted, wanted))
        memory = np.ascontiguousarray(x.transpose(orders[0]))
        output = np.ascontiguousarray(expected.transpose(orders[1]))
        found = c_operators.call(call.function, call.params, [memory], [], np.zeros_like(output))
        np.testing.assert_array_equal(found, output)


def test_the_record_of_a_copy_continues_with_the_kernels() -> None:
    assert RegionCopyParams.field_words()[1:] == CopyParams.field_words()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.float32], ids=str)
def test_copy_writes_only_its_region(c_operators: OperatorLibrary, dtype: type[np.generic]) -> None:
    x = np.arange(32, dtype=np.uint8).view(dtype)
    out = np.full(16, 99, np.uint8).view(dtype)
    found = c_operators.run("copy", (x,), COPY, out).view(np.uint8)
    expected = np.full(16, 99, np.uint8)
    for i in range(2):
        for j in range(3):
            expected[1 + i + 2 * j] = 2 + 5 * i + j
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "change",
    [
        {"out_start": -1}, {"out_start": 11}, {"out_start": 16}, {"in_start": -1}, {"in_start": 30},
        {"dims": (1, 1, 1, 1, 2, 0)}, {"out_strides": (0, 0, 0, 0, 1, 1)}, {"in_strides": (0, 0, 0, 0, -5, 1)},
        {"in_strides": (0, 0, 0, 0, 5, 20)},
    ],
    ids=str,
)  # fmt: skip
def test_copy_refuses(c_operators: OperatorLibrary, change: dict[str, object]) -> None:
    x, out = np.zeros(32, np.int8), np.zeros(16, np.int8)
    c_operators.run("copy", (x,), COPY, out)
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("copy", (x,), replace(COPY, **change), out)  # pyright: ignore[reportArgumentType]


def test_copy_keeps_to_one_type(c_operators: OperatorLibrary) -> None:
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("copy", (np.zeros(32, np.int8),), COPY, np.zeros(16, np.uint8))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_gather(c_operators: OperatorLibrary, dtype: type[np.generic], index: type[np.generic], seed: int) -> None:
    generator = np.random.default_rng([10, seed])
    outer, rows, width, count = (int(n) for n in generator.integers(1, 7, 4))
    table = generator.integers(-128, 128, (outer, rows, width)).astype(dtype)
    indices = generator.integers(0, rows, count).astype(index)
    p = GatherParams(outer, rows, table[0, 0].nbytes, count)
    out = np.empty((outer, count, width), dtype)
    np.testing.assert_array_equal(c_operators.run("gather", (table, indices), p, out), table[:, indices])


@pytest.mark.parametrize(
    "change",
    [{"outer": 0}, {"outer": 2}, {"rows": 3}, {"row_bytes": 4}, {"count": 3}, {"count": -2}, {"rows": 65537}],
    ids=str,
)
def test_gather_refuses(c_operators: OperatorLibrary, change: dict[str, int]) -> None:
    p = GatherParams(1, 2, 3, 2)
    table, out = np.zeros((1, 2, 3), np.int8), np.zeros((1, 2, 3), np.int8)
    c_operators.run("gather", (table, np.zeros(2, np.int64)), p, out)
    for values in ((table, np.zeros(2, np.int64)), (table, np.zeros(2, np.int32))):
        with pytest.raises(RefusedError, match="72"):
            c_operators.run("gather", values, replace(p, **change), out)
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("gather", (table, np.zeros(2, np.float32)), p, out)


@pytest.mark.parametrize("index", [-1, 2, 1 << 32])
def test_gather_stops_at_an_index_of_no_row(c_operators: OperatorLibrary, index: int) -> None:
    table, out = np.zeros((1, 2, 3), np.int8), np.zeros((1, 2, 3), np.int8)
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("gather", (table, np.array([0, index])), GatherParams(1, 2, 3, 2), out)

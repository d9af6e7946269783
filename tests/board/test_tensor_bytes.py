"""Arrays as bytes of values and back."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuteron.board.bundle import ElementType, Value
from deuteron.board.tensor_bytes import DTYPES, from_bytes, to_bytes
from deuteron.errors import InputError

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def value(shape: tuple[int, ...], order: tuple[int, ...], kind: ElementType = ElementType.S16) -> Value:
    size = math.prod(shape) * DTYPES[kind].itemsize
    return Value(0, 0, size, kind, shape, order, "input 0")


@given(shape=SHAPES, kind=st.sampled_from(ElementType), data=st.data())
def test_an_array_comes_back(shape: tuple[int, ...], kind: ElementType, data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    place = value(shape, order, kind)
    array = np.arange(math.prod(shape)).astype(DTYPES[kind]).reshape(shape)
    stored = to_bytes(place, array)
    assert len(stored) == place.bytes
    back = from_bytes(place, stored)
    assert (back.shape, back.dtype) == (array.shape, array.dtype)
    assert np.array_equal(back, array)


def test_the_last_dimension_of_the_order_is_innermost() -> None:
    array = np.arange(6, dtype=np.int16).reshape(1, 2, 3, 1)
    assert to_bytes(value((1, 2, 3, 1), (0, 2, 3, 1)), array) == np.array([0, 3, 1, 4, 2, 5], "<i2").tobytes()


@pytest.mark.parametrize("array", [np.zeros((2, 3), np.int8), np.zeros((3, 2), np.int16)])
def test_other_arrays_are_refused(array: np.ndarray) -> None:
    with pytest.raises(InputError) as caught:
        to_bytes(value((2, 3), (0, 1)), array)
    assert str(caught.value) == (
        f"input 0 is int16 (2, 3), an array {array.dtype.name} {array.shape} was given\n\n"
        "hint: give an array of that type and shape"
    )


def test_other_sizes_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        from_bytes(value((2, 3), (0, 1)), bytes(11))
    assert str(caught.value) == "input 0 has 12 bytes, 11 were given\n\nhint: give all of its bytes"

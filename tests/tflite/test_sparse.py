"""Sparse tensors: LiteRT's DENSIFY gives the same values."""

import numpy as np
import pytest
from tests.tflite.subgraphs import Sparse, file_of
from tests.tflite.test_normalize import Net

from deuteron.errors import FormatError
from deuteron.runtime.litert import Litert
from deuteron.runtime.tflite_model import prepare
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import FlatModel

CSR = Sparse((0, 1), (4, ((0, 2, 2, 3, 4), (0, 3, 1, 5))))
BLOCKS = Sparse((0, 1, 2, 3), (2, ((0, 1, 3), (2, 0, 1)), 2, 2), (0, 1))
COLUMNS = Sparse((1, 0), (6, ((0, 1, 1, 2, 3, 3, 4), (0, 2, 1, 3))))


def densifying(values: int) -> FlatModel:
    """A sum with a sparse constant."""
    net = Net()
    x = net.tensor((4, 6), "FLOAT32")
    data = np.arange(1, values + 1, dtype="<f4").tobytes()
    constant = net.tensor((4, 6), "FLOAT32", None, data)
    dense = net.op("DENSIFY", [constant], [net.tensor((4, 6), "FLOAT32")], "DensifyOptions")
    return net.model([x], [net.op("ADD", [x, dense], [net.tensor((4, 6), "FLOAT32")], "AddOptions")])


@pytest.mark.parametrize(("sparse", "values"), [(CSR, 4), (BLOCKS, 12), (COLUMNS, 4)], ids=["csr", "blocks", "columns"])
def test_a_sparse_constant_is_a_dense_one(sparse: Sparse, values: int) -> None:
    data = file_of(densifying(values), sparse={"t1": sparse})
    found = prepare(data)
    assert [op.name for op in found.model.operators] == ["ADD"]
    x = np.ones((4, 6), np.float32)
    expected = Litert(data).run([x])[0]
    assert np.count_nonzero(expected - 1) == values
    np.testing.assert_array_equal(Litert(found.source).run([x])[0], expected)


@pytest.mark.parametrize(
    ("sparse", "values", "message"),
    [
        (CSR, 5, "a sparse tensor has 20 bytes for 4 values of 4 bytes"),
        (
            Sparse((0, 1), (4, ((0, 2, 2, 3, 4), (0, 3, 1, 6)))),
            4,
            "a sparse tensor has elements beyond [4, 6]",
        ),
        (Sparse((0, 1), (4, ((0, 2, 1, 3, 4), (0, 3, 1, 5)))), 4, "a sparse tensor has 4 segments of 4 elements for 4"),
        (
            Sparse((0, 0), (4, 6)),
            24,
            "a sparse tensor has 2 levels in the order [0, 0] for 2 dimensions and 0 of blocks",
        ),
        (
            Sparse((0, 1, 2), (4, 3, (range(13), [0] * 12)), (1,)),
            12,
            "a sparse tensor has blocks of 0 elements",
        ),
        (Sparse((0, 1), (4, 7)), 28, "a sparse tensor has 4 times 7 elements where the tensor has 24"),
    ],
)
def test_parts_that_contradict_each_other_are_damage(sparse: Sparse, values: int, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        decode(file_of(densifying(values), sparse={"t1": sparse}), partial=True)
    assert caught.value.message == message

"""The samples that a build stores: how many, and which."""

import numpy as np
import pytest

from deuteron.builds import samples


def stored(count: int, inputs: int, outputs: int) -> samples.Stored:
    """Samples of so many bytes, which begin with their index."""
    sides = [[(np.full(size, i, np.int8),) for i in range(count)] for size in (inputs, outputs)]
    return samples.Stored(tuple(sides[0]), tuple(sides[1]))


@pytest.mark.parametrize(
    ("inputs", "outputs", "indices"),
    [(10, 1, [0, 1, 2, 3, 4, 5, 6, 7, 8]), (1, 32, [0, 3, 6]), (32, 1, [0, 3, 6]), (1000, 1, [0]), (1, 1000, [0])],
)
def test_what_is_stored_is_bounded_by_inputs_and_outputs_together(inputs: int, outputs: int, indices: list[int]):
    kept = stored(9, inputs, outputs).within(100)
    assert [int(x[0]) for (x,) in kept.inputs] == [int(y[0]) for (y,) in kept.outputs] == indices

"""The range of a histogram observer, searched by numbers: that of PyTorch's own search, bit for bit."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torchao.quantization.pt2e.observer import HistogramObserver

from deuteron.frontend.ranges import searched_by_numbers


def draw(seed: int) -> Tensor:
    """Samples of one of seven kinds: even, normal, heavy tails, one side, few values, outliers, constants."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 1000))
    values = (
        lambda: rng.uniform(-1, 3, size),
        lambda: rng.normal(0.5, 2, size),
        lambda: rng.standard_cauchy(size),
        lambda: np.maximum(rng.normal(0, 1, size), 0),
        lambda: rng.integers(-3, 4, size) * 0.25,
        lambda: np.append(rng.normal(0, 0.01, size), [40.0, -7.0]),
        lambda: np.full(size, rng.normal()),
    )[seed % 7]()
    return torch.tensor(values, dtype=torch.float32)


@pytest.mark.parametrize("seed", range(14))
def test_the_bits_are_pytorchs(seed: int) -> None:
    observer = HistogramObserver(dtype=torch.int8, quant_min=-128, quant_max=127)
    for batch in range(1 + seed % 3):
        observer(draw(seed + 7 * batch))
    search = vars(HistogramObserver)["_non_linear_param_search"]
    expected = search(observer)
    actual = searched_by_numbers(search)(observer)
    assert [v.numpy().tobytes() for v in actual] == [v.numpy().tobytes() for v in expected]


def test_what_is_no_count_is_left_to_pytorch() -> None:
    observer = HistogramObserver(dtype=torch.int8)
    observer(torch.linspace(-1, 1, 50))
    observer.histogram[3] = torch.nan
    assert searched_by_numbers(lambda _: (torch.tensor(1.0), torch.tensor(2.0)))(observer) == (1.0, 2.0)

"""The range of a histogram observer: PyTorch's own, bit for bit, and those of the other methods."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests import full
from torch import Tensor, nn
from torchao.quantization.pt2e.observer import HistogramObserver

from deuteron import api
from deuteron.builds.options import CalibrationMethod
from deuteron.frontend.ranges import choose, scalar_search


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
    actual = scalar_search(search)(observer)
    assert [v.numpy().tobytes() for v in actual] == [v.numpy().tobytes() for v in expected]


def test_what_is_no_count_is_left_to_pytorch() -> None:
    observer = HistogramObserver(dtype=torch.int8)
    observer(torch.linspace(-1, 1, 50))
    observer.histogram[3] = torch.nan
    assert scalar_search(lambda _: (torch.tensor(1.0), torch.tensor(2.0)))(observer) == (1.0, 2.0)


def observed(method: CalibrationMethod, *batches: Tensor) -> HistogramObserver:
    observer = HistogramObserver(dtype=torch.int8, quant_min=-128, quant_max=127)
    choose(nn.Sequential(observer), method)
    for batch in batches:
        observer(batch)
    return observer


def searched(observer: HistogramObserver) -> tuple[float, float]:
    low, high = vars(observer)["_non_linear_param_search"]()
    return float(low), float(high)


def test_minmax_takes_all_values() -> None:
    observer = observed(CalibrationMethod.MINMAX, draw(1), torch.tensor([50.0, -3.0]))
    low, high = searched(observer)
    assert (low, high) == (min(-3, float(draw(1).min())), 50)


def test_percentile_leaves_out_a_ten_thousandth() -> None:
    values = torch.cat([torch.linspace(-1, 1, 99_990), torch.full((4,), 30.0), torch.full((4,), -20.0)])
    low, high = searched(observed(CalibrationMethod.PERCENTILE, values))
    assert (low, high) == pytest.approx((-1, 1), abs=0.05)
    inside = torch.linspace(-1, 1, 100_000)
    assert searched(observed(CalibrationMethod.PERCENTILE, inside)) == pytest.approx((-1, 1), abs=0.01)


def error(values: Tensor, low: float, high: float) -> float:
    """The sum of squares of what a range of int8 makes of values."""
    low, high = min(low, 0), max(high, 0)
    scale = (high - low) / 255
    zero = round(-128 - low / scale)
    stored = torch.clamp((values / scale).round() + zero, -128, 127)
    return float((((stored - zero) * scale - values).double() ** 2).sum())


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 5])
def test_mse_is_near_the_best_of_all_ranges(kind: int) -> None:
    values = torch.cat([draw(kind + 7 * seed) for seed in range(20)])
    ends = torch.linspace(float(values.min()), float(values.max()), 24).tolist()
    best = min(error(values, low, high) for low in ends for high in ends if low < high)
    chosen = error(values, *searched(observed(CalibrationMethod.MSE, values)))
    assert chosen <= 1.1 * best
    assert chosen <= 1.01 * error(values, float(values.min()), float(values.max()))


@pytest.mark.parametrize("method", [CalibrationMethod.PERCENTILE, CalibrationMethod.MSE])
def test_one_number_has_its_own_range(method: CalibrationMethod) -> None:
    assert searched(observed(method, torch.full((9,), 2.5))) == (2.5, 2.5)


class Small(nn.Module):
    """A layer of small weights for small numbers, and a small factor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        nn.init.uniform_(self.layer.weight, -1e-3, 1e-3)
        nn.init.uniform_(self.layer.bias, -1e-7, 1e-7)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.layer(x)
        return y, x * 1e-3


@pytest.mark.parametrize("target", full.only(["imxrt700cm", "ethos-u55-128"], "ethos-u55-128"))
def test_small_numbers_keep_their_steps(target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(4, 8) * 1e-3,) for _ in range(16)]
    build = api.build(Small(), batches[0], target=target, calibration=batches, output=tmp_path / "build")
    assert min(quality.sqnr for quality in build.manifest.quality.outputs) > 30

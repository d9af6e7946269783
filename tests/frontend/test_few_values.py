"""Ranges of tensors of which the calibration has seen few values."""

import pytest
import torch
from torch import Tensor, nn

from deuteron import api
from deuteron.builds.quality import decibels
from deuteron.frontend import saved


class Head(nn.Module):
    """Scores and their shares."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.layer(x)
        return y, y.sigmoid()


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[float, float, float]]:
    """By the number of samples: the scale of both outputs, and the quality of the scores on new samples in dB."""
    found: dict[int, tuple[float, float, float]] = {}
    fresh = torch.randn(200, 1, 8, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        wanted = [Head()(x)[0] for x in fresh]
    for count in (12, 1200):
        directory = tmp_path_factory.mktemp("build") / "build"
        samples = [(x,) for x in torch.randn(count, 1, 8, generator=torch.Generator().manual_seed(1))]
        api.build(Head().eval(), samples[0], target="cortex-m55", calibration=samples, output=directory)
        ours = [torch.tensor(y) for y, _ in api.run_each(directory, [(x.numpy(),) for x in fresh])]
        signal, noise = (
            sum(y.square().sum() for y in wanted),
            sum((y - z).square().sum() for y, z in zip(wanted, ours, strict=True)),
        )
        first, second = (affine.scale for affine in saved.load(directory / "reference.pt2").outputs if affine)
        found[count] = first, second, decibels(float(signal), float(noise))
    return found


def test_new_samples_fit(figures: dict[int, tuple[float, float, float]]) -> None:
    assert figures[12][2] > 25  # 18.3 with the ranges as measured
    assert 0.7 < figures[12][0] / figures[1200][0] < 1.2


def test_bounded_results_stay_within_their_bounds(figures: dict[int, tuple[float, float, float]]) -> None:
    assert figures[1200][1] < figures[12][1] < 1.01 / 255

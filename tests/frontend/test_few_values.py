"""Ranges of tensors of which the calibration has seen few values."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchao.quantization.pt2e import HistogramObserver

from deuteron import api
from deuteron.builds.quality import decibels
from deuteron.frontend import saved
from deuteron.frontend.quantize import few_values


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


def test_new_samples_fit_in_int16(tmp_path: Path) -> None:
    samples = [(x,) for x in torch.randn(12, 1, 8, generator=torch.Generator().manual_seed(1))]
    fresh = torch.randn(200, 1, 8, generator=torch.Generator().manual_seed(2))
    options = api.BuildOptions(activations=api.Activations.INT16)
    api.build(
        Head().eval(), samples[0], target="cortex-m55", calibration=samples, output=tmp_path / "build", options=options
    )
    with torch.no_grad():
        wanted = torch.cat([Head()(x)[0] for x in fresh])
    ours = [torch.tensor(y) for y, _ in api.run_each(tmp_path / "build", [(x.numpy(),) for x in fresh])]
    noise = (torch.cat(ours) - wanted).square().sum()
    assert decibels(float(wanted.square().sum()), float(noise)) > 30  # 23.3 with the ranges as measured


def test_new_samples_fit(figures: dict[int, tuple[float, float, float]]) -> None:
    assert figures[12][2] > 25  # 18.3 with the ranges as measured
    assert 0.7 < figures[12][0] / figures[1200][0] < 1.2


def test_bounded_results_stay_within_their_bounds(figures: dict[int, tuple[float, float, float]]) -> None:
    assert figures[1200][1] < figures[12][1] < 1.01 / 255


class Limited(nn.Module):
    """A product with a constant, values with limits, and moved values."""

    def __init__(self) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.linspace(-3, 3, 10))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        padded = nn.functional.pad(x * 2, (0, 5)).reshape(3, 5)
        peaks = nn.functional.max_pool1d(x.exp(), 3, 1)
        return peaks, x * self.factors, x.clamp(min=-0.1), x.clamp(-9, 9), nn.functional.hardtanh(x, -9, 0.1), padded


def test_constants_limits_and_moved_values() -> None:
    model: Any = torch.export.export(Limited(), (torch.zeros(1, 10),)).module()
    for node in [*model.graph.nodes]:
        if isinstance(node.meta.get("val"), Tensor):
            model.add_submodule(f"{node.name}_range", HistogramObserver(dtype=torch.int8))
            with model.graph.inserting_after(node):
                observed = model.graph.call_module(f"{node.name}_range", (node,))
            node.replace_all_uses_with(observed)
            observed.args = (node,)
    model.recompile()
    for sample in torch.randn(12, 1, 10, generator=torch.Generator().manual_seed(1)):
        model(sample)

    def ends(name: str) -> tuple[float, float]:
        observer: Any = getattr(model, f"{name}_range")
        return float(observer.min_val), float(observer.max_val)

    least, most = ends("x")
    few_values.widen(model, 12)
    assert ends("factors") == pytest.approx((-3, 3), abs=0.01)  # their range is known
    assert ends("x")[1] > 1.2 * most
    assert ends("clamp") == pytest.approx((-0.1, ends("x")[1]), abs=0.01)
    assert ends("clamp_1") == pytest.approx(ends("x"), abs=0.01)
    assert ends("hardtanh") == pytest.approx((ends("x")[0], 0.1), abs=0.01)
    assert ends("x")[0] < 1.2 * least
    assert ends("mul") == pytest.approx(ends("pad"), rel=0.01)
    assert ends("pad") == ends("reshape")
    assert ends("max_pool1d")[0] > ends("exp")[0] > 0
    assert ends("max_pool1d")[1] == pytest.approx(ends("exp")[1], rel=0.01)

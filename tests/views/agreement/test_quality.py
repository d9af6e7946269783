"""The program of a build beside its float model: figures, metrics of the user's own, and what is no metric."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from deuteron import api
from deuteron.builds import samples
from deuteron.builds.quality import MOST, PROGRAM, OutputQuality, decibels
from deuteron.errors import InputError
from deuteron.views.agreement import floats, quality


def sum_of_squares(model: Callable[..., Any]) -> dict[str, float]:
    torch.manual_seed(3)
    inputs = [torch.randn(1, 4) for _ in range(4)]
    copies = [x.clone() for x in inputs]
    outputs = [model(x) for x in inputs]
    assert all(map(torch.equal, inputs, copies))
    assert all(y.shape == (1, 3) for y in outputs)
    return {"power": float(sum((y**2).sum() for y in outputs))}


class Halving(nn.Module):
    """Writes into its input."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, t: torch.Tensor) -> torch.Tensor:
        return self.last(t.mul_(0.5))


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    directory = tmp_path_factory.mktemp("quality") / "out"
    batches = torch.randn(12, 4)
    before = batches.clone()
    api.build(Halving(), batches[:1], calibration=batches, evaluate=sum_of_squares, output=directory)
    assert torch.equal(batches, before)
    return directory


def test_a_build_measures_its_program(build: Path):
    found = api.read_manifest(build).quality
    kept = samples.read(build)
    assert kept is not None
    assert (found.measured, found.samples, found.kept, len(kept.inputs), len(kept.outputs)) == (PROGRAM, 12, 12, 12, 12)
    (output,) = found.outputs
    outputs = [tuple(y) for y in api.run_each(build, kept.inputs)]
    noise = sum(float(((y - wanted) ** 2).sum()) for (y,), (wanted,) in zip(outputs, kept.outputs, strict=True))
    signal = sum(float((wanted**2).sum()) for (wanted,) in kept.outputs)
    assert output.sqnr == pytest.approx(decibels(signal, noise), abs=0.02)
    assert output.sqnr > 30
    assert len(output.channels) == 3


def test_a_metric_is_taken_of_the_float_model_and_of_the_program(build: Path):
    (metric,) = api.read_manifest(build).quality.metrics
    assert metric.name == "power"
    assert metric.model != metric.program
    assert metric.program == pytest.approx(metric.model, rel=0.2)


def test_a_program_beside_the_float_model(build: Path):
    found = api.subject(build).compare_floats()
    assert found.passed
    text = found.text()
    assert text.startswith("signal to quantisation noise beside the float model, on 12 samples of the calibration\n\n")
    assert text.endswith("all bounds hold")


def test_samples_are_drawn_from_those_that_the_build_has_kept(build: Path):
    kept = samples.read(build)
    assert kept is not None
    known = {x.tobytes() for (x,) in kept.inputs}
    drawn = [x for (x,) in api.subject(build).draw(30, seed=1)]
    assert all(x.tobytes() in known for x in drawn[:12])
    columns = np.concatenate([x for (x,) in kept.inputs])
    for x in drawn[12:]:
        assert all(value in columns[:, i] for i, value in enumerate(x[0]))


def test_a_program_that_is_worse_than_its_build_measured():
    then, now = OutputQuality(40.0, 1, (40.0,)), OutputQuality(12.0, 1, (12.0,))
    found = floats.FloatComparison(3, (now,), (then,), ())
    assert found.failures() == ("output 0: 12.0 dB, the build measured 40.0 dB",)


def test_what_is_no_number_is_told():
    with pytest.raises(InputError) as caught:
        quality.numbers("good")
    assert str(caught.value) == (
        "the function for `--evaluate` returned a value of type `str`\n\nhint: return a number, such as the accuracy "
        "of the model that it is given, or numbers by name"
    )


@pytest.mark.parametrize(
    ("signal", "noise", "wanted"), [(100.0, 1.0, 20.0), (1.0, 0.0, MOST), (0.0, 0.0, MOST), (0.0, 1.0, -MOST)]
)
def test_decibels(signal: float, noise: float, wanted: float):
    assert decibels(signal, noise) == wanted

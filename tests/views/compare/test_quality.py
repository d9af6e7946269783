"""The program of a build compared with its float model: figures, the user's metrics, and invalid metrics."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from deuteron import api
from deuteron.builds import samples
from deuteron.builds.quality import MOST, NOT_MEASURED, PROGRAM, PYTORCH, OutputQuality, Quality, decibels
from deuteron.errors import DeuteronError, InputError, InternalError, MissingToolError, OptionError, UnsupportedError
from deuteron.frontend.build import BuildResult
from deuteron.frontend.build import build as build_in_memory
from deuteron.runtime.host import HostRunner
from deuteron.views.compare import float_model, quality


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
    assert text.startswith("signal to quantization noise against the float model, on 12 samples of the calibration\n\n")
    assert text.endswith("\n\nno output is further from the float model than the build measured")
    assert replace(found, board="mine").text().startswith("signal to quantization noise of `mine` against the float ")


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
    found = float_model.FloatComparison(3, (now,), (then,), ())
    assert found.failures() == ("output 0: 12.0 dB, the build measured 40.0 dB",)


def test_float_code_of_another_processor_may_round_otherwise():
    then, same, worse = (OutputQuality(db, 1, (db,)) for db in (140.0, 100.0, 99.0))
    assert float_model.FloatComparison(3, (same,), (then,), ()).passed
    assert float_model.FloatComparison(3, (worse,), (then,), ()).failures() == (
        "output 0: 99.0 dB, the build measured 140.0 dB",
    )


def test_figures_of_quantized_pytorch_bound_no_program(build: Path):
    manifest = api.read_manifest(build)
    with pytest.raises(OptionError) as caught:
        float_model.check(replace(manifest, quality=replace(manifest.quality, measured=PYTORCH)))
    assert str(caught.value) == (
        "the figures of this build are of quantized PyTorch, not of its program, which could not run where it was "
        "built\n\nhint: build on a computer that runs the program, or use `--compare reference`"
    )


def result() -> BuildResult:
    torch.manual_seed(0)
    batches = torch.randn(12, 4)
    return build_in_memory(nn.Linear(4, 3), batches[:1], target="imxrt700", calibration=batches)


def test_a_program_that_does_not_run_here_is_warned_of_and_one_that_fails_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
):
    def refuses(error: DeuteronError) -> None:
        def raises(self: HostRunner, inputs: object) -> None:
            raise error

        monkeypatch.setattr(HostRunner, "run", raises)

    built = result()
    refuses(MissingToolError("no library"))
    manifest = quality.of_program(built)
    assert manifest.warnings[-1] == (
        "the program does not run here; the reported quality is quantized PyTorch's: no library"
    )
    assert manifest.quality.measured == PYTORCH
    refuses(InternalError("it stops"))
    with pytest.raises(InternalError, match="it stops"):
        quality.of_program(built)


def test_a_program_that_computes_something_else(monkeypatch: pytest.MonkeyPatch):
    built = result()
    assert quality.of_program(built).warnings == built.manifest.warnings
    (pytorch,) = built.manifest.quality.outputs
    wanted = iter(built.samples.outputs)
    monkeypatch.setattr(HostRunner, "run", lambda *_: tuple(value * 0.8 for value in next(wanted)))
    assert quality.of_program(built).warnings[-1] == (
        "output 0 of the program has 14.0 dB of signal to noise against the float model, quantized PyTorch "
        f"{pytorch.sqnr:.1f} dB: the program computes something else; `deuteron run --compare` compares operator by "
        "operator"
    )
    monkeypatch.setattr(HostRunner, "run", lambda *_: (np.zeros((1, 3), np.float32),))
    with pytest.raises(UnsupportedError) as caught:
        quality.of_program(built)
    assert caught.value.message == (
        "output 0 of the program has 0.0 dB of signal to noise against the float model, quantized PyTorch "
        f"{pytorch.sqnr:.1f} dB: the program computes something else"
    )


@pytest.mark.parametrize(
    ("pytorch", "program", "is_lost"), [(30, 24, False), (30, 23.9, True), (80, 40, False), (80, 39.9, True)]
)
def test_how_far_a_program_may_be_below_quantized_pytorch(pytorch: float, program: float, is_lost: bool):
    then, now = (OutputQuality(db, 1, (db,)) for db in (pytorch, program))
    assert bool(quality.lost((then,), (now,))) == is_lost


def test_a_function_that_fails_costs_its_figures_not_the_build(tmp_path: Path):
    def fails(model: Callable[..., Any]) -> float:
        model(torch.randn(1, 4, requires_grad=True))
        return model(torch.randn(5, 4))

    batches = torch.randn(12, 4)
    with pytest.raises(InputError) as caught:
        api.build(nn.Linear(4, 3), batches[:1], calibration=batches, evaluate=fails, output=tmp_path / "out")
    assert str(caught.value) == (
        "the function for `--evaluate` calls the model with (5, 4), but it takes (1, 4)\n\nhint: call the model with "
        "one tensor per input, of the shapes and dtypes of the example inputs"
    )
    written = api.read_manifest(tmp_path / "out").quality
    assert (written.measured, written.metrics) == (PROGRAM, ())


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ((), "with nothing, but it takes (1, 4)"),
        (([1.0],), "with list, but it takes (1, 4)"),
        ((torch.ones(1, 4, dtype=torch.int64),), "with int64 as input 0"),
        ((torch.ones(1, 4, dtype=torch.float64),), "with float64 as input 0"),
    ],
)
def test_what_the_model_does_not_take_is_refused_alike(inputs: tuple[object, ...], told: str):
    built = result()
    with quality._program(built) as runner, pytest.raises(InputError) as caught:
        quality._metrics(lambda model: model(*inputs), built, runner)
    assert caught.value.message == f"the function for `--evaluate` calls the model {told}"


def test_a_number_that_is_none_is_refused():
    with pytest.raises(InputError) as caught:
        quality.numbers({"loss": float("nan")})
    assert caught.value.message == "the function for `--evaluate` returned nan for `loss`"


def test_what_is_no_number_is_told():
    with pytest.raises(InputError) as caught:
        quality.numbers("good")
    assert str(caught.value) == (
        "the function for `--evaluate` returned a value of type `str`\n\nhint: return a number, such as the model's "
        "accuracy, or numbers by name"
    )


@pytest.mark.parametrize(
    ("signal", "noise", "wanted"), [(100.0, 1.0, 20.0), (1.0, 0.0, MOST), (0.0, 0.0, MOST), (0.0, 1.0, -MOST)]
)
def test_decibels(signal: float, noise: float, wanted: float):
    assert decibels(signal, noise) == wanted


def test_a_summary_has_each_output_and_says_where_there_is_little() -> None:
    much, little, integers = (OutputQuality(sqnr, 1, (sqnr,) if sqnr else ()) for sqnr in (37.04, 19.9, 0))
    assert Quality(outputs=(much, replace(integers, equal=0.975))).summary() == (
        "signal to quantization noise: output 0 37.0 dB, output 1 97.5% equal"
    )
    assert Quality(outputs=(much, little)).summary() == (
        "signal to quantization noise: output 0 37.0 dB, output 1 19.9 dB; `--equalise --correct-biases` may give more"
    )
    assert Quality(outputs=(much, little)).summary(advises=False).endswith("output 1 19.9 dB")
    assert NOT_MEASURED.summary() == ""

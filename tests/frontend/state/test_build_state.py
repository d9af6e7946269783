"""Builds of networks with state: the program steps as the module does, and the module stays as it is."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.frontend.state import forms
from tests.frontend.state.test_capture_state import made, stream

from deuteron import api
from deuteron.builds import manifest as manifests
from deuteron.builds.options import BuildOptions
from deuteron.builds.quality import decibels
from deuteron.cli.app import main
from deuteron.errors import UnsupportedError
from deuteron.frontend.eager.state import Snapshot
from deuteron.runtime import pte

UNBOUNDED = {"through_a_view": 20.0}
"""Sums without end, in which the errors of all steps add up."""

NOT_INT8 = {"rnn"}
"""Layers that no Cortex-M build takes, with state or without."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state") / "build"
    api.build(made("copied"), stream(1)[0], target="cortex-m55", calibration=stream(48), output=folder)
    return folder


def arrays(count: int) -> list[tuple[np.ndarray]]:
    return [(x.numpy(),) for (x,) in stream(count)]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(forms.FORMS.keys() - NOT_INT8))
def test_the_program_steps_as_the_module_does(name: str):
    module = made(name)
    before = Snapshot(module)
    build = api.build(module, stream(1)[0], target="cortex-m55", calibration=stream(48))
    assert before.changed(Snapshot(module)) == ()
    quality = build.manifest.quality
    assert quality.measured == "program"
    assert quality.outputs[0].sqnr > UNBOUNDED.get(name, 30.0)


def test_state_is_in_the_program_with_its_initial_value(built: Path):
    (method,) = pte.read((built / manifests.PROGRAM).read_bytes()).methods
    ((_, state),) = method.state
    assert (state.name, state.spec.dtype, state.spec.shape) == ("h", "int8", (1, forms.WIDTH))
    assert state.constant is not None


def test_samples_start_from_the_initial_state_unless_they_are_a_stream(built: Path):
    twice = [arrays(1)[0]] * 2
    subject = api.subject(built)
    first, second = subject.run(twice)
    assert np.array_equal(first[0], second[0])
    subject.resets = (0,)
    again, later = subject.run(twice)
    assert np.array_equal(first[0], again[0])
    assert not np.array_equal(first[0], later[0])


def test_a_stream_of_a_thousand_steps_does_not_drift(built: Path):
    module, subject = made("copied"), api.subject(built)
    subject.resets = (0,)
    samples = arrays(1000)
    ours = np.stack([y for (y,) in subject.run(samples)])
    with torch.no_grad():
        wanted = np.stack([module(torch.from_numpy(x)).numpy() for (x,) in samples])
    first, last = (sqnr(ours[part], wanted[part]) for part in (slice(100), slice(-100, None)))
    assert first > 30
    assert last > first - 1
    comparison = subject.compare(samples)
    assert comparison.passed
    assert "on a stream of 1000 samples" in comparison.text()


def sqnr(ours: np.ndarray, wanted: np.ndarray) -> float:
    return decibels(float(np.square(wanted).sum()), float(np.square(ours - wanted).sum()))


@pytest.mark.parametrize("options", ["--compare", "--compare --stream --samples 40", "--compare float"])
def test_the_command_compares(built: Path, options: str):
    with pytest.raises(SystemExit) as ended:
        main(["run", str(built), *options.split()])
    assert not ended.value.code


def test_training_is_refused(tmp_path: Path):
    module = made("copied")
    before = Snapshot(module)
    with pytest.raises(UnsupportedError) as caught:
        api.build(
            module,
            stream(1)[0],
            target="cortex-m55",
            calibration=stream(4),
            train=lambda _: iter(()),
            options=BuildOptions(use_qat=True),
        )
    assert "keeps the variable `h` from run to run, at `m.h.copy_(y)`" in str(caught.value)
    assert before.changed(Snapshot(module)) == ()

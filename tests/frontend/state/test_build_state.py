"""Builds of networks with state: the program steps as the module does, and the module stays as it is."""

import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import full
from tests.frontend.state import stateful_networks
from tests.frontend.state.test_capture_state import made, stream

from deuteron import api
from deuteron.builds import manifest as manifests
from deuteron.builds.options import BuildOptions
from deuteron.builds.quality import OutputQuality, decibels
from deuteron.cli.app import main
from deuteron.errors import UnsupportedError
from deuteron.frontend.eager.state import Snapshot
from deuteron.frontend.eager.variables import Variable
from deuteron.runtime import pte
from deuteron.runtime.host import HostRunner
from deuteron.views.compare import quality
from deuteron.views.compare.stream import StreamComparison, StreamOutput

UNBOUNDED = {"through_a_view": 20.0}
"""Sums without end, in which the errors of all steps add up."""

NOT_INT8 = {"rnn"}
"""Layers that no Cortex-M build takes, with state or without."""

KINDS = (
    *(
        "added",
        "counted_to",
        "from_the_first",
        "filled_deque",
        "ring_of_an_integer",
        "rolled",
        "halves",
        "through_a_view",
        "ring",
        "counted",
        "flagged_rarely",
        "swapped",
    ),
    *("returned_before", "lstm", "convolved"),
)
"""One form for each kind of program; `test_capture_state.py` shows that the graphs of all forms are right."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state") / "build"
    api.build(made("copied"), stream(1)[0], target="cortex-m55", calibration=stream(48), output=folder)
    return folder


def arrays(count: int) -> list[tuple[np.ndarray]]:
    return [(x.numpy(),) for (x,) in stream(count)]


@pytest.mark.slow
@pytest.mark.parametrize("name", full.only(sorted(stateful_networks.FORMS.keys() - NOT_INT8), *KINDS[1::2]))
def test_the_program_steps_as_the_module_does(name: str):
    module = made(name)
    before = Snapshot(module)
    build = api.build(module, stream(1)[0], target="cortex-m55", calibration=stream(48))
    assert before.changed(Snapshot(module)) == ()
    assert build.manifest.quality.measured == "program"
    assert build.manifest.quality.outputs[0].sqnr > UNBOUNDED.get(name, 30.0)


@pytest.mark.parametrize("target", full.first(["cortex-m55", "ethos-u55-128"], 1))
@pytest.mark.parametrize("name", full.only(["smoothed", "classified"], "classified"))
def test_the_bias_of_a_layer_that_reads_state_has_the_scale_of_the_state(name: str, target: str, tmp_path: Path):
    build = api.build(made(name), stream(1)[0], target=target, calibration=stream(24), output=tmp_path / "build")
    assert build.manifest.quality.measured == "program"
    assert build.manifest.quality.outputs[0].sqnr > 30
    subject = api.subject(tmp_path / "build")
    subject.resets = (0,)
    assert subject.compare(arrays(24)).passed


@pytest.mark.parametrize("target", full.only(["cortex-m55", "ethos-u55-128"], "ethos-u55-128"))
def test_the_new_value_of_a_state_may_be_a_constant(target: str):
    build = api.build(made("started"), stream(1)[0], target=target, calibration=stream(24))
    assert build.manifest.quality.outputs[0].sqnr > 30
    (method,) = pte.read(build.pte).methods
    assert len(method.state) == 2


@pytest.mark.parametrize("name", full.only(["smoothed", "classified"], "classified"))
def test_an_npu_runs_the_layers_of_a_network_with_state(name: str):
    """An export of a network with state is not strict, and lacks metadata that NXP's quantizer needs."""
    build = api.build(made(name), stream(1)[0], target="imxrt700cm", calibration=stream(24))
    assert build.manifest.quality.outputs[0].sqnr > 30
    assert {node.partition for node in build.manifest.nodes} == {0}


def test_a_program_with_state_that_computes_something_else_is_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(HostRunner, "run", lambda *_: (np.zeros((1, stateful_networks.WIDTH), np.float32),))
    with pytest.raises(UnsupportedError) as caught:
        api.build(made("copied"), stream(1)[0], target="cortex-m55", calibration=stream(8), output=tmp_path / "build")
    assert re.fullmatch(
        r"output 0 of the program has 0\.0 dB of signal to noise against the float model, quantized PyTorch "
        r"\d\d\.\d dB, over 8 steps of the state `h`: the program computes something else",
        caught.value.message,
    )
    assert caught.value.hint == "report the model; until then make the state an input and an output of `forward`"
    assert not (tmp_path / "build").exists()


@pytest.mark.parametrize(("program", "is_far"), [(20, False), (19.9, True)])
def test_how_far_a_program_with_state_may_be_below_quantized_pytorch(program: float, is_far: bool):
    then, now = (OutputQuality(db, 1, (db,)) for db in (30.0, program))
    with pytest.raises(UnsupportedError) if is_far else nullcontext():
        quality.need_state([Variable("h", stateful_networks.row())], 8, (then,), (now,))


def test_a_stream_through_a_wrong_program_fails(
    built: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run = HostRunner.run
    monkeypatch.setattr(HostRunner, "run", lambda self, sample: [y + np.float32(0.25) for y in run(self, sample)])
    with pytest.raises(SystemExit) as ended:
        main(["run", str(built), "--stream", "--samples", "40", "--compare"])
    assert ended.value.code == 1
    (line,) = capsys.readouterr().out.split("bounds broken:\n")[1].splitlines()
    assert re.fullmatch(
        r"  output 0: -?\d+\.\d dB of the whole stream, where 20 dB are the least, against quantized PyTorch: the "
        r"program computes something else",
        line,
    )


@pytest.mark.parametrize(
    ("whole", "steps", "wrong"),
    [(20.0, 9.0, False), (19.9, 2.0, False), (19.9, 2.1, True), (20.0, None, False), (19.9, None, True)],
)
def test_bounds_of_a_stream(whole: float, steps: float | None, wrong: bool):
    out = StreamOutput(0, whole, whole, whole, steps, 10, 10)
    assert StreamComparison(4, 2, (out,)).passed is not wrong


def test_a_stream_of_floats_and_of_integers(tmp_path: Path):
    torch.manual_seed(0)
    api.build(
        stateful_networks.Numbered(),
        stream(1)[0],
        target="cortex-m55",
        calibration=stream(8),
        output=tmp_path / "build",
    )
    subject = api.subject(tmp_path / "build")
    subject.resets = (0,)
    comparison = subject.compare(arrays(8))
    assert isinstance(comparison, StreamComparison)
    assert [(out.steps is None, out.are_integers, out.mismatches) for out in comparison.outputs] == [
        (False, False, 0),
        (True, True, 0),
    ]
    assert comparison.passed


def test_one_integer_of_ten_may_differ_in_a_stream():
    few, many = (StreamOutput(0, 5.0, 5.0, 5.0, None, 100, count, are_integers=True) for count in (10, 11))
    assert StreamComparison(4, 2, (few,)).passed
    assert StreamComparison(4, 2, (many,)).failures() == (
        "output 0: 11.0% of its integers are not quantized PyTorch's, where 10% are allowed: the program computes "
        "something else",
    )


def test_state_is_in_the_program_with_its_initial_value(built: Path):
    (method,) = pte.read((built / manifests.PROGRAM).read_bytes()).methods
    ((_, state),) = method.state
    assert (state.name, state.spec.dtype, state.spec.shape) == ("h", "int8", (1, stateful_networks.WIDTH))
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
    samples = arrays(100) * 10  # the parts that are compared have the same inputs
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

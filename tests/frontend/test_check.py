"""`deuteron check` says what a build does: it builds, or it is refused with the same text."""

import random

import pytest
import torch
from tests.frontend.build_helpers import Applies, X, failure
from torch import Tensor, nn

from deuteron import api
from deuteron.api import checks
from deuteron.arch import targets
from deuteron.arch.vela import VelaOptions
from deuteron.builds.options import BuildOptions, StreamOptions
from deuteron.builds.quality import CONSTANT
from deuteron.builds.target_checks import ModelCheck, Outcome, TargetCheck
from deuteron.errors import DeuteronError, OptionError, UnsupportedError
from deuteron.frontend.build import NO_CALIBRATION

torch.set_num_threads(1)
pytestmark = pytest.mark.slow

CHECKED = ("cortex-m55", "ethos-u55-128cm", "imxrt700")


def small() -> tuple[nn.Module, Tensor]:
    """A small CNN and its example input."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4)).eval()
    return net, torch.rand(1, 3, 6, 6)


FEW = ("cortex-m33", "imxrt700", "imxrt700cm", "ethos-u55-128cm")


@pytest.mark.parametrize("names", [FEW, pytest.param(targets.names(), marks=pytest.mark.full)], ids=["few", "all"])
def test_a_network_builds_for_every_target(names: tuple[str, ...]):
    net, x = small()
    found = api.check(net, x, targets=names, name="small")
    assert [one.target for one in found.targets] == list(names)
    assert found.all_build
    assert {note for one in found.targets for note in one.notes} == {NO_CALIBRATION}
    of = {one.target: one for one in found.targets}
    assert (of["cortex-m33"].npu, of["cortex-m33"].cpu) == (0, 4)
    assert (of["imxrt700"].npu, of["imxrt700"].cpu) == (5, 0)
    assert of["ethos-u55-128cm"].npu >= 4
    assert all(one.sqnr is not None and one.sqnr > 35 for one in found.targets)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.linalg.svdvals(x.reshape(2, 4)),
        lambda x: x * torch.rand_like(x),
        lambda x: x.repeat(1, 24).sort(-1).values,
    ],
    ids=["no kernel", "draws", "sorts"],
)
def test_a_refusal_is_that_of_the_build(function):
    net, x = Applies(function), torch.linspace(-1, 1, 8).reshape(1, 8)
    found = api.check(net, x, targets=CHECKED[::2])
    for one in found.targets:
        assert one.outcome is Outcome.REFUSED
        text = failure(UnsupportedError, net, x, target=one.target)
        where = f"{one.where}: " if one.where else ""
        assert text == f"{where}{one.message}" + (f"\n\nhint: {one.hint}" if one.hint else "")
    assert not found.all_build
    assert "  hint: " in "\n".join(found.lines())


@pytest.mark.parametrize(
    ("net", "target"),
    [
        (Applies(lambda x: x.mode(-1).values), "cortex-m55"),
        pytest.param(Applies(lambda x: x.mode(-1).values), "imxrt700cm", marks=pytest.mark.full),
    ],
)
def test_lowering_decides_what_quantization_does_not(net: nn.Module, target: str):
    x = torch.rand(1, 2, 8, 8)
    (found,) = api.check(net, x, targets=[target]).targets
    assert found.outcome is Outcome.REFUSED
    assert failure(DeuteronError, net, x, target=target).partition("\n")[0].endswith(found.message)


def test_targets_of_one_kind_share_a_build():
    net = nn.Linear(8, 4)
    found = api.check(net, X, targets=["cortex-m55", "cortex-m0plus", "imxrt700", "mcxn947"]).targets
    assert [one.built for one in found] == ["", "cortex-m55", "", ""]


class Counts(nn.Module):
    """An exponential mean of all inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.75 * self.mean + 0.25 * x
        return torch.tanh(self.mean)


def test_the_state_of_a_model_is_stepped_in_its_quality():
    batches = [torch.rand(1, 8) for _ in range(4)]
    options = {"target": "cortex-m55", "calibration": batches}
    (found,) = api.check(Counts(), batches[0], targets=["cortex-m55"], calibration=batches).targets
    assert found.sqnr == api.build(Counts(), batches[0], **options).manifest.quality.outputs[0].sqnr


class Loop(nn.Module):
    """A layer that a loop calls, or a recurrent layer of as many steps."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return (
            self.layer(x)[0] if isinstance(self.layer, nn.RNN) else torch.stack([self.layer(x + i) for i in range(7)])
        )


@pytest.mark.parametrize(("layer", "shape"), [(nn.RNN(4, 4), (4, 4)), (nn.Tanh(), (1, 4))], ids=["layer", "loop"])
def test_lines_of_many_operators_are_named(layer: nn.Module, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checks, "_MANY", 14)
    (found,) = api.check(Loop(layer), torch.rand(shape), targets=["imxrt700"]).targets
    (note,) = (note for note in found.notes if note.startswith("slow: "))
    assert " operators" in note
    assert ("; on `imxrt700cm` the CPU computes a recurrent layer" in note) == isinstance(layer, nn.RNN)


def test_notes_are_the_warnings_of_the_build():
    dead = nn.Sequential(nn.Linear(8, 4), nn.ReLU()).eval()
    with torch.no_grad():
        dead[0].bias.fill_(-9)
    batches = [torch.rand(1, 8) for _ in range(4)]
    (found,) = api.check(dead, batches[0], targets=["cortex-m55"], calibration=batches).targets
    assert any(f"output 0 {CONSTANT}" in note for note in found.notes)
    assert found.sqnr is None


def test_options_of_the_build_are_followed():
    net, x = nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU()).eval(), torch.rand(1, 2, 16)
    (stream,) = api.check(net, x, targets=["cortex-m55"], options=BuildOptions(stream=StreamOptions(2))).targets
    assert stream.outcome is Outcome.BUILDS
    (refused,) = api.check(Counts(), X, targets=["cortex-m55"], options=BuildOptions(use_qat=True)).targets
    assert refused.outcome is Outcome.REFUSED
    assert "`use_qat` trains models without" in refused.message


@pytest.mark.full
def test_a_model_for_training_is_prepared_and_not_trained():
    (trained,) = api.check(nn.Linear(8, 4), X, targets=["cortex-m55"], options=BuildOptions(use_qat=True)).targets
    assert trained.outcome is Outcome.BUILDS


def test_random_generators_are_left_alone():
    net = nn.Linear(8, 4)
    states = torch.random.get_rng_state(), random.getstate()
    api.check(net, X, targets=["cortex-m55"])
    assert torch.equal(states[0], torch.random.get_rng_state())
    assert states[1] == random.getstate()


def test_the_table():
    row = TargetCheck("a", Outcome.BUILDS, npu=3, cpu=2, is_portable=True, sqnr=31.25, notes=("slow: x",), built="c")
    refused = TargetCheck("bb", Outcome.REFUSED, message="no", where="f.py:3", hint="leave it out")
    assert list(ModelCheck("net", (row, refused)).lines()) == [
        "net: what a build does, and how many operators of the model each processor gets",
        "",
        "target  outcome    NPU    CPU  SQNR, dB",
        "a       builds       3      2      31.2  as c  CPU operators are ExecuTorch's, mostly in float",
        "bb      refused",
        "",
        "a:",
        "  slow: x",
        "",
        "bb:",
        "  f.py:3: no",
        "  hint: leave it out",
    ]
    both = ModelCheck("net", (refused, TargetCheck("c", Outcome.REFUSED, message="no", where="f.py:3")))
    assert [line for line in both.lines() if line.endswith(":")] == ["bb:", "c:"]


def test_an_option_that_a_target_lacks_is_a_refusal_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "names", lambda: ("cortex-m33",))
    net, x = small()
    options = BuildOptions(vela=VelaOptions(vela_system_config="Ethos_U55_High_End_Embedded"))
    (row,) = api.check(net, x, options=options).targets
    assert (row.target, row.outcome) == ("cortex-m33", Outcome.REFUSED)
    with pytest.raises(OptionError) as caught:
        api.check(net, x, options=options, targets=["cortex-m33"])
    assert str(caught.value).startswith(row.message)

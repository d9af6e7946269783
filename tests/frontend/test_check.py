"""`deuteron check` says what a build does: it builds, or it is refused with the same text."""

import pytest
import torch
from tests.frontend.building import Applies, failure
from torch import Tensor, nn

from deuteron import api
from deuteron.arch import targets
from deuteron.builds.target_checks import ModelCheck, Outcome, TargetCheck
from deuteron.errors import UnsupportedError

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
    assert not any(one.was_built or one.others or one.notes for one in found.targets)
    of = {one.target: one for one in found.targets}
    assert (of["cortex-m33"].npu, of["cortex-m33"].cpu) == (0, 6)  # with the copies between memory formats
    assert (of["imxrt700"].npu, of["imxrt700"].cpu) == (4, 0)
    assert of["ethos-u55-128cm"].npu == 4
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


def test_a_model_whose_quantised_form_does_not_tell_is_built():
    """The portable CPU may or may not have an operator that is not quantised."""
    (one,) = api.check(Applies(torch.square), torch.rand(1, 8), targets=["imxrt700"]).targets
    assert (one.outcome, one.was_built) == (Outcome.BUILDS, True)


def test_the_table():
    row = TargetCheck("a", Outcome.BUILDS, npu=3, cpu=2, others=1, sqnr=31.25, notes=("slow: x",))
    refused = TargetCheck("bb", Outcome.REFUSED, message="no", where="f.py:3", hint="leave it out")
    assert list(ModelCheck("net", (row, refused)).lines()) == [
        "net: what a build would do; operators of the model as they are quantised",
        "",
        "target  outcome    NPU    CPU  others  SQNR, dB",
        "a       builds       3      2       1      31.2",
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

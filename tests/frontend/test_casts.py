"""`.float()` and `.to(...)`: what changes no value is gone before a model is quantized, on every target."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests import full
from torch import Tensor, fx, nn

from deuteron import api
from deuteron.frontend import upstream_caches
from deuteron.frontend.quantize import casts
from deuteron.runtime.host import HostRunner

aten = torch.ops.aten
LAST, FIRST = torch.channels_last, torch.contiguous_format


class Casts(nn.Module):
    """Casts that change nothing, also before an activation, and memory in another order and back."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.fc = nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 1), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.first(x.float().to(memory_format=LAST)).to(torch.float32).type_as(x))
        y = self.second(y.to(torch.float32, memory_format=FIRST))
        return self.fc(y.to("cpu").flatten(1)).to(x.dtype)


class Applies(nn.Module):
    """A function of one input."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        return self.function(x)


X = torch.linspace(-1, 1, 32).reshape(1, 2, 4, 4)


def settled(function, x: Tensor = X) -> fx.GraphModule:
    """The exported function without casts; it gives what it gave."""
    with upstream_caches.exporting():
        model = torch.export.export(Applies(function), (x,), strict=False).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    casts.remove_identity_casts(model)
    found, wanted = model(x), function(x)
    assert found.dtype == wanted.dtype
    assert found.stride() == wanted.stride()
    assert torch.equal(found, wanted)
    return model


def operators(model: fx.GraphModule) -> list[object]:
    return [node.target for node in model.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize(
    "cast",
    [
        lambda x: x.float(),
        lambda x: x.to(torch.float32),
        lambda x: x.to("cpu"),
        lambda x: x.type_as(x),
        lambda x: x.to(memory_format=FIRST),
    ],
)
def test_casts_that_change_nothing_go(cast) -> None:
    assert operators(settled(lambda x: torch.relu(cast(x)) * 2)) == [aten.relu.default, aten.mul.Tensor]


@pytest.mark.parametrize(
    "cast",
    [
        lambda x: x.to(memory_format=LAST),
        lambda x: x.to("cpu", memory_format=LAST),
        lambda x: x.to(torch.float32, memory_format=LAST),
        lambda x: x.float(memory_format=LAST),
    ],
)
def test_another_order_of_memory_is_a_copy(cast) -> None:
    assert operators(settled(lambda x: torch.relu(cast(x)))) == [aten.clone.default, aten.relu.default]


def test_a_copy_that_is_asked_for_stays_one() -> None:
    """A change in place changes the copy."""
    model = settled(lambda x: torch.relu_(x.abs().neg().to(torch.float32, copy=True)) + x.abs().neg())
    assert aten.clone.default in operators(model)

    def writes(x: Tensor) -> Tensor:
        y = x.neg()
        return torch.relu_(y.to(torch.float32, copy=True)) + y

    settled(writes)


def test_casts_to_another_dtype_stay_without_their_checks() -> None:
    model = settled(lambda x: (x > 0).float().float() + x.to(torch.int64).to(torch.int64))
    assert operators(model) == [aten.gt.Scalar, aten.to.dtype, aten.to.dtype, aten.add.Tensor]


@pytest.mark.slow
@pytest.mark.parametrize(  # other cores are lowered like the last
    "target", full.only(["imxrt700", "imxrt700cm", "cortex-m33"], "imxrt700")
)
def test_models_with_casts_build(target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Casts().eval()
    build = api.build(model, X, target=target, output=tmp_path / "out")
    (found,) = HostRunner(tmp_path / "out" / "model.pte").run([X.numpy()])
    wanted = model(X).detach().numpy()
    assert np.abs(found - wanted).max() < np.ptp(wanted) / 16
    assert not any("to_copy" in node.op or "assert" in node.op for node in build.manifest.nodes)


class Rounds(nn.Module):
    """A layer with a bias that reads floats without a fraction, of which a step of the scale is several."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)
        nn.init.constant_(self.fc.bias, 300.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x.round())


@pytest.mark.parametrize("target", full.only(["cortex-m55", "ethos-u55-128"], "ethos-u55-128"))
def test_the_bias_of_a_layer_that_reads_whole_numbers(target: str):
    torch.manual_seed(0)
    batches = [torch.randn(1, 8) * 200 for _ in range(16)]
    build = api.build(Rounds(), batches[0], target=target, calibration=batches)
    assert build.manifest.quality.measured == "program"
    assert build.manifest.quality.outputs[0].sqnr > 40


class Counts(nn.Module):
    """Integers of quantized values, arithmetic with them, and floats of these."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        steps = (self.fc(x) * 4).round().int()
        return steps.clamp(-3, 3) + 1, (steps % 3).float() * x, (x > 0).to(x) + x


class Codes(nn.Module):
    """Integers of arithmetic with floats without a fraction."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.fc(x)
        codes = (x > 0).float() + (y > 0).float() * 2
        return codes.int(), (y.sign() + 1).to(torch.uint8), (torch.floor(y * 3) * 2 - 1).int()


class Chosen(nn.Module):
    """Integers of whole floats that constants are chosen, or compared, with."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        signs = torch.where(x > 0, torch.tensor(1.0), torch.tensor(-1.0))
        largest = torch.maximum((x * 4).trunc(), torch.full((8,), 5.0)).clamp(max=7)
        return signs.int(), largest.int(), torch.where(x > 0, 3.0, (x * 4).round()).int()


class Votes(nn.Module):
    """Integers of sums of whole floats."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        votes = (x > 0).float().sum(0)
        return (votes * 3).int(), (votes.amax(0, keepdim=True) - votes[:3]).int()


@pytest.mark.parametrize("target", full.first(["cortex-m55", "imxrt700cm", "ethos-u55-128cm"], 1))
@pytest.mark.parametrize("module", [Codes, Chosen, Votes])
def test_integers_of_whole_floats(module: type[nn.Module], target: str):
    torch.manual_seed(0)
    batches = [torch.randn(4, 8) for _ in range(16)]
    build = api.build(module(), batches[0], target=target, calibration=batches)
    assert all(output.equal > 0.95 for output in build.manifest.quality.outputs)


class Doublings(nn.Module):
    """Whole numbers that each depend twice on the last."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.round()
        for _ in range(14):
            y = torch.minimum(y + y.relu(), y.abs())
        return y


def test_whole_numbers_of_many_are_found_once():
    x = torch.randn(1, 8)
    assert api.build(Doublings(), x, target="cortex-m55", calibration=[x]).manifest.quality.outputs[0].sqnr > 20


@pytest.mark.parametrize("target", full.only(["cortex-m55", "imxrt700cm", "ethos-u55-128cm"], "ethos-u55-128cm"))
def test_integers_of_quantized_values_and_floats_of_integers(target: str, tmp_path: Path):
    torch.manual_seed(0)
    module, batches = Counts(), [torch.randn(4, 8) for _ in range(16)]
    build = api.build(module, batches[0], target=target, calibration=batches, output=tmp_path / "build")
    integers, *floats = build.manifest.quality.outputs
    assert integers.equal > 0.9
    assert all(output.sqnr > 15 for output in floats)

"""Builds with quantization-aware training: on each kind of target the program computes what was trained."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests import full
from tests.frontend.test_training import Net
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron import api
from deuteron.errors import InputError, OptionError, UnsupportedError
from deuteron.views.compare.pytorch import compare

SHAPE = (2, 6, 6)
QAT = api.BuildOptions(use_qat=True)


def train(model: fx.GraphModule) -> Iterator[float]:
    torch.manual_seed(3)
    x, labels = torch.randn(16, *SHAPE), torch.arange(16) % 4
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6):
        optimiser.zero_grad()
        loss = functional.cross_entropy(model(x), labels)
        loss.backward()
        optimiser.step()
        yield loss.item()


@pytest.mark.slow
@pytest.mark.parametrize("target", full.only(["imxrt700", "imxrt700cm", "cortex-m33"], "cortex-m33"))
def test_what_was_trained_runs(target: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    batches = [(torch.randn(1, *SHAPE),) for _ in range(4)]
    net, steps = Net(), list[str]()
    built = api.build(
        net,
        batches[0],
        target=target,
        calibration=batches,
        train=train,
        output=tmp_path / "build",
        options=QAT,
        progress=lambda step, index, count: steps.append(step),
    )
    assert len(built.losses) == 6
    assert built.losses[-1] < built.losses[0]
    assert f"train, step 6: loss {built.losses[-1]:.4g}" in steps
    assert net.training  # as it was
    assert not [node for node in built.manifest.nodes if "norm" in node.op or "dropout" in node.op]
    assert compare(tmp_path / "build", [(batch[0].numpy(),) for batch in batches]).failures() == ()


class Shared(nn.Module):
    """Weights that are one number of the module's for several, or none."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(2, 4, 2, 2, groups=2)
        self.bias = nn.Parameter(torch.zeros(144))
        self.classes = nn.Linear(4 * 12 * 12, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes((self.up(x).flatten(2) + self.bias).flatten(1))


@pytest.mark.slow
def test_what_the_module_shares_or_has_not_is_trained_so() -> None:
    trained: dict[str, Tensor] = {}

    def last(model: fx.GraphModule) -> Iterator[float]:
        yield from train(model)
        trained.update(model.named_parameters())

    torch.manual_seed(1)
    x = torch.randn(1, *SHAPE)
    api.build(Shared(), x, target="cortex-m33", calibration=[x], train=last, options=QAT)
    (weights,) = (value for value in trained.values() if value.shape == (2, 4, 2, 2))
    assert (weights[0, 2:] == 0).all()
    assert (weights[1, :2] == 0).all()
    (biases,) = (value for value in trained.values() if value.shape == (1, 4, 144))
    assert (biases != 0).any()
    assert (biases == biases[:, :1]).all()


def refusal(kind: type[InputError | OptionError | UnsupportedError], module: nn.Module, **arguments: object) -> str:
    x = torch.ones(1, *SHAPE)
    with pytest.raises(kind) as caught:
        api.build(module, x, calibration=[x], **arguments)  # pyright: ignore[reportArgumentType]
    return str(caught.value)


def test_training_wants_a_function_and_a_function_wants_training() -> None:
    assert refusal(OptionError, Net(), options=QAT) == (
        "`use_qat` needs a function that trains the model\n\nhint: give it as `train`"
    )
    assert refusal(OptionError, Net(), train=train) == (
        "a function that trains the model is given, but `use_qat` is not set\n\nhint: set both"
    )


@pytest.mark.slow
def test_a_function_that_returns_nothing_is_refused_in_a_build() -> None:
    def fit(model: fx.GraphModule) -> None:
        model(torch.ones(2, *SHAPE))

    assert refusal(InputError, Net(), target="cortex-m33", train=fit, options=QAT) == (
        "`fit` returned nothing\n\nhint: write a generator that trains the model it is given and says "
        "`yield loss.item()` after each step or epoch"
    )


class Averaging(Net):
    """With batch norms that average over all batches that they see."""

    def __init__(self) -> None:
        super().__init__()
        self.norm.momentum = self.other.momentum = None


@pytest.mark.slow
@pytest.mark.full
def test_batch_norms_without_a_momentum_are_trained_like_others() -> None:
    x, averaging = torch.ones(1, *SHAPE), Averaging()
    losses = [
        api.build(net, x, target="cortex-m33", calibration=[x], train=train, options=QAT).losses
        for net in (Net(), averaging)
    ]
    assert losses[0] == losses[1]
    assert averaging.norm.momentum is averaging.other.momentum is None


@pytest.mark.slow
def test_a_batch_norm_of_single_values_is_trained() -> None:
    """PyTorch refuses it in training mode: there is no variance."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2))
    x = torch.randn(1, 4)
    built = api.build(net, x, target="cortex-m33", calibration=[x], train=_one_step, options=QAT)
    assert len(built.losses) == 1


def _one_step(model: nn.Module) -> Iterator[float]:
    """A step on several samples."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimiser.step()
    yield loss.item()


class Branches(nn.Module):
    """Looks at its values."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x


def test_a_build_says_what_pytorch_cannot_export() -> None:
    line = Branches.forward.__code__.co_firstlineno + 1
    assert refusal(InputError, Branches(), target="cortex-m33") == (
        f"{__file__}:{line}: PyTorch cannot export this model: Data-dependent branching, at "
        "`return x + 1 if x.sum() > 0 else x`\n\n"
        "hint: compute both branches and select with `torch.where`; give a loop a fixed number of steps"
    )


class Mixed(nn.Module):
    """Weights of another dtype than the input's."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 2).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def test_a_parameter_of_float64_is_refused_by_name() -> None:
    assert refusal(InputError, Mixed(), target="imxrt700cm") == (
        "the parameter `layer.weight` of the model is float64; use float32\n\nhint: quantization starts from float32: "
        "convert the model and its inputs with `.float()`"
    )

"""Random stateful modules: 20 forms of mutation behind 5 layers, as graphs, and as programs."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests import full
from tests.frontend.state import stateful_networks
from tests.frontend.state.test_capture_state import check_steps, stream
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.runtime import pte

WIDTH = stateful_networks.WIDTH
MUTATIONS = (
    *("copied", "assigned", "added", "augmented", "concatenated", "rolled", "sliced", "filled", "halves"),
    *("through_a_view", "ring", "put", "put_by_operator", "selected", "counted", "flagged", "delayed", "swapped"),
    *("returned_before", "tupled"),
)
"""The forms that `forms.Keeps` runs on the result of its layer."""


class Gated(nn.Module):
    """A row times the sigmoid of a layer of it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.gate(x))


class Convolved(nn.Module):
    """A convolution over the numbers of a row."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return functional.max_pool1d(torch.relu(self.conv(x[:, None])), 2).flatten(1)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "two": lambda: nn.Sequential(nn.Linear(WIDTH, 12), nn.ReLU(), nn.Linear(12, WIDTH)),
    "norm": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)),
    "gated": Gated,
    "convolved": Convolved,
}

PAIRS = [(form, layer) for form in MUTATIONS for layer in LAYERS]
SLICE = random.Random(37).sample(PAIRS, 12)


def made(form: str, layer: str) -> nn.Module:
    torch.manual_seed(0)
    module = stateful_networks.FORMS[form]()
    assert isinstance(module, stateful_networks.Keeps)
    module.layer = LAYERS[layer]()
    return module.eval()


def test_there_are_20_forms_and_5_layers():
    assert (len(set(MUTATIONS)), len(LAYERS)) == (20, 5)


@pytest.mark.parametrize(("form", "layer"), full.only(PAIRS, *SLICE))
def test_a_graph_steps_as_its_module_does(form: str, layer: str):
    check_steps(made(form, layer), 8)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "layer"), full.only(PAIRS, SLICE[0]))
def test_a_program_steps_as_its_module_does(form: str, layer: str):
    build = api.build(made(form, layer), stream(1)[0], target="cortex-m55", calibration=stream(32))
    quality = build.manifest.quality
    assert quality.measured == "program"
    assert quality.outputs[0].sqnr > (20 if form == "through_a_view" else 25)


class Counters(nn.Module):
    """A layer whose bias has the bytes of a counter's initial value, which is the last of several."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        nn.init.zeros_(self.layer.bias)
        for number in range(6, -1, -1):
            self.register_buffer(f"n{number}", torch.full((WIDTH // 2,), number))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        total = self.n0 + 0
        for number in range(7):
            counter = self.get_buffer(f"n{number}")
            total = total + counter
            counter.add_(number + 1)
        return self.layer(x), total


def test_a_state_with_the_bytes_of_a_constant_has_its_own_initial_value():
    (method,) = pte.read(
        api.build(Counters().eval(), stream(1)[0], target="cortex-m55", calibration=stream(4)).pte
    ).methods
    initial = {
        tensor.name: np.frombuffer(tensor.constant.data, np.int64).tolist()
        for _, tensor in method.state
        if tensor.constant is not None
    }
    assert initial == {f"n{number}": [number] * (WIDTH // 2) for number in range(7)}


class SetToConstants(nn.Module):
    """Adds a buffer that the first run zeroes, where a flag that it sets is not set yet."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("first", torch.ones(WIDTH))
        self.register_buffer("is_late", torch.tensor(False))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.where(self.is_late, self.layer(x), x) + self.first
        self.first.zero_()
        self.is_late = torch.tensor(True)
        return y


@pytest.mark.parametrize("target", full.first(["cortex-m55", "ethos-u85-256"], 1))
def test_constants_are_written_into_the_state(target: str):
    build = api.build(SetToConstants().eval(), stream(1)[0], target=target, calibration=stream(32))
    assert build.manifest.quality.measured == "program"
    assert build.manifest.quality.outputs[0].sqnr > 30

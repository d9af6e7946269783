"""Recurrent layers on CPUs with int8 operators: one operator per layer and direction, with its rounding."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import pytest
import torch
from tests import full
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.builds.quality import decibels
from deuteron.errors import UnsupportedError
from deuteron.frontend import saved
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.quantize.recurrent_layers import layer_operator


class Everything(nn.Module):
    """Layers of all kinds with initial states, in both directions, several layers and both orders of the sequence."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.lstm = nn.LSTM(6, 8, num_layers=2, bidirectional=True)
        self.gru = nn.GRU(16, 5, num_layers=2, batch_first=True, bias=False)
        self.relu = nn.RNN(5, 7, nonlinearity="relu", bidirectional=True)
        self.tanh = nn.RNN(14, 7)

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        y, states = self.lstm(x, (hidden, cell))
        z, last = self.gru(y.transpose(0, 1), state)
        w, final = self.relu(z)
        return y, *states, z, last, w, final, self.tanh(w)[0]


class Finals(nn.Module):
    """Final states only, which other layers read."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.lstm, self.gru, self.rnn, self.linear = nn.LSTM(6, 8), nn.GRU(6, 8), nn.RNN(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        hidden, cell = self.lstm(x)[1]
        state = self.gru(x)[1]
        return self.linear(hidden), cell, self.linear(state), state, self.rnn(x)[1]


class Streaming(nn.Module):
    """States in buffers, which live from one step to the next."""

    hidden: Tensor
    cell: Tensor
    state: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.lstm = nn.LSTM(6, 8, batch_first=True, num_layers=2)
        self.gru, self.linear = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 3)
        for name, layers in (("hidden", 2), ("cell", 2), ("state", 1)):
            self.register_buffer(name, torch.zeros(layers, 1, 8))

    def forward(self, x: Tensor) -> Tensor:
        y, (hidden, cell) = self.lstm(x, (self.hidden, self.cell))
        z, state = self.gru(y, self.state)
        self.hidden.copy_(hidden)
        self.cell.copy_(cell)
        self.state.copy_(state)
        return self.linear(z)


def random(*shapes: tuple[int, ...], seed: int = 0) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, generator=generator) / 2 for shape in shapes)


TARGETS = ["cortex-m55", "cortex-m33", "imxrt700cm", "ethos-u55-128cm"]
NETWORKS = {
    "everything": (
        Everything,
        ((9, 2, 6), (4, 2, 8), (4, 2, 8), (2, 2, 5)),
        (25.0, 25.0, 38.0, 22.0, 30.0, 28.0, 28.0),
    ),
    "finals": (Finals, ((7, 1, 6),), (30.0, 40.0, 30.0, 40.0, 30.0)),
    "streaming": (Streaming, ((1, 1, 6),), (35.0,)),
}


@pytest.mark.parametrize("target", full.only(TARGETS, "cortex-m55"))
@pytest.mark.parametrize("name", full.only(NETWORKS, "streaming"))
def test_layers_become_one_operator_that_equals_the_quantized_model(tmp_path: Path, name: str, target: str) -> None:
    network, shapes, least = NETWORKS[name]
    module, batches = network().eval(), [random(*shapes, seed=seed) for seed in range(8)]
    build = api.build(module, batches[0], target=target, calibration=batches, output=tmp_path / "build")
    found = [op.op for op in build.manifest.cpu_ops]
    layers = {"everything": (4, 2, 3), "finals": (1, 1, 1), "streaming": (2, 1, 0)}[name]
    assert tuple(found.count(f"deuteron::{kind}") for kind in ("lstm", "gru", "rnn")) == layers
    assert len(found) < 60
    multiplied = {"everything": 18 * 15 * (16 + 5 + 5 + 5), "finals": 7 * 24 * (6 + 8), "streaming": 24 * (8 + 8)}[name]
    assert sum(node.terms for node in build.manifest.nodes if node.op == "deuteron::gru") == multiplied
    reference = saved.load(tmp_path / "build" / "reference.pt2")
    ran = list(reference.steps(batches)) if name == "streaming" else [reference.run(one) for one in batches]
    with torch.no_grad():
        wanted = [flat(module(*one)) for one in batches]
    for index, ratio in enumerate(least):
        a, b = (torch.stack([cast(Tensor, one[index]) for one in each]).double() for each in (wanted, ran))
        assert decibels(float((a**2).sum()), float(((a - b) ** 2).sum())) >= ratio, index


class Activated(nn.Module):
    """A layer, and activations that read its results."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.linear = getattr(nn, kind)(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.layer(x)[0]
        bounded = functional.relu6(y), y.clamp(-0.1, 0.2), functional.hardtanh(y, -0.2, 0.1)
        return self.linear(torch.relu(y)), torch.relu(y), torch.relu(y[:, -1]), *bounded


@pytest.mark.parametrize("target", full.first(["ethos-u55-128cm", "ethos-u65-256cm", "imxrt700cm", "cortex-m55"], 1))
@pytest.mark.parametrize("kind", full.first(["GRU", "LSTM", "RNN"], 1))
def test_activations_of_a_layer_have_its_scale_or_a_change_of_scale(tmp_path: Path, kind: str, target: str) -> None:
    assert min(quality(tmp_path, Activated(kind), (1, 7, 6), target=target)) > 30


class Outputs(nn.Module):
    """A layer and the results of it that `read` returns."""

    def __init__(self, layer: nn.RNNBase, read: Callable[..., object] = lambda steps, _: steps) -> None:
        super().__init__()
        self.layer, self.read, self.scale = layer, read, 1

    def forward(self, x: Tensor, *states: Tensor) -> object:
        states = tuple(state * self.scale for state in states)
        return self.read(*self.layer(x, *(states if len(states) < 2 else [states])))


def with_values(layer: nn.RNNBase, values: Mapping[str, Callable[[Tensor], Tensor]]) -> nn.RNNBase:
    """A layer with these changes of its weights."""
    with torch.no_grad():
        for name, value in values.items():
            parameter = layer.get_parameter(name)
            parameter.copy_(value(parameter))
    return layer


def rows(first: int, end: int, value: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A change of some rows."""
    return lambda x: torch.cat([x[:first], value(x[first:end]), x[end:]])


SMALL: Mapping[str, tuple[str, Mapping[str, Callable[[Tensor], Tensor]]]] = {
    "no hidden weights": ("GRU", {"weight_hh_l0": torch.zeros_like, "bias_hh_l0": torch.ones_like}),
    "small rows of the new gate": (
        "GRU",
        {"weight_hh_l0": rows(16, 24, lambda x: x * 1e-5), "bias_hh_l0": rows(16, 24, torch.ones_like)},
    ),
    "no weights of the forget gate": (
        "LSTM",
        {"weight_ih_l0": rows(8, 16, torch.zeros_like), "bias_ih_l0": rows(8, 16, torch.ones_like)},
    ),
}


@pytest.mark.parametrize("name", full.first(SMALL, 1))
def test_a_gate_without_weights_keeps_its_bias(tmp_path: Path, name: str) -> None:
    torch.manual_seed(1)
    kind, values = SMALL[name]
    assert min(quality(tmp_path, Outputs(with_values(getattr(nn, kind)(6, 8), values)), (7, 2, 6))) > 33


@pytest.mark.parametrize("states", full.first([0, 2], 1))
def test_a_layer_of_which_only_the_cell_state_is_read(tmp_path: Path, states: int) -> None:
    module = Outputs(nn.LSTM(6, 8, bidirectional=True), lambda _, last: last[1])
    assert min(quality(tmp_path, module, (7, 2, 6), *[(2, 2, 8)] * states)) > 30


class Packed(nn.Module):
    """The states of two layers in one tensor, and other layers before and after these."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = nn.Conv1d(16, 16, 1), nn.Conv1d(16, 16, 1)
        self.lstms = nn.ModuleList(nn.LSTM(16, 16, batch_first=True) for _ in range(2))

    def forward(self, x: Tensor, states: Tensor) -> tuple[Tensor, ...]:
        x = self.first(x).permute(0, 2, 1)
        y, after = functional.layer_norm(x, (16,)), list[Tensor]()
        for state, lstm in zip(states.split(1), self.lstms, strict=True):
            y, last = lstm(y, (state[..., 0], state[..., 1]))
            after.append(torch.stack(last, dim=-1))
        return self.last((x * y).permute(0, 2, 1)), torch.cat(after)


@pytest.mark.parametrize("target", full.first(["imxrt700cm", "ethos-u55-128cm", "cortex-m33"], 1))
def test_the_cpu_moves_states_of_16_bits(tmp_path: Path, target: str) -> None:
    assert min(quality(tmp_path, Packed(), (1, 16, 1), (2, 1, 16, 2), target=target)) > 28


FORGETS = {"bias_ih_l0": lambda x: torch.cat([torch.full((8,), 4.0), torch.full((8,), -6.0), x[16:]])}


@pytest.mark.parametrize("target", full.only(TARGETS, "cortex-m55"))
def test_an_initial_state_beyond_the_sequence(tmp_path: Path, target: str) -> None:
    torch.manual_seed(1)
    layer = with_values(nn.GRU(6, 8), FORGETS)
    module = Outputs(layer, lambda steps, last: (steps, last, torch.relu(steps), torch.cat([steps, steps * 2])))
    module.scale = 8
    assert min(quality(tmp_path, module, (1, 2, 6), (1, 2, 8), target=target)) > 25


def quality(folder: Path, module: nn.Module, *shapes: tuple[int, ...], target: str = "cortex-m55") -> list[float]:
    """The quality of each output of a program, in dB."""
    batches = [random(*shapes, seed=seed) for seed in range(8)]
    build = api.build(module.eval(), batches[0], target=target, calibration=batches, output=folder / "build")
    assert not [text for text in build.manifest.warnings if "computes something else" in text]
    return [output.sqnr for output in build.manifest.quality.outputs]


def test_the_float_operator_has_gradients() -> None:
    x, hidden, *weights = (one.requires_grad_() for one in random((4, 1, 3), (1, 1, 5), (15, 3), (15, 5), (15,), (15,)))
    given = (x, hidden, None, weights, "gru", False, True, 0, 0.0, 0.0, False)
    layer = nn.GRU(3, 5)
    for (_, parameter), value in zip(layer.named_parameters(), weights, strict=True):
        parameter.data = value.detach().clone()
    wanted = layer(x.flip(0), hidden)[0].square().sum()
    actual = layer_operator()(*given)[0].square().sum()
    assert torch.equal(*torch.autograd.grad(wanted, [x]), *torch.autograd.grad(actual, [x]))
    theirs = torch.autograd.grad(layer(x.flip(0), hidden)[0].square().sum(), list(layer.parameters()))
    ours = torch.autograd.grad(layer_operator()(*given)[0].square().sum(), weights)
    assert all(torch.allclose(a, b) for a, b in zip(theirs, ours, strict=True))


class Counts(nn.Module):
    """A cell state that grows with each step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 1)
        for name, parameter in self.lstm.named_parameters():
            parameter.data = torch.full_like(parameter, 20.0 if name.startswith("bias") else 0.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


def test_states_beyond_16_bits_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"has states up to 80; at most 64 are allowed, at `return self.lstm"):
        api.build(Counts(), random((80, 1, 1)), target="cortex-m55")


@pytest.mark.full
@pytest.mark.parametrize("target", full.only([*TARGETS, "ethos-u55-128"], "cortex-m55"))
def test_projections_are_layers_of_each_step(target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.LSTM(6, 8, bidirectional=True, proj_size=3)
    samples = [(torch.randn(3, 1, 6),) for _ in range(16)]
    built = api.build(module, samples[0], target=target, calibration=samples, output=tmp_path / "build")
    assert min(output.sqnr for output in built.manifest.quality.outputs) > 20
    assert api.compare(tmp_path / "build").passed

"""Layers of concatenations of small and large values are sums of layers."""

from functools import partial
from pathlib import Path

import pytest
import torch
from tests.frontend.float_rewrites import rewritten
from torch import Tensor, nn

from deuteron import api
from deuteron.frontend.quantize import split_concatenations

aten = torch.ops.aten


class Cell(nn.Module):
    """Two steps of a convolutional recurrent cell, whose state begins at 0 and is much smaller than the input."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Conv2d(6, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(1, 4, 6, 6)
        for _ in range(2):
            state = torch.tanh(self.gates(torch.cat([x, state], 1))) * 0.02
        return state


class Joined(nn.Module):
    """A linear layer of a tensor and its multiple by `factor`, and other readers if wanted."""

    def __init__(self, factor: float, is_read: bool = False) -> None:
        super().__init__()
        self.layer, self.factor, self.is_read = nn.Linear(12, 4, bias=False), factor, is_read

    def forward(self, x: Tensor) -> Tensor:
        joined = torch.cat([x, self.factor * x.sin(), x.cos()], -1)
        return self.layer(joined) + joined.mean() if self.is_read else self.layer(joined)


def operators(module: nn.Module, *shape: int) -> list[object]:
    torch.manual_seed(0)
    batches = [(torch.randn(shape),) for _ in range(2)]
    return rewritten(module.eval(), shape, partial(split_concatenations.split, batches=batches), rtol=1e-5)


def test_parts_of_other_sizes_have_layers_of_their_own_and_zeros_have_none():
    found = operators(Cell(), 1, 2, 6, 6)
    assert aten.cat.default not in found
    assert found.count(aten.conv2d.default) == 3


@pytest.mark.parametrize(("factor", "layers"), [(0.05, 2), (0.5, 1), (20.0, 2)])
def test_parts_of_one_size_share_a_layer(factor: float, layers: int):
    found = operators(Joined(factor), 2, 4)
    assert found.count(aten.linear.default) == layers
    assert found.count(aten.cat.default) == 1


def test_a_concatenation_with_other_readers_stays():
    assert operators(Joined(0.01, is_read=True), 2, 4).count(aten.linear.default) == 1


def test_a_small_state_keeps_its_precision(tmp_path: Path):
    torch.manual_seed(0)
    module, inputs = Cell().eval(), [(torch.randn(1, 2, 6, 6),) for _ in range(4)]
    with torch.no_grad():
        module.gates.weight[:, 2:] *= 40  # the state decides half of the result
    api.build(module, inputs[0], target="ethos-u55-128", calibration=inputs, output=tmp_path / "build")
    (given,) = api.run(tmp_path / "build", (inputs[0][0].numpy(),))
    wanted = module(inputs[0][0])
    noise = wanted - torch.as_tensor(given)
    assert noise.square().sum() < 0.002 * wanted.square().sum()

"""Layers whose weights a model computes become products of matrices."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import full
from tests.frontend.float_rewrites import Call, rewritten
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.frontend.quantize import computed_weights

aten = torch.ops.aten

IMAGE = (2, 4, 6, 7)


def of(x: Tensor, *shape: int) -> Tensor:
    """Weights that depend on an input."""
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape) * x.mean()


LAYERS: list[tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = [
    (lambda x: functional.linear(x, of(x, 3, 8), of(x, 3)), (4, 8)),
    (lambda x: functional.linear(x, torch.eye(8)[:3], of(x, 3)), (4, 8)),
    (lambda x: functional.conv2d(x, of(x, 6, 4, 3, 2)), IMAGE),
    (lambda x: functional.conv2d(x, of(x, 6, 4, 1, 1), of(x, 6)), IMAGE),
    (lambda x: functional.conv2d(x, of(x, 6, 2, 3, 3), torch.ones(6), (2, 1), (1, 2), (1, 2), 2), IMAGE),
    (lambda x: functional.conv2d(x, of(x, 4, 1, 3, 3), padding=1, groups=4), IMAGE),
    (lambda x: functional.conv2d(x, torch.ones(2, 4, 3, 3), of(x, 2), padding=1), IMAGE),
    (lambda x: functional.conv1d(x, of(x, 6, 2, 3), None, 2, 2, 2, 2), (2, 4, 9)),
]


@pytest.mark.parametrize(("function", "shape"), LAYERS)
def test_they_compute_the_same(function: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> None:
    rewritten(Call(function), shape, computed_weights.write, rtol=1e-5)


def test_layers_with_constant_weights_stay() -> None:
    module = Call(lambda x, layer: layer(x), nn.Conv2d(4, 3, 3))
    assert rewritten(module, IMAGE, computed_weights.write) == [aten.conv2d.default]


class Generated(nn.Module):
    """A convolution with weights of the image, and a layer whose weights change from run to run."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.weights, self.last = nn.Conv2d(3, 8, 3), nn.Linear(8, 4 * 4 * 9), nn.Linear(4, 4)
        self.register_buffer("kept", torch.eye(4))

    def forward(self, x: Tensor) -> Any:
        y = self.conv(x)
        y = functional.conv2d(y, self.weights(y.mean((2, 3))).reshape(4, 4, 3, 3), groups=2, padding=1)
        y = functional.linear(self.last(y.mean((2, 3))), self.kept)
        self.kept.mul_(0.9)
        return y


@pytest.mark.parametrize("target", full.first(["cortex-m55", "ethos-u55-128"], 1))
def test_they_are_built(target: str, tmp_path: Path) -> None:
    samples = [(torch.randn(1, 3, 8, 8),) for _ in range(16)]
    built = api.build(Generated(), samples[0], target=target, calibration=samples, output=tmp_path / "build")
    assert min(output.sqnr for output in built.manifest.quality.outputs) > 20
    assert api.compare(tmp_path / "build").passed

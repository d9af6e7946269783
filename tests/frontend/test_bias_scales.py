"""Layers whose biases are far larger than their products."""

from pathlib import Path

import pytest
import torch
from tests import full
from torch import Tensor, nn

from deuteron.frontend.build import build
from deuteron.runtime.host import HostRunner

LARGEST = 1000.0


class Biased(nn.Module):
    """Layers of tiny weights with large biases."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.linear, self.wide = nn.Conv2d(3, 8, 3), nn.Linear(8, 8), nn.ConvTranspose2d(3, 4, 2)
        for layer in (self.conv, self.linear, self.wide):
            layer.weight.data *= 1e-3
            layer.bias.data = torch.linspace(-LARGEST, LARGEST, len(layer.bias))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.conv(x), self.linear(x.reshape(24, 8)), self.wide(x)


@pytest.mark.parametrize("target", full.only(["cortex-m55", "imxrt700cm", "ethos-u55-128"], "ethos-u55-128"))
def test_biases_fit_into_accumulators(target: str, tmp_path: Path) -> None:
    model = Biased().eval()
    samples = [(torch.rand(1, 3, 8, 8) * 2 - 1,) for _ in range(16)]
    path = tmp_path / "model.pte"
    path.write_bytes(build(model, samples[0], target=target, calibration=samples).pte)
    runner = HostRunner(path)
    for (x,) in samples[:3]:
        for ours, wanted in zip(runner.run([x.numpy()]), model(x), strict=True):
            steps = (torch.as_tensor(ours) - wanted).abs().max() / (wanted.abs().max() * 2 / 255)
            assert steps < 4

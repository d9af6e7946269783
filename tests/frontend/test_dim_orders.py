"""Tensors whose order of memory differs in dimensions of size 1 alone are contiguous in programs."""

from pathlib import Path

import pytest
import torch
from tests import full
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.runtime import pte


class Convolved(nn.Module):
    """An image of one channel, convolved with computed weights, and a signal of one channel from a transposed layer."""

    def __init__(self) -> None:
        super().__init__()
        self.weights, self.image = nn.Linear(8, 9), nn.Conv2d(1, 4, 3, padding=1)
        self.signal, self.last = nn.ConvTranspose1d(8, 1, 4, stride=2), nn.Linear(18, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        weights = self.weights(x[:, 0, 0]).view(1, 1, 3, 3)
        image = functional.conv2d(self.image(x).mean(1, keepdim=True), weights, padding=1)
        return image, self.last(torch.relu(self.signal(x[:, 0])))


@pytest.mark.parametrize("target", full.first(["cortex-m55", "imxrt700cm"], 1))
def test_programs_with_images_of_one_channel_run(target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    samples = [(torch.randn(1, 1, 8, 8),) for _ in range(8)]
    built = api.build(Convolved(), samples[0], target=target, calibration=samples, output=tmp_path / "build")
    assert min(output.sqnr for output in built.manifest.quality.outputs) > 20
    assert api.compare(tmp_path / "build").passed
    (method,) = pte.read((tmp_path / "build" / "model.pte").read_bytes()).methods
    orders = {value.spec.dim_order for value in method.values if getattr(value, "spec", None) is not None}  # type: ignore[union-attr]
    assert orders <= {*(tuple(range(rank)) for rank in range(7)), (0, 2, 3, 1)}

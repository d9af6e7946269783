"""Transposed convolutions of groups, with other channels after them than before."""

import pytest
import torch
from tests import full
from torch import nn

from deuteron import api

pytest.importorskip("executorch.backends.arm.ethosu")


@pytest.mark.parametrize(
    "layer", full.first([nn.ConvTranspose2d(8, 4, 2, 2, groups=2), nn.ConvTranspose2d(4, 8, 3, groups=4)], 1)
)
def test_they_are_built(layer: nn.ConvTranspose2d) -> None:
    samples = [(torch.randn(1, layer.in_channels, 6, 6),) for _ in range(8)]
    built = api.build(layer.eval(), samples[0], target="ethos-u55-128", calibration=samples)
    assert built.manifest.quality.outputs[0].sqnr > 25

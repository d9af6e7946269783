"""Equal operators of one value, whose results have different scales."""

import pytest
import torch
from torch import Tensor, nn

from deuteron import api

pytest.importorskip("executorch.backends.arm.ethosu")


class Signs(nn.Module):
    """The choice has a scale for both signs, which the value that is not negated gets too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor, sign: Tensor) -> Tensor:
        y = self.layer(x)
        return torch.where(sign < 0, -y.abs(), y.abs())


def test_each_has_its_scale() -> None:
    samples = [(torch.randn(4, 8), torch.randn(4, 8).sign()) for _ in range(32)]
    built = api.build(Signs().eval(), samples[0], target="ethos-u55-128", calibration=samples)
    assert built.manifest.quality.outputs[0].sqnr > 25

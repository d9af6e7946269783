"""Operators with one input that the backend takes for equal."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

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


class Exponentials(nn.Module):
    """Functions of the ELU family, whose parameters the backend keeps as metadata."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return torch.cat([functional.selu(y), functional.celu(y), functional.celu(y, 0.5), functional.elu(y, 0.7)], 1)


def test_functions_of_the_elu_family_keep_their_parameters() -> None:
    samples = [(torch.randn(4, 8),) for _ in range(8)]
    built = api.build(Exponentials().eval(), samples[0], target="ethos-u55-128", calibration=samples)
    assert built.manifest.quality.outputs[0].sqnr > 25

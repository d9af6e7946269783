"""Functions that invert or decompose matrices: of constants they are constants, of inputs they are refused."""

import pytest
import torch
from torch import Tensor, nn

from deuteron import api
from deuteron.errors import UnsupportedError

X = torch.linspace(-1, 1, 32).reshape(4, 8)


class Inverted(nn.Module):
    """Products with the inverse of a buffer, and of an input."""

    def __init__(self, *, is_constant: bool) -> None:
        super().__init__()
        self.is_constant = is_constant
        self.matrix = nn.Buffer(torch.eye(4) * 2 + 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.inv(self.matrix if self.is_constant else self.matrix + x[:, :4]) @ x


def test_of_constants() -> None:
    built = api.build(Inverted(is_constant=True), (X,), target="cortex-m55", calibration=[(X,)])
    assert built.manifest.quality.outputs[0].sqnr > 25


@pytest.mark.parametrize("target", ["cortex-m55", "ethos-u55-128"])
def test_of_inputs(target: str) -> None:
    with pytest.raises(
        UnsupportedError, match="inverts or decomposes a matrix, which no target computes, at `"
    ) as caught:
        api.build(Inverted(is_constant=False), (X,), target=target, calibration=[(X,)])
    assert "test_matrix_functions.py:" in str(caught.value)

"""Convolutions with weights that depend on inputs become matrix products, with the same values."""

from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron import api
from deuteron.frontend.quantize import computed_weights


class Convolved(nn.Module):
    """A convolution whose weights are an input."""

    def __init__(self, rank: int, **options: Any) -> None:
        super().__init__()
        self.convolve, self.options = (functional.conv1d, functional.conv2d)[rank - 1], options

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return self.convolve(x, weight, bias, **self.options)


@pytest.mark.parametrize(
    ("module", "shapes"),
    [
        (Convolved(2), [(2, 3, 5, 6), (4, 3, 1, 1), (4,)]),
        (Convolved(2, stride=2, padding=(1, 0), dilation=(1, 2)), [(2, 3, 7, 6), (4, 3, 3, 2)]),
        (Convolved(2, padding=1, groups=4), [(1, 4, 5, 6), (8, 1, 3, 3), (8,)]),
        (Convolved(1, padding=2, groups=2), [(2, 4, 9), (6, 2, 5)]),
    ],
)
def test_the_values_stay(module: nn.Module, shapes: list[tuple[int, ...]]) -> None:
    inputs = tuple(map(torch.randn, shapes))
    model = torch.export.export(module, inputs).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    computed_weights.write(model)
    torch.testing.assert_close(model(*inputs), module(*inputs), rtol=1e-5, atol=1e-5)
    assert any(node.target is torch.ops.aten.bmm.default for node in model.graph.nodes)


class DynamicConvolution(nn.Module):
    """A mixture of kernels, with weights that attention computes of the image."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.Linear(3, 4)
        self.weight, self.bias = nn.Parameter(torch.randn(4, 8, 3, 3, 3)), nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        shares = self.attention(x.mean((2, 3))).softmax(-1)
        weight = (shares @ self.weight.flatten(1)).view(8, 3, 3, 3)
        return functional.conv2d(x, weight, self.bias, padding=1).relu()


@pytest.mark.parametrize("target", ["cortex-m55", "ethos-u55-128cm"])
def test_a_dynamic_convolution_is_built(target: str) -> None:
    samples = [(torch.randn(1, 3, 8, 8),) for _ in range(8)]
    built = api.build(DynamicConvolution(), samples[0], target=target, calibration=samples)
    assert built.manifest.quality.outputs[0].sqnr > 25

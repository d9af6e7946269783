"""Layers with more products than an int8 kernel adds become sums of layers."""

from pathlib import Path

import pytest
import torch
from tests.frontend.float_rewrites import rewritten
from torch import Tensor, fx, nn

from deuteron import api
from deuteron.frontend.quantize import long_sums

aten = torch.ops.aten

LAYERS = [
    (nn.Linear(40_000, 2), (3, 40_000), aten.linear.default),
    (nn.Conv2d(4000, 2, 3, padding=1, bias=False), (1, 4000, 3, 3), aten.conv2d.default),
    (nn.Conv2d(4000, 2, 3, padding="same"), (1, 4000, 3, 3), aten.conv2d.padding),
    (nn.ConvTranspose2d(3000, 2, 4, 2), (1, 3000, 2, 2), aten.conv_transpose2d.input),
]


@pytest.mark.parametrize(("layer", "shape", "operator"), LAYERS)
def test_parts_of_the_inputs_are_added(layer: nn.Module, shape: tuple[int, ...], operator: object):
    found = rewritten(layer, shape, long_sums.write, rtol=1e-3)
    assert found == [aten.slice.Tensor, operator, aten.slice.Tensor, operator, aten.add.Tensor]


def test_short_sums_stay():
    assert rewritten(nn.Linear(32_768, 1), (1, 32_768), long_sums.write) == [aten.linear.default]


def test_a_long_linear_layer_builds(tmp_path: Path):
    torch.manual_seed(0)
    model, inputs = nn.Sequential(nn.Flatten(), nn.Linear(40_000, 2)), (torch.randn(1, 4, 100, 100),)
    api.build(model, inputs, target="cortex-m55", calibration=[inputs], output=tmp_path / "build")
    assert api.compare(tmp_path / "build", [tuple(x.numpy() for x in inputs)]).passed


def test_each_group_is_split() -> None:
    layer = nn.Conv2d(8400, 4, 3, groups=2)
    found = rewritten(layer, (1, 8400, 3, 3), long_sums.write, rtol=1e-3)
    assert found.count(aten.conv2d.default) == 4
    assert found[-1] == aten.cat.default


@pytest.mark.parametrize("shape", [(2, 40_000), (40_000,), (3, 2, 40_000)])
def test_products_of_matrices_are_split(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(shape), torch.randn(40_000, 2) / 200)
    model = torch.export.export(Product(), inputs).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    long_sums.write(model)
    assert len(model.graph.find_nodes(op="call_function", target=aten.slice.Tensor)) == 4
    torch.testing.assert_close(model(*inputs), inputs[0] @ inputs[1], rtol=1e-4, atol=1e-4)


class Product(nn.Module):
    """A product of matrices."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x @ y

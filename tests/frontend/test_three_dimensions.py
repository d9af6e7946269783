"""Layers over three dimensions become layers over two, with the same values."""

import pytest
import torch
from tests import full
from torch import Tensor, fx, nn

from deuteron import api
from deuteron.frontend.quantize import volumes

X = torch.linspace(-1, 1, 2 * 4 * 6 * 5 * 8).sin().mul(9).frac().reshape(2, 4, 6, 5, 8)
LAYERS = {
    "kernel": nn.Conv3d(4, 6, 3, padding=1),
    "strides": nn.Conv3d(4, 6, (2, 3, 1), (2, 1, 3), (0, 1, 0), bias=False),
    "depthwise and dilated": nn.Conv3d(4, 8, (3, 1, 3), padding=(2, 0, 1), dilation=(2, 1, 1), groups=4),
    "pointwise": nn.Sequential(nn.Conv3d(4, 3, 1), nn.BatchNorm3d(3), nn.ReLU6(), nn.Conv3d(3, 2, 1, (2, 1, 1))),
    "transposed": nn.ConvTranspose3d(4, 6, 3, 2, 1, 1),
    "transposed in groups": nn.ConvTranspose3d(4, 8, (2, 3, 1), (2, 1, 3), groups=2, bias=False),
    "transposed and dilated": nn.ConvTranspose3d(4, 3, (3, 2, 3), (1, 2, 1), (1, 0, 2), dilation=(2, 1, 1)),
    "same": nn.Conv3d(4, 3, (3, 1, 3), padding="same"),
    "same of even": nn.Conv3d(4, 3, (2, 3, 4), padding="same", dilation=(1, 2, 1)),
    "valid": nn.Conv3d(4, 3, 2, 2, padding="valid"),
    "average": nn.AvgPool3d((2, 3, 3), 2, 1, ceil_mode=True, count_include_pad=False),
    "average of frames": nn.AvgPool3d((6, 1, 1)),
    "average of one": nn.AvgPool3d(1),
    "nearest": nn.Upsample(scale_factor=(2, 1, 3)),
    "nearest size": nn.Upsample((7, 4, 8)),
    "linear": nn.Upsample(scale_factor=(1, 2, 1.5), mode="trilinear"),
    "linear size": nn.Upsample((4, 10, 9), mode="trilinear", align_corners=True),
    "transposed without bias": nn.ConvTranspose3d(4, 2, (2, 3, 1), (1, 2, 1), (0, 1, 0), bias=False),
    "transposed, dilated groups": nn.ConvTranspose3d(
        4, 8, (3, 1, 2), (2, 1, 1), (3, 0, 0), groups=2, dilation=(2, 1, 1)
    ),
    "adaptive": nn.AdaptiveAvgPool3d((3, 1, 4)),
}


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_the_values_stay(name: str, samples: int) -> None:
    layer, x = LAYERS[name].eval(), X[:samples]
    model = torch.export.export(layer, (x,)).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    volumes.write(model)
    assert not any("3d" in str(node.target) for node in model.graph.nodes)
    torch.testing.assert_close(model(x), layer(x))


@pytest.mark.parametrize("name", [name for name in LAYERS if name.split()[0] not in ("pointwise", "nearest", "linear")])
def test_a_volume_needs_no_batch(name: str) -> None:
    layer, x = LAYERS[name].eval(), X[0]
    model = torch.export.export(layer, (x,)).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    volumes.write(model)
    assert not any("3d" in str(node.target) for node in model.graph.nodes)
    torch.testing.assert_close(model(x), layer(x))


def test_layers_in_a_row_share_frames() -> None:
    model = torch.export.export(LAYERS["pointwise"].eval(), (X,)).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    volumes.write(model)
    assert len(model.graph.find_nodes(op="call_function", target=torch.ops.aten.permute.default)) == 2


class Clip(nn.Module):
    """A residual network over frames."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Sequential(nn.Conv3d(2, 8, 3, (1, 2, 2), 1, bias=False), nn.BatchNorm3d(8), nn.ReLU())
        self.depthwise = nn.Sequential(nn.Conv3d(8, 8, 3, padding=1, groups=8), nn.ReLU6())
        self.pool, self.head = nn.AdaptiveAvgPool3d(1), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.head(self.pool(x + self.depthwise(x)).flatten(1))


class Segmenter(nn.Module):
    """Enlarges a volume again, and averages one without a batch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.down, self.up = nn.Conv3d(2, 8, 3, 2, 1), nn.ConvTranspose3d(8, 2, 3, 2, 1, 1)
        self.average = nn.AvgPool3d((1, 1, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.average(self.up(self.down(x).relu())[0])


@pytest.mark.parametrize("network", full.first([Clip, Segmenter], 1))
def test_a_network_over_frames_is_built(network: type[nn.Module]) -> None:
    samples = [(torch.randn(1, 2, 4, 8, 8),) for _ in range(8)]
    built = api.build(network().eval(), samples[0], target="cortex-m55", calibration=samples)
    assert built.manifest.quality.outputs[0].sqnr > 25

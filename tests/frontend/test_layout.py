"""Images in the order of memory of the CPU's operators: the float model computes what it did before."""

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron import api
from deuteron.frontend.cortex_m.layout import make_explicit, put_channels_last


class Larger(nn.Module):
    """An image of other height and width."""

    def __init__(self, *, size: tuple[int, int] | None = None, factor: float | None = None) -> None:
        super().__init__()
        self.size, self.factor = size, factor

    def forward(self, x: Tensor) -> Tensor:
        return functional.interpolate(x, size=self.size, scale_factor=self.factor)


def laid_out(module: nn.Module, x: Tensor) -> fx.GraphModule:
    """The exported module, all of it for the CPU."""
    model = torch.export.export(module, (x,), strict=False).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    make_explicit(model)
    put_channels_last(model, {node.name for node in model.graph.nodes})
    return model


@pytest.mark.parametrize(
    ("module", "repeats"),
    [
        (Larger(factor=3.0), True),
        (Larger(size=(4, 9)), True),
        (Larger(factor=3.3), False),  # as large as three times the height, whose rows are not repeated alike
        (Larger(size=(5, 9)), False),
    ],
    ids=["factor", "size", "factor between", "size between"],
)
def test_rows_are_repeated_where_pytorch_repeats_them_alike(module: nn.Module, repeats: bool) -> None:
    x = torch.arange(12.0).reshape(1, 2, 2, 3)
    model = laid_out(module, x)
    assert torch.equal(model(x), module(x))
    assert any("cat" in str(node.target) for node in model.graph.nodes) == repeats


class PooledToOnePixel(nn.Module):
    """Averages of an image, which have both orders of memory, enlarged to its size again."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 4, 1), nn.ReLU())
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> list[Tensor]:
        y, sizes = self.mean(x), x.shape[2:]
        return [
            self.conv(functional.interpolate(y, size=sizes, mode="bilinear")),
            functional.interpolate(y, size=sizes, mode="bilinear", align_corners=True) + x,
            functional.interpolate(y, size=sizes).sigmoid() * x,
            functional.pad(y, [0, 1, 1, 0], mode="replicate") * x,
            y.repeat(1, 1, 2, 2) + x,
            torch.cat([torch.cat([y, y], 2)] * 2, 3) + x,
        ]


def test_images_of_one_pixel_are_enlarged() -> None:
    samples = [(torch.randn(1, 4, 2, 2),) for _ in range(4)]
    built = api.build(PooledToOnePixel(), samples[0], target="cortex-m55", calibration=samples)
    assert min(output.sqnr for output in built.manifest.quality.outputs) > 25

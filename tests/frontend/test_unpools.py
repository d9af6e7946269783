"""Max-unpools become choices by masks, with the same values."""

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron import api
from deuteron.frontend.quantize import unpools


class Unpooled(nn.Module):
    """A function of the maxima, at their places."""

    def __init__(self, window: int | tuple[int, int], rank: int = 2) -> None:
        super().__init__()
        self.window, self.rank = window, rank

    def forward(self, x: Tensor) -> Tensor:
        if self.rank == 1:
            values, indices = functional.max_pool1d(x, self.window, return_indices=True)
            return functional.max_unpool1d(values * 2 - 1, indices, self.window, output_size=x.shape[2:])
        values, indices = functional.max_pool2d(x, self.window, return_indices=True)
        return functional.max_unpool2d(values * 2 - 1, indices, self.window, output_size=x.shape[2:])


@pytest.mark.parametrize(
    ("module", "shape"),
    [(Unpooled(2), (2, 3, 4, 6)), (Unpooled((3, 2)), (1, 2, 7, 5)), (Unpooled(2, 1), (1, 3, 9))],
)
def test_the_values_stay(module: Unpooled, shape: tuple[int, ...]) -> None:
    x = torch.randint(-2, 3, shape).float()  # with equal values
    model = torch.export.export(module, (x,)).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    unpools.write(model)
    assert not any("unpool" in str(node.target) for node in model.graph.nodes)
    assert torch.equal(model(x), module(x))


class Segmentation(nn.Module):
    """An encoder and a decoder that share the places of maxima."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder, self.decoder = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 2, 3, padding=1)
        self.middle = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        values, indices = functional.max_pool2d(self.encoder(x).relu(), 2, return_indices=True)
        return self.decoder(functional.max_unpool2d(self.middle(values), indices, 2))


def test_a_network_with_an_unpool_is_built() -> None:
    samples = [(torch.randn(1, 3, 8, 8),) for _ in range(8)]
    built = api.build(Segmentation(), samples[0], target="cortex-m55", calibration=samples)
    assert built.manifest.quality.outputs[0].sqnr > 15

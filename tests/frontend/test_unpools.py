"""Max-unpools become choices by masks, with the same values."""

import pytest
import torch
from torch import Tensor, fx, nn

from deuteron import api
from deuteron.frontend.quantize import unpools


class Unpooled(nn.Module):
    """A function of the maxima, at their places."""

    def __init__(self, pool: nn.Module, unpool: nn.Module) -> None:
        super().__init__()
        self.pool, self.unpool = pool, unpool

    def forward(self, x: Tensor) -> Tensor:
        values, indices = self.pool(x)
        return self.unpool(values * 2 - 1, indices, output_size=x.shape[2:])


IMAGES = [Unpooled(nn.MaxPool2d(one, return_indices=True), nn.MaxUnpool2d(one)) for one in (2, (3, 2))]
SIGNAL = Unpooled(nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2))


@pytest.mark.parametrize(
    ("module", "shape"),
    [(IMAGES[0], (2, 3, 4, 6)), (IMAGES[1], (1, 2, 7, 5)), (SIGNAL, (1, 3, 9))],
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
        self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        values, indices = self.pool(self.encoder(x).relu())
        return self.decoder(self.unpool(self.middle(values), indices))


def test_a_network_with_an_unpool_is_built() -> None:
    samples = [(torch.randn(1, 3, 8, 8),) for _ in range(8)]
    built = api.build(Segmentation(), samples[0], target="cortex-m55", calibration=samples)
    assert built.manifest.quality.outputs[0].sqnr > 15

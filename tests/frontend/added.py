"""Networks of operators that Deuteron adds to the Cortex-M backend: each has all of one family."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from deuteron import api

Made = tuple[nn.Module, tuple[Tensor, ...], api.BuildOptions]


class Reduces(nn.Module):
    """Sums, means and extrema over all kinds of dimensions, of rows and of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor, image: Tensor) -> tuple[Tensor, ...]:
        image = self.conv(image).relu()
        rows = x.mean(-1), x.sum(1, keepdim=True), x.amax((1, 2)), x.amin(0), x.mean(), x.sum()
        return *rows, image.mean(1), image.amax((2, 3)), image.sum((1, 2, 3), keepdim=True)


def _random(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def reduces() -> Made:
    """Sums, means and extrema."""
    torch.manual_seed(1)
    return Reduces(), _random((2, 5, 12), (1, 3, 8, 8)), api.BuildOptions()


NETWORKS: Mapping[str, Callable[[], Made]] = {"reduces": reduces}

"""Networks of operators that Deuteron adds to the Cortex-M backend: each has all of one family."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

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


class Attends(nn.Module):
    """Attention with masks, and images between sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.parts, self.conv = nn.Linear(8, 24), nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor, image: Tensor) -> tuple[Tensor, ...]:
        query, key, value = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.parts(x).chunk(3, -1))
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        image = self.conv(image)
        larger = functional.interpolate(image, scale_factor=1.5, mode="bilinear")
        return y, larger, functional.interpolate(image, (11, 3), mode="bilinear", align_corners=True)


def _random(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def reduces() -> Made:
    """Sums, means and extrema."""
    torch.manual_seed(1)
    return Reduces(), _random((2, 5, 12), (1, 3, 8, 8)), api.BuildOptions()


def attends() -> Made:
    """Masked softmax and bilinear interpolation."""
    torch.manual_seed(1)
    return Attends(), _random((1, 6, 8), (1, 3, 8, 8)), api.BuildOptions()


NETWORKS: Mapping[str, Callable[[], Made]] = {"reduces": reduces, "attends": attends}

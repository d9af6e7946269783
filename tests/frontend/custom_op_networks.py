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
        rows = x.mean(-1), x.sum(1, keepdim=True), x.amax((1, 2)), x.amin(0), x.mean(), x.sum(), x.mean((0, 2))
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


class Finds(nn.Module):
    """Places of extrema, extrema with them, and sums up to each element."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        values, places = x.max(1)
        return x.argmax(-1), x.argmin(0, keepdim=True), x.argmax(), values, places, x.max(), x.cumsum(1)


class Normalises(nn.Module):
    """Norms of rows, of images in channels-last memory, and of what comes before them."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 12), nn.RMSNorm(12))
        self.planes = nn.LayerNorm((5, 12), elementwise_affine=False)
        self.series = nn.InstanceNorm1d(5)
        self.groups = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8), nn.ReLU(), nn.Conv2d(8, 4, 3))
        self.images = nn.InstanceNorm2d(4, affine=True)

    def forward(self, x: Tensor, image: Tensor) -> tuple[Tensor, ...]:
        lengths = functional.normalize(x, dim=-1), functional.normalize(x, dim=1), x.norm(dim=-1)
        return self.rows(x), self.planes(x), self.series(x), self.images(self.groups(image)), *lengths


class Shares(nn.Module):
    """Softmaxes and their logarithms, over any dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor, image: Tensor) -> tuple[Tensor, ...]:
        image = self.conv(image)
        return x.softmax(1), x.softmax(-1), image.softmax(1), x.log_softmax(-1), x.log_softmax(1), image.log_softmax(2)


class Pairs(nn.Module):
    """Arithmetic of tensors that repeat along any dimension, with factors; comparisons and choices."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        column, row = y.mean(-1, keepdim=True), y[:, :1]
        arithmetic = torch.add(x, y, alpha=0.5), torch.sub(x, y, alpha=1.5), x - column, x * row, column + row
        chosen = torch.where(x > y, x, y * 2), torch.where(x > 0.5, x, 0.0), y.masked_fill(x <= column, 1.0)
        variance = (x - column).square().mean(-1)
        return *arithmetic, *chosen, x >= y, x != row, x < 0.25, variance, variance.sqrt(), x + y


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


def finds() -> Made:
    """Places."""
    return Finds(), _random((2, 5, 12)), api.BuildOptions()


def normalises() -> Made:
    """Norms."""
    torch.manual_seed(1)
    return Normalises(), _random((2, 5, 12), (1, 3, 8, 8)), api.BuildOptions()


def shares() -> Made:
    """Softmaxes."""
    torch.manual_seed(1)
    return Shares(), _random((2, 5, 12), (1, 3, 8, 8)), api.BuildOptions()


def pairs() -> Made:
    """Operators of two tensors."""
    return Pairs(), _random((2, 5, 12), (2, 5, 12)), api.BuildOptions()


NETWORKS: Mapping[str, Callable[[], Made]] = {
    "reduces": reduces,
    "finds": finds,
    "normalises": normalises,
    "shares": shares,
    "pairs": pairs,
    "attends": attends,
}

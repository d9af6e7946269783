"""Networks whose kernels a map by names gets wrong: alike operators in parallel, and weights that serve twice."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as f


class ParallelPool(nn.Module):
    """Two pools of one value, each read by a convolution, added."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Conv2d(4, 8, 3, padding=1)
        self.right = nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.left(f.max_pool2d(x, 2))
        b = self.right(f.avg_pool2d(x, 2))
        return a + b


class Residual(nn.Module):
    """Two alike blocks with a bypass each."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x)) + x
        return torch.relu(self.second(x)) + x


class SharedWeights(nn.Module):
    """One convolution that runs twice, on inputs of different scales."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return self.conv(torch.relu(x))


class Concat(nn.Module):
    """Three alike branches side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(4, 8, 3, padding=1) for _ in range(3))
        self.last = nn.Conv2d(24, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.cat([branch(x) for branch in self.branches], 1))


NETWORKS: Mapping[str, Callable[[], nn.Module]] = {
    "parallel_pool": ParallelPool,
    "residual": Residual,
    "shared_weights": SharedWeights,
    "concat": Concat,
}

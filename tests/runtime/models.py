"""Models small enough to build in seconds."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from deuteron.api import BuildOptions


class Conv(nn.Module):
    """One convolution with a channels-first result."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv(x))


class TwoInTwoOut(nn.Module):
    """Two inputs of different shapes, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.linear = nn.Linear(6, 4)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        pooled = self.conv(x).mean((2, 3))
        return torch.softmax(pooled + self.linear(y), 1), torch.relu(pooled)


Made = tuple[nn.Module, tuple[Tensor, ...], BuildOptions]


def conv(channels_last: bool = False) -> Made:
    torch.manual_seed(0)
    module, x = Conv().eval(), torch.randn(1, 3, 8, 8)
    if channels_last:
        module, x = module.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    return module, (x,), BuildOptions(intermediates=True)


def two(profiling: bool = False) -> Made:
    torch.manual_seed(0)
    options = BuildOptions(intermediates=True, use_profiling=profiling)
    return TwoInTwoOut().eval(), (torch.randn(1, 2, 6, 5), torch.randn(1, 6)), options


MODELS: Mapping[str, Callable[[], Made]] = {
    "conv": conv,
    "conv_channels_last": lambda: conv(channels_last=True),
    "two": two,
    "two_profiled": lambda: two(profiling=True),
}

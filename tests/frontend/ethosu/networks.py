"""Networks of a layer or two for Ethos-U, and their builds."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tests import store
from torch import Tensor, nn

from deuteron import api


class Layer(nn.Module):
    """A convolution with its activation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.conv(x))
        return y.mean((2, 3))


class Halves(nn.Module):
    """A layer, what an Ethos-U55 leaves to the CPU, and another layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 6)
        self.second = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.second(torch.where(y > 0, y, y * 2))


class Masked(nn.Module):
    """A layer whose result is split: the CPU masks one half, which another layer reads with the other half."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(8, 8)
        self.register_buffer("mask", torch.arange(8) % 2 == 0)
        self.mask: Tensor

    def forward(self, x: Tensor) -> Tensor:
        scores, values = self.first(x).chunk(2, -1)
        return self.second(torch.where(self.mask, scores, -1.0) * values)


class Pooled(nn.Module):
    """A layer with a batch norm, and a pool whose stride is more than an Ethos-U55 has."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.pool = nn.AvgPool2d(6)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(torch.relu(self.norm(self.conv(x))))


class Signal(nn.Module):
    """A layer of signals, and a pool."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv1d(2, 8, 3), nn.MaxPool1d(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(torch.relu(self.conv(x)))


class Flags(nn.Module):
    """A layer, and which of its results are above 0."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x) > 0


class Gate(nn.Module):
    """A gate over a sequence, whose table Vela 5.1.0 fuses with a transpose and does not wait for long enough."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(24, 24, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return torch.sigmoid(y) * x


def layer() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Layer` with its input."""
    torch.manual_seed(0)
    return Layer().eval(), (torch.randn(1, 3, 8, 8),), api.BuildOptions()


def halves() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Halves` with its input."""
    torch.manual_seed(0)
    return Halves().eval(), (torch.randn(1, 8),), api.BuildOptions()


def masked() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Masked` with its input."""
    torch.manual_seed(0)
    return Masked().eval(), (torch.randn(1, 6, 8),), api.BuildOptions()


def signal() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    torch.manual_seed(1)
    return Signal(), (torch.linspace(-1, 1, 36).reshape(1, 2, 18),), api.BuildOptions()


def flags() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Flags` with its input."""
    torch.manual_seed(0)
    return Flags().eval(), (torch.randn(1, 8),), api.BuildOptions()


def gate() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Gate` with its input."""
    torch.manual_seed(0)
    return Gate().eval(), (torch.randn(1, 24, 12),), api.BuildOptions()


def asked() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Halves` with its input, the condition on the CPU."""
    return *halves()[:2], api.BuildOptions(operators_not_to_delegate=("aten::gt",))


def built(make: Callable[[], Any], target: str = "ethos-u55-128") -> Path:
    """The build directory of a network."""
    return store.network(make, make.__name__, target=target)

"""Networks with a defect of quality each, of which a build has to warn, and sound ones that look as if they had one."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

Subject = tuple[nn.Module, tuple[Tensor, ...], list[tuple[Tensor, ...]]]
"""A module, its example inputs and calibration batches."""


@dataclass(frozen=True, slots=True)
class Defect:
    """A network by name, and what the warning has to say."""

    name: str
    warning: str
    make: Callable[[], Subject]


class Scaled(nn.Module):
    """Two columns in units of their own, brought there by the last operator."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.last = nn.Linear(8, 32), nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        """The columns."""
        y = self.last(torch.relu(self.hidden(x)))
        return y * torch.tensor([1000.0, 1.0])


class Columns(nn.Module):
    """Two columns of unlike ranges, by weights alone."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(8, 2)
        with torch.no_grad():
            self.last.weight[0] *= 1000

    def forward(self, x: Tensor) -> Tensor:
        """The columns."""
        return self.last(x)


class Vanishing(nn.Module):
    """A factor with two values far below the third, which the weights behind it make up for."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 3), nn.Linear(3, 4)
        with torch.no_grad():
            self.last.weight /= torch.tensor([0.001, 500.0, 0.002])

    def forward(self, x: Tensor) -> Tensor:
        """Four numbers."""
        return self.last(self.first(x) * torch.tensor([0.001, 500.0, 0.002]))


class Gains(nn.Module):
    """A learned factor, of whose many values some are next to 0; nothing is lost with them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.gain, self.last = nn.Linear(16, 256), nn.Parameter(torch.randn(256)), nn.Linear(256, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Four numbers."""
        return self.last(self.first(x) * self.gain)


class Plain(nn.Module):
    """Nothing is wrong with it; its calibration can be."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(1, 4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Three scores."""
        return self.last(functional.relu(self.conv(x)).mean((2, 3)))


class Residual(nn.Module):
    """A block that adds and rectifies in place, as many networks do; its float values must not be those of later."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Eight means."""
        y = self.relu(self.first(x))
        z = self.second(y)
        z += y
        return self.relu(z).mean((2, 3))


class Halving(nn.Module):
    """Writes into its input, which has the name of an operator that only moves values."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(8, 4)

    def forward(self, t: Tensor) -> Tensor:
        """Four numbers."""
        t.mul_(0.5)
        return self.last(t)


def _of(
    module: type[nn.Module], *shape: int, scale: float = 1.0, calibrated: float = 1.0, equal: bool = False
) -> Subject:
    torch.manual_seed(0)
    made = module().eval()
    example = torch.randn(1, *shape) * scale
    first = torch.randn(1, *shape) * calibrated
    others = [first if equal else torch.randn(1, *shape) * calibrated for _ in range(15)]
    return made, (example,), [(x,) for x in (first, *others)]


DEFECTS = (
    Defect("dead_column", "channel 1 is always 0", lambda: _of(Scaled, 8)),
    Defect("unlike_columns", "channel 1 is always", lambda: _of(Columns, 8)),
    Defect("vanishing_factor", "values that become 0", lambda: _of(Vanishing, 6)),
    Defect("wrong_scale", "scaled unlike each other", lambda: _of(Plain, 1, 8, 8, scale=255.0)),
    Defect("all_zeros", "everywhere in all calibration batches", lambda: _of(Plain, 1, 8, 8, calibrated=0.0)),
    Defect("equal_batches", "all calibration batches are equal", lambda: _of(Plain, 1, 8, 8, equal=True)),
)

SOUND: dict[str, Callable[[], Subject]] = {
    "in_place": lambda: _of(Residual, 2, 8, 8),
    "gains_near_0": lambda: _of(Gains, 16),
    "writes_its_input": lambda: _of(Halving, 8),
}

"""A pattern of the bench of patterns, and the layers that many of them have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Shape = tuple[int, ...]
IMAGE: Shape = (1, 3, 16, 16)
SIGNAL: Shape = (1, 4, 32)
VECTOR: Shape = (1, 16)
TOKENS: Shape = (1, 8, 16)


class Written(nn.Module):
    """A module whose forward function is given, with its parts as attributes."""

    def __init__(self, function: Callable[..., Any], **parts: nn.Module | nn.Parameter) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Tensor) -> Any:
        """Compute the function."""
        return self.function(self, *inputs)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern by name: how it is made, and the shapes of its inputs; `tokens` are numbers below that instead."""

    name: str
    make: Callable[[], nn.Module]
    shapes: tuple[Shape, ...]
    tokens: int = 0

    def module(self) -> nn.Module:
        """The module with seeded weights, whose batch norms have statistics of their own."""
        torch.manual_seed(0)
        module = self.make().eval()
        for norm in module.modules():
            if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
                nn.init.uniform_(norm.weight, 0.8, 1.2)
                nn.init.uniform_(norm.bias, -0.3, 0.3)
                nn.init.uniform_(norm.running_mean, -0.2, 0.2)
                nn.init.uniform_(norm.running_var, 0.7, 1.4)
        return module

    def samples(self, count: int, seed: int) -> list[tuple[Tensor, ...]]:
        """Seeded inputs."""
        generator = torch.Generator().manual_seed(seed)

        def draw(shape: Shape) -> Tensor:
            if self.tokens:
                return torch.randint(self.tokens, shape, generator=generator)
            return torch.randn(shape, generator=generator)

        return [tuple(draw(shape) for shape in self.shapes) for _ in range(count)]


def conv(inputs: int = 3, outputs: int = 8, size: int = 3, **options: Any) -> nn.Conv2d:
    """A convolution that keeps the size of an image."""
    return nn.Conv2d(inputs, outputs, size, **{"padding": size // 2, **options})


def conv1(inputs: int = 4, outputs: int = 8, size: int = 3, **options: Any) -> nn.Conv1d:
    """A convolution that keeps the length of a signal."""
    return nn.Conv1d(inputs, outputs, size, **{"padding": size // 2, **options})


def sequence(*layers: nn.Module) -> Callable[[], nn.Module]:
    """Return a factory of these layers, one after the other."""
    return lambda: nn.Sequential(*layers)

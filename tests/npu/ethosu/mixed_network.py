"""A network of which Vela makes all kinds of operations, and its build."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tests import store
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api

TARGET = "ethos-u55-128"


class Mixed(nn.Module):
    """Convolutions, tables, transposes, copies, a pool and reductions, each on a separate line."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, 2, 1)
        self.second = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.third = nn.Conv2d(16, 16, 1)
        self.last = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = torch.relu(x)
        y = self.second(x)
        y = self.third(y)
        y = torch.sigmoid(y)
        x = x + y
        x = functional.max_pool2d(x, 2)
        x = x.mean((2, 3))
        x = self.last(x)
        return torch.softmax(x, -1)


def mixed() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Mixed` with its input, to be profiled."""
    torch.manual_seed(0)
    return Mixed().eval(), (torch.randn(1, 3, 16, 16),), api.BuildOptions(use_profiling=True)


def built() -> Path:
    """Its build directory."""
    return store.network(mixed, "mixed", target=TARGET)

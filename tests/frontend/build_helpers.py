"""A module of one function, a small layer, an input for both, and what a build that is refused says."""

import inspect

import pytest
import torch
from torch import Tensor, nn

from deuteron import api
from deuteron.errors import DeuteronError


class Applies(nn.Module):
    """One function of one input."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


APPLIES = f"{__file__}:{inspect.getsourcelines(Applies.forward)[1] + 1}"
FC = nn.Sequential(nn.Linear(8, 4), nn.ReLU()).eval()
X = torch.linspace(-1, 1, 8).reshape(1, 8)


def failure(kind: type[DeuteronError], *args: object, **kwargs: object) -> str:
    """The text of the error that a build raises."""
    with pytest.raises(kind) as caught:
        api.build(*args, **kwargs)
    return str(caught.value)

"""Values that an Ethos-U partition would return without computing stay on the CPU."""

from collections.abc import Sequence
from typing import Any

import torch
from tests.frontend.ethosu.networks import built
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.views.compare.pytorch import compare


class Reflected(nn.Module):
    """A reshape that changes nothing and reflected padding, which an Ethos-U55 leaves to the CPU; and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return functional.pad(x.reshape(1, 1, 9, 4), (0, 0, 3, 3), mode="reflect"), self.conv(x)


def reflected() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Reflected` with its input."""
    torch.manual_seed(0)
    return Reflected().eval(), (torch.rand(1, 1, 9, 4),), api.BuildOptions()


def test_a_partition_without_operators_is_left_to_the_cpu() -> None:
    """The reshape and the constant indices of the padding would be a partition whose result no operator writes."""
    comparison = compare(built(reflected), [[torch.rand(1, 1, 9, 4).numpy()]])
    assert comparison.passed, comparison.failures()

"""Activations behind layers whose results share their rounding with others, which may be below 0: they keep bounds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from tests.frontend.ethosu.networks import built
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.builds import manifest as manifests
from deuteron.runtime.host import HostRunner
from deuteron.views.compare.pytorch import compare

ACTIVATIONS: Mapping[str, tuple[Callable[[Tensor], Tensor], float, float]] = {
    "relu": (torch.relu, 0, 99),
    "relu in place": (functional.relu_, 0, 99),
    "relu6": (functional.relu6, 0, 6),
    "relu6 module": (nn.ReLU6(), 0, 6),
    "hardtanh from 0": (lambda x: functional.hardtanh(x, 0.0, 0.3), 0, 0.3),
    "hardtanh": (lambda x: functional.hardtanh(x, -0.2, 0.3), -0.2, 0.3),
    "clamp": (lambda x: x.clamp(0.0, 0.3), 0, 0.3),
    "clamp from 0": (lambda x: x.clamp(min=0.0), 0, 99),
}
"""Each with its bounds."""

JOINS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "stack": lambda a, b: torch.stack([a, b], 1),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "max pool": lambda a, b: torch.cat([functional.max_pool2d(a, 2), functional.max_pool2d(b, 2)], 1),
    "average pool": lambda a, b: torch.cat([functional.avg_pool2d(a, 2), functional.avg_pool2d(b, 2)], 1),
    "view": lambda a, b: torch.cat([a.flatten(1), b.flatten(1)], 1),
}


class Joined(nn.Module):
    """A layer for each activation and one without any, and two pairs of which the first has a relu.

    Each is called right before its activation: ExecuTorch's quantizer gives no others one rounding.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3, 4, 3) for _ in range(len(ACTIVATIONS) + 3))
        self.linear = nn.ModuleList(nn.Linear(6, 5) for _ in range(2))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        *layers, plain, first, second = self.layers
        bounded = [act(layer(x)) for (act, _, _), layer in zip(ACTIVATIONS.values(), layers, strict=True)]
        a, b = torch.relu(first(x)), second(x)
        return (
            torch.cat([*bounded, plain(x)], 1),
            *(join(a, b) for join in JOINS.values()),
            torch.cat([torch.relu(self.linear[0](x)), self.linear[1](x)], -1),
        )


def joined() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Joined` with its input."""
    torch.manual_seed(0)
    return Joined().eval(), (torch.randn(1, 3, 6, 6),), api.BuildOptions()


@pytest.mark.full
def test_an_activation_keeps_its_bounds_where_its_result_shares_its_rounding() -> None:
    directory, (x,) = built(joined, "ethos-u55-128"), joined()[1]
    manifest = manifests.read(directory)
    assert [node for node in manifest.nodes if node.partition is None] == []
    comparison = compare(directory, [[x.numpy()], [x.numpy() * 0.7]])
    assert comparison.passed, comparison.failures()
    output = HostRunner(directory / "model.pte").run([x.numpy()])[0]
    step = (output.max() - output.min()) / 255
    for i, (name, (_, low, high)) in enumerate(ACTIVATIONS.items()):
        bounded = output[:, 4 * i : 4 * i + 4]
        assert low - step <= bounded.min() < bounded.max() <= high + step, name
    assert output.min() < -0.2 - step
    assert min(output.sqnr for output in manifest.quality.outputs) > 30

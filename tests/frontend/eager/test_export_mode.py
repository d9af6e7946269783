"""What depends on weights, buffers and literals alone is known in an export, as it is in eager PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deuteron.errors import DeuteronError
from deuteron.frontend.eager.capture import captured, run

SAMPLES = [(torch.randn(4, 8),), (torch.randn(4, 8),)]


class Net(nn.Module):
    """A function of itself and of a layer's output, with constants."""

    def __init__(self, function: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.function = nn.Linear(8, 8), function
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("mask", torch.tensor([True, False, False, True, True, False, False, False]))
        self.register_buffer("count", torch.tensor(3))
        self.register_buffer("sizes", torch.tensor([3, 5]))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, self.layer(x))


def filled(m: Any, x: Tensor) -> Tensor:
    y = x.clone()
    y[:, m.mask] = 0.5
    y[m.count, ::2] = x[0, ::2]
    return y


def filled_by_data(_: Any, x: Tensor) -> Tensor:
    y, row = x.clone(), x.sum(1).argmax()
    y[row] = 1.0
    y[:, row] = x[0, 4:]
    y[..., row, None, 2:4] = x[:2, :2].sum(0)
    return y


CONSTANTS: list[Callable[[Any, Tensor], Tensor]] = [
    lambda m, x: x * 2 if m.scale > 1 else x,
    lambda m, x: x[:, m.mask],
    filled,
    lambda m, x: x[:, : m.count.item()] * float(m.scale),
    lambda m, x: x[:, m.count :] + x[:, m.count, None],
    lambda m, x: torch.cat(x.split(m.sizes.tolist(), 1)[::-1], 1),
    lambda m, x: x[:, torch.nonzero(m.mask).squeeze(1)],
    lambda m, x: x[:, torch.where(m.mask)[0]] if torch.equal(m.sizes, torch.tensor([3, 5])) else x,
    lambda m, x: x.repeat_interleave(torch.tensor([1, 2, 0, 3]), dim=0) if m.mask.any() else x,
    lambda _, x: x.repeat_interleave(torch.arange(32)),
    lambda m, x: torch.stack([x[:, i] for i in m.sizes], 1),
    lambda m, x: x if (m.layer.weight == 0).float().mean() > 0.5 else -x,
    lambda _, x: x / n if (n := torch.tensor(x.shape[1])) > 4 else x,
]
"""What constants decide."""

SELECTIONS: list[Callable[[Any, Tensor], Tensor]] = [
    lambda _, x: x[x.sum(1).argmax()],
    lambda _, x: x[:, x.sum(0).argmax(), None],
    lambda _, x: x[..., None, x.sum(1).argmin(), 2:],
    filled_by_data,
]
"""Places that depend on inputs."""


@pytest.mark.parametrize("function", CONSTANTS + SELECTIONS)
def test_the_graph_computes_what_the_module_does(function: Callable[[Any, Tensor], Tensor]) -> None:
    module = Net(function).eval()
    _, graph = captured(module, SAMPLES)
    x = torch.randn(4, 8)
    (ours,) = run(graph, (x,))
    with torch.no_grad():
        torch.testing.assert_close(ours, module(x))
    values = [node.meta.get("val") for node in graph.graph.nodes]
    assert all(isinstance(size, int) for value in values if isinstance(value, Tensor) for size in value.shape)


def test_a_branch_on_a_weight_that_the_model_changes_is_refused() -> None:
    def halved(m: Any, x: Tensor) -> Tensor:
        m.scale.data.mul_(0.5)
        return x if m.scale > 1 else -x

    with pytest.raises(DeuteronError):
        captured(Net(halved).eval(), SAMPLES)


def test_numbers_of_constants_are_those_of_the_run() -> None:
    """A constant that this run has changed before it is read has its new value, or the module is refused."""

    def doubled(m: Any, x: Tensor) -> Tensor:
        scale = m.scale.clone()
        scale.mul_(2)
        return x if scale > 3 else -x

    module = Net(doubled).eval()
    _, graph = captured(module, SAMPLES)
    (ours,) = run(graph, SAMPLES[0])
    with torch.no_grad():
        torch.testing.assert_close(ours, module(*SAMPLES[0]))


def test_tensors_that_a_run_makes_are_followed() -> None:
    _, graph = captured(Net(lambda _, x: x + (torch.arange(8) == x.sum(1).argmax()).float()).eval(), SAMPLES)
    assert any("arange" in str(node.target) for node in graph.graph.nodes)

"""Exports know the values that depend on weights, buffers and literals alone, as eager PyTorch does."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontend.eager import checks
from torch import Tensor, nn
from torch.compiler import is_exporting
from torch.nn import functional

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
    lambda m, x: x[:, torch.where(~m.mask | m.mask)[0]] + x[:, ~(m.sizes > 9).all() & m.mask].sum(),
    lambda m, x: torch.masked_select(x, m.mask) + x.masked_select(mask=m.mask),
    lambda m, x: x[:, torch.where(m.mask)[0]] if torch.equal(m.sizes, torch.tensor([3, 5])) else x,
    lambda m, x: x.repeat_interleave(torch.tensor([1, 2, 0, 3]), dim=0) if m.mask.any() else x,
    lambda _, x: x.repeat_interleave(torch.arange(32)),
    lambda m, x: torch.stack([x[:, i] for i in m.sizes], 1),
    lambda m, x: x if (m.layer.weight == 0).float().mean() > 0.5 else -x,
    lambda _, x: torch.cov(x) + x.cov(correction=0),
    lambda _, x: torch.cov((x * 4).round().int()),
    lambda _, x: torch.view_as_real(torch.cov(torch.view_as_complex(x.reshape(4, 4, 2)))),
    lambda _, x: torch.corrcoef(x) + torch.cov(x[0]) + torch.corrcoef(x[1]),
    lambda _, x: torch.cov(x, fweights=torch.arange(1, 9), aweights=torch.linspace(0.5, 1, 8)),
    lambda _, x: (
        torch.cov(x, aweights=torch.linspace(0.5, 1, 8), correction=0) + torch.cov(x, fweights=torch.arange(8))
    ),
    lambda _, x: torch.distributions.Normal(x, torch.ones(8)).log_prob(x * 2).reshape(4, 8),
    lambda _, x: torch.distributions.Categorical(logits=x).entropy(),
    lambda _, x: x / n if (n := torch.tensor(x.shape[1])) > 4 else x,
]
"""Functions with decisions that depend on constants alone."""

SELECTIONS: list[Callable[[Any, Tensor], Tensor]] = [
    lambda _, x: x[x.sum(1).argmax()],
    lambda _, x: x[:, x.sum(0).argmax(), None],
    lambda _, x: x[..., None, x.sum(1).argmin(), 2:],
    filled_by_data,
]
"""Places that depend on inputs."""


@pytest.mark.parametrize("function", [*CONSTANTS, *SELECTIONS, checks.asserts, checks.raises])
def test_the_graph_computes_what_the_module_does(function: Callable[[Any, Tensor], Tensor]) -> None:
    module = Net(function).eval()
    _, graph = captured(module, SAMPLES)
    x = torch.randn(4, 8)
    (ours,) = run(graph, (x,))
    with torch.no_grad():
        torch.testing.assert_close(ours, module(x))
    values = [node.meta.get("val") for node in graph.graph.nodes]
    assert all(isinstance(size, int) for value in values if isinstance(value, Tensor) for size in value.shape)


@pytest.mark.parametrize(
    "function",
    [
        *(checks.branches, checks.returns, checks.warns, checks.ends_early, checks.iterates),
        *(checks.handles, checks.asserts_and_handles, checks.suppresses),
    ],
)
def test_branches_on_values_are_refused(function: Callable[[Any, Tensor], Tensor]) -> None:
    with pytest.raises(DeuteronError, match=r"Data-dependent branching|a handled error depends on values"):
        captured(Net(function).eval(), SAMPLES)


def zeros_set(m: Any, x: Tensor) -> Tensor:
    kept = torch.zeros(4, 8)
    kept.data.copy_(x)
    return x * 2 if kept.abs().max() > 1.5 else x


def seen_set(m: Any, x: Tensor) -> Tensor:
    m.seen.view_as(x).copy_(x)
    return x * 2 if m.seen.abs().max() > 1.5 else x


def seen_set_by_data(m: Any, x: Tensor) -> Tensor:
    m.seen.data = x * 1
    return x * 2 if m.seen.abs().max() > 1.5 else x


def measured(m: Any, x: Tensor) -> Tensor:
    functional.batch_norm(x, m.mean, m.spread, training=True, momentum=1.0)
    return x * 2 if m.mean.abs().max() > 1.5 else x


def set_together(m: Any, x: Tensor) -> Tensor:
    torch._foreach_copy_([m.seen], [x])
    return x * 2 if m.seen.abs().max() > 1.5 else x


def drawn(m: Any, x: Tensor) -> Tensor:
    return x * 2 if torch.bernoulli(m.chance) > 0 else x


def row_clamped(_: Any, x: Tensor) -> Tensor:
    row = x[x.sum(1).argmax()]
    row.clamp_(-3, 3)
    return x


def rows_clamped(_: Any, x: Tensor) -> Tensor:
    row = x[x.sum(1).argmax()]
    x.clamp_(-3, 3)
    return row


def row_of_row_clamped(_: Any, x: Tensor) -> Tensor:
    functional.hardtanh_(x[x.sum(1).argmax()][2:], -3, 3)
    return x


def asks_first(_: Any, x: Tensor) -> Tensor:
    if not torch.compiler.is_exporting():
        x = x.clamp(-10, 10)
    return x


def asks_by_name(_: Any, x: Tensor) -> Tensor:
    return x.clamp(-10, 10) if not is_exporting() else x


def asks_dynamo(_: Any, x: Tensor) -> Tensor:
    return x.clamp(-10, 10) if not torch._dynamo.is_compiling() else x


def branches_of_unlike_shape(_: Any, x: Tensor) -> Tensor:
    return torch.cond((x.sum() > 0).reshape(1), lambda y: y.sum(), lambda y: -y.sum(), (x,))


def doubled(m: Any, x: Tensor) -> Tensor:
    scale = m.scale.clone()
    scale.mul_(2)
    return x if scale > 3 else -x


def gate_opens(m: Any, x: Tensor) -> Tensor:
    y = x * (1 + m.gate)
    m.steps = m.steps + 1
    m.gate = (m.steps > 20).float()
    return y


def limit_set(m: Any, x: Tensor) -> Tensor:
    y = x.clamp(-m.limit, m.limit)
    m.limit.fill_(2.0)
    return y


def flag_set(m: Any, x: Tensor) -> Tensor:
    y = x * 2 if m.flag else x
    m.flag = (x.abs().max() < 30).float()
    return y


def flag_of_another_shape_set(m: Any, x: Tensor) -> Tensor:
    y = x * 2 if m.flag else x
    m.flag = (x.abs().max() < 30).float().reshape(1)
    return y


def part_of_flags_set(m: Any, x: Tensor) -> Tensor:
    first = m.flags[0]
    y = x * 2 if m.flags[0] > 0 else x
    first.copy_(x.abs().max() < 30)
    return y


def flag_kept(m: Any, x: Tensor) -> Tensor:
    y = x * 2 if m.flag else x
    m.flag = m.flag.clamp(max=1)
    return y


UNSEEN = [
    *(
        zeros_set,
        seen_set,
        seen_set_by_data,
        set_together,
        measured,
        drawn,
        row_clamped,
        rows_clamped,
        row_of_row_clamped,
    ),
    *(asks_first, asks_by_name, asks_dynamo, branches_of_unlike_shape, doubled, gate_opens, limit_set),
    *(flag_set, flag_of_another_shape_set, part_of_flags_set, flag_kept),
]
"""Functions that compute something else for inputs beyond the range of the samples."""


@pytest.mark.parametrize("function", UNSEEN)
def test_what_samples_do_not_show_is_right_or_refused(function: Callable[[Any, Tensor], Tensor]) -> None:
    module = Net(function).eval()
    for name, value in {"seen": torch.zeros(4, 8), "chance": torch.tensor(0.05), "mean": torch.zeros(8)}.items():
        module.register_buffer(name, value)
    for name, value in {"gate": torch.tensor(0.0), "steps": torch.tensor(0.0), "limit": torch.tensor(1000.0)}.items():
        module.register_buffer(name, value)
    module.register_buffer("spread", torch.ones(8))
    module.flag, module.flags = torch.tensor(1.0), torch.ones(3)
    try:
        observed, graph = captured(module, [(x * 0.1,) for (x,) in SAMPLES])
    except DeuteronError:
        return
    values = [one.initial for one in observed.variables]
    torch.manual_seed(5)
    for _ in range(40):
        x = torch.randn(4, 8) * 40
        ours = run(graph, (x, *values))
        with torch.no_grad():
            torch.testing.assert_close(ours[0], module(x))
        values = ours[1:]


def flag_unchanged(m: Any, x: Tensor) -> Tensor:
    y = x * 2 if m.flag else x
    m.flag = torch.tensor(1.0)
    return y


@pytest.mark.parametrize(
    "function",
    [flag_kept, flag_unchanged, lambda m, x: x[:, m.flags > 0] if m.flag else x, lambda m, x: x * m.flags[0]],
)
def test_values_of_attributes_that_no_run_changes_are_known(function: Callable[[Any, Tensor], Tensor]) -> None:
    module = Net(function).eval()
    module.flag, module.flags = torch.tensor(1.0), torch.tensor([1.0, 0.0] * 4)
    observed, graph = captured(module, SAMPLES)
    assert not observed.variables
    assert isinstance(module.flag, Tensor)
    assert "flag" in vars(module)
    for _ in range(3):
        x = torch.randn(4, 8)
        (ours,) = run(graph, (x,))
        with torch.no_grad():
            torch.testing.assert_close(ours, module(x))


class Indexed(nn.Module):
    """Has an index that the class has a default for."""

    index = None

    def __init__(self) -> None:
        super().__init__()
        self.index = torch.tensor([2])

    def forward(self, x: Tensor) -> Tensor:
        return x[:, : self.index.item()] + x.data[:, :1]


def test_an_attribute_may_have_a_default_in_its_class() -> None:
    module = Indexed()
    _, graph = captured(module, SAMPLES)
    (ours,) = run(graph, SAMPLES[0])
    torch.testing.assert_close(ours, module(*SAMPLES[0]))


def test_a_branch_on_a_weight_that_the_model_changes_is_refused() -> None:
    def halved(m: Any, x: Tensor) -> Tensor:
        m.scale.data.mul_(0.5)
        return x if m.scale > 1 else -x

    with pytest.raises(DeuteronError):
        captured(Net(halved).eval(), SAMPLES)


def test_tensors_that_a_run_makes_are_followed() -> None:
    _, graph = captured(Net(lambda _, x: x + (torch.arange(8) == x.sum(1).argmax()).float()).eval(), SAMPLES)
    assert any("arange" in str(node.target) for node in graph.graph.nodes)

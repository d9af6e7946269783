"""Sorts, scatters and selections by masks are written with comparisons and choices, and compute the same."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.frontend.float_rewrites import Call, rewritten
from torch import Tensor, fx, nn

from deuteron import api
from deuteron.errors import UnsupportedError
from deuteron.frontend.quantize import boolean_indices, indexed_writes, inplace, orders, scatters

aten = torch.ops.aten
INDEX = torch.tensor([[0, 1, 1, 0], [2, 2, 1, 0], [1, 0, 2, 2]])


def _both(result: tuple[Tensor, Tensor]) -> Tensor:
    values, indices = result
    return torch.cat([values, indices.float()])


SORTS: list[Callable[[Tensor], Tensor]] = [
    lambda x: _both(x.sort(1)),
    lambda x: _both(x.sort(0, descending=True)),
    lambda x: _both((x > 0).int().sort(dim=-1, stable=True, descending=True)),
    lambda x: _both(x.topk(2, 0, largest=False)),
    lambda x: _both(x.kthvalue(2)),
    lambda x: _both(x.median(0, keepdim=True)),
    lambda x: x.argsort(1, descending=True).argsort(1).float(),
    lambda x: x.median() * x,
    lambda x: x.quantile(0.3, 1, keepdim=True) * x,
    lambda x: x.quantile(torch.tensor([0.1, 0.5, 1.0]), dim=0),
    lambda x: x.quantile(torch.tensor([0.0, 0.7]), dim=1, keepdim=True),
    lambda x: torch.quantile(x, 0.5) + x,
]


@pytest.mark.parametrize("function", SORTS)
def test_sorts_become_counts_of_comparisons(function: Callable[[Tensor], Tensor]) -> None:
    found = rewritten(Call(function), (3, 4), _orders)
    assert not any(name in str(target) for target in found for name in ("sort", "topk", "kth", "median", "quantile"))


def test_many_rows_are_sorted_in_groups() -> None:
    found = rewritten(Call(lambda x: _both(x.topk(3, 1))), (1, 60, 50), _orders)
    assert aten.topk.default not in found
    assert aten.topk.default in rewritten(Call(lambda x: x.topk(3, 1).values), (1, 128, 17), _orders)


def test_sorts_of_many_elements_stay() -> None:
    assert aten.sort.default in rewritten(Call(lambda x: x.sort(1).values), (1, 129), _orders)
    assert aten.sort.default not in rewritten(Call(lambda x: x.sort(1).values), (1, 128), _orders)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: _both(x.topk(3, 1)),
        lambda x: _both(x.round().topk(4, 0, largest=False))[:4],  # equal elements may have any order
        lambda x: _both(x.t().reshape(2, -1, 150).topk(1, -1)),
    ],
)
def test_the_largest_of_a_long_row_are_searched(function: Callable[[Tensor], Tensor]) -> None:
    found = rewritten(Call(function), (300, 200), orders.search_long_rows)
    assert aten.topk.default not in found


def test_short_rows_and_many_elements_are_not_searched() -> None:
    assert aten.topk.default in rewritten(Call(lambda x: x.topk(3, 1).values), (1, 128), orders.search_long_rows)
    assert aten.topk.default in rewritten(Call(lambda x: x.topk(17, 1).values), (1, 1000), orders.search_long_rows)


class Peaks(nn.Module):
    """The best places of heat maps, outside a mask."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.register_buffer("mask", torch.rand(16, 16) > 0.5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, places = self.conv(x).masked_fill(self.mask, -torch.inf).flatten(2).topk(2, -1)
        return values, places


def test_the_largest_of_a_long_row_are_built(tmp_path: Path) -> None:
    samples = torch.randn(4, 1, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    built = api.build(Peaks(), samples[0], target="cortex-m55", calibration=[*samples], output=tmp_path / "built")
    assert built.manifest.quality.outputs[0].sqnr > 25
    for x in samples:
        values, places = map(torch.from_numpy, api.run(tmp_path / "built", [x.numpy()]))
        assert bool((places[..., 0] != places[..., 1]).all())
        assert torch.allclose(values, Peaks()(x)[0], atol=0.1)
        there = Peaks().conv(x).flatten(2).gather(-1, places)
        assert torch.allclose(values, there, atol=0.1)


class Sparse(nn.Module):
    """Orders of elements of which most are zero."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = (x - 1).relu()
        y = x[:, :64]
        return *x.topk(9, -1), y.argsort(), *y.sort(-1, descending=True), *y.kthvalue(3, 1), *y.median(0)


def test_equal_elements_have_the_order_of_their_indices(tmp_path: Path) -> None:
    samples = torch.randn(4, 2, 200, generator=torch.Generator().manual_seed(0)).round()
    api.build(Sparse(), samples[0], target="cortex-m55", calibration=[*samples], output=tmp_path / "built")
    _, places, order, *_ = map(torch.from_numpy, api.run(tmp_path / "built", [samples[0].numpy()]))
    x = (samples[0] - 1).relu()
    assert torch.equal(places, x.argsort(descending=True, stable=True)[:, :9])
    assert torch.equal(order, x[:, :64].argsort(stable=True))


def _orders(model: fx.GraphModule) -> None:
    orders.write(model, has_topk=False)


SCATTERS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.scatter(1, x.argmax(1, keepdim=True), x[:, :1] * 2),
    lambda x: x.scatter(0, x.argsort(0)[:2], 0.5),
    lambda x: torch.zeros(3, 4).scatter(1, x.argsort(1)[:, :2], x),
    lambda x: torch.zeros(3, 3).scatter_add(1, INDEX, x),
    lambda x: x.scatter_add(1, x.argmax(1, keepdim=True), x),
    lambda x: torch.zeros(4, 4).index_add(0, x[0].argsort()[:3], x),
    lambda x: torch.zeros(3, 3).scatter_reduce(1, INDEX, x, "amax"),
    lambda x: torch.ones(3, 3).scatter_reduce(1, INDEX, x, "amin", include_self=False),
    lambda x: torch.ones(3, 3).scatter_reduce(1, INDEX, x, "sum"),
    lambda x: torch.ones(3, 3).scatter_reduce(1, INDEX, x, "mean"),
    lambda x: torch.ones(3, 3).scatter_reduce(1, INDEX, x, "mean", include_self=False),
    lambda x: torch.full((4, 4), -9.0).index_reduce(0, INDEX[0, :3], x, "amax"),
    lambda x: torch.ones(4, 4).index_reduce(0, x.argmax(1), x, "mean", include_self=False),
    lambda x: x.index_put((torch.arange(3), x.argmax(1)), torch.tensor(2.0)),
    lambda x: x.index_put((x.argmax(0), torch.arange(4)), x[0] * 2),
    lambda x: torch.zeros(3, 4).index_put((torch.tensor([0, -1, 0]),), x, accumulate=True),
    lambda x: torch.zeros(3, 4).index_put((x[:, 0].argsort(),), x[:1], accumulate=True),
    lambda x: torch.zeros(3, 4).index_put((x[:, 0].argsort(),), x[:, :1], accumulate=True),
    lambda x: (x * 2).index_put((torch.tensor([0, -1, 0]), torch.tensor([1, 2, 1])), x[:, 0], accumulate=True),
    lambda x: torch.ones(3, 3, 2).index_put((INDEX[0], x.argsort(0)[0]), x[0][:, None], accumulate=True)[:, :, 0],
    lambda x: torch.where(~(x > 9).scatter(1, x.argmax(1, keepdim=True), 1), x, 0.0),
]


@pytest.mark.parametrize("function", SCATTERS)
def test_scatters_become_comparisons_of_places(function: Callable[[Tensor], Tensor]) -> None:
    found = rewritten(Call(function), (3, 4), indexed_writes.write, scatters.write, rtol=1e-6)
    left = [
        name
        for target in found
        for name in ("scatter", "index_add", "index_reduce", "index_put")
        if name in str(target)
    ]
    assert not left


def test_sums_at_places_that_the_backend_would_count_once_are_refused() -> None:
    def model(x: Tensor) -> Tensor:
        return x.index_put((torch.tensor([[0, 0], [1, 1]]),), x[:2], accumulate=True)

    assert aten.index_put.default in rewritten(Call(model), (3, 4), indexed_writes.write_sums)
    with pytest.raises(UnsupportedError) as caught:
        rewritten(Call(model), (3, 4), indexed_writes.check_sums, has_lines=True)
    line = model.__code__.co_firstlineno + 1
    assert str(caught.value).endswith(
        f"test_orders.py:{line}: `aten::index_put` with `accumulate=True` has indices that the NPU's backend would add "
        "only once where they are equal, at `return x.index_put((torch.tensor([[0, 0], [1, 1]]),), x[:2], "
        "accumulate=True)`\n\nhint: flatten indices and values, and index adjacent dimensions: "
        "`y.index_put((i.flatten(),), v, True)`"
    )


def _scaled(x: Tensor) -> Tensor:
    y = x * 2
    y[y < 0] *= 0.1
    y[:, :2][x[:, :2] > 1] -= 0.5
    return y


def _copied(x: Tensor) -> Tensor:
    y, mask = x + 1, x > 0
    y[mask] = x[mask].abs() * 3
    y[x.sum(1) > 0] = 0.25
    return y


def _columns(x: Tensor) -> Tensor:
    y, mask = x + 1, x.sum(0) > 0
    y[:, mask] = 0
    y[:, ~mask] += x[:, ~mask]
    return y


def _of_positive(x: Tensor) -> Tensor:
    y = x * 2
    y[y > 0.1] = torch.log(y[y > 0.1])
    return y + x.masked_select(x > 0).sum() + x[x > -9].mean() + x[x.sum(1) > -9].mean(0)


def _kept(x: Tensor) -> Tensor:
    y, mask = x * 2, x > 0
    kept = y[mask]
    y.zero_()
    y[mask] = kept
    return y


def _layer(x: Tensor, layer: nn.Module) -> Tensor:
    y, mask = torch.zeros_like(x), x.sum(1) > 0
    y[mask] = layer(x[mask]).relu()
    return y


@pytest.mark.parametrize("function", [_scaled, _copied, _columns, _of_positive, _kept])
def test_selections_by_masks_become_choices(function: Callable[[Tensor], Tensor]) -> None:
    found = rewritten(Call(function), (3, 4), boolean_indices.write, inplace.write, rtol=1e-6)
    assert not any(name in str(target) for target in found for name in ("index", "masked_select", "sym_size"))


def test_layers_of_selected_rows_compute_all_rows() -> None:
    found = rewritten(Call(_layer, nn.Linear(4, 4)), (3, 4), boolean_indices.write, inplace.write, rtol=1e-6)
    assert aten.where.self in found
    assert not any("index" in str(target) for target in found)


@pytest.mark.parametrize(
    "function", [lambda x: x[x > 0].softmax(0).sum() + x, lambda x: x[x > 0].sort().values.sum() + x]
)
def test_what_depends_on_other_selected_elements_stays(function: Callable[[Tensor], Tensor]) -> None:
    assert aten.index.Tensor in rewritten(Call(function), (3, 4), boolean_indices.write, rtol=1e-6)

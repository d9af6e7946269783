"""Operators of a float model that are written otherwise for an Ethos-U: they give what they gave."""

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.frontend.float_rewrites import Call, rewritten
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron import api
from deuteron.errors import UnsupportedError
from deuteron.frontend import upstream_caches
from deuteron.frontend.backends.ethosu import decompositions
from deuteron.frontend.quantize.decompositions import numbers

aten = torch.ops.aten
POOLS = {aten.avg_pool2d.default, aten.max_pool2d.default}


class Pool(nn.Module):
    """A pool of an input."""

    def __init__(self, pool: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.pool, self.args, self.kwargs = pool, args, kwargs

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(x, *self.args, **self.kwargs)


def stride(pool: Any, shape: tuple[int, ...], window: Any, *args: Any, **kwargs: Any) -> list[int]:
    """The stride of a pool that was rewritten, and gives the same."""
    x = torch.randn(shape)
    module = Pool(pool, window, *args, **kwargs)
    with upstream_caches.exporting():
        model = torch.export.export(module, (x,), strict=False).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    decompositions.write(model)
    (node,) = (node for node in model.graph.nodes if node.target in POOLS)
    torch.testing.assert_close(model(x), module(x))
    assert node.meta["val"].shape[-3:] == module(x).shape[-3:]
    return numbers((node.args[2] if len(node.args) > 2 else None) or window, 2)


def test_many_windows_of_an_adaptive_pool_are_one_pool() -> None:
    assert stride(functional.adaptive_avg_pool2d, (1, 2, 6, 40), (1, 40)) == [1, 1]
    assert stride(functional.adaptive_avg_pool2d, (1, 2, 12, 40), (6, 20)) == [2, 2]


@pytest.mark.parametrize("pool", [functional.avg_pool2d, functional.max_pool2d])
def test_a_window_that_is_the_whole_image_moves_by_one_step(pool: Any) -> None:
    assert stride(pool, (1, 2, 6, 6), 6) == [1, 1]
    assert stride(pool, (1, 2, 6, 12), 6) == [1, 6]
    assert stride(pool, (1, 2, 4, 4), 6, 5, 1) == [1, 1]
    assert stride(pool, (2, 6, 5), [6, 5], 4) == [1, 1]  # without a batch


@pytest.mark.parametrize("pool", [functional.avg_pool2d, functional.max_pool2d])
@pytest.mark.parametrize(("size", "window"), [(3, 2), (4, 3), (5, 3), (7, 4)])
def test_a_window_that_leaves_rows_out_keeps_its_stride(pool: Any, size: int, window: int) -> None:
    assert stride(pool, (1, 2, size, size), window) == [window, window]
    assert stride(pool, (1, 2, window, size), window) == [1, window]


def test_gaps_in_a_window_count() -> None:
    assert stride(functional.max_pool2d, (1, 2, 5, 6), 3, 4, dilation=2) == [1, 4]


def test_a_size_that_is_rounded_up_counts_as_it_is() -> None:
    assert stride(functional.avg_pool2d, (1, 2, 4, 6), 5, 5, 1, ceil_mode=True) == [5, 5]


@pytest.mark.parametrize("view", [lambda y: y.squeeze(2), lambda y: y.reshape(2, 3, 5), lambda y: y.view(2, 3, -1)])
def test_a_row_is_before_the_channels_when_it_is_left_out(view: Callable[[Tensor], Tensor]) -> None:
    found = rewritten(Call(lambda x: view(torch.relu(x))), (2, 3, 1, 5), decompositions.write)
    assert found == [aten.relu.default, aten.permute.default, aten.reshape.default]


@pytest.mark.parametrize(
    ("view", "shape"),
    [
        (lambda x: x.squeeze(3), (2, 3, 5, 1)),
        (lambda x: x.squeeze(2), (2, 3, 1)),
        (lambda x: x.reshape(2, 5, 3), (2, 3, 1, 5)),
        (lambda x: x.reshape(2, 15), (2, 3, 1, 5)),
    ],
)
def test_other_views_stay(view: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> None:
    assert aten.permute.default not in rewritten(Call(view), shape, decompositions.write)


ARITHMETIC: list[tuple[Callable[[Tensor], Tensor], object]] = [
    (lambda y: y + 1, aten.add.Tensor),
    (lambda y: y - 2.5, aten.sub.Tensor),
    (lambda y: 1 - y, aten.sub.Tensor),
    (lambda y: y * 3, aten.mul.Tensor),
    (lambda y: y / 3, aten.div.Tensor),
]


@pytest.mark.parametrize(("function", "operator"), ARITHMETIC)
def test_numbers_beside_a_value_without_axes_are_values_without_axes(
    function: Callable[[Tensor], Tensor], operator: object
) -> None:
    module = Call(lambda x: torch.relu(function(x.sum())))
    assert rewritten(module, (2, 3), decompositions.write) == [aten.sum.default, operator, aten.relu.default]
    with upstream_caches.exporting():
        model = torch.export.export(module, (torch.randn(2, 3),), strict=False).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    decompositions.write(model)
    (node,) = (node for node in model.graph.nodes if node.target is operator)
    assert [value.meta["val"].shape for value in node.args] == [(), ()]


def test_numbers_that_a_value_without_axes_is_compared_with_are_values_without_axes() -> None:
    module = Call(lambda x: torch.where(x.sum() > 0, x, -x) * (x.mean() != 1))
    found = rewritten(module, (2, 3), decompositions.write)
    assert aten.gt.Tensor in found
    assert aten.ne.Tensor in found


def test_attention_without_heads_is_two_products() -> None:
    """The backend would take its samples for heads."""
    module = Call(lambda x: functional.scaled_dot_product_attention(x[:, :3], x, x))
    assert rewritten(module, (2, 6, 8), decompositions.write, rtol=1e-5).count(aten.matmul.default) == 2


class Queries(nn.Module):
    """Attention of learned queries, which depend on no input."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.queries = nn.Parameter(torch.randn(4, 8))
        self.norm, self.attention = nn.LayerNorm(8), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        queries = self.queries.expand(x.shape[0], -1, -1)
        return queries + self.attention(self.norm(queries), x, x, need_weights=False)[0]


def test_attention_of_constant_queries_is_built() -> None:
    batches = [(torch.randn(1, 10, 8),) for _ in range(4)]
    build = api.build(Queries().eval(), batches[0], target="ethos-u85-256", calibration=batches)
    assert build.manifest.quality.outputs[0].sqnr > 30


class Sorted(nn.Module):
    """Sorts values of which the CPU replaces some as floats."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor, left_out: Tensor) -> Tensor:
        return self.layer(x).masked_fill(left_out, 1e3).sort(1).values


def test_moved_floats_share_the_range_of_a_comparison(tmp_path: Path) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(4, 8), torch.rand(4, 8) > 0.5) for _ in range(8)]
    build = api.build(Sorted(), batches[0], target="ethos-u55-128", calibration=batches, output=tmp_path / "build")
    assert build.manifest.quality.outputs[0].sqnr > 20


@pytest.mark.parametrize("function", [lambda x: x.sum(1) + 1, lambda x: x.sum() + x, lambda x: x.argmax() * 2])
def test_other_numbers_stay(function: Callable[[Tensor], Tensor]) -> None:
    before = rewritten(Call(function), (2, 3))
    assert rewritten(Call(function), (2, 3), decompositions.write) == before


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.var(),
        lambda x: x.var(correction=0),
        lambda x: x.var((0, 1)),
        lambda x: x[0].var(0, False),
        lambda x: x[0].var(0, True, False),
    ],
)
def test_axes_of_the_variance_of_all_values_are_left_out_behind_it(function: Callable[[Tensor], Tensor]) -> None:
    operators = rewritten(Call(function), (2, 3), decompositions.write)
    assert operators[-2:] == [aten.var.correction, aten.reshape.default]


def test_other_variances_stay() -> None:
    for function in (lambda x: x.var(1), lambda x: x.var(1, correction=0), lambda x: x.var((0, 1), keepdim=True)):
        assert rewritten(Call(function), (2, 3), decompositions.write) == rewritten(Call(function), (2, 3))


class Cell(nn.Module):
    """One step of a recurrent cell with a state that it is given."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell, self.has_two = cell(4, 6), cell is nn.LSTMCell

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        return self.cell(x, (state, state))[0] if self.has_two else self.cell(x, state)


CELLS = [nn.LSTMCell, nn.GRUCell, nn.RNNCell, partial(nn.RNNCell, nonlinearity="relu")]


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_cells_are_written_as_operators_that_the_npu_takes(cell: Any) -> None:
    module, inputs = Cell(cell), (torch.randn(1, 4), torch.randn(1, 6))
    with upstream_caches.exporting():
        model = torch.export.export(module, inputs, strict=False).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    decompositions.write(model)
    assert not [node for node in model.graph.nodes if "cell" in str(node.target) and node.op == "call_function"]
    torch.testing.assert_close(model(*inputs), module(*inputs))


class Unpools(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        values, indices = functional.max_pool2d(x, 2, return_indices=True)
        return functional.max_unpool2d(values, indices, 2)


def test_unpooling_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError) as caught:
        rewritten(Unpools(), (1, 2, 4, 4), decompositions.write)
    line = inspect.getsourcelines(Unpools.forward)[1] + 2
    assert str(caught.value) == (
        f"{__file__}:{line}: `aten::max_unpool2d` reads indices of a max-pool, which the NPU does not give, at "
        "`return functional.max_unpool2d(values, indices, 2)`\n\nhint: use `nn.Upsample` or `nn.ConvTranspose2d`, or "
        "build for a target with float operators and a Neutron, such as `imxrt700`"
    )


class Scaled(nn.Module):
    """Two convolutions with one weight; the backend multiplies that of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Buffer(torch.tensor([-2.0, -1, 0, 1, 2]).repeat(4, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        first = torch.conv1d(x, self.kernel, groups=4) / 10
        return torch.conv1d(first, self.kernel, groups=4)


def test_a_product_after_a_convolution_changes_no_shared_weight(tmp_path: Path) -> None:
    x = torch.randn(1, 4, 20)
    build = api.build(Scaled(), (x,), target="ethos-u55-128", calibration=[(x,)], output=tmp_path / "build")
    assert build.manifest.quality.outputs[0].sqnr > 30


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_log_softmax_is_written_without_a_softmax(dim: int) -> None:
    found = rewritten(Call(lambda x: functional.log_softmax(30 * x, dim)), (2, 3, 4), decompositions.write, rtol=1e-5)
    assert aten.log_softmax.int not in found
    assert found.count(aten.log.default) == 1


@pytest.mark.parametrize(
    ("shape", "dim", "products"),
    [((6,), 0, 1), ((2, 6, 3), 1, 1), ((2, 256), -1, 1), ((2, 600), -1, 2), ((700, 2), 0, 2)],
)
def test_cumsum_is_written_as_linear_layers(shape: tuple[int, ...], dim: int, products: int) -> None:
    found = rewritten(Call(lambda x: x.cumsum(dim)), shape, decompositions.write, rtol=1e-4)
    assert aten.cumsum.default not in found
    assert found.count(aten.linear.default) == products


def test_cumsum_with_an_integer_result_is_kept() -> None:
    found = rewritten(Call(lambda x: (3 * x).cumsum(0, dtype=torch.int32)), (6,), decompositions.write)
    assert aten.cumsum.default in found


class Sums(nn.Module):
    """A cumsum of a lookup table, and a log-softmax over a wide range."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.layer(x)
        return y.exp().cumsum(1), functional.log_softmax(30 * y, -1)


def test_cumsum_and_log_softmax_are_built() -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(1, 6, 8),) for _ in range(4)]
    build = api.build(Sums(), batches[0], target="ethos-u55-128", calibration=batches)
    assert all(output.sqnr > 30 for output in build.manifest.quality.outputs)

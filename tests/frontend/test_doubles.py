"""Float64 within a model becomes float32, results without elements become constants."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.frontend.float_rewrites import Call, rewritten
from torch import Tensor, fx, nn

from deuteron.errors import UnsupportedError
from deuteron.frontend.eager import embeddings
from deuteron.frontend.export import check_exported
from deuteron.frontend.quantize import casts, decompositions, doubles, empties


def _narrowed(model: fx.GraphModule) -> None:
    doubles.narrow(model)
    check_exported(model, takes_complex=False)
    casts.remove_identity_casts(model)


def _filled(x: Tensor) -> Tensor:
    y = torch.zeros(3, 4, dtype=torch.float64)
    y[:, :2] = x[:, 2:]
    y += 1
    return y.to(x.dtype) * x


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ((x.double() - x.double().mean()) / 3).float(),
        lambda x: x * torch.from_numpy(np.linspace(0, 1, 4)).float(),
        lambda x: (x * torch.arange(4, dtype=torch.float64) / 3).float(),
        lambda x: ((x > 0).double() * x).float(),
        _filled,
    ],
)
def test_doubles_are_computed_in_float32(function: Callable[[Tensor], Tensor]) -> None:
    rewritten(Call(function), (3, 4), _narrowed, rtol=1e-6)


@pytest.mark.parametrize(
    "function", [lambda x: x.double() * 2, lambda x: ((x * 1e6).long().double() / 7).float()], ids=["output", "integer"]
)
def test_doubles_that_float32_cannot_stand_for_are_refused(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(UnsupportedError, match="is float64"):
        rewritten(Call(function), (3, 4), _narrowed)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ((x.double() + 1e9) - 1e9).float(),
        lambda x: (x.double() * 1e-42 * 1e42).float(),
        lambda x: ((x.double() + 1e9) > 1e9).float(),
    ],
)
def test_results_that_need_float64_are_refused(function: Callable[[Tensor], Tensor]) -> None:
    def narrow(model: fx.GraphModule) -> None:
        doubles.narrow(model, (torch.randn(3, 4),))

    with pytest.raises(UnsupportedError, match="float32 is not precise enough for the result of"):
        rewritten(Call(function), (3, 4), narrow)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + (x[:, :0] * 2).sum(1, keepdim=True),
        lambda x: torch.cat([x[:, :0].relu(), x * 2], 1),
        lambda x: torch.cat([x[:0] + 1, x, x[:0], x * 2]),
    ],
)
def test_nothing_computes_without_elements(function: Callable[[Tensor], Tensor]) -> None:
    def write(model: fx.GraphModule) -> None:
        empties.write(model)
        decompositions.fold(model)
        nodes = [node for node in model.graph.nodes if node.op == "call_function"]
        assert all(node.meta["val"].numel() for node in nodes if isinstance(node.meta["val"], Tensor))

    rewritten(Call(function), (3, 4), write)


@pytest.mark.parametrize("length", [0.5, 100.0])
def test_a_shared_table_with_a_maximum_norm_is_refused_if_a_row_is_longer(length: float) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 8, max_norm=length)
            self.last = nn.Linear(8, 10, bias=False)
            self.last.weight = self.table.weight

    model = Tied()
    if length > 1:
        assert embeddings.shorten(model)
        assert model.table.max_norm is None
        return
    with pytest.raises(UnsupportedError, match=r"\[table\] Embedding: each run shortens rows"):
        embeddings.shorten(model)

"""Attention and products of matrices, in words that the Cortex-M's quantizer and kernels have: they give the same."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from tests.frontend.float_rewrites import left, rewritten
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron.errors import UnsupportedError
from deuteron.frontend.cortex_m import decompositions

aten = torch.ops.aten

operators = partial(left, decompositions.write)


@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention_is_two_products(scale: float | None) -> None:
    def attention(x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x * 2, x + 1, scale=scale)

    found = operators(attention, (1, 2, 5, 4))
    assert found.count(aten.bmm.default) == 2
    assert aten.softmax.int in found


CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
EMPTY = torch.arange(5)[:, None].expand(5, 5) == 2
BIAS = torch.arange(25.0).reshape(5, 5) / 10


@pytest.mark.parametrize(
    "shares",
    [
        lambda x: x.masked_fill(~CAUSAL, -torch.inf).softmax(-1),
        lambda x: x.masked_fill(CAUSAL == 0, -1e9).softmax(-1),
        lambda x: torch.where(CAUSAL, x, -torch.inf).softmax(-1),
        lambda x: x.masked_fill(EMPTY, -1e9).softmax(-1),
        lambda x: torch.where(~EMPTY, x, torch.finfo(torch.float32).min).softmax(-1),
        lambda x: x.masked_fill(EMPTY[:, :1] | ~CAUSAL, -1e9).softmax(-1),
        lambda x: (x + torch.zeros(5, 5).masked_fill(~CAUSAL, -torch.inf)).softmax(-1),
        lambda x: (x + BIAS.masked_fill(~CAUSAL, -1e5)).softmax(-1),
        lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x: functional.scaled_dot_product_attention(x, x, x, CAUSAL),
        lambda x: functional.scaled_dot_product_attention(x, x, x, BIAS.masked_fill(~CAUSAL, -torch.inf)),
    ],
)
def test_constant_masks_go_into_the_softmax(shares: Callable[[Tensor], Tensor]) -> None:
    found = operators(shares, (1, 2, 5, 5))
    assert found.count(aten._masked_softmax.default) == 1
    assert not {aten.softmax.int, aten.masked_fill.Scalar, aten.where.ScalarOther} & set(found)


@pytest.mark.parametrize(
    "shares",
    [
        lambda x: (x + BIAS).softmax(-1),
        lambda x: x.masked_fill(x > 0, -torch.inf).softmax(-1),
        lambda x: x.masked_fill(~CAUSAL, -1.0).softmax(-1),
        lambda x: x.masked_fill(~CAUSAL, -torch.inf)[:, :, 1:].softmax(-2),
        lambda x: functional.scaled_dot_product_attention(x, x, x, BIAS),
    ],
)
def test_other_softmaxes_stay(shares: Callable[[Tensor], Tensor]) -> None:
    assert aten._masked_softmax.default not in operators(shares, (1, 2, 5, 5))


@pytest.mark.parametrize("value", [-1e9, torch.finfo(torch.float32).min])
@pytest.mark.parametrize(
    ("shares", "operator"),
    [
        (lambda x, value: (x + BIAS.masked_fill(EMPTY, value)).softmax(-1), "aten::softmax.int"),
        (
            lambda x, value: functional.scaled_dot_product_attention(x, x, x, BIAS.masked_fill(EMPTY, value)),
            "aten::softmax.int",
        ),
    ],
)
def test_numbers_that_leave_out_a_whole_row(
    shares: Callable[[Tensor, float], Tensor], operator: str, value: float
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        operators(lambda x: shares(x, value), (1, 2, 5, 5))
    text = str(caught.value)
    assert f": `{operator}` masks all scores of a row by {value:g}, at `" in text
    assert text.endswith("\n\nhint: keep at least one score of each row")


def test_a_row_of_which_a_computed_mask_keeps_nothing_has_no_shares() -> None:
    def attention(x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x, x[0, 0] > 0)

    assert aten.scaled_dot_product_attention.default not in operators(attention, (1, 2, 5, 5))


class Finite(fx.Interpreter):
    """Checks that no value is NaN."""

    def run_node(self, n: fx.Node) -> object:
        value = super().run_node(n)
        assert not isinstance(value, Tensor) or not value.isnan().any(), n
        return value


def test_a_row_of_which_a_constant_mask_keeps_nothing_has_no_shares() -> None:
    def write(model: fx.GraphModule) -> None:
        decompositions.write(model)
        Finite(model).run(torch.randn(1, 2, 5, 5))

    left(write, lambda x: functional.scaled_dot_product_attention(x, x, x, ~EMPTY), (1, 2, 5, 5))


def test_a_computed_bias_of_attention_is_added() -> None:
    def attention(x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x, x[0, 0])

    assert aten.scaled_dot_product_attention.default not in operators(attention, (1, 2, 5, 5))


@pytest.mark.parametrize("attend", [True, False])
def test_biases_are_trained(attend: bool) -> None:
    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(5, 5).masked_fill(~CAUSAL, -1e5))

        def forward(self, x: Tensor) -> Tensor:
            if attend:
                return functional.scaled_dot_product_attention(x, x, x, self.bias)
            return (x + self.bias).softmax(-1)

    trained: list[tuple[int, ...]] = []

    def read(model: fx.GraphModule) -> None:
        constants = [model.get_parameter(str(node.target)) for node in model.graph.nodes if node.op == "get_attr"]
        trained.extend(tuple(value.shape) for value in constants if value.requires_grad)

    assert aten.add.Tensor in rewritten(Biased(), (1, 2, 5, 5), decompositions.write, read, rtol=1e-5)
    assert trained == [(1, 2, 5, 5)]  # as large as the scores


def test_layers_that_share_a_bias_train_it_as_one() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.ones(5, 5))

        def forward(self, x: Tensor) -> Tensor:
            y = functional.scaled_dot_product_attention(x, x, x, self.bias)
            return functional.scaled_dot_product_attention(y, y, y, self.bias)

    trained: set[str] = set()

    def read(model: fx.GraphModule) -> None:
        trained.update(name for name, value in model.named_parameters() if value.requires_grad)
        trained.intersection_update(str(node.target) for node in model.graph.nodes if node.op == "get_attr")

    assert aten.add.Tensor in rewritten(Twice(), (1, 2, 5, 5), decompositions.write, read, rtol=1e-5)
    assert len(trained) == 1


def test_grouped_queries_share_keys() -> None:
    def attention(x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x[:, :2], x[:, 2:], enable_gqa=True)

    assert operators(attention, (1, 4, 5, 4)).count(aten.bmm.default) == 2


def test_grouped_queries_without_samples_share_keys() -> None:
    def attention(x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x[:2], x[2:], enable_gqa=True)

    found = operators(attention, (4, 5, 4))
    assert found.count(aten.repeat_interleave.self_int) == found.count(aten.bmm.default) == 2


def test_pytorchs_encoder_layer() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    found = operators(lambda x, layer: layer(x), (1, 5, 8), layer)
    assert found.count(aten.bmm.default) == 2
    assert aten.scaled_dot_product_attention.default not in found


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x @ x.transpose(-1, -2), aten.bmm.default),
        (lambda x: x @ x[0, 0].transpose(-1, -2), aten.bmm.default),
        (lambda x: x[0, 0] @ x.transpose(-1, -2), aten.bmm.default),
        (lambda x: torch.mm(x[0, 0], x[0, 1].t()), aten.bmm.default),
        (lambda x: x @ torch.ones(9, 3), aten.linear.default),
        (lambda x: torch.ones(4, 3, 7) @ x[0], aten.bmm.default),
        (lambda x: x[0] @ torch.ones(4, 9, 3), aten.bmm.default),
        (lambda x: torch.arange(7.0) @ x, aten.bmm.default),
        (lambda x: x @ x[0, 0, 0], aten.bmm.default),
    ],
)
def test_products_of_matrices(function: Callable[[Tensor], Tensor], expected: object) -> None:
    found = operators(function, (2, 4, 7, 9))
    assert expected in found
    assert not {aten.matmul.default, aten.mm.default} & set(found)

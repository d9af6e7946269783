"""Operators that are special cases of others are written as these, and compute the same."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontend.float_rewrites import Call, rewritten
from torch import Tensor
from torch.nn import functional

from deuteron.frontend.quantize import indexing, synonyms

aten = torch.ops.aten

FUNCTIONS: list[tuple[Callable[[Tensor], Tensor], list[Any]]] = [
    (
        lambda x: torch.maximum(torch.full((4, 2), -1e4), x) + torch.minimum(x, torch.tensor(0.5)),
        [aten.clamp.default, aten.clamp.default, aten.add.Tensor],
    ),
    (lambda x: torch.maximum(x > 0, torch.tensor(True)), [aten.gt.Scalar, aten.maximum.default]),
    (lambda x: torch.fmax(x, -x), [aten.neg.default, aten.maximum.default]),
    (lambda x: torch.fmin(x, x * 2), [aten.mul.Tensor, aten.minimum.default]),
    (lambda x: torch.sub(x, x.abs(), alpha=3), [aten.abs.default, aten.mul.Tensor, aten.sub.Tensor]),
    (lambda x: torch.rsub(x, x.abs()), [aten.abs.default, aten.sub.Tensor]),
    (lambda x: x.permute(1, 0).transpose(0, 1) * 2, [aten.mul.Tensor]),
    (
        lambda x: x.reshape(2, 2, 2).permute(1, 2, 0).transpose(0, 2) * 2,
        [aten.reshape.default, aten.permute.default, aten.mul.Tensor],
    ),
    (lambda x: torch.rsub(x, 1, alpha=2), [aten.mul.Tensor, aten.rsub.Scalar]),
    (
        lambda x: functional.hardtanh(x, 0, 1) + functional.hardtanh(x, -1, 1),
        [aten.hardtanh.default] * 2 + [aten.add.Tensor],
    ),
    (lambda x: torch.rsub(x, x.abs(), alpha=3), [aten.abs.default, aten.mul.Tensor, aten.sub.Tensor]),
    (lambda x: torch.add(x, x.abs(), alpha=-2), [aten.abs.default, aten.mul.Tensor, aten.add.Tensor]),
    (lambda x: torch.ldexp(x, torch.tensor([3, -1])), [aten.to.dtype, aten.exp2.default, aten.mul.Tensor]),
    (lambda x: torch.add(*torch.aminmax(x, dim=1)), [aten.amin.default, aten.amax.default, aten.add.Tensor]),
    (lambda x: torch.aminmax(x).max - x, [aten.amax.default, aten.sub.Tensor]),
    (lambda x: x.view(-1) * 2, [aten.reshape.default, aten.mul.Tensor]),
    (lambda x: x.unfold(-1, 2, 1) * 2, [aten.index_select.default, aten.reshape.default, aten.mul.Tensor]),
    (
        lambda x: x.unfold(0, 1, 2) * 2,
        [aten.index_select.default, aten.reshape.default, aten.permute.default, aten.mul.Tensor],
    ),
    (lambda x: x.mT * 2, [aten.transpose.int, aten.mul.Tensor]),
    (lambda x: x[None].adjoint() * 2, [aten.unsqueeze.default, aten.transpose.int, aten.mul.Tensor]),
    (
        lambda x: torch.dot(x[0], x[1]) * 2,
        [
            *([aten.select.int] * 2 + [aten.unsqueeze.default] * 2),
            *(aten.mul.Tensor, aten.sum.dim_IntList, aten.reshape.default, aten.mul.Tensor),
        ],
    ),
    (
        lambda x: functional.avg_pool2d(x[None, None], 2, 1, 1, divisor_override=3),
        [aten.unsqueeze.default, aten.unsqueeze.default, aten.avg_pool2d.default, aten.mul.Tensor],
    ),
    (lambda x: x + x.new_full((2,), 0.5) + x.new_zeros(2), [aten.add.Tensor] * 2),
    (lambda x: torch.ones_like(x) + torch.full_like(x, 2.0) + x, [aten.add.Tensor] * 2),
]

PLACES = torch.tensor([[1], [0], [1], [0]])

OTHERS: list[tuple[Callable[[Tensor], Tensor], str]] = [
    (lambda x: torch.bucketize(x, torch.tensor([-0.5, 0.0, 0.5])) * x, "bucketize"),
    (lambda x: torch.bucketize(x, torch.tensor([-0.5, 0.0]), right=True, out_int32=True) * x, "bucketize"),
    (lambda x: torch.zeros(4, 2).scatter(1, PLACES, x), "scatter"),
    (lambda x: x.put(torch.tensor([0, -1]), x[1]), "put"),
    (lambda x: functional.normalize(x, p=1.0, dim=1), "expand"),
    (lambda x: ((x > 0).int() << 2) * x, "lshift"),
    (lambda x: torch.max(x, -x) + torch.min(x, x * 2), "max.other"),
    (lambda x: x * x.abs().amax(0).expand_as(x), "expand"),
    (lambda x: sum(torch.broadcast_tensors(x, x[:, :1])), "expand"),
    (lambda x: x[:1].expand(4, 2) / x[:, :1].expand(4, 2), "div.Scalar"),
    (lambda x: torch.take(x, torch.tensor([0, -1, 3])) * 2, "take"),
    (lambda x: torch.take_along_dim(x, PLACES, 1) * 2, "take"),
    (lambda x: torch.take_along_dim(x, x.argmax(0, keepdim=True), 0) * 2, "take"),
    (lambda x: x.index_fill(0, torch.tensor([0, 3]), 5) * x, "index_fill"),
    (lambda x: x.as_strided((3, 2), (2, 1), 1) * 2, "as_strided"),
    (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -20, 30) * 2, "fake_quantize"),
    (lambda x: x.repeat_interleave(3, dim=-1) + x.repeat_interleave(3)[:6], "repeat_interleave"),
    (lambda x: torch.cumprod(x, 0), "cumprod"),
    (lambda x: x.unfold(0, 2, 1) * 2, "unfold"),
    (lambda x: x.diagonal(-1) + x.diagonal(offset=-2), "diagonal"),
    (lambda x: torch.diag_embed(x) * 2, "diag_embed"),
    (lambda x: torch.cat(torch.tensor_split(x, (1, 2))[::-1] + torch.tensor_split(x, 3)), "tensor_split"),
    (lambda x: (((x > 0).int() * 4 - 5) >> 1) * x, "rshift"),
    (lambda x: x.detach() * 2, "detach"),
    (lambda x: x.ravel() * 2, "ravel"),
    (lambda x: x.index_add(0, torch.tensor([2, 0, 2]), x[1:], alpha=-2), "index_add"),
    (lambda x: torch.inner(x, x[:2]), "inner"),
    (lambda x: x.unbind(-1)[1] * x.unbind()[0][0], "unbind"),
    (lambda x: torch.tril(x, -1) + x.triu(), "tri"),
    (lambda x: x * ((x * 9).long() << torch.tensor([2, 0])) + ((x * 9).long() >> torch.tensor([1, 3])), "shift"),
    (lambda x: torch.conv_tbc(x[..., None], torch.ones(3, 1, 2), torch.ones(2), 1), "conv_tbc"),
    (lambda x: x ** torch.tensor([3, 2]) + x ** torch.tensor([[0.0], [1.0], [2.0], [4.0]]), "Tensor_Tensor"),
    (lambda x: x[0, 0].mean() + x[0, 1].amax() + x[1, 0].sum([0]) + x[1, 1].max(), "m"),
    (lambda x: torch.searchsorted(torch.tensor([-0.5, 0.5]), x, side="right") * x, "searchsorted"),
    (lambda x: x.index_put((torch.tensor([3, 0]),), x[:2]), "index_put"),
    (lambda x: x.index_put((torch.tensor([3, 1]), torch.tensor([0, 1])), torch.tensor(0.5)), "index_put"),
    (
        lambda x: functional.instance_norm(x[None], x.new_ones(4), x.new_full((4,), 2.0), use_input_stats=False),
        "instance_norm",
    ),
]


@pytest.mark.parametrize(("function", "name"), OTHERS)
def test_they_compute_the_same_without_the_operator(function: Callable[[Tensor], Tensor], name: str):
    found = rewritten(Call(function), (4, 2), synonyms.write)
    assert not any(name in str(target) for target in found)


def test_strides_of_a_part_of_a_memory_stay():
    found = rewritten(Call(lambda x: x[1:].as_strided((2, 2), (2, 1), 0) * 2), (4, 2), synonyms.write)
    assert aten.as_strided.default in found


def test_values_that_share_a_place_stay():
    places = torch.tensor([[1, 1], [0, 0], [1, 1], [0, 0]])
    found = rewritten(
        Call(lambda x: torch.zeros(4, 2).scatter(1, places, x[:, :1].expand(4, 2))), (4, 2), synonyms.write
    )
    assert aten.scatter.src in found


@pytest.mark.parametrize(("function", "operators"), FUNCTIONS)
def test_they_compute_the_same(function: Callable[[Tensor], Tensor], operators: list[Any]):
    found = rewritten(Call(function), (4, 2), synonyms.write)
    assert [
        target for target in found if target not in (aten.lift_fresh_copy.default, aten.detach_.default)
    ] == operators


@pytest.mark.parametrize("compare", [torch.lt, torch.le, torch.gt, torch.ge, torch.eq, torch.ne])
def test_comparisons_of_bools_are_logic(compare: Callable[[Tensor, Tensor], Tensor]):
    found = rewritten(Call(lambda x: compare(x > 0, x.flip(0) > -1)), (8, 8), synonyms.write)
    assert getattr(aten, compare.__name__).Tensor not in found


@pytest.mark.parametrize("number", [0, 1, False])
def test_a_bool_that_is_compared_with_a_number_is_logic(number: float):
    found = rewritten(Call(lambda x: torch.stack([(x > 0) == number, (x > 1) != number])), (8, 8), synonyms.write)
    assert not {aten.eq.Scalar, aten.ne.Scalar} & {*found}


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_one_size_are_reductions(mode: str):
    indices = torch.tensor([[0, 5, 2], [1, 1, 3]])
    module = Call(lambda x: functional.embedding_bag(indices, x, mode=mode) * 2)
    assert not any("bag" in str(target) for target in rewritten(module, (6, 4), indexing.write, rtol=1e-5))


def test_weighted_bags_are_weighted_sums():
    indices, weights = torch.tensor([[0, 5, 2], [1, 1, 3]]), torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    module = Call(lambda x: functional.embedding_bag(indices, x, mode="sum", per_sample_weights=weights))
    assert not any("bag" in str(target) for target in rewritten(module, (6, 4), indexing.write, rtol=1e-5))


@pytest.mark.parametrize(
    "options",
    [
        {"offsets": torch.tensor([0, 2, 3])},
        {"offsets": torch.tensor([0, 2, 3]), "mode": "max"},
        {"offsets": torch.tensor([0, 2, 6]), "mode": "sum", "include_last_offset": True},
        {"offsets": torch.tensor([0, 3]), "padding_idx": 1},
        {"offsets": torch.tensor([0, 3, 4]), "padding_idx": -5},
        {"offsets": torch.tensor([0, 4]), "padding_idx": 5, "mode": "sum", "per_sample_weights": torch.arange(6.0)},
    ],
)
def test_bags_of_other_sizes_and_with_padding_are_reductions(options: dict[str, Any]):
    indices = torch.tensor([0, 5, 2, 1, 1, 3])
    module = Call(lambda x: functional.embedding_bag(indices, x, **{"mode": "mean", **options}))
    assert not any("bag" in str(target) for target in rewritten(module, (6, 4), indexing.write, rtol=1e-5))


def test_bags_whose_last_offset_is_no_end_stay():
    def last(x: Tensor) -> Tensor:
        ends = torch.tensor([0, 2, 4])
        return functional.embedding_bag(torch.tensor([0, 5, 2, 1, 1, 3]), x, ends, mode="sum", include_last_offset=True)

    assert any("bag" in str(target) for target in rewritten(Call(last), (6, 4), indexing.write))


def test_exact_nearest_neighbours_are_selections():
    module = Call(lambda x: functional.interpolate(x, scale_factor=1.5, mode="nearest-exact"))
    assert not any("upsample" in str(target) for target in rewritten(module, (1, 2, 4, 6), indexing.write))

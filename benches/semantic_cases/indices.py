"""Integer outputs, places of best scores, gathers and scatters, sorts, embeddings and tables."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semantic_cases.case import IMAGE, TOKENS, VECTOR, Cases, bools, dense, ints

CASES = Cases("indices")


def _greedy_suppression(m: Any, x: Tensor) -> Tensor:
    scores, out = m.f(x).sum(1), []
    for _ in range(3):
        best = scores.argmax()
        out.append(best)
        scores = torch.where(torch.arange(4) == best, -100.0, scores)
    return torch.stack(out)


def _vector_quantized(m: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    distances = (m.f(x)[:, None] - m.codes[None]).pow(2).sum(-1)
    index = distances.argmin(1)
    return m.codes[index], index


def _expand_gather(m: Any, x: Tensor) -> Tensor:
    best = m.f(x).argmax(1, keepdim=True)
    return torch.gather(x, 1, best) * 2


def _hard_mixture(m: Any, x: Tensor) -> Tensor:
    weights = F.one_hot(m.f(x).argmax(-1), 8).float()
    return weights * x


def _top_mask(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    values, _ = y.topk(2, -1)
    return torch.where(y >= values[:, -1:], y, torch.zeros_like(y))


def _experts(m: Any, x: Tensor) -> Tensor:
    weights, chosen = m.f(x).softmax(-1).topk(2, -1)
    return torch.zeros(4, 8).scatter(1, chosen, weights)


def _box_decode(m: Any, x: Tensor) -> Tensor:
    y = m.f(x).view(4, 2, 4)
    centre, size = y[..., :2].sigmoid() * 8, y[..., 2:].clamp(max=1).exp()
    return torch.cat([centre - size / 2, centre + size / 2], -1)


def _greedy_decode(m: Any, x: Tensor) -> Tensor:
    best = m.f(x).argmax(-1)
    changed = torch.ones_like(best, dtype=torch.bool)
    changed[:, 1:] = best[:, 1:] != best[:, :-1]
    return torch.where(changed & (best != 0), best, -1)


CASES.vectors(
    argmax=lambda m, x: m.f(x).argmax(1),
    argmax_of_all=lambda m, x: m.f(x).argmax(),
    argmax_keeping=lambda m, x: m.f(x).argmax(-1, keepdim=True),
    argmax_to_float=lambda m, x: m.f(x).argmax(1).float() * 0.5,
    argmax_to_int32=lambda m, x: m.f(x).argmax(1).int(),
    argmax_plus_one=lambda m, x: m.f(x).argmax(1) + 1,
    argmax_of_softmax=lambda m, x: m.f(x).softmax(1).argmax(1),
    argmin=lambda m, x: m.f(x).argmin(0),
    argmax_compared=lambda m, x: m.f(x).argmax(1) == 3,
    max_with_indices=lambda m, x: m.f(x).max(1),
    max_values_alone=lambda m, x: m.f(x).max(1).values,
    max_indices_alone=lambda m, x: m.f(x).max(dim=1)[1],
    max_of_all=lambda m, x: m.f(x).max() - m.f(x).min(),
    min_with_indices=lambda m, x: torch.min(m.f(x), 0, keepdim=True),
    median=lambda m, x: m.f(x).median(1).values,
    mode_of_rounds=lambda m, x: m.f(x).round().mode(1).values,
    kthvalue=lambda m, x: m.f(x).kthvalue(2, 1).values,
    topk=lambda m, x: m.f(x).topk(3, 1),
    topk_values=lambda m, x: torch.topk(m.f(x), 2, dim=1, largest=False).values,
    topk_indices=lambda m, x: m.f(x).topk(2, 1).indices,
    sort=lambda m, x: m.f(x).sort(1),
    sort_descending_values=lambda m, x: m.f(x).sort(1, descending=True)[0],
    argsort=lambda m, x: m.f(x).argsort(1),
    sorted_gathered=lambda m, x: torch.gather(x, 1, m.f(x).argsort(1)),
    rank_of_each=lambda m, x: m.f(x).argsort(1).argsort(1),
    gather_best=_expand_gather,
    gather_constant=lambda m, x: torch.gather(m.f(x), 1, torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7]])),
    take_along_dim=lambda m, x: torch.take_along_dim(m.f(x), torch.tensor([[0], [3], [1], [7]]), 1),
    take=lambda m, x: torch.take(m.f(x), torch.tensor([0, 9, 31])),
    index_select=lambda m, x: m.f(x).index_select(1, torch.tensor([7, 0, 3])),
    index_by_list=lambda m, x: m.f(x)[:, [0, 2, 5]],
    index_by_pairs=lambda m, x: m.f(x)[torch.arange(4), torch.tensor([1, 0, 7, 3])],
    index_reversed=lambda m, x: m.f(x)[:, torch.arange(7, -1, -1)],
    index_by_none=lambda m, x: m.f(x)[:, None, :] - x[None, :, :],
    index_by_best=lambda m, x: x[torch.arange(4), m.f(x).argmax(1)],
    index_table_by_best=lambda m, x: torch.arange(16.0).view(8, 2)[m.f(x).argmax(1)],
    scatter_constant=lambda m, x: torch.zeros(4, 8).scatter(1, torch.tensor([[0], [1], [2], [3]]), m.f(x)[:, :1]),
    scatter_value=lambda m, x: x.scatter(1, torch.tensor([[0], [1], [2], [3]]), 5.0) + m.f(x),
    scatter_add=lambda m, x: torch.zeros(4, 3).scatter_add(1, torch.tensor([[0, 1, 2, 0]] * 4), m.f(x)[:, :4]),
    scatter_reduce=lambda m, x: torch.zeros(4, 3).scatter_reduce(1, torch.tensor([[0, 1, 2, 0]] * 4), m.f(x), "amax"),
    index_add=lambda m, x: torch.zeros(3, 8).index_add(0, torch.tensor([0, 2, 0, 1]), m.f(x)),
    one_hot=lambda m, x: F.one_hot(m.f(x).argmax(1), 8),
    one_hot_float=lambda m, x: F.one_hot(m.f(x).argmax(1), 8).float() * x,
    one_hot_by_compare=lambda m, x: (m.f(x).argmax(1, keepdim=True) == torch.arange(8)).float(),
    hard_mixture=_hard_mixture,
    top_mask=_top_mask,
    experts=_experts,
    greedy_suppression=_greedy_suppression,
    bucketize=lambda m, x: torch.bucketize(m.f(x), torch.tensor([-0.5, 0.0, 0.5])),
    searchsorted=lambda m, x: torch.searchsorted(torch.linspace(-1, 1, 9), m.f(x)),
    digitised_by_sum=lambda m, x: (m.f(x).unsqueeze(-1) > torch.tensor([-0.5, 0.0, 0.5])).sum(-1),
    nonzero=lambda m, x: torch.nonzero(m.f(x) > 0),
    masked_select=lambda m, x: m.f(x).masked_select(x > 0),
    boolean_index=lambda m, x: m.f(x)[x > 0],
    unique=lambda m, x: torch.unique(m.f(x).round()),
    where_one_argument=lambda m, x: torch.where(m.f(x) > 0)[0],
    bincount=lambda m, x: torch.bincount(m.f(x).argmax(1), minlength=8),
    histogram=lambda m, x: torch.histc(m.f(x), 4, -1, 1),
    tril_indices=lambda m, x: (m.f(x)[:, :4])[tuple(torch.tril_indices(4, 4))],
    cummax=lambda m, x: m.f(x).cummax(1).values,
    diff=lambda m, x: torch.diff(m.f(x), dim=1),
    box_decode=_box_decode,
    repeat_interleave=lambda m, x: m.f(x).repeat_interleave(2, 1),
    repeat=lambda m, x: m.f(x).repeat(2, 1, 2),
    tile=lambda m, x: torch.tile(m.f(x), (2,)),
    meshgrid=lambda m, x: m.f(x)[:, :4] + torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij")[1],
    multinomial_weights=lambda m, x: m.f(x).softmax(1).cumsum(1) > 0.5,
)
CASES.images(
    argmax_per_pixel=lambda m, x: m.c(x).argmax(1),
    argmax_per_pixel_uint8=lambda m, x: m.c(x).argmax(1).to(torch.uint8),
    argmax_per_pixel_int8=lambda m, x: m.c(x).argmax(1, keepdim=True).to(torch.int8),
    mask_per_pixel=lambda m, x: m.c(x)[:, 1] > m.c(x)[:, 0],
    heat_map_place=lambda m, x: m.c(x).flatten(2).argmax(-1),
    heat_map_row_and_column=lambda m, x: torch.stack(
        [m.c(x).flatten(2).argmax(-1) // 8, m.c(x).flatten(2).argmax(-1) % 8], -1
    ),
    pixel_gather=lambda m, x: m.c(x).flatten(2).gather(2, torch.arange(5).view(1, 1, 5).expand(1, 8, 5)),
    max_over_channels=lambda m, x: torch.max(m.c(x), 1, keepdim=True)[0],
)
CASES.tokens(
    first_token=lambda m, x: m.f(x)[:, 0],
    last_token=lambda m, x: m.f(x)[:, -1],
    greedy_decode=_greedy_decode,
    tokens_chosen=lambda m, x: torch.gather(x, 1, m.f(x).mean(-1).argsort(1)[:, :3, None].expand(1, 3, 8)),
    pooled_by_max=lambda m, x: m.f(x).max(1)[0],
)


def table(count: int = 10, size: int = 8, **options: Any) -> Any:
    """Return a factory of an embedding."""
    return lambda: nn.Embedding(count, size, **options)


WORDS = ints(10, 1, 6)
CASES.function("embedding", lambda m, i: m.e(i), WORDS, e=table())
CASES.function("embedding_plus_positions", lambda m, i: m.e(i) + m.p(torch.arange(6)), WORDS, e=table(), p=table(6))
CASES.function("embedding_padding", lambda m, i: m.f(m.e(i)), WORDS, e=table(padding_idx=0), f=dense)
CASES.function("embedding_scaled", lambda m, i: m.e(i) * 8**0.5, WORDS, e=table())
CASES.function("embedding_max_norm", lambda m, i: m.e(i), WORDS, e=table(max_norm=1.0))
CASES.function("embedding_masked_mean", lambda m, i: _masked_mean(m.e(i), i != 0), WORDS, e=table())
CASES.function("embedding_bag", lambda m, i: m.e(i), WORDS, e=lambda: nn.EmbeddingBag(10, 8, mode="mean"))
CASES.function("embedding_bag_sum", lambda m, i: m.e(i), WORDS, e=lambda: nn.EmbeddingBag(10, 8, mode="sum"))
CASES.function("embedding_functional", lambda m, i: F.embedding(i, m.e.weight), WORDS, e=table())
CASES.function("embedding_tied", lambda m, i: m.e(i) @ m.e.weight.t(), WORDS, e=table())
CASES.function("embedding_by_index", lambda m, i: m.e.weight[i], WORDS, e=table())
CASES.function("embedding_of_int32", lambda m, i: m.e(i), ints(10, 1, 6, dtype=torch.int32), e=table())
CASES.function("embedding_of_clamped", lambda m, i: m.e(i.clamp(max=9)), ints(20, 1, 6), e=table())
CASES.function("embedding_of_remainder", lambda m, i: m.e(i % 10), ints(50, 1, 6), e=table())
CASES.function("embedding_of_offset", lambda m, i: m.e(i + torch.tensor([0, 5])), ints(5, 3, 2), e=table())
CASES.function("embedding_summed_tables", lambda m, i: m.e(i[:, 0]) + m.g(i[:, 1]), ints(5, 3, 2), e=table(), g=table())
CASES.function("one_hot_of_input", lambda m, i: m.f(F.one_hot(i, 8).float()), ints(8, 4), f=dense)
CASES.function("equal_to_padding", lambda m, i: i == 0, WORDS)
CASES.function("lengths_to_mask", lambda m, n, x: m.f(x) * (torch.arange(6)[None] < n[:, None])[..., None],
               ints(7, 1, low=1), TOKENS, f=dense)  # fmt: skip
CASES.function("lengths_select", lambda m, n, x: m.f(x)[torch.arange(1), n - 1], ints(7, 1, low=1), TOKENS, f=dense)
CASES.function("row_by_index_input", lambda m, i, x: m.f(x)[i], ints(4, 3), VECTOR, f=dense)
CASES.function("gather_by_index_input", lambda m, i, x: m.f(x).gather(1, i), ints(8, 4, 2), VECTOR, f=dense)
CASES.function("ids_passed_through", lambda m, i, x: (i, m.f(x)), ints(100, 4), VECTOR, f=dense)
CASES.function(
    "mask_input_fills", lambda m, b, x: m.f(x).masked_fill(~b, -5.0).softmax(-1), bools(4, 8), VECTOR, f=dense
)
CASES.function("vector_quantized", _vector_quantized, VECTOR, f=dense, codes=lambda: torch.randn(6, 8))
CASES.function("hashed", lambda m, i: m.e((i * 31 ^ i >> 2) % 10), ints(1000, 2, 5), e=lambda: nn.Embedding(10, 8))
CASES.function("longest_rows", lambda m, i: m.f(m.e(i)) + m.f(m.e(i + 1)), ints(9, 2, 5), f=dense,
               e=lambda: nn.Embedding(10, 8, max_norm=1.0))  # fmt: skip
CASES.function("mean_of_length", lambda m, n, x: m.f(x).sum(1) / n[:, None], ints(7, 1, low=1), TOKENS, f=dense)
CASES.function("same_label", lambda m, i: (i[:, None] == i).float().fill_diagonal_(0).sum(1), ints(4, 6))
CASES.function("palette", lambda m, x: m.colours[x.mean(1).mul(2).long().clamp(0, 3)], IMAGE,
               colours=lambda: torch.randn(4, 3))  # fmt: skip


def _masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    weights = mask.unsqueeze(-1).float()
    return (x * weights).sum(1) / weights.sum(1).clamp(min=1.0)


CASES.function("masked_best", lambda m, x, b: m.f(x).masked_fill(~b, -1e9).argmax(1), VECTOR, bools(4, 8), f=dense)
CASES.function(
    "masked_greatest_infinite",
    lambda m, x, b: m.f(x).masked_fill(~b, -torch.inf).max(1).values.clamp(min=-5),
    VECTOR,
    bools(4, 8),
    f=dense,
)
CASES.function("masked_sort", lambda m, x, b: m.f(x).masked_fill(b, 3.0).sort(1).values, VECTOR, bools(4, 8), f=dense)
CASES.function(
    "bag_weighted",
    lambda m, i, w: m.e(i, per_sample_weights=w),
    ints(10, 2, 5),
    (2, 5),
    e=lambda: nn.EmbeddingBag(10, 8, mode="sum"),
)
CASES.vectors(
    least_of_kept=lambda m, x: torch.where(x > -0.5, m.f(x), 1e9).amin(1),
    best_of_added_mask=lambda m, x: (m.f(x) + torch.tensor([0, -1e9, 0, 0, -1e9, 0, 0, 0])).argmax(1),
)

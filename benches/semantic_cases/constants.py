"""Decisions by constants, indices that depend on inputs, and layers with computed weights."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semantic_cases.case import IMAGE, SIGNAL, VECTOR, Cases, conv, conv1, dense

CASES = Cases("constants")


def _mask() -> Tensor:
    return torch.tensor([True, False, False, True, True, False, False, False])


def _filled_by_mask(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    y[:, m.mask] = 0.5
    return y


CASES.function("branch_on_parameter", lambda m, x: m.f(x) * 2 if m.a > 1 else x, f=dense, a=lambda: torch.tensor(2.0))
CASES.function("columns_of_mask", lambda m, x: m.f(x)[:, m.mask], f=dense, mask=_mask)
CASES.function("filled_by_mask", _filled_by_mask, f=dense, mask=_mask)
CASES.function("places_of_mask", lambda m, x: m.f(x)[:, m.mask.nonzero().squeeze(1)], f=dense, mask=_mask)
CASES.function("item_of_buffer", lambda m, x: m.f(x)[:, : m.n.item()], f=dense, n=lambda: torch.tensor(3))
CASES.function("slice_from_buffer", lambda m, x: m.f(x)[:, m.n :], f=dense, n=lambda: torch.tensor(3))
CASES.function(
    "split_by_buffer",
    lambda m, x: torch.cat(m.f(x).split(m.sizes.tolist(), 1)[::-1], 1),
    f=dense,
    sizes=lambda: torch.tensor([3, 5]),
)
CASES.function(
    "loop_over_buffer",
    lambda m, x: torch.stack([m.f(x)[:, i] for i in m.order], 1),
    f=dense,
    order=lambda: torch.tensor([2, 0, 1]),
)
CASES.vectors(
    rows_repeated=lambda m, x: m.f(x).repeat_interleave(torch.tensor([1, 2, 0, 3]), dim=0),
    branch_on_sparsity=lambda m, x: x if (m.f.weight == 0).float().mean() > 0.5 else m.f(x),
    literal_of_shape=lambda m, x: m.f(x) / n if (n := torch.tensor(x.shape[1])) > 4 else x,
    row_of_largest=lambda m, x: (y := m.f(x))[y.sum(1).argmax()],
    column_of_largest=lambda m, x: (y := m.f(x))[:, y.sum(0).argmax(), None],
    linear_generated=lambda m, x: F.linear(x, torch.outer(m.f(x)[0], x[1]), m.f(x)[2]),
)


def _placed_ring(m: Any, x: Tensor) -> Tensor:
    m.kept[m.at] = m.f(x)[0]
    m.at = (m.at + 1) % 4
    return m.kept.mean(0)


def _placed_cache(m: Any, x: Tensor) -> Tensor:
    m.keys[:, m.at] = m.f(x)[0]
    m.at = (m.at + 1) % 6
    return (x @ m.keys).softmax(-1)


def _clamped_weight(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        m.f.weight.clamp_(-0.1, 0.1)
    return m.f(x)


def _fast_weights(m: Any, x: Tensor) -> Tensor:
    y = F.linear(m.f(x), m.kept)
    m.kept.mul_(0.9).add_(torch.outer(y[0], x[0]), alpha=0.01)
    return y


CASES.function("ring_at_place", _placed_ring, f=dense, kept=lambda: torch.zeros(4, 8), at=lambda: torch.tensor(0))
CASES.function("cache_at_place", _placed_cache, f=dense, keys=lambda: torch.zeros(8, 6), at=lambda: torch.tensor(0))
CASES.function("weight_clamped_once", _clamped_weight, f=dense)
CASES.function("fast_weights", _fast_weights, f=dense, kept=lambda: torch.eye(8))


def _mixture(m: Any, x: Tensor) -> Tensor:
    y = m.c(x)
    shares = m.f(y.mean((2, 3))).softmax(-1)
    return F.conv2d(y, (shares.view(4, 1, 1, 1, 1) * m.kernels).sum(0), padding=1)


CASES.function(
    "mixture_of_kernels",
    _mixture,
    IMAGE,
    c=conv,
    f=lambda: nn.Linear(8, 4),
    kernels=lambda: nn.Parameter(torch.randn(4, 8, 8, 3, 3) * 0.1),
)
CASES.function(
    "kernel_of_image",
    lambda m, x: F.conv2d(y := m.c(x), F.adaptive_avg_pool2d(y, 3)[0].unsqueeze(1), padding=1, groups=8),
    IMAGE,
    c=conv,
)
CASES.function("correlation", lambda m, x, z: F.conv2d(m.c(x), m.c(z)), IMAGE, (1, 3, 3, 3), c=conv)
CASES.function(
    "signal_filtered",
    lambda m, x: F.conv1d(y := m.c(x), m.f(y.mean(-1)).view(8, 8, 3) * 0.1, padding=2, dilation=2),
    SIGNAL,
    c=conv1,
    f=lambda: nn.Linear(8, 192),
)
CASES.function("composites", lambda m, x: torch.einsum("ii->i", m.f(x)[:, :4]) + m.f(x)[:, :4].trace(), VECTOR, f=dense)

"""Losses, statistics and functions of small matrices that are outputs of a module."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semantic_cases.case import IMAGE, VECTOR, Cases, conv, dense, ints

CASES = Cases("losses")

SIGNS = torch.tensor([1.0, -0.0, 0.0, -1.0, 2.0, -0.0, 3.0, 4.0])


def _weights() -> Tensor:
    return torch.rand(8) + 0.5


def _edges(x: Tensor) -> Tensor:
    """The length and the angle of a gradient of [samples, 2, rows, columns]."""
    length = x.pow(2).sum(1, keepdim=True).add(1e-3).sqrt()
    return torch.cat([length, torch.atan2(x[:, 1:], x[:, :1])], 1)


def _of_classes(**options: Any) -> Any:
    return lambda m, x, target: F.cross_entropy(m.f(x), target, weight=m.w, **options)


for name, options in {
    "weighted": {},
    "smoothed": {"label_smoothing": 0.1},
    "without_reduction": {"label_smoothing": 0.1, "reduction": "none", "ignore_index": 2},
}.items():
    CASES.function(f"cross_entropy_{name}", _of_classes(**options), VECTOR, ints(8, 4), f=dense, w=_weights)
CASES.function(
    "cross_entropy_of_pixels",
    lambda m, x, target: F.cross_entropy(m.c(x), target, ignore_index=2),
    *(IMAGE, ints(8, 1, 8, 8)),
    c=conv,
)
CASES.function(
    "cross_entropy_of_shares_of_pixels",
    lambda m, x, shares: F.cross_entropy(m.c(x), shares.softmax(1)),
    *(IMAGE, (1, 8, 8, 8)),
    c=conv,
)
CASES.function(
    "weighted_likelihood_of_pixels",
    lambda m, x, target: F.nll_loss(m.c(x).log_softmax(1), target, weight=m.w, reduction="sum"),
    *(IMAGE, ints(8, 1, 8, 8)),
    c=conv,
    w=_weights,
)
CASES.vectors(
    sign_of_negative_zero=lambda m, x: torch.copysign(m.f(x), torch.tensor(-0.0)),
    signs_of_constants=lambda m, x: torch.copysign(m.f(x), SIGNS) + torch.signbit(SIGNS) * x,
    sign_of_computed_zero=lambda m, x: torch.copysign(m.f(x), -torch.relu(x)),
    covariance=lambda m, x: torch.cov(m.f(x)),
    correlation=lambda m, x: torch.corrcoef(m.f(x)),
    power_of_elements=lambda m, x: torch.pow(m.f(x).abs() + 0.1, x),
    whole_powers=lambda m, x: m.f(x) ** torch.tensor([0, 1, 2, 3, 0, 1, 2, 2]),
    mode_of_integers=lambda m, x: m.f(x).round().long().mode(-1).values,
    mode_of_floats=lambda m, x: m.f(x).round().mode(-1).values,
    masked_scatter=lambda m, x: m.f(x).masked_scatter(x > 0, torch.arange(32.0).view(4, 8)),
    pad_sequence=lambda m, x: nn.utils.rnn.pad_sequence([m.f(x)[0:2], m.f(x)[1:4]], batch_first=True),
    determinants=lambda m, x: torch.det(m.f(x)[:, :4].view(4, 2, 2)),
    inverse_of_two_rows=lambda m, x: torch.inverse(m.f(x)[:, :4].view(4, 2, 2) + 2 * torch.eye(2)),
    inverse_of_three_rows=lambda m, x: torch.linalg.inv(m.f(x)[:2].flatten()[:9].view(3, 3) + 3 * torch.eye(3)),
    ratio_of_sums=lambda m, x: m.f(x).abs().sum() / x.abs().sum(),
    scaled_to_its_range=lambda m, x: (m.f(x) - m.f(x).min()) / (m.f(x).max() - m.f(x).min()),
    reductions_of_a_number=lambda m, x: m.f(x).mean().sum() + m.f(x).max().mean(),
    compared_means=lambda m, x: ((m.f(x)[0] * (m.f(x).mean() > 0)).sum(-1), m.f(x).mean() > 0.1),
)
CASES.vectors(
    bits_of_shifts=lambda m, x: ((m.f(x) > 0).long() << torch.arange(8)).sum(1),
    log_probabilities=lambda m, x: torch.distributions.Normal(m.f(x).tanh(), torch.ones(8)).log_prob(x.tanh()),
    entropy_of_a_distribution=lambda m, x: torch.distributions.Categorical(logits=m.f(x)).entropy(),
    numbers_between_numbers=lambda m, x: x[0, 0] + 0.9 * (1 - x[1, 1]) * 0 - m.f(x)[1, 2] * 2,
    solution_of_two_equations=lambda m, x: torch.linalg.solve(m.f(x)[:2, :2] + 3 * torch.eye(2), x[:2]),
)
CASES.function(
    "bits_of_integers", lambda m, i: m.f(((i.unsqueeze(-1) >> torch.arange(8)) & 1).float()), ints(256, 4), f=dense
)
CASES.function(
    "gradient_of_an_image",
    lambda m, x: _edges(F.conv2d(x[:, :1], m.k)),
    IMAGE,
    k=lambda: torch.tensor([[[[1.0, 0, -1], [2, 0, -2], [1, 0, -1]]], [[[1.0, 2, 1], [0, 0, 0], [-1, -2, -1]]]]),
)
CASES.function(
    "one_weight_scaled_and_not",
    lambda m, x: F.conv1d(F.conv1d(x, m.k, groups=4) / 10, m.k, groups=4),
    (1, 4, 20),
    k=lambda: torch.tensor([-2.0, -1, 0, 1, 2]).repeat(4, 1, 1),
)
CASES.function(
    "transposed_volume",
    lambda m, x: m.c(x),
    (1, 2, 4, 4, 4),
    c=lambda: nn.ConvTranspose3d(2, 4, 3, stride=2, padding=1, output_padding=1),
)
CASES.function(
    "convolution_of_time_first",
    lambda m, x: torch.conv_tbc(m.f(x), m.w, m.b, 1),
    (6, 2, 8),
    f=dense,
    w=lambda: torch.randn(3, 8, 5) * 0.2,
    b=lambda: torch.randn(5) * 0.1,
)
CASES.function(
    "computed_weights_of_many_products",
    lambda m, x: F.linear(x * 1.5, m.w * x.mean()),
    (1, 40000),
    w=lambda: torch.randn(2, 40000) * 0.01,
)

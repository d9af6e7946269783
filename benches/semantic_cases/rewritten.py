"""The replacements that hints of refusals name: all have to build."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from semantic_cases.case import Cases

CASES = Cases("rewritten")


def _membrane_as_input(m: Any, x: Tensor, membrane: Tensor) -> tuple[Tensor, Tensor]:
    membrane = 0.9 * membrane + m.f(x)
    spikes = (membrane > 1.0).float()
    return spikes, membrane - spikes


def _hidden_as_input(m: Any, x: Tensor, hidden: Tensor) -> Tensor:
    return torch.tanh(m.f(x) + m.f(hidden))


def _window_as_input(m: Any, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
    window = torch.cat([past[1:], m.f(x)[:1]])
    return window.mean(0), window


def _cache_as_input(m: Any, x: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    keys = torch.cat([keys[1:], m.f(x)[:1]])
    return (x @ keys.t() / 8**0.5).softmax(-1), keys


def _noise_as_input(m: Any, x: Tensor, noise: Tensor) -> Tensor:
    return m.f(x) + noise


def _step_as_input(m: Any, x: Tensor, step: Tensor) -> Tensor:
    return m.f(x) * step


def _three_steps(m: Any, x: Tensor) -> Tensor:
    for _ in range(3):
        x = torch.tanh(m.f(x))
    return x


CASES.rewrites(
    membrane_as_input=_membrane_as_input,
    hidden_as_input=_hidden_as_input,
    window_as_input=_window_as_input,
    cache_as_input=_cache_as_input,
    noise_as_input=_noise_as_input,
    step_as_input=_step_as_input,
    three_steps=_three_steps,
    where_for_a_branch=lambda m, x: torch.where(x.sum() > 0, m.f(x), -m.f(x)),
    where_for_a_test_of_any=lambda m, x: torch.where((x > 2).any(), m.f(x) + 1, m.f(x)),
    where_for_boolean_index=lambda m, x: torch.where(x > 0, m.f(x), torch.zeros_like(x)),
    where_for_assignment=lambda m, x: m.f(torch.where(x > 1, 0.0, x)),
    cat_for_assignment=lambda m, x: torch.cat([m.f(x)[:, :4], x[:, 4:]], 1),
    cat_for_a_column=lambda m, x: torch.cat([torch.zeros(4, 1), m.f(x)[:, 1:]], 1),
    stack_for_rows=lambda m, x: torch.stack([row * (i + 1) for i, row in enumerate(m.f(x).unbind(0))]),
    tensor_for_item=lambda m, x: m.f(x) * x.abs().max(),
    amax_for_max=lambda m, x: m.f(x).amax(1),
    max_by_pairs=lambda m, x: torch.maximum(torch.maximum(m.f(x), x), -x),
    std_by_means=lambda m, x: ((m.f(x) - m.f(x).mean(-1, keepdim=True)).square().sum(-1) / 7).sqrt(),
    less_for_masked_scores=lambda m, x: torch.where(x > -1, m.f(x), m.f(x) - 8.0).softmax(-1),
    square_for_power=lambda m, x: m.f(x) * m.f(x) * m.f(x),
    relu_for_max_with_zero=lambda m, x: F.relu(m.f(x)),
    where_for_copysign=lambda m, x, y: torch.where(y < 0, -m.f(x).abs(), m.f(x).abs()),
    less_for_signbit=lambda m, x: m.f(x) * (x < 0),
    mode_of_integers_for_floats=lambda m, x: m.f(x).round().long().mode(-1).values,
    float_counts=lambda m, x: (m.f(x) > 0).float().sum(1) * 0.125,
    normalised_by_parts=lambda m, x: m.f(x) / (m.f(x).square().sum(-1, keepdim=True) + 1e-6).sqrt(),
    selected_by_slices=lambda m, x: torch.cat([m.f(x)[:, 7:], m.f(x)[:, :1], m.f(x)[:, 3:4]], 1),
    blocks_of_slices=lambda m, x: m.f(x).reshape(4, 2, 4).mean(1),
)

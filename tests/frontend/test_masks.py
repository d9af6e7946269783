"""Masks of a softmax: what is left out counts for nothing on every target, and scores keep their steps."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import full
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api

torch.manual_seed(0)  # of the weights of `CASES`

EARLIER = torch.ones(8, 8, dtype=torch.bool).tril()
INFINITE = torch.zeros(8, 8).masked_fill(~EARLIER, -torch.inf)
LOWEST = torch.finfo(torch.float32).min


class Attention(nn.Module):
    """Attention whose shares a function computes of scores, and perhaps of a second input."""

    def __init__(self, shares: Callable[..., Tensor]) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.shares = shares

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 4
        return self.shares(scores, *others) @ self.value(x)


class Fused(Attention):
    """The same by PyTorch's one operator, whose arguments a function gives."""

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        given: Any = self.shares(*others)
        return functional.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x), **given)


class Joined(Attention):
    """The same with `baddbmm`, which adds the mask, as in `nn.MultiheadAttention` with `need_weights`."""

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        scores = torch.baddbmm(INFINITE, self.query(x), self.key(x).transpose(1, 2))
        return scores.softmax(-1) @ self.value(x)


def tokens(count: int, dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
    """Inputs with masks of 1 for the first tokens."""
    kept = [(torch.arange(8) < torch.randint(3, 9, (2, 1))).to(dtype) for _ in range(count)]
    return [(torch.randn(2, 8, 16), mask) for mask in kept]


def filled(mask: Tensor) -> Tensor:
    """An addend of scores, as `nn.MultiheadAttention` makes it of a padding mask."""
    return torch.zeros(2, 8).masked_fill(mask, -torch.inf)


def windows(scores: Tensor) -> Tensor:
    """Masks some of the scores in place, as shifted windows do."""
    scores[1:] += INFINITE
    scores[:, ::2] += INFINITE[::2]
    return scores.softmax(-1)


CASES: list[tuple[nn.Module | Any, torch.dtype | None]] = [
    (Attention(lambda s: s.masked_fill(~EARLIER, -torch.inf).softmax(-1)), None),
    (Attention(lambda s: torch.where(EARLIER, s, torch.tensor(LOWEST)).softmax(-1)), None),
    (Attention(lambda s: torch.where(~EARLIER, -1e9, s).softmax(-1)), None),
    (Attention(lambda s: (s + INFINITE).softmax(-1)), None),
    (Attention(lambda s: (s.masked_fill(~EARLIER, -torch.inf) * 0.5).softmax(-1)), None),
    (Attention(lambda s: ((s + INFINITE) / 2).softmax(-1)), None),
    (Attention(lambda s, k: (torch.where((k == 0)[:, None], torch.tensor(-1e9), s) / 2).softmax(-1)), torch.int64),
    (Fused(lambda: {"is_causal": True}), None),
    (Fused(lambda: {"attn_mask": EARLIER}), None),
    (Attention(lambda s, k: s.masked_fill((k == 0)[:, None], -1e9).softmax(-1)), torch.int64),
    (Attention(lambda s, k: (s + (1.0 - (k > 0).float())[:, None] * -10000.0).softmax(-1)), torch.int64),
    (Attention(lambda s, k: (s + (1.0 - k)[:, None] * -10000.0).softmax(-1)), torch.float32),
    (Attention(lambda s, k: (s + (1.0 - k.float())[:, None] * LOWEST).softmax(-1)), torch.int64),
    (Fused(lambda k: {"attn_mask": (k != 0)[:, None].expand(2, 8, 8)}), torch.int64),
    (Fused(lambda k: {"attn_mask": filled(k == 0)[:, None].expand(2, 8, 8)}), torch.int64),
    (Attention(windows), None),
    (Joined(lambda: None), None),
]


BUILDS = list(product(range(len(CASES)), ("cortex-m55", "ethos-u55-128")))


@pytest.mark.parametrize(("case", "target"), full.only(BUILDS, (0, "cortex-m55"), (16, "ethos-u55-128")))
def test_masks_cost_scores_few_of_their_steps(case: int, target: str, tmp_path: Path):
    torch.manual_seed(0)
    model, dtype = CASES[case]
    batches = [(torch.randn(2, 8, 16),) for _ in range(16)] if dtype is None else tokens(16, dtype)
    build = api.build(model, batches[0], target=target, calibration=batches, output=tmp_path / "build")
    assert build.manifest.quality.outputs[0].sqnr > 25
    assert build.manifest.warnings == ()


def test_a_mask_on_a_target_with_portable_operators(tmp_path: Path):
    torch.manual_seed(0)
    batches = [torch.randn(2, 8, 16) for _ in range(16)]
    build = api.build(CASES[1][0], batches[0], target="imxrt700", calibration=batches, output=tmp_path / "build")
    assert build.manifest.quality.outputs[0].sqnr > 25


def test_a_factor_of_more_than_two_values_is_no_mask(tmp_path: Path):
    torch.manual_seed(0)
    batches = [(torch.randn(2, 8, 16), torch.rand(2, 8) * 0.001) for _ in range(8)]
    model = Attention(lambda s, k: (s + k[:, None] * -1000.0).softmax(-1))
    build = api.build(model, batches[0], target="cortex-m55", calibration=batches, output=tmp_path / "build")
    assert build.manifest.quality.outputs[0].sqnr > 20

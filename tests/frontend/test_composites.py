"""Operators that PyTorch composes of others run in int8, as what they consist of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import full
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.errors import UnsupportedError
from deuteron.frontend.quantize import composites

X = (2, 8)

FUNCTIONS: list[Callable[[Tensor, Tensor], Any]] = [
    lambda x, y: torch.outer(x[0], y[1]),
    lambda x, y: torch.diff(x, dim=1) * y[:, :7],
    functional.mse_loss,
    functional.smooth_l1_loss,
    lambda x, y: functional.margin_ranking_loss(x, y, x.sign(), margin=0.2),
    lambda x, y: functional.hinge_embedding_loss(x, torch.tensor([1.0, -1.0, 0.0, 1.0] * 2), reduction="none"),
    lambda x, y: functional.cosine_embedding_loss(x, y, torch.tensor([1, -1]), margin=-0.5, reduction="none"),
    lambda x, y: functional.multi_margin_loss(x, torch.tensor([3, 0]), p=2, weight=torch.arange(1.0, 9)),
    lambda x, y: functional.poisson_nll_loss(x, y.abs() * 3, full=True, reduction="sum"),
    lambda x, y: functional.poisson_nll_loss(x.exp(), y.abs(), log_input=False, eps=1e-2),
    lambda x, y: functional.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
    functional.pairwise_distance,
    lambda x, y: torch.lerp(x, y, 0.3),
    lambda x, y: torch.lerp(x, y, y.sigmoid()),
    lambda x, y: torch.addcmul(x, x, y, value=0.5),
    lambda x, y: torch.addmm(x[:, :2], x, y.t()),
    lambda x, y: torch.baddbmm(x[None], x[None] @ y.t()[None], y[None]),
    lambda x, y: torch.addbmm(x @ y.t(), x[None], y.t()[None], alpha=0.5),
    lambda x, y: x.norm(p=3, dim=1) + y.norm(p=1, dim=1, keepdim=True) + y.norm(p=float("inf")),
    lambda x, y: torch.einsum("ij,kj->ik", x, y),
    torch.logaddexp,
    torch.hypot,
    torch.atan2,
    lambda x, y: torch.atan2(x.relu(), y.relu()),
    torch.cdist,
    lambda x, y: torch.kron(x, y[:1, :2]),
    lambda x, y: x.roll(1, 1) + y.roll((1, 2), (0, 1)),
    lambda x, y: x.logsumexp(1) + y.logsumexp(1, keepdim=True),
    lambda x, y: x.var(1) + y.var(0, unbiased=False, keepdim=True).sum() + x.std(dim=1) + y.var(),
    lambda x, y: x[:, :3].prod(1, keepdim=True) + y[:, :2].prod(1),
    lambda x, y: torch.count_nonzero(x.relu(), 1) + torch.count_nonzero(y.relu()),
    lambda x, y: torch.stack([one(x / y.relu()) for one in (torch.isnan, torch.isinf, torch.isfinite)]),
    lambda x, y: torch.movedim(x[None], 0, -1).sum(-1) + y,
    lambda x, y: torch.linalg.vector_norm(x.relu(), 0, dim=1) + torch.dist(x, y),
    lambda x, y: torch.cat(
        torch.std_mean(x, 1, keepdim=True) + torch.var_mean(y, dim=1, unbiased=False, keepdim=True), 1
    ),
    lambda x, y: torch.cummax(x, 1)[0] + torch.cummin(y, 0).values,
    lambda x, y: x // (y.abs() + 1) + torch.div(x * 3, y.abs() + 1, rounding_mode="trunc"),
    lambda x, y: torch.div(x, y.abs() + 1, rounding_mode=None),
    lambda x, y: torch.heaviside(x.relu(), y[0]),
    lambda x, y: torch.vander(x[0], 3) + torch.linalg.vander(y[0], N=3),
    lambda x, y: torch.copysign(x, y) + torch.copysign(y, -1.0) + torch.signbit(x).float(),
    lambda x, y: torch.isclose(x, y.round(), atol=0.1).float() + torch.logical_not(x.relu()).float(),
    lambda x, y: (x.round() == y.round()).float() + 2 * (x.round() != y.round()).float(),
    lambda x, y: torch.logcumsumexp(x, 1) + torch.logcumsumexp(y, 0),
    lambda x, y: torch.nansum(x / x.relu(), 1) + torch.nansum(y, dtype=torch.float32),
    lambda x, y: torch.logcumsumexp(x[:, :1], 1) + torch.logcumsumexp(y.sum(), 0) + torch.copysign(x, -0.0),
    lambda x, y: functional.pdist(torch.cat([x, y])),
    lambda x, y: torch.addr(x @ y.t(), x[0, :2], y[0, :2], alpha=0.5) + torch.addmv(x[:, 0], y, x[1]),
    lambda x, y: x.slice_scatter(y[:, :2], 1, 2, 4) + x.slice_scatter(y[:1], 0, 1) + torch.fill(x, 2.0),
    lambda x, y: (
        x.slice_scatter(y[:, 5:], 1, -6, -1, 2) + x.select_scatter(y[0, :2], 1, -2) + x.select_scatter(y[1], 0, 0)
    ),
    lambda x, y: functional.cross_entropy(x, y[:, :7].argmax(1)) + functional.cross_entropy(x[0], x[1].argmax()),
    lambda x, y: functional.cross_entropy(x, torch.tensor([3, 0]), ignore_index=0, reduction="none"),
    lambda x, y: (
        functional.cross_entropy(x, y.softmax(1)) + functional.cross_entropy(x, y.softmax(1), reduction="none")
    ),
    lambda x, y: functional.nll_loss(x, torch.tensor([3, 0]), ignore_index=3) + functional.nll_loss(y, x.argmax(1)),
    lambda x, y: functional.cross_entropy(x, y[:, :7].argmax(1), weight=y[0].exp(), label_smoothing=0.1),
    lambda x, y: functional.cross_entropy(x, torch.tensor([3, 1]), y[0].exp(), ignore_index=1, label_smoothing=0.2),
    lambda x, y: functional.cross_entropy(x, torch.tensor([3, 1]), label_smoothing=0.2, reduction="sum"),
    lambda x, y: functional.cross_entropy(x, y.softmax(1), weight=y[0].exp(), label_smoothing=0.1),
    lambda x, y: functional.cross_entropy(x.reshape(2, 4, 2), y.reshape(2, 4, 2).argmax(1), weight=y[0, :4].exp()),
    lambda x, y: functional.cross_entropy(x.reshape(2, 2, 2, 2), y.reshape(2, 2, 2, 2).softmax(1), reduction="none"),
    lambda x, y: functional.nll_loss(x.reshape(2, 2, 2, 2), y.reshape(2, 2, 2, 2).argmax(1), ignore_index=1),
    lambda x, y: functional.nll_loss(x, torch.tensor([3, 1]), weight=y[0].exp()),
    lambda x, y: torch.trapezoid(x, dx=0.5) + torch.trapz(y, dx=2.0, dim=1),
    lambda x, y: torch.round(x, decimals=1) + torch.round(y * 100, decimals=-2),
]

OUTER: list[Callable[[Tensor, Tensor], Any]] = [
    lambda x, y: torch.einsum("ii->i", x[:, :2] + y[:, 2:4]),
    lambda x, y: x[:, :2].trace() + torch.diag(y[0]) + torch.diag(y[:, :2]).sum(),
    lambda x, y: torch.linalg.cross(x[:, :3], y[:, 1:4]) + torch.cross(y[:, :3], x[:, :3], dim=1),
    lambda x, y: torch.cat([*torch.hsplit(x, 2), *torch.hsplit(y, [3])], 1),
    lambda x, y: torch.meshgrid(x[0], y[0], indexing="ij")[1] * torch.cartesian_prod(x[0], y[0])[:8, :1],
    lambda x, y: torch.det(x[:, 1:3]) + torch.linalg.det(x[0, :4].reshape(1, 2, 2) + y[:, :2, None]).sum(),
    lambda x, y: torch.linalg.det(y.flatten()[:9].reshape(3, 3)) + torch.det(x[:1, :1]),
    lambda x, y: torch.inverse(x[:, 1:3] + 2 * torch.eye(2)) + torch.linalg.inv(y[:, :1, None].abs() + 1)[0],
    lambda x, y: torch.linalg.inv(y.flatten()[:9].reshape(3, 3) + 3 * torch.eye(3)),
    lambda x, y: (
        torch.linalg.solve(x[:, 1:3] + 2 * torch.eye(2), y) + torch.linalg.solve(torch.eye(2) + x[:, :2], y[0, :2])[0]
    ),
    lambda x, y: x.masked_scatter(y > 0, y.flip(1)) + x.masked_scatter(torch.tensor(True), y),
    lambda x, y: (x * 2).round().long().mode(1).values + (y * 2).round().long().mode(0, keepdim=True)[0].sum(),
    lambda x, y: (
        nn.utils.rnn.pad_sequence([x[0], y[0, :3]]) + nn.utils.rnn.pad_sequence([y[0], x[0, 1:]], True, 0.5).t()
    ),
    lambda x, y: nn.utils.rnn.pad_sequence([x.t()[:5], y.t()], padding_side="left"),
    lambda x, y: torch.mv(x, y[0]) + torch.renorm(x, 2, 0, 1.0).sum(1),
    lambda x, y: torch.gradient(x, dim=1)[0] + torch.gradient(y, spacing=2.0)[1],
    lambda x, y: torch.cumulative_trapezoid(x) + functional.triplet_margin_loss(x, y, x * y),
    lambda x, y: torch.linalg.matrix_power(x[:, :2], 3) + torch.linalg.vecdot(x, y)[:, None],
]
"""Composites of operators that other passes write."""


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.function(x, y)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_they_compute_the_same(function: Callable[..., Any]) -> None:
    inputs = torch.randn(X), torch.randn(X)
    model = torch.export.export(Call(function), inputs).module(check_guards=False)
    composites.write(model)
    names = {node.target.name() for node in model.graph.nodes if hasattr(node.target, "name")}  # type: ignore[union-attr]
    assert not {name for name in names if name.partition("::")[2].partition(".")[0] in {*composites.NAMES, "unbind"}}
    torch.testing.assert_close(model(*inputs), function(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", OUTER)
def test_the_outer_ones_compute_the_same(function: Callable[..., Any]) -> None:
    inputs = torch.randn(X), torch.randn(X)
    model = torch.export.export(Call(function), inputs).module(check_guards=False)
    before = {str(node.target) for node in model.graph.nodes}
    composites.write_outer(model)
    assert before - {str(node.target) for node in model.graph.nodes}
    torch.testing.assert_close(model(*inputs), function(*inputs), rtol=1e-5, atol=1e-5)


class Composed(nn.Module):
    """Several of them behind layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.bilinear, self.conv = nn.Linear(8, 8), nn.Bilinear(8, 8, 4), nn.Conv2d(4, 4, 1)
        self.shuffle = nn.ChannelShuffle(2)

    def forward(self, x: Tensor, image: Tensor) -> tuple[Tensor, ...]:
        y = self.layer(x)
        return (
            torch.lerp(y, x, 0.3),
            torch.addcdiv(x, y, x.abs() + 1, value=0.5),
            torch.nan_to_num(y / (x * 0 + 1), nan=0.0, posinf=1.0),
            torch.cdist(y, x),
            torch.diff(y, dim=1),
            torch.outer(y[0], x[1]),
            y.norm(p=3, dim=1),
            self.bilinear(y, x),
            torch.einsum("ij,kj->ik", y, x),
            self.shuffle(self.conv(image)),
            torch.atan2(y.abs(), x),
            y.clamp(min=1e-9).sqrt(),
            y.clamp(min=0.0).exp(),
        )


@pytest.mark.parametrize("target", full.first(["cortex-m55", "imxrt700cm"], 1))
def test_programs_have_them_in_int8(target: str, tmp_path: Path) -> None:
    samples = [(torch.randn(X), torch.randn(1, 4, 6, 6)) for _ in range(16)]
    built = api.build(Composed(), samples[0], target=target, calibration=samples, output=tmp_path / "build")
    assert min(output.sqnr for output in built.manifest.quality.outputs) > 25
    assert api.compare(tmp_path / "build").passed


def test_powers_of_numbers_that_may_be_negative_are_refused() -> None:
    """As exponentials of logarithms they would not be numbers."""

    class Powers(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x ** (y.round() * 2)

    batches = [(torch.randn(2, 8), torch.rand(2, 8)) for _ in range(4)]
    with pytest.raises(UnsupportedError, match=r"`aten::pow.Tensor_Tensor`"):
        api.build(Powers(), batches[0], target="cortex-m55", calibration=batches)

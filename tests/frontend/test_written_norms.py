"""Norms that a model writes out become layer norms, with the same values."""

from collections.abc import Callable

import pytest
import torch
from tests.frontend.float_rewrites import Call
from torch import Tensor, fx, nn

from deuteron import api
from deuteron.frontend.quantize import synonyms, written_norms


def _by_mean_squares(x: Tensor) -> Tensor:
    centred = x - x.mean(1, keepdim=True)
    return centred / torch.sqrt(centred.pow(2).mean(1, keepdim=True) + 1e-5)


def _over_all(x: Tensor) -> Tensor:
    mean = x.mean(1, keepdim=True).mean(2, keepdim=True)
    variance = ((x - mean) ** 2).mean(1, keepdim=True).mean(2, keepdim=True)
    return (x - mean) / torch.pow(variance + 1e-5, 0.5)


def _unbiased(x: Tensor) -> Tensor:
    variance = torch.var(x, dim=-1, keepdim=True)
    return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(variance + 0.1)


def _biased(x: Tensor) -> Tensor:
    variance = torch.var(x, dim=(1, 2), unbiased=False, keepdim=True)
    return (x - torch.mean(x, dim=(1, 2), keepdim=True)) / (variance + 1e-5).sqrt()


def _stationary(x: Tensor) -> Tensor:
    x = x - x.mean(1, keepdim=True).detach()
    return x / torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + 1e-5)


def _mean_square(x: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)


def _by_deviation(x: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-6)


def _squashed(x: Tensor) -> Tensor:
    squares = (x**2).sum(-1, keepdim=True)
    return squares / (1 + squares) * x / (squares.sqrt() + 1e-8)


NORMS = {
    "mean squares": (_by_mean_squares, "layer_norm"),
    "over all": (_over_all, "layer_norm"),
    "unbiased": (_unbiased, "layer_norm"),
    "biased": (_biased, "layer_norm"),
    "stationary": (_stationary, "layer_norm"),
    "mean square": (_mean_square, "rms_norm"),
    "deviation": (_by_deviation, "layer_norm"),
    "squashed": (_squashed, "rms_norm"),
    "length": (lambda x: x / (x.norm(dim=1, keepdim=True) + 1e-8), "rms_norm"),
    "length of all": (lambda x: x / (torch.linalg.norm(x) + 1e-8), "rms_norm"),
    "length over a dimension": (lambda x: x / torch.linalg.norm(x, 2, 1, keepdim=True), "rms_norm"),
    "bounded length": (lambda x: x / x.norm(dim=2, keepdim=True).clamp(min=1e-8).expand_as(x), "rms_norm"),
    "sum of squares": (lambda x: x / torch.sqrt((x * x).sum(1, keepdim=True) + 0.1), "rms_norm"),
    "inverse": (lambda x: x * ((x * x).sum(1, keepdim=True) ** 0.5 + 1e-8).reciprocal(), "rms_norm"),
}


class Norm(nn.Module):
    """A function of a layer's result."""

    def __init__(self, norm: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.norm, self.conv = norm, nn.Conv1d(6, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x))


def rewritten(function: Callable[[Tensor], Tensor], x: Tensor) -> fx.GraphModule:
    model = torch.export.export(Norm(function), (x,)).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    wanted = model(x)
    synonyms.write(model)
    written_norms.write(model)
    torch.testing.assert_close(model(x), wanted, rtol=1e-5, atol=1e-5)
    return model


@pytest.mark.parametrize("name", NORMS)
def test_the_values_stay(name: str) -> None:
    function, operator = NORMS[name]
    model = rewritten(function, torch.randn(2, 6, 5))
    assert any(operator in str(node.target) for node in model.graph.nodes)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x - x.mean(1, keepdim=True)) / torch.sqrt(x.var(2, keepdim=True) + 1e-5),
        lambda x: x / torch.sqrt(x.var(1, keepdim=True) + 1e-5),
        lambda x: (x - 1.0) / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-5),
        lambda x: x / (x.norm(dim=1, keepdim=True) + 0.1),
        lambda x: x / x.norm(dim=1, keepdim=True).clamp(min=0.1),
        lambda x: x / x.norm(p=1, dim=1, keepdim=True),
        lambda x: x / torch.linalg.norm(x, 2, (1, 2), keepdim=True),
        lambda x: x[:, 0] / (x[:, 0].norm(dim=1) + 1e-8).sum(),
        lambda x: x[:, :, :1] / x[:, :, :1].repeat(1, 1, 5).norm(dim=2, keepdim=True),
    ],
)
def test_other_quotients_stay(function: Callable[[Tensor], Tensor]) -> None:
    model = rewritten(function, torch.randn(2, 6, 5))
    assert not any(
        operator in str(node.target) for node in model.graph.nodes for operator in ("layer_norm", "rms_norm")
    )


@pytest.mark.parametrize(("spread", "is_norm"), [(1.0, True), (0.001, False)])
def test_a_number_that_is_small_beside_the_roots_is_left_out(spread: float, is_norm: bool) -> None:
    def deviation(x: Tensor) -> Tensor:
        return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)

    torch.manual_seed(0)
    x = torch.randn(1, 6, 5) * spread
    model = torch.export.export(Call(deviation), (x,)).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    written_norms.write(model, lambda: [(x,), (x * 1.5,)])
    assert any("layer_norm" in str(node.target) for node in model.graph.nodes) == is_norm


def test_a_factor_is_applied_before_the_order_is_restored() -> None:
    model = rewritten(NORMS["length"][0], torch.randn(2, 6, 5))
    last = model.graph.output_node().all_input_nodes[0]
    assert last.target is torch.ops.aten.permute.default


def test_a_norm_of_channels_is_built() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(Norm(_by_mean_squares), nn.Conv1d(6, 6, 3), Norm(_by_mean_squares))
    samples = [(torch.randn(1, 6, 12) * (1 + torch.arange(12)),) for _ in range(8)]
    built = api.build(net, samples[0], target="cortex-m55", calibration=samples)
    assert built.manifest.quality.outputs[0].sqnr > 25

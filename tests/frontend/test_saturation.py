"""Ranges of values that only saturating functions read."""

from collections.abc import Callable

import pytest
import torch
from tests import full
from torch import Tensor, nn

from deuteron import api


class Function(nn.Module):
    """A function of products: a few are far beyond where it varies."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.function(x * y)


FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "exp": (lambda x: (-x.abs()).exp(), 21),
    "exp of a quotient": (lambda x: (-x.square() / 0.05).exp(), 6),
    "hardswish": (lambda x: nn.functional.hardswish(-x.abs() / 4 + 2), 28),
    "sigmoid": (torch.sigmoid, 40),
    "views": (lambda x: x.reshape(2, 2, 16).transpose(1, 2).tanh(), 33),
    "joined with a number": (lambda x: torch.cat([torch.full((1, 1), 0.5), x.tanh()], 1), 33),
    "two readers": (lambda x: torch.cat([x.sigmoid(), x.tanh()], 1), 35),
}
"""Functions, and the least quality of the result in dB; it is lower with steps for all values."""


def decibels(function: Callable[[Tensor], Tensor], target: str) -> tuple[float, list[float]]:
    """Build a network; return the quality of the output and of the layers."""
    generator = torch.Generator().manual_seed(0)
    samples = [tuple(torch.rand(1, 64, generator=generator).sub(0.5) * 16 for _ in range(2)) for _ in range(8)]
    built = api.build(Function(function).eval(), samples[0], target=target, calibration=samples)
    quality = built.manifest.quality
    return quality.outputs[0].sqnr, [layer.own for layer in quality.layers]


@pytest.mark.parametrize("target", full.first(["cortex-m55", "ethos-u85-256", "imxrt700cm"], 1))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_only_values_where_the_function_varies_have_steps(name: str, target: str) -> None:
    function, least = FUNCTIONS[name]
    sqnr, layers = decibels(function, target)
    assert sqnr > least
    assert min(layers) > 23  # a value is compared within its range


@pytest.mark.parametrize("target", full.first(["cortex-m55", "ethos-u85-256", "imxrt700cm"], 1))
def test_a_function_that_jumps_has_values_on_both_sides(target: str) -> None:
    assert decibels(torch.sign, target)[0] > 12
    assert decibels(lambda x: x.sign() + x.relu(), target)[0] > 20


def _both(x: Tensor) -> Tensor:
    return x.sigmoid() + x


def _selected(x: Tensor) -> Tensor:
    return x[:, :32] * x[:, 32:].tanh()


@pytest.mark.parametrize("function", [_both, _selected])
def test_other_readers_keep_the_range(function: Callable[[Tensor], Tensor]) -> None:
    sqnr, _ = decibels(function, "cortex-m55")
    assert sqnr > 25


def test_a_function_with_the_scale_of_its_operand_keeps_the_range() -> None:
    """A comparison reads the absolute values at a Neutron's scale of the operand, which has negative values."""
    sqnr, _ = decibels(lambda x: torch.where(x.abs() < 20, 1.0, -1.0), "imxrt700cm")
    assert sqnr > 8

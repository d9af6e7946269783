"""A slice of a quotient becomes a quotient of slices, and one of a concatenation has its parts alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.frontend.float_rewrites import Call
from torch import Tensor, nn

from deuteron import api
from deuteron.frontend.quantize import early_slices

aten = torch.ops.aten

FUNCTIONS: list[Callable[[Tensor], Any]] = [
    lambda x: (x / (x.abs() + 1))[:, 1:-1],
    lambda x: (x / (x[0].abs() + 1))[:, :, ::2],
    lambda x: (x / (x.abs().sum(1, keepdim=True) + 1))[1:, 2:],
    lambda x: (x[:1] / (x.abs() + 1))[1:],
    lambda x: (x / (x[0, :1, 0].abs() + 1))[-1:, :, :3],
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_operands_are_sliced(function: Callable[[Tensor], Any]) -> None:
    x = torch.randn(2, 4, 6)
    model: Any = torch.export.export(Call(function), (x,)).module(check_guards=False)
    early_slices.write(model)
    (quotient,) = [node for node in model.graph.nodes if node.target is aten.div.Tensor]
    assert not [user for user in quotient.users if user.target is aten.slice.Tensor]
    torch.testing.assert_close(model(x), function(x))


JOINED: list[tuple[Callable[[Tensor], Any], int]] = [
    (lambda x: torch.cat([x.exp(), x.sin()], 1)[:, :4].cos(), 0),
    (lambda x: torch.cat([x.exp(), x.sin()], -2)[:, 6:].cos(), 0),
    (lambda x: torch.cat([torch.cat([x.exp(), x], 1)[:, 2:], x.sin()], 1)[:, 1:5].cos(), 1),
    (lambda x: torch.cat([x.exp(), x.sin()], 1)[:, :, 1:].cos(), 1),
    (lambda x: torch.cat([x.exp(), x.sin()], 1)[:, ::2].cos(), 1),
]
"""Functions of slices of concatenations, and how many concatenations they keep."""


@pytest.mark.parametrize(("function", "kept"), JOINED)
def test_a_slice_of_a_concatenation_has_its_parts_alone(function: Callable[[Tensor], Any], kept: int) -> None:
    x = torch.randn(2, 4, 6)
    model: Any = torch.export.export(Call(function), (x,)).module(check_guards=False)
    early_slices.write(model)
    assert [node.target for node in model.graph.nodes].count(aten.cat.default) == kept
    torch.testing.assert_close(model(x), function(x))


def test_a_quotient_with_other_readers_stays() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x / (x.abs() + 1)
        return y, y[:, 1:]

    model: Any = torch.export.export(Call(function), (torch.randn(2, 4),)).module(check_guards=False)  # type: ignore[arg-type]
    before = len(model.graph.nodes)
    early_slices.write(model)
    assert len(model.graph.nodes) == before


class Overlapped(nn.Module):
    """Frames that overlap, divided by the sums of their windows, without the ends."""

    def __init__(self) -> None:
        super().__init__()
        window = torch.hann_window(16)
        self.frames = nn.ConvTranspose1d(4, 1, 16, stride=8)
        self.register_buffer(
            "windows",
            torch.nn.functional.fold((window**2).reshape(1, 16, 1).repeat(1, 1, 9), (1, 80), (1, 16), stride=(1, 8))[
                :, 0
            ],
        )
        self.windows: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return (self.frames(x) / (self.windows + 1e-8))[..., 8:-8]


def test_ends_that_are_cut_off_do_not_set_the_range(tmp_path: Path) -> None:
    torch.manual_seed(0)
    samples = [(torch.randn(1, 4, 9),) for _ in range(16)]
    built = api.build(Overlapped(), samples[0], target="cortex-m55", calibration=samples, output=tmp_path / "build")
    assert built.manifest.quality.outputs[0].sqnr > 25

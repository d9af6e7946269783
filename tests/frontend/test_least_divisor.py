"""Divisors that are never negative are at least one step of their scale, in the quantized model and in the program."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deuteron import api
from deuteron.frontend.cortex_m import upstream
from deuteron.frontend.cortex_m.least_divisor import keep_from_zero

quantized = torch.ops.quantized_decomposed
LIMITS = (-128, 127, torch.int8)


class Quotient(nn.Module):
    """A quotient of quantized values, the divisor with this zero point."""

    def __init__(self, zero_point: int) -> None:
        super().__init__()
        self.affine = (0.5, zero_point, *LIMITS)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        stored = quantized.quantize_per_tensor(y, *self.affine)
        return x / quantized.dequantize_per_tensor(stored, *self.affine)


@pytest.mark.parametrize(("zero_point", "wanted"), [(-128, [4.0, 4.0, 1.0]), (0, [torch.inf, 4.0, 1.0])])
def test_the_least_divisor_is_one_step(zero_point: int, wanted: list[float]) -> None:
    upstream.load()
    x, y = torch.full((3,), 2.0), torch.tensor([0.0, 0.5, 2.0])
    module: Any = torch.export.export(Quotient(zero_point), (x, y)).module()
    keep_from_zero(module)
    assert module(x, y).tolist() == wanted


class Phases(nn.Module):
    """Unit vectors, and angles, of parts that are often 0; and values in units of their mean."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        real, imaginary = torch.relu(x).chunk(2, 1)
        length = (real.square() + imaginary.square()) ** 0.5
        return (
            real / (length + 1e-8),
            torch.atan2(imaginary, real),
            x.abs() / (x.abs().mean((1, 2), keepdim=True) + 1e-10),
        )


def test_silence_is_divided_by_one_step(tmp_path: Path) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(1, 4, 24),) for _ in range(4)]
    build = tmp_path / "build"
    api.build(Phases(), batches[0], target="cortex-m55", calibration=batches, output=build)
    comparison = api.compare(build, [(torch.zeros(1, 4, 24).numpy(),), (batches[1][0].numpy(),)])
    assert comparison.passed, comparison.failures()


@pytest.mark.full
def test_the_cpu_divides_by_divisors_of_many_sizes(tmp_path: Path) -> None:
    """The NPU's reciprocals of the smallest lengths are so large that those of the others would be 0."""
    torch.manual_seed(0)
    batches = [(torch.randn(1, 4, 24),) for _ in range(4)]
    build = tmp_path / "build"
    api.build(Phases(), batches[0], target="ethos-u55-128cm", calibration=batches, output=build)
    assert api.compare(build, [(batches[1][0].numpy(),)]).passed
    (ours,) = api.run_each(build, [(batches[1][0].numpy(),)])
    for wanted, value in zip(Phases()(*batches[1]), ours, strict=True):
        noise = (torch.as_tensor(value) - wanted).square().sum()
        assert wanted.square().sum() > 30 * noise

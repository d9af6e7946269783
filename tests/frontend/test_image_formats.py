"""Images between a Neutron and the CPU have the order of memory in which the NPU reads and writes them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests import full
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api


class Between(nn.Module):
    """A layer on the CPU between two on the NPU; `before` and `after` make an image of rows, and rows of an image."""

    def __init__(self, before: Callable[[Tensor], Tensor], after: Callable[[Tensor], Tensor], size: int) -> None:
        super().__init__()
        self.before, self.after = before, after
        self.first, self.last = nn.Linear(16, 16), nn.Linear(size, 8)
        self.image = nn.Conv2d(16, 32, 3, padding=1, groups=16)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.after(self.image(self.before(self.first(x)))))


def permuted(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def viewed(x: Tensor) -> Tensor:
    return x.reshape(1, 16, 6, 8)


@pytest.mark.parametrize(
    ("before", "after", "size"),
    full.first(
        [
            (permuted, lambda y: y.reshape(1, 32, 48), 48),
            (viewed, lambda y: y.mean((2, 3)), 32),
            (permuted, lambda y: y.permute(0, 2, 3, 1), 32),
            (viewed, lambda y: y.flatten(2).transpose(1, 2), 32),
        ],
        2,
    ),
)
def test_an_image_that_the_npu_reorders_keeps_its_elements(
    before: Callable[[Tensor], Tensor], after: Callable[[Tensor], Tensor], size: int, tmp_path: Path
):
    torch.manual_seed(0)
    module, inputs = Between(before, after, size).eval(), [(torch.randn(1, 6, 8, 16),) for _ in range(4)]
    api.build(module, inputs[0], target="imxrt700cm", calibration=inputs, output=tmp_path / "build")
    compared = api.compare(tmp_path / "build", [(inputs[0][0].numpy(),)])
    assert compared.passed, compared.failures()


class Factor(nn.Module):
    """A norm of channels on the CPU, of which the NPU makes an image and multiplies it by a number."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        rows = functional.rms_norm(self.conv(x).permute(0, 2, 3, 1), [4])
        return rows.permute(0, 3, 1, 2) * 0.5


def test_rows_of_which_the_npu_makes_an_image_keep_their_elements(tmp_path: Path):
    torch.manual_seed(0)
    inputs = [(torch.randn(1, 3, 8, 8),) for _ in range(4)]
    api.build(Factor().eval(), inputs[0], target="imxrt700cm", calibration=inputs, output=tmp_path / "build")
    compared = api.compare(tmp_path / "build", [(inputs[0][0].numpy(),)])
    assert compared.passed, compared.failures()


class Rows(nn.Module):
    """A layer on the CPU between permutations; only one permutation is before it."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.layer = nn.AvgPool2d(1, 1, ceil_mode=True), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.pool(permuted(x)).permute(0, 2, 3, 1))


@pytest.mark.full
def test_a_partition_of_one_permutation_before_the_cpu(tmp_path: Path):
    torch.manual_seed(0)
    inputs = [(torch.randn(1, 6, 8, 16),) for _ in range(4)]
    api.build(Rows().eval(), inputs[0], target="imxrt700cm", calibration=inputs, output=tmp_path / "build")
    compared = api.compare(tmp_path / "build", [(inputs[0][0].numpy(),)])
    assert compared.passed, compared.failures()


class Masked(nn.Module):
    """A spectrum times a complex mask that is computed from it, with the channels last: slices of permuted images."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = x.permute(0, 3, 2, 1)
        mask = torch.tanh(self.mask(spectrum))
        real = spectrum[:, 0] * mask[:, 0] - spectrum[:, 1] * mask[:, 1]
        imaginary = spectrum[:, 1] * mask[:, 0] + spectrum[:, 0] * mask[:, 1]
        return torch.stack([real, imaginary], 1).permute(0, 3, 2, 1)


@pytest.mark.full
def test_slices_of_permuted_images(tmp_path: Path):
    torch.manual_seed(0)
    inputs = [(torch.randn(1, 8, 6, 2),) for _ in range(4)]
    api.build(Masked().eval(), inputs[0], target="imxrt700cm", calibration=inputs, output=tmp_path / "build")
    compared = api.compare(tmp_path / "build", [(inputs[0][0].numpy(),)])
    assert compared.passed, compared.failures()

"""Small parts of networks build, and the programs compute what quantized PyTorch does."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests import full
from torch import Tensor, nn

from deuteron import api


class Shortcut(nn.Module):
    """A sum with a ReLU whose range is that of a concatenation, which has negative values, as in ShuffleNet."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6, 1), nn.Conv2d(6, 6, 1)
        self.down, self.pool = nn.Conv2d(6, 6, 2, 2), nn.AvgPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        y = torch.relu(self.second(x) + x)
        return torch.cat([self.down(y), self.pool(y)], 1)


class Pooling(nn.Module):
    """Attention over all pixels and over all rows, whose shares are far below 1/256."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.scores = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.features(x))
        shares = self.scores(y).flatten(2).softmax(2)
        rows = y.mean(3).softmax(2)
        return torch.cat([y.flatten(2) @ shares.transpose(1, 2), (y.mean(3) * rows).sum(2, keepdim=True)], 1)


class Columns(nn.Module):
    """A softmax over another dimension than the last."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        return (self.first(x).softmax(1) * self.second(x)).sum(1)


class Halves(nn.Module):
    """Two halves of the channels of an image of one pixel, which further convolutions read, as in channel attention."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Conv2d(4, 8, 6), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        one, other = self.first(x).chunk(2, 1)
        return self.second(one) * self.third(other).sigmoid()


class Pixel(nn.Module):
    """Slices of the channels of an image of one pixel, and two results of a detector without their axes of size 1."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 8, 6), nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.first(x)
        z = self.second(y[:, 2:6]) + y[:, [1, 0, 2, 3]] * y[:, :2].flip(1).repeat(1, 2, 1, 1)
        return z, torch.cat([y * 300, z.sigmoid()], 1).flatten(1)


class Decoded(nn.Module):
    """Boxes that are written over the features of a detector, slice by slice, as in YOLO."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(2, 12, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.features(x).view(1, 2, 6, 8, 8).permute(0, 1, 3, 4, 2).contiguous()
        y[..., 0:2] = y[..., 0:2].sigmoid() * 32
        y[..., 2:4] = torch.exp(y[..., 2:4]) * 40
        y[..., 4:] = y[..., 4:].sigmoid()
        return y[..., :4], y[..., 4:]


PARTS: list[tuple[Callable[[], nn.Module], tuple[int, ...]]] = [
    (Shortcut, (1, 1, 8, 8)),
    (Pooling, (1, 1, 40, 40)),
    (Columns, (1, 300, 4)),
    (Halves, (1, 4, 6, 6)),
    (Pixel, (1, 4, 6, 6)),
    (Decoded, (1, 2, 8, 8)),
]


class Parts(nn.Module):
    """All parts, each with a separate input."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(part() for part, _ in PARTS)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        results: list[Tensor] = []
        for part, x in zip(self.parts, inputs, strict=True):
            y = part(x)
            results += y if isinstance(y, tuple) else [y]
        return tuple(results)


def test_the_parts_build_and_agree(tmp_path: Path):
    torch.manual_seed(0)
    inputs = [tuple(torch.randn(shape) for _, shape in PARTS) for _ in range(4)]
    module = Parts().eval()
    api.build(module, inputs[0], target="cortex-m55", calibration=inputs, output=tmp_path / "build")
    given = tuple(x.numpy() for x in inputs[0])
    compared = api.compare(tmp_path / "build", [given])
    assert compared.passed, compared.failures()
    for value, result in zip(module(*inputs[0]), api.run(tmp_path / "build", given), strict=True):
        assert (value - torch.as_tensor(result)).square().sum() < 0.01 * value.square().sum()


class Undone(nn.Module):
    """A norm over frames, whose permutation the next one undoes, between layers on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.pad = nn.ReplicationPad1d((0, 4))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        normed = centred / torch.sqrt(centred.var(1, keepdim=True, unbiased=False) + 1e-5)
        return self.pad(normed.permute(0, 2, 1))


def test_operators_without_work_for_a_neutron_run_on_the_cpu(tmp_path: Path):
    torch.manual_seed(0)
    inputs = [(torch.randn(1, 24, 4),) for _ in range(4)]
    api.build(Undone().eval(), inputs[0], target="imxrt700cm", calibration=inputs, output=tmp_path / "build")
    compared = api.compare(tmp_path / "build", [(inputs[0][0].numpy(),)])
    assert compared.passed, compared.failures()


def test_many_groups_with_more_outputs_than_inputs_run_on_the_cpu_beside_a_neutron(tmp_path: Path):
    torch.manual_seed(0)
    inputs = [(torch.randn(1, 3, 8, 8),) for _ in range(4)]
    module = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3, groups=32), nn.ReLU()).eval()
    api.build(module, inputs[0], target="imxrt700cm", calibration=inputs, output=tmp_path / "build")
    compared = api.compare(tmp_path / "build", [(inputs[0][0].numpy(),)])
    assert compared.passed, compared.failures()


class Shifted(nn.Module):
    """Channels that two layers read from the frames before and after, as in networks of videos."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(n, 6, 3, padding=1) for n in (3, 6))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.second(self.shift(torch.tanh(self.first(self.shift(x))))))

    def shift(self, frames: Tensor) -> Tensor:
        x = frames.unsqueeze(0)
        n = x.shape[2] // 3
        y = torch.zeros_like(x)
        y[:, :-1, :n] = x[:, 1:, :n]
        y[:, 1:, n : 2 * n] = x[:, :-1, n : 2 * n]
        y[:, :, 2 * n :] = x[:, :, 2 * n :]
        return y.view(frames.shape)


@pytest.mark.full
def test_changes_of_scale_before_a_neutron_run_on_the_cpu(tmp_path: Path):
    torch.manual_seed(0)
    inputs = [(torch.randn(3, 3, 16, 16),) for _ in range(4)]
    api.build(Shifted().eval(), inputs[0], target="imxrt700cm", calibration=inputs, output=tmp_path / "build")
    compared = api.compare(tmp_path / "build", [(inputs[0][0].numpy(),)])
    assert compared.passed, compared.failures()


class Boxes(nn.Module):
    """Boxes and scores of two levels of a detector, in one output."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.others = nn.Conv2d(2, 10, 3, padding=1), nn.Conv2d(2, 10, 3, 2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        levels: list[Tensor] = []
        for layer, stride in ((self.features, 8), (self.others, 16)):
            y = layer(x)
            y = y.view(1, 2, 5, *y.shape[2:]).permute(0, 1, 3, 4, 2)
            decoded = [y[..., :2].sigmoid() * 16 * stride, torch.exp(y[..., 2:4]) * 4 * stride, y[..., 4:].sigmoid()]
            levels.append(torch.cat(decoded, -1).reshape(1, -1, 5))
        return torch.cat(levels, 1)


@pytest.mark.parametrize("target", full.only(["cortex-m55", "ethos-u55-128cm", "imxrt700cm"], "ethos-u55-128cm"))
def test_scores_beside_boxes_have_a_separate_scale(target: str, tmp_path: Path):
    torch.manual_seed(0)
    inputs = [(torch.randn(1, 2, 8, 8),) for _ in range(8)]
    built = api.build(Boxes().eval(), inputs[0], target=target, calibration=inputs, output=tmp_path / "build")
    assert min(built.manifest.quality.outputs[0].channels) > 25
    assert api.compare(tmp_path / "build").passed

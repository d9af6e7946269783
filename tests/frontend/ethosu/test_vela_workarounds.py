"""Operators that Vela must not join: decomposed layers and transposes, slices, pads, concatenations, activations."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from tests import full
from tests.frontend.ethosu.networks import built
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.npu.ethosu import tosa
from deuteron.views.compare.pytorch import compare


class Joined(nn.Module):
    """Layers with two channels for each or a wide dilation, behind a slice or before pads; a transpose; an amax."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 1)
        self.cut = nn.Conv2d(4, 8, 3, padding=1, groups=4)
        self.padded = nn.Conv2d(4, 8, 3, padding=1, groups=4)
        self.joined = nn.Conv2d(4, 8, 3, padding=1, groups=4)
        self.wide = nn.Conv2d(4, 4, 3, padding=3, dilation=3)
        self.last = nn.Conv2d(8, 4, 3)
        self.together = nn.Conv2d(12, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.relu(self.first(x))
        part = y[:, :, 1:, 1:]
        padded = functional.pad(self.padded(y), (1, 0, 1, 0))
        together = self.together(torch.cat([y, self.joined(y)], 1))
        turned = functional.pad(torch.sigmoid(x.permute(0, 3, 1, 2)), (1, 2, 1, 0))
        greatest = torch.amax(torch.tanh(x)[:, 1:, 1:, 1:], 1)
        return self.cut(part), self.wide(part), self.last(padded), together, turned, greatest


class Strided(nn.Module):
    """A stride of four, whose windows do not meet all of their input: ExecuTorch's passes cut that; and integers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 1)
        self.second = nn.Conv2d(4, 4, 3, 4, 1)

    def forward(self, x: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        return self.second(torch.relu(self.first(x))), torch.amin(numbers[:, 1:], 2, keepdim=True).permute(0, 2, 1)


class Reduced(nn.Module):
    """Greatest and smallest values: turned, reshaped, of what is reshaped too, of slices, before pads, of five axes."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.tanh(x)
        least, turned = torch.amin(x, 2), torch.amin(x, 2, keepdim=True).permute(0, 2, 1)
        shared, other = torch.amin(y, 1, keepdim=True), torch.sigmoid(y.reshape(1, 24))
        cut, padded = torch.amax(torch.neg(x)[:, 1:], 1), functional.pad(torch.amax(y, 2, keepdim=True), (1, 1))
        deep = torch.relu(x).reshape(1, 2, 2, 3, 2)
        of_five = torch.amax(deep[:, :, 1:], 3), torch.amin(deep, 2)
        return torch.relu(least), turned, shared, other, cut, padded, *of_five


class Chained(nn.Module):
    """Operators of one tensor that an Ethos-U85 computes while the one before goes on, before pads and joins."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(3, 16, 1)

    def forward(self, x: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        y = self.first(x)
        pooled = functional.avg_pool2d(y.abs(), 3, 1, 1)
        together = torch.cat([self.second(x), torch.neg(y).abs()], 3)
        padded = functional.pad((numbers + numbers * 3).abs(), (1, 1))
        inverse = torch.cat([torch.bitwise_not(numbers * 3), numbers], 2)
        return pooled, together, padded, inverse, torch.cat([torch.logical_not(numbers > 3), numbers > 4], 2)


def chained() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Chained` with its inputs."""
    torch.manual_seed(0)
    numbers = torch.randint(-1000, 1000, (1, 7, 64), dtype=torch.int32)
    return Chained().eval(), (torch.randn(1, 3, 8, 8), numbers), api.BuildOptions()


class Steps(nn.Module):
    """Layers over a sequence with bounds between them, for which the wheel has samples of one step."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(31, 31), nn.Linear(31, 31), nn.Linear(31, 9)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.first(x)
        bounded = self.last(torch.relu(y + self.second(x)))
        directly = self.last(torch.clamp(y, -0.3, 0.4))
        return bounded, directly, torch.clamp(torch.abs(x).reshape(5, 1, 1, 31), 0.1, 0.5).reshape(31, 5)


def steps() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Steps` with its input."""
    torch.manual_seed(0)
    return Steps().eval(), (torch.randn(1, 5, 31),), api.BuildOptions()


class Pieces(nn.Module):
    """Activations of several samples or of five axes, of what has other pieces: reductions and transposes."""

    def forward(self, x: Tensor, deep: Tensor) -> tuple[Tensor, ...]:
        turned, wide = torch.tanh(x.permute(0, 2, 1, 3)), functional.relu6(deep.permute(0, 2, 3, 1, 4))
        joined = functional.pad(torch.sigmoid(x.permute(1, 0, 2, 3)), (1, 2, 1, 0))
        summed = torch.tanh(deep.sum(2, keepdim=True))
        greatest = torch.sigmoid(torch.amax(deep, 3)), torch.clamp(torch.amin(deep, 2), -0.5, 0.5)
        backwards = functional.relu6(x.flip(1))
        return turned, wide, joined, summed, backwards, *greatest, torch.softmax(deep.permute(0, 1, 3, 2, 4), 3)


def pieces() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Pieces` with its inputs."""
    torch.manual_seed(0)
    return Pieces().eval(), (torch.randn(3, 7, 2, 32), torch.randn(1, 3, 7, 2, 32)), api.BuildOptions()


class Attention(nn.Module):
    """Products of parts of one tensor, and what they give in bounds."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        keys, queries = x[:, :, 0], x[:, :, 1].transpose(1, 2)
        weights = torch.softmax(torch.bmm(keys, queries), -1)
        return weights, functional.relu6(x[:, 0] @ x[:, 1].transpose(1, 2))


def attention() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Attention` with its input of three samples."""
    torch.manual_seed(0)
    return Attention().eval(), (torch.randn(3, 7, 2, 32),), api.BuildOptions()


class Shifted(nn.Module):
    """Scores of relative positions, by a column of zeros before them; and products before pads of rows."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        scores = x @ y
        shifted = torch.cat([torch.zeros(1, 2, 7, 1), scores], 3).reshape(1, 2, 8, 7)[:, :, 1:]
        return shifted, functional.pad(y.transpose(2, 3) @ y, (0, 0, 1, 0))


def shifted() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Shifted` with its inputs."""
    torch.manual_seed(0)
    return Shifted().eval(), (torch.randn(1, 2, 7, 8), torch.randn(1, 2, 8, 7)), api.BuildOptions()


class Averaged(nn.Module):
    """Means of what tables give, in windows of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 16, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.sigmoid(self.layer(x))
        adapted = functional.adaptive_avg_pool2d(torch.tanh(x), 3)
        return functional.avg_pool2d(y, 3, 1, 1), functional.avg_pool2d(y, 2), adapted


def averaged() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Averaged` with its input."""
    torch.manual_seed(0)
    return Averaged().eval(), (torch.randn(1, 3, 8, 8),), api.BuildOptions()


class WithoutAxes(nn.Module):
    """Values without axes, with their bounds and tables, and numbers; and the ranges of all values."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = x.sum((0, 1, 2, 3))
        bounded, table = torch.relu(torch.amax(x)), torch.sigmoid(x.mean())
        return bounded, table, torch.relu(y - 1), 1 - y, x - y * 2, torch.relu(x).var((0, 1, 2, 3))


def without_axes() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`WithoutAxes` with its input."""
    torch.manual_seed(0)
    return WithoutAxes().eval(), (torch.randn(1, 3, 8, 8),), api.BuildOptions()


class BeforePads(nn.Module):
    """A layer and the distances of its results from 0, before pads."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 16, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return functional.avg_pool2d(self.layer(x).abs(), 3, 1, 1)


def before_pads() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`BeforePads` with its input."""
    torch.manual_seed(0)
    return BeforePads().eval(), (torch.randn(1, 3, 8, 8),), api.BuildOptions()


class Sliced(nn.Module):
    """Layers of several samples, groups and a transposed convolution, behind slices of channels and rows."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.groups = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(6, 8, 3, padding=1, groups=2)
        self.larger = nn.ConvTranspose2d(4, 4, 2, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        pooled = functional.max_pool2d(x[:, :, 1:, 1:], 2) + 0.5
        return self.conv(x[:, 3:]).relu(), self.groups(x).relu(), self.larger(x[:, 2:]).relu(), pooled


def sliced() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Sliced` with two samples."""
    torch.manual_seed(0)
    return Sliced().eval(), (torch.randn(2, 6, 5, 5),), api.BuildOptions()


def sliced_once() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Sliced` with one sample."""
    torch.manual_seed(0)
    return Sliced().eval(), (torch.randn(1, 6, 5, 5),), api.BuildOptions()


class Indexed(nn.Module):
    """Indexed axes: one of five before operators of several samples, the last before maxima; a layer's one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 1, 1)

    def forward(self, heads: Tensor, image: Tensor) -> tuple[Tensor, ...]:
        query, key, value = heads.unbind(0)
        scores = (query * 0.5) @ key.transpose(-2, -1)
        greatest = torch.relu(self.layer(image)).squeeze(1).amax(-1)
        return scores @ value - value, heads[..., 0].amax(-1), heads[0, ..., 1].amin(1), greatest


def indexed() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Indexed` with its inputs."""
    torch.manual_seed(0)
    return Indexed().eval(), (torch.randn(3, 4, 2, 6, 4), torch.randn(1, 3, 4, 6)), api.BuildOptions()


class Pyramid(nn.Module):
    """Images that are outputs and that other layers read."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.first(x)
        z = self.second(functional.max_pool2d(y, 2))
        return y, z, y + functional.interpolate(z, scale_factor=2), y.permute(0, 3, 1, 2).softmax(-1)


class Planes(nn.Module):
    """Outputs and their transposes: of a reshaped image, a layer, a maximum and a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(8, 8)

    def forward(self, x: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        y = self.first(x).reshape(1, 4, 64)
        values = self.layer(rows)
        reduced = values.amax(1), values.mean(1).sigmoid()
        return y, y.reshape(1, 4, 8, 8).permute(0, 3, 2, 1), values, values.mT, *reduced, *(one.t() for one in reduced)


class Totals(nn.Module):
    """Greatest and smallest values of sums."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return torch.sigmoid(x).sum(0).amax(), x.sum(1).amax(0, keepdim=True), x.sum(0).tanh().amin()


class Chosen(nn.Module):
    """Choices by a bool input and by a comparison that is an output, of functions, and of what other layers read."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor, on: Tensor) -> tuple[Tensor, ...]:
        is_above = x > 0.5
        above = torch.where(is_above, x.tanh(), x)
        turned = torch.where(on.T, above.T.sigmoid(), above.T.relu())
        layers = torch.where(on, self.layer(x), x), self.layer(above)
        return *layers, turned, x.tanh() - above.reshape(8, 4).T, is_above, is_above.reshape(8, 4)


class Cloned(nn.Module):
    """Layers with the same weights and other biases: of the same scales, and of results that two operators rescale."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(6))
        for number, layer in enumerate(self.layers):
            layer.weight = nn.Parameter(self.layers[0].weight.detach().clone())
            layer.bias = nn.Parameter(torch.linspace(-3, 3, 16) * (1 if number % 2 else -1))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        first, second, third, other, both, last = self.layers
        return torch.cat([first(x), second(x)], 1), third(x) @ both(x).mT, other(y) @ last(y).mT


def cloned() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Cloned` with its inputs, of other scales."""
    torch.manual_seed(0)
    return Cloned().eval(), (torch.randn(4, 16), 5 * torch.randn(4, 16)), api.BuildOptions()


class ConstantImages(nn.Module):
    """Images that are constants, added and joined: in PyTorch's order, and so transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList((nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 3), nn.Conv2d(16, 4, 3)))
        self.register_buffer("image", torch.linspace(-1, 1, 8 * 36).reshape(1, 8, 6, 6))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        first, of_added, of_joined = self.layers
        y = first(x).tanh()
        shifted = torch.zeros_like(y)
        shifted[:-1, :4] = y[1:, :4]
        return of_added(y + self.image), of_joined(torch.cat([shifted, self.image.flip(3).expand_as(y)], 1))


def constant_images() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`ConstantImages` with its input of two samples."""
    torch.manual_seed(0)
    return ConstantImages().eval(), (torch.randn(2, 3, 6, 6),), api.BuildOptions()


def chosen() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Chosen` with its inputs."""
    torch.manual_seed(0)
    return Chosen().eval(), (torch.randn(4, 8), torch.randn(4, 8) > 0), api.BuildOptions()


class Lengths(nn.Module):
    """Functions of sums that lose their dimension."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        lengths = x.square().sum(-1).sqrt() * y.square().sum(-1).sqrt()
        return lengths.reciprocal(), functional.cosine_similarity(x, y, dim=-1), (x * y).sum(-1).sigmoid()


def lengths() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Lengths` with its inputs."""
    torch.manual_seed(0)
    return Lengths().eval(), (torch.randn(4, 8), torch.randn(4, 8)), api.BuildOptions()


def pyramid() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Pyramid` with its input."""
    torch.manual_seed(0)
    return Pyramid().eval(), (torch.randn(1, 3, 8, 8),), api.BuildOptions()


def planes() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Planes` with its inputs."""
    torch.manual_seed(0)
    return Planes().eval(), (torch.randn(1, 3, 8, 8), torch.randn(2, 4, 8)), api.BuildOptions()


def totals() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Totals` with its input."""
    torch.manual_seed(0)
    return Totals().eval(), (torch.randn(4, 8),), api.BuildOptions()


def joined() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Joined` with its input."""
    torch.manual_seed(0)
    return Joined().eval(), (torch.randn(1, 3, 8, 8),), api.BuildOptions()


def strided() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Strided` with its inputs, of which a pool takes one."""
    torch.manual_seed(0)
    numbers = torch.randint(-1000, 1000, (1, 4, 6), dtype=torch.int32)
    return Strided().eval(), (torch.randn(1, 3, 12, 12), numbers), api.BuildOptions()


def reduced() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """`Reduced` with its input of three axes, which a pool does not take."""
    torch.manual_seed(0)
    return Reduced().eval(), (torch.randn(1, 4, 6),), api.BuildOptions()


@pytest.mark.parametrize(
    ("make", "target", "pools"),
    full.first(
        [
            (strided, "ethos-u85-256", 1),
            (joined, "ethos-u55-128", 6),
            (reduced, "ethos-u55-128", 9),
            (chained, "ethos-u85-256", 2),
        ],
        1,
    ),
)
def test_vela_does_not_join_what_it_would_join_wrong(make: Any, target: str, pools: int) -> None:
    directory, inputs = built(make, target), make()[1]
    graph = tosa.read((directory / "npu_0.tosa").read_bytes(), "npu_0.tosa")
    comparison = compare(directory, [[x.numpy() for x in inputs], [x.flip(-1).numpy() for x in inputs]])
    assert comparison.passed, comparison.failures()
    assert [operator.name for operator in graph.operators].count("MAX_POOL2D") == pools


@pytest.mark.parametrize("target", full.only(["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"], "ethos-u85-256"))
def test_bounds_of_several_samples_are_of_one(target: str) -> None:
    """Vela would give the operator before them their shape, for its results alone."""
    directory, inputs = built(steps, target), steps()[1]
    graph = tosa.read((directory / "npu_0.tosa").read_bytes(), "npu_0.tosa")
    comparison = compare(directory, [[x.numpy() for x in inputs], [x.flip(-1).numpy() for x in inputs]])
    assert comparison.passed, comparison.failures()
    names = [operator.name for operator in graph.operators if not operator.name.startswith("CONST")]
    assert [first for first, second in pairwise(names) if second == "CLAMP"] == ["RESHAPE"] * 3


TARGETS = ("ethos-u55-128", "ethos-u85-256")
BUILDS = [
    (make, target)
    for make in (
        *(pieces, attention, shifted, averaged, without_axes, sliced, sliced_once, indexed, pyramid, chosen, lengths),
        *(planes, totals, cloned, constant_images),
    )
    for target in TARGETS
]


@pytest.mark.parametrize(
    ("make", "target"),
    full.only(
        BUILDS,
        BUILDS[0],
        *((make, "ethos-u85-256") for make in (attention, chosen)),
        *((make, "ethos-u55-128") for make in (planes, cloned, constant_images)),
    ),
)
def test_the_npu_computes_what_its_tosa_file_says(make: Any, target: str) -> None:
    """Also of five axes and of none, and where the wheel has floats for what tables give when it writes pools."""
    directory, inputs = built(make, target), make()[1]
    comparison = compare(directory, [[x.numpy() for x in inputs], [x.flip(-1).numpy() for x in inputs]])
    assert comparison.passed, comparison.failures()
    assert (directory / "npu_0.tosa").exists()


def test_operators_of_one_tensor_stay_joined_where_nothing_is_chained() -> None:
    """As on an Ethos-U55: what Vela writes into a padded tensor there is where it belongs."""
    directory, inputs = built(before_pads, "ethos-u55-128"), before_pads()[1]
    graph = tosa.read((directory / "npu_0.tosa").read_bytes(), "npu_0.tosa")
    comparison = compare(directory, [[x.numpy() for x in inputs]])
    assert comparison.passed, comparison.failures()
    assert "MAX_POOL2D" not in [operator.name for operator in graph.operators]

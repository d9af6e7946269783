"""Networks with int16 activations, and with operators that only int8 has."""

from collections.abc import Callable, Mapping

import torch
from tests.frontend.custom_op_networks import Made
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api

OPTIONS = api.BuildOptions(activations=api.Activations.INT16)


class Wide(nn.Module):
    """Layers, arithmetic, functions, pools and means of int16, with and without limits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.grouped = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, groups=2, dilation=2, padding=2)
        self.apart = nn.Conv2d(6, 6, 3, groups=6, padding=1)
        self.depthwise, self.point = nn.Conv2d(6, 12, 3, groups=6, stride=2, padding=1), nn.Conv2d(12, 4, 1, bias=False)
        self.row = nn.Linear(8, 6)

    def values(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """An image and rows."""
        x = functional.hardswish(self.stem(x))
        x = functional.relu6(self.grouped(x)) - 0.5 * x
        x = self.point(self.depthwise(self.apart(x)).relu())
        z = torch.cat([x, x.abs()], 1).flatten(2).permute(0, 2, 1)[:, :, 1:7] * y
        return x, self.row(z.reshape(1, -1, 8)) + y

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x, z = self.values(x, y)
        pools = functional.max_pool2d(x, 3, 2, 1), functional.avg_pool2d(x, 2), functional.avg_pool2d(x, 3, 1, 1)
        curves = z.sigmoid(), z.tanh(), functional.gelu(z), functional.elu(z), functional.silu(z), (z / 4).exp(), z**2
        curves = *curves, torch.cat([z.atan(), z.asinh(), z.erfc(), z.square()])
        grown = z.sinh(), z.cosh(), z.exp2(), functional.selu(z), functional.celu(z), functional.logsigmoid(z)
        curves = *curves, torch.cat(grown)
        return *pools, *curves, functional.softplus(z).clamp(0.5, 2.0), (z + y).relu(), x.mean((2, 3))


class Chosen(Wide):
    """Pads, extrema and sums of int16."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x, z = self.values(x, y)
        padded = (
            functional.pad(x, (1, 0, 2, 1), value=0.5),
            functional.pad(z, (0, 3)),
            functional.pad(x, [1] * 4, "reflect"),
        )
        return *padded, torch.maximum(x, 0.3 * x), torch.minimum(z, y), z.amax(1), x.amin((2, 3)), z.sum(-1), y.mean(-1)


class Mixed(nn.Module):
    """Operators that only int8 has, between layers of int16."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.up = nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.row, self.norm = nn.Linear(4, 6), nn.LayerNorm(6)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = functional.pad(self.up(self.conv(x)), (1, 0, 0, 1))
        x = torch.maximum(x, 0.3 * x)
        z = self.norm(self.row(x.flatten(2).permute(0, 2, 1)[:, :5])).softmax(-1)
        return z @ z.transpose(1, 2), (self.row(z[..., :4]).square() + 1).sqrt(), z.amax(-1), torch.where(z > 0.2, z, 0)


def wide() -> Made:
    """Most of int16."""
    torch.manual_seed(1)
    return Wide(), (torch.randn(1, 3, 12, 12), torch.randn(6)), OPTIONS


def chosen() -> Made:
    """The rest of it."""
    torch.manual_seed(1)
    return Chosen(), (torch.randn(1, 3, 12, 12), torch.randn(6)), OPTIONS


def mixed() -> Made:
    """Both."""
    torch.manual_seed(1)
    return Mixed(), (torch.randn(1, 3, 8, 8),), OPTIONS


NETWORKS: Mapping[str, Callable[[], Made]] = {"wide": wide, "chosen": chosen, "mixed": mixed}

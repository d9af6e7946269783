"""Networks over time for the bench of streams: windows of 100 frames of 10 ms with 40 features each; random weights."""

import torch
from torch import Tensor, nn
from torch.nn import functional

WINDOW, FEATURES, HOP = 100, 40, 2


def _before(x: Tensor, frames: int) -> Tensor:
    """Pad before the first frame, the last dimension being time."""
    return functional.pad(x, (frames, 0))


class _Block(nn.Module):
    """Two causal convolutions with a residual."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv1d(width, width, 3, dilation=dilation) for _ in range(2))
        self.before = 2 * dilation

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.first(_before(x, self.before)))
        return functional.relu(x + self.second(_before(y, self.before)))


class Tcn(nn.Module):
    """A temporal convolutional network with the mean over time."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(FEATURES, 24, 1)
        self.blocks = nn.Sequential(*(_Block(24, dilation) for dilation in (1, 2, 4, 8)))
        self.head = nn.Linear(24, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(functional.relu(self.first(x.transpose(1, 2)))).mean(2))


class DsCnn(nn.Module):
    """Depthwise separable convolutions over time and features, and the mean of both."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 24, (5, 3), stride=2, padding=(0, 1))
        self.depthwise = nn.ModuleList([nn.Conv2d(24, 24, 3, padding=(0, 1), groups=24) for _ in range(2)])
        self.pointwise = nn.ModuleList([nn.Conv2d(24, 24, 1) for _ in range(2)])
        self.head = nn.Linear(24, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(functional.pad(x.unsqueeze(1), (0, 0, 3, 0))))
        for depthwise, pointwise in zip(self.depthwise, self.pointwise, strict=True):
            x = functional.relu(pointwise(functional.relu(depthwise(functional.pad(x, (0, 0, 2, 0))))))
        return self.head(x.mean((2, 3)))


class Mdtc(nn.Module):
    """Stacks of dilated depthwise separable convolutions; their results are added."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, 32)
        self.dilations = (1, 2, 4, 8) * 3
        self.depthwise = nn.ModuleList([nn.Conv1d(32, 32, 5, dilation=d, groups=32) for d in self.dilations])
        self.pointwise = nn.ModuleList([nn.Conv1d(32, 32, 1) for _ in self.dilations])
        self.head = nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        x, total = functional.relu(self.first(x)).transpose(1, 2), torch.zeros(1)
        for at, dilation in enumerate(self.dilations):
            y = self.pointwise[at](functional.relu(self.depthwise[at](_before(x, 4 * dilation))))
            x = functional.relu(x + y)
            total = total + x if at % 4 == 3 else total
        return torch.sigmoid(self.head(total.transpose(1, 2)))


class Fsmn(nn.Module):
    """Layers with a memory of 8 frames."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Linear(FEATURES if i == 0 else 64, 64) for i in range(3)])
        self.memory = nn.ModuleList([nn.Conv1d(64, 64, 8, groups=64, bias=False) for _ in range(3)])
        self.head = nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        for down, memory in zip(self.down, self.memory, strict=True):
            x = down(x).transpose(1, 2)
            x = functional.relu(x + memory(_before(x, 7))).transpose(1, 2)
        return self.head(x)


class Gru(nn.Module):
    """A GRU of two layers whose frames are classified."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(FEATURES, 40, 2, batch_first=True)
        self.head = nn.Linear(40, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0])


NETWORKS: dict[str, type[nn.Module]] = {"tcn": Tcn, "ds-cnn": DsCnn, "mdtc": Mdtc, "fsmn": Fsmn, "gru": Gru}


def recording(frames: int, seed: int) -> Tensor:
    """Return frames whose features change slowly, as those of sound do."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(frames + 8, FEATURES, generator=generator)
    return (torch.stack([noise[i : i + frames] for i in range(8)]).mean(0) * 8**0.5)[None]

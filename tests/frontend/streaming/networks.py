"""Networks over time, written for a window of 24 frames of 6 numbers: time is the last dimension, or the second."""

import torch
from torch import Tensor, nn
from torch.nn import functional

WINDOW, FEATURES, WIDTH = 24, 6, 8


def channels(seed: int = 0) -> Tensor:
    """Return a window with time last."""
    return torch.randn(1, FEATURES, WINDOW, generator=torch.Generator().manual_seed(seed))


def rows(seed: int = 0) -> Tensor:
    """Return a window with time second."""
    return channels(seed).transpose(1, 2).contiguous()


class Chomped(nn.Module):
    """A residual block of a TCN, which pads at both ends and cuts off the end."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.extra = 2 * dilation
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, dilation=dilation, padding=self.extra)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        y = y[:, :, : -self.extra]
        return functional.relu(x + self.norm(y))


class Tcn(nn.Module):
    """A TCN with the mean over time."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(FEATURES, WIDTH, 1)
        self.blocks = nn.Sequential(Chomped(1), Chomped(2))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.first(x)).mean(2))


class DsCnn(nn.Module):
    """Depthwise separable convolutions over time and features, strided in both."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, WIDTH, (4, 3), stride=2, padding=(0, 1))
        self.depthwise = nn.Conv2d(WIDTH, WIDTH, 3, padding=(0, 1), groups=WIDTH, bias=False)
        self.norm = nn.BatchNorm2d(WIDTH)
        self.pointwise = nn.Conv2d(WIDTH, WIDTH, 1)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(functional.pad(x.unsqueeze(1), (0, 0, 2, 0))))
        x = functional.relu(self.norm(self.depthwise(functional.pad(x, (0, 0, 2, 0)))))
        return self.head(functional.adaptive_avg_pool2d(self.pointwise(x), 1).flatten(1))


class Fsmn(nn.Module):
    """Two layers with a memory of 4 frames before and `after` frames after each."""

    def __init__(self, after: int = 0) -> None:
        super().__init__()
        self.after = after
        self.down = nn.ModuleList([nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, WIDTH)])
        self.left = nn.ModuleList([nn.Conv2d(WIDTH, WIDTH, (4, 1), groups=WIDTH, bias=False) for _ in range(2)])
        self.right = nn.ModuleList([nn.Conv2d(WIDTH, WIDTH, (2, 1), groups=WIDTH, bias=False) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        for down, left, right in zip(self.down, self.left, self.right, strict=True):
            x = down(x).unsqueeze(1).permute(0, 3, 2, 1)
            y = x + left(functional.pad(x, [0, 0, 3, 0]))
            if self.after:
                y = y + right(functional.pad(x, [0, 0, 0, self.after])[:, :, 1:, :])
            x = functional.relu(y.permute(0, 3, 2, 1).squeeze(1))
        return x


class Mdtc(nn.Module):
    """Stacks of dilated depthwise convolutions whose results are added."""

    def __init__(self, *dilations: int) -> None:
        super().__init__()
        self.dilations = dilations or (1, 2, 1, 2)
        self.first = nn.Linear(FEATURES, WIDTH)
        self.convs = nn.ModuleList([nn.Conv1d(WIDTH, WIDTH, 3, dilation=d, groups=WIDTH) for d in self.dilations])
        self.mixes = nn.ModuleList([nn.Conv1d(WIDTH, WIDTH, 1) for _ in self.dilations])
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(x)).transpose(1, 2)
        total = torch.zeros(1)
        for dilation, conv, mix in zip(self.dilations, self.convs, self.mixes, strict=True):
            x = functional.relu(x + mix(conv(functional.pad(x, (2 * dilation, 0)))))
            total = total + x
        return torch.sigmoid(self.head(total.transpose(1, 2)))


class Recurrent(nn.Module):
    """A recurrent layer of which the last frame, the last state or all frames are classified."""

    def __init__(self, layer: type[nn.GRU | nn.LSTM], reads: str) -> None:
        super().__init__()
        self.layer, self.reads = layer(FEATURES, WIDTH, 2, batch_first=True), reads
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        y, state = self.layer(x)
        if self.reads == "state":
            return self.head((state[0] if isinstance(state, tuple) else state)[-1])
        return self.head(y[:, -1] if self.reads == "last" else y)


class Valid(nn.Module):
    """Convolutions without padding, a residual of which the first frames are cut, and a dense layer of all frames."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(FEATURES, WIDTH, 3), nn.Conv1d(WIDTH, WIDTH, 3, dilation=2)
        self.head = nn.Linear(WIDTH * (WINDOW - 6) // 3, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(x))
        x = x[:, :, 4:] + self.second(x)
        return self.head(functional.max_pool1d(x, 3).flatten(1))


class Transposed(nn.Module):
    """A causal convolution over time and features and its transposed one, as in networks that mask a spectrum."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Conv2d(1, 4, (2, 3), (1, 2), (1, 0))
        self.decode = nn.ConvTranspose2d(4, 1, (3, 3), (1, 2), dilation=(2, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.encode(x.transpose(1, 2)[:, None])[:, :, :-1])
        return torch.sigmoid(self.decode(y)[:, :, :-4])


class Joined(nn.Module):
    """Concatenated branches with unlike delays, an average pool with padding, and a layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.short, self.long = nn.Conv1d(FEATURES, WIDTH, 1), nn.Conv1d(FEATURES, WIDTH, 5)
        self.norm, self.head = nn.LayerNorm(2 * WIDTH), nn.Linear(2 * WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.short(x)[:, :, 4:], self.long(x)], 1)
        return self.head(self.norm(functional.avg_pool1d(x, 2).transpose(1, 2)))


class Excited(nn.Module):
    """A factor per channel that depends on the whole window."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.gate = nn.Conv1d(FEATURES, WIDTH, 3), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.conv(functional.pad(x, (2, 0))))
        return (x * torch.sigmoid(self.gate(x.mean(2)))[:, :, None]).amax(2)


class Same(nn.Module):
    """Convolutions padded at both ends, and the mean over time or the frames themselves."""

    def __init__(self, *, pools: bool) -> None:
        super().__init__()
        self.first, self.second, self.pools = nn.Conv1d(FEATURES, WIDTH, 3, padding=1), nn.Conv1d(WIDTH, 3, 3), pools

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(x))
        x = self.second(functional.pad(x, (2, 0)))
        return x.mean(2) if self.pools else x


class Numbered(nn.Module):
    """A constant for each frame of the window, and a normalised pad with constant frames of other values."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(FEATURES, WIDTH, 3), nn.BatchNorm1d(WIDTH)
        self.norm.register_buffer("running_mean", torch.arange(float(WIDTH)))
        self.second, self.places = nn.Conv1d(WIDTH, WIDTH, 3), nn.Parameter(torch.randn(WIDTH, WINDOW))

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(functional.pad(self.conv(functional.pad(x, (2, 0))), (2, 0)))
        return (self.second(x) + self.places).sum(2)

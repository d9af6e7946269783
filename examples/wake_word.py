"""A network that finds a word in one second of sound: 50 frames of 20 ms, each with 40 features.

Random patterns stand for recordings. The word is a tone that rises within the second; steady tones are something else.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

FRAMES, FEATURES, WIDTH = 50, 40, 24


class Block(nn.Module):
    """A depthwise separable convolution over time, padded before the first frame alone."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.before = 4 * dilation
        self.depthwise = nn.Conv1d(WIDTH, WIDTH, 5, dilation=dilation, groups=WIDTH)
        self.pointwise = nn.Conv1d(WIDTH, WIDTH, 1, bias=False)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(functional.pad(x, (self.before, 0)))
        return functional.relu(x + self.norm(self.pointwise(y)))


class WakeWord(nn.Module):
    """Features of a second to the scores of "something else" and of the word."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(FEATURES, WIDTH, 1)
        self.blocks = nn.Sequential(Block(1), Block(2), Block(4))
        self.classes = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.blocks(functional.relu(self.first(x)))[:, :, -1])


def sounds(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return features of so many seconds, and which of them have the word."""
    generator = torch.Generator().manual_seed(seed)
    is_word = torch.arange(count) % 2
    start = torch.randint(4, FEATURES - 20, (count, 1), generator=generator)
    rise = is_word[:, None] * torch.arange(FRAMES) // 3
    band = torch.arange(FEATURES)[None, :, None]
    tone = (band - (start + rise)[:, None]).abs() < 2
    return 0.3 * torch.randn(count, FEATURES, FRAMES, generator=generator) + tone, is_word


def net() -> tuple[nn.Module, Tensor, list[Tensor]]:
    """Train the network for a few steps, and return it with an example and calibration data."""
    torch.manual_seed(0)
    network = WakeWord()
    optimizer = torch.optim.Adam(network.parameters(), 2e-2)
    for step in range(30):
        x, is_word = sounds(32, step)
        optimizer.zero_grad()
        functional.cross_entropy(network(x), is_word).backward()
        optimizer.step()
    x, _ = sounds(8, 1000)
    return network, x[:1], [x[i : i + 1] for i in range(8)]

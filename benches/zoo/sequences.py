"""Ordinary networks for signals, tokens and features, small enough to be built in seconds: plain PyTorch."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Accelerometer(nn.Module):
    """3 axes of 64 samples to 6 activities: convolutions over time with batch norms and pools."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(3, 16, 5, padding=2),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(16, 24, 3, stride=2, padding=1),
            nn.BatchNorm1d(24),
            nn.ReLU(),
            nn.AvgPool1d(2),
            nn.Conv1d(24, 24, 3, padding="same", groups=4),
            nn.ReLU6(),
            nn.AdaptiveAvgPool1d(1),
        )
        self.classes = nn.Linear(24, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.body(x).flatten(1))


class TemporalConvolutions(nn.Module):
    """4 channels of 48 steps to 5 classes: causal, dilated, with residuals, Bai et al., arXiv:1803.01271."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, 16, 1)
        self.blocks = nn.ModuleList(nn.Conv1d(16, 16, 3, dilation=d) for d in (1, 2, 4))
        self.classes = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            causal = functional.pad(x, (2 * block.dilation[0], 0))
            x = x + functional.relu(block(causal))
        return self.classes(x[:, :, -1])


class Recurrent(nn.Module):
    """12 steps of 10 features to 4 keywords by a GRU or an LSTM of 16 units."""

    def __init__(self, cell: type[nn.GRU | nn.LSTM]) -> None:
        super().__init__()
        self.cell = cell(10, 16, batch_first=True)
        self.classes = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.cell(x)
        return self.classes(states[:, -1])


class TransformerEncoder(nn.Module):
    """16 steps of 8 features to 4 classes: PyTorch's own encoder layer of 2 heads, learned positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Linear(8, 16), nn.Parameter(torch.randn(16, 16) * 0.2)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True, norm_first=True)
        self.norm, self.classes = nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.encoder(self.embedding(x) + self.positions)
        return self.classes(self.norm(x).mean(dim=1))


class CausalAttention(nn.Module):
    """12 steps of 16 features, each attending to those before it, with `scaled_dot_product_attention`."""

    def __init__(self) -> None:
        super().__init__()
        self.parts, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, features = x.shape
        heads = (part.view(batch, steps, 2, features // 2).transpose(1, 2) for part in self.parts(x).chunk(3, dim=-1))
        y = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.norm(x + self.out(y.transpose(1, 2).reshape(batch, steps, features)))


class Mixer(nn.Module):
    """1x16x16 to 5 classes: perceptrons over patches and over channels in turn, arXiv:2105.01601."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 16, 4, stride=4)
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(3))
        self.tokens = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16))
        self.channels = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.classes = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norms[1](x))
        return self.classes(self.norms[2](x).mean(dim=1))


class TwoInTwoOut(nn.Module):
    """An image of 1x16x16 and 6 readings to 4 classes and an estimate."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 16)
        )
        self.readings = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
        self.classes, self.estimate = nn.Linear(32, 4), nn.Linear(32, 1)

    def forward(self, image: Tensor, readings: Tensor) -> tuple[Tensor, Tensor]:
        joined = torch.cat([self.image(image), self.readings(readings)], dim=1)
        return torch.softmax(self.classes(joined), dim=-1), self.estimate(functional.relu(joined))


class EmbeddingMean(nn.Module):
    """12 tokens of a vocabulary of 40 to 4 classes: the mean of what the tokens stand for."""

    VOCABULARY = 40

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(self.VOCABULARY, 16)
        self.hidden, self.classes = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.classes(functional.relu(self.hidden(self.embedding(tokens).mean(dim=1))))


class RootMeanSquare(nn.Module):
    """24 features to 4 numbers: a gated perceptron with root-mean-square norms, as language models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(24, 16), nn.RMSNorm(16), nn.Linear(16, 4)
        self.gate, self.up, self.down = (nn.Linear(*sizes) for sizes in ((16, 32), (16, 32), (32, 16)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        y = self.norm(x)
        return self.last(x + self.down(functional.silu(self.gate(y)) * self.up(y)))


class Gated(nn.Module):
    """1 channel of 64 samples to 8 steps: WaveNet's gates, `tanh` times `sigmoid`, and GLU."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 12, 4, stride=4)
        self.filter, self.gate = (nn.Conv1d(12, 12, 3, padding=2, dilation=2) for _ in range(2))
        self.linear = nn.Conv1d(12, 24, 3, stride=2, padding=1)
        self.last = nn.ConvTranspose1d(12, 4, 3, stride=1, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = x + torch.tanh(self.filter(x)) * torch.sigmoid(self.gate(x))
        return self.last(functional.glu(self.linear(x), dim=1))

"""Recurrent, temporal and gated blocks of published networks, written as their public implementations are."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import rnn

from semantic_cases.case import conv, dense


class Chomp(nn.Module):
    """TCN: takes what the padding added off again."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, : -self.size].contiguous()


def _temporal(inputs: int, outputs: int, dilation: int) -> nn.Sequential:
    padding = 2 * dilation
    layer = nn.utils.weight_norm(nn.Conv1d(inputs, outputs, 3, padding=padding, dilation=dilation))
    return nn.Sequential(layer, Chomp(padding), nn.ReLU(), nn.Dropout(0.2))


class TemporalBlock(nn.Module):
    """TCN: two causal convolutions and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.downsample = nn.Sequential(_temporal(4, 8, 2), _temporal(8, 8, 2)), nn.Conv1d(4, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.net(x) + self.downsample(x))


class GlobalNorm(nn.Module):
    """Conv-TasNet: the norm over channels and time."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(1, 8, 1)), nn.Parameter(torch.zeros(1, 8, 1))

    def forward(self, y: Tensor) -> Tensor:
        mean = y.mean(dim=1, keepdim=True).mean(dim=2, keepdim=True)
        var = (torch.pow(y - mean, 2)).mean(dim=1, keepdim=True).mean(dim=2, keepdim=True)
        return self.gamma * (y - mean) / torch.pow(var + 1e-8, 0.5) + self.beta


class TasNet(nn.Module):
    """Conv-TasNet: an encoder, masks of two speakers, a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Conv1d(1, 8, 4, 2, bias=False), nn.ConvTranspose1d(8, 1, 4, 2, bias=False)
        self.separate = nn.Sequential(
            GlobalNorm(),
            nn.Conv1d(8, 8, 1),
            nn.PReLU(),
            nn.Conv1d(8, 8, 3, padding=2, dilation=2, groups=8),
            nn.Conv1d(8, 16, 1),
        )

    def forward(self, mixture: Tensor) -> Tensor:
        w = F.relu(self.encoder(mixture))
        m, n, k = w.size()
        masks = F.relu(self.separate(w).view(m, 2, n, k))
        source = torch.unsqueeze(w, 1) * masks
        return self.decoder(source.view(m * 2, n, k)).view(m, 2, -1)


class LstmClassifier(nn.Module):
    """Words to a class: an embedding, an LSTM with zeros as its state, the last output."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.fc = (
            nn.Embedding(12, 8),
            nn.LSTM(8, 8, 2, batch_first=True, dropout=0.2),
            dense(8, 2),
        )

    def forward(self, text: Tensor) -> Tensor:
        h0 = torch.zeros(2, text.size(0), 8).to(text.device)
        c0 = torch.zeros(2, text.size(0), 8).to(text.device)
        out, _ = self.lstm(self.embedding(text), (h0, c0))
        return F.log_softmax(self.fc(out[:, -1, :]), dim=1)


class Crnn(nn.Module):
    """A recurrent network over the columns of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.cnn = nn.Sequential(
            conv(1, 4), nn.ReLU(True), nn.MaxPool2d(2, 2), conv(4, 8), nn.ReLU(True), nn.MaxPool2d((4, 1))
        )
        self.rnn, self.embedding = nn.LSTM(8, 8, bidirectional=True), dense(16, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.cnn(x)
        _, _, h, _ = y.size()
        assert h == 1, "the height of conv must be 1"
        y = y.squeeze(2).permute(2, 0, 1)
        recurrent, _ = self.rnn(y)
        t, b, h = recurrent.size()
        return self.embedding(recurrent.view(t * b, h)).view(t, b, -1)


class PackedGru(nn.Module):
    """A GRU over a packed sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.fc = nn.GRU(8, 8, batch_first=True), dense(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        packed = rnn.pack_padded_sequence(x, torch.tensor([6]), batch_first=True)
        output, hidden = self.gru(packed)
        padded, _ = rnn.pad_packed_sequence(output, batch_first=True)
        return self.fc(hidden[-1]) + self.fc(padded[:, -1])


class KeywordSpotter(nn.Module):
    """BC-ResNet: frequencies pooled, broadcast back over them."""

    def __init__(self) -> None:
        super().__init__()
        self.f2 = nn.Sequential(conv(8, 8, groups=8), nn.BatchNorm2d(8))
        self.f1 = nn.Sequential(
            nn.Conv2d(8, 8, (1, 3), padding=(0, 1), groups=8), nn.BatchNorm2d(8), nn.SiLU(True), conv(8, 8, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        auxiliary = self.f2(x)
        y = self.f1(auxiliary.mean(dim=2, keepdim=True))
        return F.relu(y + auxiliary + x, True)


class GumbelGate(nn.Module):
    """Chooses a branch by a straight-through one-hot in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.branches = dense(8, 2), nn.ModuleList([conv(8, 8), conv(8, 8, 1)])

    def forward(self, x: Tensor) -> Tensor:
        logits = self.gate(x.mean((2, 3)))
        soft = logits.softmax(-1)
        hard = torch.zeros_like(logits).scatter_(-1, soft.max(-1, keepdim=True)[1], 1.0)
        weights = hard - soft.detach() + soft
        return sum(weights[:, i, None, None, None] * f(x) for i, f in enumerate(self.branches))


class GatedTagger(nn.Module):
    """Highway layers, masks from words, and a mean over words that are there."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.h, self.t = nn.Embedding(12, 8, padding_idx=0), dense(), dense()

    def forward(self, words: Tensor) -> Tensor:
        mask = (words != 0).unsqueeze(-1).type(torch.float32)
        x = self.embed(words)
        gate = torch.sigmoid(self.t(x))
        x = gate * torch.relu(self.h(x)) + (1 - gate) * x
        return (x * mask).sum(1) / torch.clamp(mask.sum(1), min=1e-9)

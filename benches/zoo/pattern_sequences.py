"""Ordinary patterns of signals, sequences and vectors, each the way that PyTorch code writes it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as models write it

from zoo.pattern import IMAGE, SIGNAL, TOKENS, VECTOR, Pattern, Written, conv1, sequence


def signals() -> list[Pattern]:
    """Pattern of signals."""

    def causal(self: Any, x: Tensor) -> Tensor:
        for conv in (self.first, self.second):
            x = F.relu(conv(F.pad(x, (2 * conv.dilation[0], 0))))
        return x

    def tcn(self: Any, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + F.relu(self.first(F.pad(x, (2, 0))))
        x = x + F.relu(self.second(F.pad(x, (4, 0))))
        return self.head(x[:, :, -1])

    def wave(self: Any, x: Tensor) -> Tensor:
        x = self.stem(x)
        return x + self.point(torch.tanh(self.value(x)) * torch.sigmoid(self.gate(x)))

    def mean(self: Any, x: Tensor) -> Tensor:
        return self.head(F.relu(self.stem(x)).mean(-1))

    def excite(self: Any, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        return x * torch.sigmoid(self.up(F.relu(self.down(x.mean(-1))))).unsqueeze(-1)

    return [
        Pattern("conv1d", sequence(conv1(), nn.ReLU(), conv1(8, 4)), (SIGNAL,)),
        Pattern("conv1d_bn", sequence(conv1(), nn.BatchNorm1d(8), nn.ReLU(), conv1(8, 4)), (SIGNAL,)),
        Pattern("conv1d_stride", sequence(conv1(stride=2), nn.ReLU(), conv1(8, 4, 5, stride=2)), (SIGNAL,)),
        Pattern("conv1d_depthwise", sequence(conv1(), conv1(8, 8, groups=8), nn.SiLU(), conv1(8, 4, 1)), (SIGNAL,)),
        Pattern("conv1d_grouped", sequence(conv1(4, 8, groups=2), nn.GELU()), (SIGNAL,)),
        Pattern("conv1d_dilated", sequence(conv1(padding=4, dilation=4), nn.ReLU()), (SIGNAL,)),
        Pattern(
            "cnn1d",
            sequence(
                conv1(),
                nn.BatchNorm1d(8),
                nn.ReLU(),
                nn.MaxPool1d(2),
                conv1(8, 8),
                nn.ReLU(),
                nn.AdaptiveAvgPool1d(1),
                nn.Flatten(),
                nn.Linear(8, 3),
            ),
            (SIGNAL,),
        ),
        Pattern("maxpool1d", sequence(conv1(), nn.ReLU(), nn.MaxPool1d(2), conv1(8, 4)), (SIGNAL,)),
        Pattern("maxpool1d_padded", sequence(conv1(), nn.ReLU(), nn.MaxPool1d(3, 2, 1), conv1(8, 4)), (SIGNAL,)),
        Pattern("avgpool1d", sequence(conv1(), nn.ReLU(), nn.AvgPool1d(4), conv1(8, 4)), (SIGNAL,)),
        Pattern("adaptive1d", sequence(conv1(), nn.ReLU(), nn.AdaptiveAvgPool1d(1)), (SIGNAL,)),
        Pattern("adaptive1d_4", sequence(conv1(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(32, 3)), (SIGNAL,)),
        Pattern("adaptive_max1d", sequence(conv1(), nn.AdaptiveMaxPool1d(1), nn.Flatten()), (SIGNAL,)),
        Pattern("transposed1d", sequence(conv1(stride=2), nn.ReLU(), nn.ConvTranspose1d(8, 4, 2, 2)), (SIGNAL,)),
        Pattern("transposed1d_4", sequence(conv1(stride=2), nn.ConvTranspose1d(8, 4, 4, 2, 1), nn.Tanh()), (SIGNAL,)),
        Pattern("batchnorm1d", sequence(nn.Linear(16, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 4)), (VECTOR,)),
        Pattern("batchnorm1d_first", sequence(nn.BatchNorm1d(4), conv1(), nn.ReLU()), (SIGNAL,)),
        Pattern(
            "causal",
            lambda: Written(causal, first=nn.Conv1d(4, 8, 3), second=nn.Conv1d(8, 8, 3, dilation=2)),
            (SIGNAL,),
        ),
        Pattern(
            "tcn",
            lambda: Written(
                tcn,
                stem=conv1(4, 8, 1),
                first=nn.Conv1d(8, 8, 3),
                second=nn.Conv1d(8, 8, 3, dilation=2),
                head=nn.Linear(8, 3),
            ),
            (SIGNAL,),
        ),
        Pattern(
            "wavenet",
            lambda: Written(wave, stem=conv1(), value=conv1(8, 8), gate=conv1(8, 8), point=conv1(8, 8, 1)),
            (SIGNAL,),
        ),
        Pattern("mean1d", lambda: Written(mean, stem=conv1(), head=nn.Linear(8, 3)), (SIGNAL,)),
        Pattern("excite1d", lambda: Written(excite, stem=conv1(), down=nn.Linear(8, 4), up=nn.Linear(4, 8)), (SIGNAL,)),
        Pattern("group_norm1d", sequence(conv1(), nn.GroupNorm(2, 8), nn.SiLU(), conv1(8, 4)), (SIGNAL,)),
        Pattern("constant_pad1d", sequence(nn.ConstantPad1d((2, 1), 0.0), nn.Conv1d(4, 8, 4), nn.ReLU()), (SIGNAL,)),
        Pattern("upsample1d", sequence(conv1(), nn.Upsample(scale_factor=2), conv1(8, 4)), (SIGNAL,)),
        Pattern("conv1d_linear", sequence(conv1(), nn.ReLU(), nn.Flatten(), nn.Linear(256, 4)), (SIGNAL,)),
    ]


class SelfAttention(nn.Module):
    """Attention of one head, written out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """Each token as a mean of all."""
        scores = self.queries(x) @ self.keys(x).transpose(-2, -1) / x.shape[-1] ** 0.5
        return F.softmax(scores, dim=-1) @ self.values(x)


class RootMeanSquare(nn.Module):
    """RMSNorm, written out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, width))

    def forward(self, x: Tensor) -> Tensor:
        """Vectors of unit mean square."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def sequences() -> list[Pattern]:
    """Pattern of sequences."""

    def heads(self: Any, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = (part.view(n, t, 2, d // 2).transpose(1, 2) for part in self.project(x).chunk(3, dim=-1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, d))

    def multi(self: Any, x: Tensor) -> Tensor:
        return x + self.attention(x, x, x, need_weights=False)[0]

    def feed(self: Any, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))

    def swiglu(self: Any, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))

    def first(self: Any, x: Tensor) -> Tensor:
        return self.head(self.norm(x)[:, 0])

    def embedded(self: Any, x: Tensor) -> Tensor:
        return self.head(self.table(x).mean(1))

    def positions(self: Any, x: Tensor) -> Tensor:
        return self.head(self.table(x) + self.positions)

    def cell(self: Any, x: Tensor, h: Tensor) -> Tensor:
        return self.cell(x, h)

    def lstm_cell(self: Any, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return self.cell(x, (h, c))

    def patches(self: Any, x: Tensor) -> Tensor:
        return self.norm(self.conv(x).flatten(2).transpose(1, 2))

    def mixer(self: Any, x: Tensor) -> Tensor:
        return x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)

    def masked(_: Any, x: Tensor) -> Tensor:
        scores = (x @ x.transpose(1, 2)).masked_fill(torch.ones(8, 8).triu(1).bool(), float("-inf"))
        return torch.softmax(scores, -1) @ x

    encoder: dict[str, Any] = {"d_model": 16, "nhead": 2, "dim_feedforward": 32, "batch_first": True, "dropout": 0.0}
    return [
        Pattern("attention", lambda: SelfAttention(16), (TOKENS,)),
        Pattern("attention_heads", lambda: Written(heads, project=nn.Linear(16, 48), out=nn.Linear(16, 16)), (TOKENS,)),
        Pattern("attention_masked", lambda: Written(masked), (TOKENS,)),
        Pattern(
            "multihead", lambda: Written(multi, attention=nn.MultiheadAttention(16, 2, batch_first=True)), (TOKENS,)
        ),
        Pattern("encoder_layer", lambda: nn.TransformerEncoderLayer(**encoder), (TOKENS,)),
        Pattern(
            "encoder_layer_gelu",
            lambda: nn.TransformerEncoderLayer(**encoder, norm_first=True, activation="gelu"),
            (TOKENS,),
        ),
        Pattern("layer_norm", sequence(nn.Linear(16, 16), nn.LayerNorm(16), nn.ReLU()), (TOKENS,)),
        Pattern("rms_norm", lambda: nn.Sequential(nn.Linear(16, 16), RootMeanSquare(16)), (TOKENS,)),
        Pattern(
            "feed_forward",
            lambda: Written(feed, norm=nn.LayerNorm(16), up=nn.Linear(16, 32), down=nn.Linear(32, 16)),
            (TOKENS,),
        ),
        Pattern(
            "swiglu",
            lambda: Written(swiglu, gate=nn.Linear(16, 24), up=nn.Linear(16, 24), down=nn.Linear(24, 16)),
            (TOKENS,),
        ),
        Pattern("class_token", lambda: Written(first, norm=nn.LayerNorm(16), head=nn.Linear(16, 4)), (TOKENS,)),
        Pattern(
            "embedding_mean",
            lambda: Written(embedded, table=nn.Embedding(50, 16), head=nn.Linear(16, 4)),
            ((1, 8),),
            50,
        ),
        Pattern(
            "embedding_positions",
            lambda: Written(
                positions,
                table=nn.Embedding(50, 16),
                positions=nn.Parameter(torch.randn(1, 8, 16)),
                head=nn.Linear(16, 4),
            ),
            ((1, 8),),
            50,
        ),
        Pattern("gru_cell", lambda: Written(cell, cell=nn.GRUCell(16, 12)), (VECTOR, (1, 12))),
        Pattern("lstm_cell", lambda: Written(lstm_cell, cell=nn.LSTMCell(16, 12)), (VECTOR, (1, 12), (1, 12))),
        Pattern("rnn_cell", lambda: Written(cell, cell=nn.RNNCell(16, 12)), (VECTOR, (1, 12))),
        Pattern("patches", lambda: Written(patches, conv=nn.Conv2d(3, 16, 4, 4), norm=nn.LayerNorm(16)), (IMAGE,)),
        Pattern("mixer", lambda: Written(mixer, norm=nn.LayerNorm(16), tokens=nn.Linear(8, 8)), (TOKENS,)),
        Pattern("glu_tokens", sequence(nn.Linear(16, 32), nn.GLU(), nn.Linear(16, 8)), (TOKENS,)),
        Pattern("linear_tokens", sequence(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 16)), (TOKENS,)),
    ]


def vectors() -> list[Pattern]:
    """Pattern of vectors."""

    def head(function: Callable[[Tensor], Any], width: int = 12) -> Callable[[], nn.Module]:
        return lambda: Written(lambda self, x: function(F.relu(self.first(x))), first=nn.Linear(16, width))

    def between(function: Callable[[Tensor], Tensor], width: int = 12) -> Callable[[], nn.Module]:
        return lambda: Written(
            lambda self, x: self.second(function(self.first(x))), first=nn.Linear(16, 12), second=nn.Linear(width, 4)
        )

    def two(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], nn.Module]:
        return lambda: Written(
            lambda self, x, y: function(self.first(x), self.second(y)),
            first=nn.Linear(16, 12),
            second=nn.Linear(16, 12),
        )

    scale = torch.linspace(0.5, 2.0, 12)
    return [
        Pattern(
            "mlp", sequence(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 4)), (VECTOR,)
        ),
        Pattern(
            "mlp_no_bias", sequence(nn.Linear(16, 24, bias=False), nn.ReLU(), nn.Linear(24, 4, bias=False)), (VECTOR,)
        ),
        Pattern("autoencoder", sequence(nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 16), nn.Sigmoid()), (VECTOR,)),
        Pattern("normalize", head(lambda x: F.normalize(x, dim=-1)), (VECTOR,)),
        Pattern("argmax", head(lambda x: x.argmax(-1)), (VECTOR,)),
        Pattern("topk_max", head(lambda x: x.max(-1).values), (VECTOR,)),
        Pattern("vector_constant", between(lambda x: x * scale), (VECTOR,)),
        Pattern("vector_affine", between(lambda x: x * scale + 0.5), (VECTOR,)),
        Pattern("vector_sum", between(lambda x: x + scale), (VECTOR,)),
        Pattern("scalar", between(lambda x: x * 0.5 - 1), (VECTOR,)),
        Pattern("sum", head(lambda x: x.sum(-1, keepdim=True)), (VECTOR,)),
        Pattern("where", between(lambda x: torch.where(x > 0, x, 0.2 * x)), (VECTOR,)),
        Pattern("masked", between(lambda x: x * (x > 0.1).float()), (VECTOR,)),
        Pattern("chunk", between(lambda x: torch.mul(*x.chunk(2, -1)), 6), (VECTOR,)),
        Pattern("split_three", between(lambda x: sum(x.split(4, -1)), 4), (VECTOR,)),
        Pattern("stack", between(lambda x: torch.stack([x, -x], 1).flatten(1), 24), (VECTOR,)),
        Pattern("repeat", between(lambda x: x.repeat(1, 2), 24), (VECTOR,)),
        Pattern("expand", between(lambda x: x.unsqueeze(1).expand(-1, 3, -1).reshape(1, 36), 36), (VECTOR,)),
        Pattern("flip", between(lambda x: x.flip(-1)), (VECTOR,)),
        Pattern("roll", between(lambda x: torch.cat([x[:, 3:], x[:, :3]], 1)), (VECTOR,)),
        Pattern("index", between(lambda x: x[:, ::2], 6), (VECTOR,)),
        Pattern("add_inputs", two(torch.add), (VECTOR, VECTOR)),
        Pattern("sub_inputs", two(torch.sub), (VECTOR, VECTOR)),
        Pattern("mul_inputs", two(torch.mul), (VECTOR, VECTOR)),
        Pattern("div_inputs", two(lambda x, y: x / (1 + y.abs())), (VECTOR, VECTOR)),
        Pattern("max_inputs", two(torch.maximum), (VECTOR, VECTOR)),
        Pattern("cat_inputs", two(lambda x, y: torch.cat([torch.tanh(x), torch.sigmoid(y)], -1)), (VECTOR, VECTOR)),
        Pattern("distance", two(lambda x, y: (x - y).abs().sum(-1)), (VECTOR, VECTOR)),
        Pattern("cosine", two(F.cosine_similarity), (VECTOR, VECTOR)),
        Pattern("euclid", two(lambda x, y: ((x - y) ** 2).sum(-1).sqrt()), (VECTOR, VECTOR)),
        Pattern("outer", two(lambda x, y: x.unsqueeze(2) * y.unsqueeze(1)), (VECTOR, VECTOR)),
        Pattern(
            "passed_through", lambda: Written(lambda self, x: (x, self.first(x)), first=nn.Linear(16, 4)), (VECTOR,)
        ),
    ]

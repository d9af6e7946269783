"""Blocks of published networks, written as their public implementations are."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import rnn

from semantic_cases.case import IMAGE, SIGNAL, TOKENS, Cases, conv, dense, ints, normed

CASES = Cases("blocks")
FEATURES = (1, 8, 8, 8)
WORDS = ints(12, 1, 6)


class CausalAttention(nn.Module):
    """minGPT: heads by views, a mask in a buffer, cut to the length."""

    def __init__(self) -> None:
        super().__init__()
        self.c_attn, self.c_proj = dense(8, 24), dense()
        self.drop, self.heads = nn.Dropout(0.1), 2
        self.register_buffer("bias", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
        y = self.drop(F.softmax(scores, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class GptBlock(nn.Module):
    """minGPT: pre-norm, GELU by its formula, a module dict."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2, self.attn = nn.LayerNorm(8), nn.LayerNorm(8), CausalAttention()
        self.mlp = nn.ModuleDict({"c_fc": dense(8, 32), "c_proj": dense(32, 8)})
        m = self.mlp
        self.mlpf = lambda x: m.c_proj(self.gelu(m.c_fc(x)))

    @staticmethod
    def gelu(x: Tensor) -> Tensor:
        """Return the activation of GPT-2."""
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlpf(self.ln_2(x))


class Gpt(nn.Module):
    """minGPT: embeddings of words and places, logits, and an unused loss."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(12, 8),
                "wpe": nn.Embedding(16, 8),
                "h": nn.ModuleList([GptBlock()]),
                "f": nn.LayerNorm(8),
            }
        )
        self.lm_head = dense(8, 12, bias=False)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        _, t = idx.size()
        assert t <= 16, f"cannot take {t} words"
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device).unsqueeze(0)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


class SwinWindows(nn.Module):
    """Swin: shifted windows, the table of relative positions, an additive mask of -100."""

    def __init__(self, shift: int) -> None:
        super().__init__()
        self.window, self.shift, self.heads, self.scale = 4, shift, 2, 4**-0.5
        self.qkv, self.proj, self.norm = dense(8, 24), dense(), nn.LayerNorm(8)
        self.table = nn.Parameter(torch.randn(49, 2) * 0.1)
        coords = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        relative = (coords[:, :, None] - coords[:, None]).permute(1, 2, 0) + 3
        relative[:, :, 0] *= 7
        self.register_buffer("index", relative.sum(-1))
        regions = torch.zeros(1, 8, 8, 1)
        slices = (slice(0, -4), slice(-4, -shift), slice(-shift, None)) if shift else (slice(None),)
        for count, (h, w) in enumerate((h, w) for h in slices for w in slices):
            regions[:, h, w] = count
        windows = self.partition(regions).view(-1, 16)
        mask = windows.unsqueeze(1) - windows.unsqueeze(2)
        self.register_buffer("mask", mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0))

    @staticmethod
    def partition(x: Tensor) -> Tensor:
        """Return the windows of an image."""
        b, h, w, c = x.shape
        x = x.view(b, h // 4, 4, w // 4, 4, c)
        return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 4, 4, c)

    @staticmethod
    def reverse(windows: Tensor, h: int, w: int) -> Tensor:
        """Return the image of windows."""
        b = int(windows.shape[0] / (h * w / 16))
        x = windows.view(b, h // 4, w // 4, 4, 4, -1)
        return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(b, h, w, -1)

    def attend(self, x: Tensor) -> Tensor:
        """Return the attention inside windows."""
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.table[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1).contiguous()
        scores = scores + bias.unsqueeze(0)
        if self.shift:
            count = self.mask.shape[0]
            scores = scores.view(b // count, count, self.heads, n, n) + self.mask.unsqueeze(1).unsqueeze(0)
            scores = scores.view(-1, self.heads, n, n)
        x = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, c)
        return self.proj(x)

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        shortcut, x = x, self.norm(x)
        if self.shift > 0:
            x = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2))
        windows = self.attend(self.partition(x).view(-1, 16, c)).view(-1, 4, 4, c)
        x = self.reverse(windows, h, w)
        if self.shift > 0:
            x = torch.roll(x, shifts=(self.shift, self.shift), dims=(1, 2))
        return shortcut + x.view(b, h, w, c)


class PatchMerging(nn.Module):
    """Swin: four neighbours become channels."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(32), dense(32, 16, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[:, i::2, j::2, :] for j in (0, 1) for i in (0, 1)]
        return self.reduction(self.norm(torch.cat(parts, -1).view(1, -1, 32)))


class Bottle2neck(nn.Module):
    """Res2Net: splits whose sums go from one to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(conv(2, 2) for _ in range(3))
        self.bns = nn.ModuleList(nn.BatchNorm2d(2) for _ in range(3))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        spx = torch.split(x, 2, 1)
        sp, out = spx[0], spx[0]
        for i in range(3):
            sp = spx[i] if i == 0 else sp + spx[i]
            sp = self.relu(self.bns[i](self.convs[i](sp)))
            out = sp if i == 0 else torch.cat((out, sp), 1)
        out = torch.cat((out, spx[3]), 1)
        out += x
        return self.relu(out)


class Ghost(nn.Module):
    """GhostNet: primary features joined with cheap ones, cut to the channels."""

    def __init__(self, outputs: int = 7) -> None:
        super().__init__()
        self.oup, half = outputs, math.ceil(outputs / 2)
        self.primary_conv = nn.Sequential(conv(8, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True))
        self.cheap_operation = nn.Sequential(conv(half, half, groups=half), nn.BatchNorm2d(half), nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        x1 = self.primary_conv(x)
        return torch.cat([x1, self.cheap_operation(x1)], dim=1)[:, : self.oup, :, :]


class ShuffleUnit(nn.Module):
    """ShuffleNet v2: half of the channels pass, then channels are shuffled."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            conv(4, 4, 1), nn.ReLU(inplace=True), conv(4, 4, groups=4), conv(4, 4, 1), nn.ReLU()
        )

    def forward(self, x: Tensor) -> Tensor:
        x1, x2 = x.chunk(2, dim=1)
        out = torch.cat((x1, self.branch(x2)), dim=1)
        batchsize, channels, height, width = out.size()
        out = out.view(batchsize, 2, channels // 2, height, width)
        return torch.transpose(out, 1, 2).contiguous().view(batchsize, -1, height, width)


class SqueezeExcite(nn.Module):
    """A gate of channels; the hard sigmoid is written by ReLU6."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.avg_pool, self.how = nn.AdaptiveAvgPool2d(1), how
        self.fc = nn.Sequential(dense(8, 4, bias=False), nn.ReLU(inplace=True), dense(4, 8, bias=False))
        self.reduce, self.expand = conv(8, 4, 1), conv(4, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, _, _ = x.size()
        if self.how == "linear":
            y = torch.sigmoid(self.fc(self.avg_pool(x).view(b, c))).view(b, c, 1, 1)
            return x * y.expand_as(x)
        y = self.expand(F.silu(self.reduce(F.adaptive_avg_pool2d(x, 1)), inplace=True))
        return x * (F.relu6(y + 3.0, inplace=True) / 6.0)


class EfficientChannels(nn.Module):
    """ECA: a 1-D convolution over the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.avg_pool, self.conv, self.sigmoid = nn.AdaptiveAvgPool2d(1), nn.Conv1d(1, 1, 3, padding=1), nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(self.avg_pool(x).squeeze(-1).transpose(-1, -2)).transpose(-1, -2).unsqueeze(-1)
        return x * self.sigmoid(y).expand_as(x)


class CoordinateAttention(nn.Module):
    """Pools by rows and by columns, and a gate of each."""

    def __init__(self) -> None:
        super().__init__()
        self.pool_h, self.pool_w = nn.AdaptiveAvgPool2d((None, 1)), nn.AdaptiveAvgPool2d((1, None))
        self.conv1, self.bn1, self.act = conv(8, 8, 1), nn.BatchNorm2d(8), nn.Hardswish()
        self.conv_h, self.conv_w = conv(8, 8, 1), conv(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        _, _, h, w = x.size()
        x_h, x_w = self.pool_h(x), self.pool_w(x).permute(0, 1, 3, 2)
        y = self.act(self.bn1(self.conv1(torch.cat([x_h, x_w], dim=2))))
        x_h, x_w = torch.split(y, [h, w], dim=2)
        return x * self.conv_w(x_w.permute(0, 1, 3, 2)).sigmoid() * self.conv_h(x_h).sigmoid()


class Cbam(nn.Module):
    """A gate of channels from mean and maximum, then one of places."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Flatten(), dense(8, 2), nn.ReLU(), dense(2, 8))
        self.spatial = conv(2, 1, 7)

    def forward(self, x: Tensor) -> Tensor:
        total = None
        for kind in ("avg", "max"):
            pool = F.avg_pool2d if kind == "avg" else F.max_pool2d
            raw = self.mlp(pool(x, (x.size(2), x.size(3)), stride=(x.size(2), x.size(3))))
            total = raw if total is None else total + raw
        x = x * torch.sigmoid(total).unsqueeze(2).unsqueeze(3).expand_as(x)
        compressed = torch.cat((torch.max(x, 1)[0].unsqueeze(1), torch.mean(x, 1).unsqueeze(1)), dim=1)
        return x * torch.sigmoid(self.spatial(compressed))


class ConvNext(nn.Module):
    """Norm and layers behind a permutation, a factor per channel, and a path that is never dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.dwconv, self.norm = conv(8, 8, 7, groups=8), nn.LayerNorm(8, eps=1e-6)
        self.pwconv1, self.act, self.pwconv2 = dense(8, 32), nn.GELU(), dense(32, 8)
        self.gamma, self.drop_prob = nn.Parameter(0.5 * torch.ones(8)), 0.1

    def drop_path(self, x: Tensor) -> Tensor:
        """Drop whole samples in training."""
        if self.drop_prob == 0.0 or not self.training:
            return x
        return x * x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(1 - self.drop_prob)

    def forward(self, x: Tensor) -> Tensor:
        shortcut, x = x, self.dwconv(x).permute(0, 2, 3, 1)
        x = self.gamma * self.pwconv2(self.act(self.pwconv1(self.norm(x))))
        return shortcut + self.drop_path(x.permute(0, 3, 1, 2))


class ChannelsFirstNorm(nn.Module):
    """ConvNeXt's norm over the channels of an image, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.rand(8) + 0.5), nn.Parameter(torch.zeros(8)), 1e-6

    def forward(self, x: Tensor) -> Tensor:
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class MobileVit(nn.Module):
    """Unfolds an image to patches, runs a transformer over them, and folds it back."""

    def __init__(self) -> None:
        super().__init__()
        self.local, self.fuse = conv(8, 8), conv(16, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, 0.0, activation=F.silu, batch_first=True, norm_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.local(x)
        b, d, h, w = y.shape
        y = y.reshape(b * d * (h // 2), 2, w // 2, 2).transpose(1, 2).reshape(b, d, h * w // 4, 4).transpose(1, 3)
        y = self.encoder(y.reshape(b * 4, h * w // 4, d)).contiguous().view(b, 4, h * w // 4, d)
        y = y.transpose(1, 3).reshape(b * d * (h // 2), w // 2, 2, 2).transpose(1, 2).reshape(b, d, h, w)
        return self.fuse(torch.cat((x, y), 1))


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


class FeaturePyramid(nn.Module):
    """FPN and PANet: down and up again, with features by name."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([conv(3, 8), conv(8, 8, stride=2), conv(8, 8, stride=2)])
        self.lateral, self.smooth = (
            nn.ModuleList(conv(8, 8, 1) for _ in range(3)),
            nn.ModuleList(conv(8, 8) for _ in range(3)),
        )
        self.down = nn.ModuleList(conv(8, 8, stride=2) for _ in range(2))

    @staticmethod
    def upsample_add(x: Tensor, y: Tensor) -> Tensor:
        """Add an image to another one of twice its size."""
        _, _, h, w = y.size()
        return F.interpolate(x, size=(h, w), mode="nearest") + y

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        features = []
        for stage in self.stages:
            x = F.relu(stage(x))
            features.append(x)
        results = [self.lateral[-1](features[-1])]
        for i in range(1, -1, -1):
            results.insert(0, self.upsample_add(results[0], self.lateral[i](features[i])))
        for i, layer in enumerate(self.down):
            results[i + 1] = results[i + 1] + layer(results[i])
        return {f"p{i + 2}": layer(y) for i, (layer, y) in enumerate(zip(self.smooth, results, strict=True))}


class CenterDetector(nn.Module):
    """CenterNet: peaks of a heat map by a max pool that changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.hm, self.wh = conv(), conv(8, 2, 1), conv(8, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.body(x))
        heat = torch.clamp(self.hm(x).sigmoid_(), min=1e-4, max=1 - 1e-4)
        keep = (F.max_pool2d(heat, (3, 3), stride=1, padding=1) == heat).float()
        return heat * keep, self.wh(x)


class YoloHead(nn.Module):
    """YOLO: boxes from a grid that is a buffer, in place as its code writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.m = conv(8, 14, 1)
        self.register_buffer("anchors", torch.tensor([[1.0, 2.0], [2.0, 1.0]]).view(1, 2, 1, 1, 2))
        yv, xv = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
        self.register_buffer("grid", torch.stack((xv, yv), 2).view(1, 1, 8, 8, 2).float())

    def forward(self, x: Tensor) -> Tensor:
        bs, _, ny, nx = x.shape
        y = self.m(x).view(bs, 2, 7, ny, nx).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
        y[..., 0:2] = (y[..., 0:2] * 2.0 - 0.5 + self.grid) * 4.0
        y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * self.anchors
        return y.view(bs, -1, 7)


class RepVgg(nn.Module):
    """RepVGG before its branches are merged."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Sequential(conv(8, 8, bias=False), nn.BatchNorm2d(8))
        self.one = nn.Sequential(conv(8, 8, 1, bias=False), nn.BatchNorm2d(8))
        self.identity = nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> Tensor:
        id_out = 0 if self.identity is None else self.identity(x)
        return F.relu(self.dense(x) + self.one(x) + id_out)


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


class AdditiveAttention(nn.Module):
    """Bahdanau: scores of all steps for one query."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.u, self.v = dense(), dense(), dense(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.v(torch.tanh(self.w(x[:, -1]).unsqueeze(1) + self.u(x))).squeeze(-1)
        return torch.bmm(F.softmax(scores, dim=1).unsqueeze(1), x).squeeze(1)


class Conformer(nn.Module):
    """The convolution module of a Conformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.depth = nn.LayerNorm(8), nn.Conv1d(8, 16, 1), nn.Conv1d(8, 8, 3, padding=1, groups=8)
        self.bn, self.down = nn.BatchNorm1d(8), nn.Conv1d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x).transpose(1, 2)
        y = F.silu(self.bn(self.depth(F.glu(self.up(y), dim=1))))
        return x + 0.5 * self.down(y).transpose(1, 2)


class PositionalEncoding(nn.Module):
    """The tutorial's sines, a buffer of more steps than are used."""

    def __init__(self) -> None:
        super().__init__()
        position = torch.arange(32).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, 8, 2) * (-math.log(10000.0) / 8))
        pe = torch.zeros(1, 32, 8)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe, persistent=False)
        self.f = dense()

    def forward(self, x: Tensor) -> Tensor:
        return self.f(x * math.sqrt(8) + self.pe[:, : x.size(1)].requires_grad_(False))


class RotaryAttention(nn.Module):
    """Llama: rotated halves, grouped heads, RMS norm in float, a gated MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = dense(), dense(8, 4), dense(8, 4), dense()
        self.gate, self.up, self.down = dense(8, 16, bias=False), dense(8, 16, bias=False), dense(16, 8, bias=False)
        self.weight = nn.Parameter(torch.ones(8))
        self.register_buffer("inv_freq", 1.0 / (10000 ** (torch.arange(0, 4, 2).float() / 4)), persistent=False)

    def norm(self, x: Tensor) -> Tensor:
        """Return the RMS norm."""
        kept = x.dtype
        x = x.to(torch.float32)
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)).to(kept)

    @staticmethod
    def rotate_half(x: Tensor) -> Tensor:
        """Return the halves of the last dimension swapped."""
        x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return torch.cat((-x2, x1), dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        y = self.norm(x)
        q, k, v = (f(y).view(b, t, -1, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        angles = torch.outer(torch.arange(t).type_as(self.inv_freq), self.inv_freq)
        emb = torch.cat((angles, angles), dim=-1)
        cos, sin = emb.cos()[None, None], emb.sin()[None, None]
        q, k = q * cos + self.rotate_half(q) * sin, k * cos + self.rotate_half(k) * sin
        k, v = (y[:, :, None].expand(b, 1, 2, t, 4).reshape(b, 2, t, 4) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, 8)
        x = x + self.o(y)
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Vit(nn.Module):
    """Patches by a convolution, a token of the class, positions, an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.cls = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 1, 8))
        self.pos = nn.Parameter(torch.randn(1, 5, 8) * 0.1)
        self.blocks = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu"), 1,
            enable_nested_tensor=False,
        )  # fmt: skip
        self.head = dense(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), dim=1) + self.pos
        return self.head(self.blocks(x)[:, 0])


class MixerBlock(nn.Module):
    """MLP-Mixer: layers over tokens, then over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.tokens, self.channels = (
            nn.Sequential(dense(6, 12), nn.GELU(), dense(12, 6)),
            nn.Sequential(dense(8, 16), nn.GELU(), dense(16, 8)),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.n2(x))


class UNet(nn.Module):
    """U-Net: pads what it upsamples to the size of what it joins it with."""

    def __init__(self) -> None:
        super().__init__()
        self.inc, self.down, self.up, self.out = conv(), conv(8, 8), nn.ConvTranspose2d(8, 8, 2, 2), conv(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x1 = F.relu(self.inc(x))
        x2 = self.up(F.relu(self.down(F.max_pool2d(x1, 2))))
        dy, dx = x1.size()[2] - x2.size()[2], x1.size()[3] - x2.size()[3]
        x2 = F.pad(x2, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.out(torch.cat([x1, x2], dim=1))


class Espcn(nn.Module):
    """Super-resolution by a pixel shuffle, clamped in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.shuffle = conv(3, 8, 5), conv(8, 12), nn.PixelShuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.shuffle(self.last(torch.tanh(self.first(x))))
        return torch.clamp_(x, 0.0, 1.0)


class DepthwiseResidual(nn.Module):
    """MobileNet: a residual where strides and channels allow it, channels rounded to eight."""

    def __init__(self) -> None:
        super().__init__()
        hidden = max(8, int(12 + 8 / 2) // 8 * 8)
        self.use_res_connect = True
        self.conv = nn.Sequential(
            conv(8, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True),
            conv(hidden, hidden, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True),
            conv(hidden, 8, 1, bias=False), nn.BatchNorm2d(8),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class DenseBlock(nn.Module):
    """DenseNet: a list of features that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(8 + 4 * i), nn.ReLU(inplace=True), conv(8 + 4 * i, 4)) for i in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        return torch.cat(features, 1)


class Involution(nn.Module):
    """Kernels made from the image, applied to its neighbourhoods."""

    def __init__(self) -> None:
        super().__init__()
        self.reduce, self.span, self.unfold = conv(8, 4, 1), conv(4, 18, 1), nn.Unfold(3, 1, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.span(self.reduce(x))
        b, _, h, w = weight.shape
        weight = weight.view(b, 2, 9, h, w).unsqueeze(2)
        out = self.unfold(x).view(b, 2, 4, 9, h, w)
        return (weight * out).sum(dim=3).view(b, 8, h, w)


class SpatialTransformer(nn.Module):
    """A soft argmax of heat maps, as regressors of key points have it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = conv(3, 4)
        self.register_buffer("xs", torch.linspace(-1, 1, 8))

    def forward(self, x: Tensor) -> Tensor:
        heat = self.body(x).flatten(2).softmax(-1).view(1, 4, 8, 8)
        return torch.stack([(heat.sum(2) * self.xs).sum(-1), (heat.sum(3) * self.xs).sum(-1)], -1)


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


def _add(name: str, make: Any, *inputs: Any) -> None:
    CASES.add(name, lambda: normed(make()), *inputs)


for name, make in {
    "swin": lambda: SwinWindows(0), "swin_shifted": lambda: SwinWindows(2), "patch_merging": PatchMerging,
    "res2net": Bottle2neck, "ghost": Ghost, "shuffle_unit": ShuffleUnit,
    "squeeze_excite": lambda: SqueezeExcite("linear"), "squeeze_excite_hard": lambda: SqueezeExcite("conv"),
    "efficient_channels": EfficientChannels, "coordinate_attention": CoordinateAttention, "cbam": Cbam,
    "convnext": ConvNext, "channels_first_norm": ChannelsFirstNorm, "mobile_vit": MobileVit, "repvgg": RepVgg,
    "yolo_head": YoloHead, "mobile_net": DepthwiseResidual, "dense_net": DenseBlock, "involution": Involution,
    "bc_resnet": KeywordSpotter, "gumbel_gate": GumbelGate,
}.items():  # fmt: skip
    _add(name, make, FEATURES)
for name, make in {
    "feature_pyramid": FeaturePyramid, "center_detector": CenterDetector, "unet": UNet, "espcn": Espcn, "vit": Vit,
    "soft_key_points": SpatialTransformer,
}.items():  # fmt: skip
    _add(name, make, IMAGE)
for name, make in {
    "gpt_attention": CausalAttention, "gpt_block": GptBlock, "packed_gru": PackedGru, "additive": AdditiveAttention,
    "conformer": Conformer, "positional_encoding": PositionalEncoding, "llama": RotaryAttention, "mixer": MixerBlock,
}.items():  # fmt: skip
    _add(name, make, TOKENS)
for name, make in {"gpt": Gpt, "lstm_classifier": LstmClassifier, "tagger": GatedTagger}.items():
    _add(name, make, WORDS)
_add("temporal", TemporalBlock, SIGNAL)
_add("tasnet", TasNet, (1, 1, 32))
_add("crnn", Crnn, (1, 1, 8, 12))

"""Transformers, attention and mixers of published networks, written as their public implementations are."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semantic_cases.case import conv, dense


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

"""Blocks for images of published networks, written as their public implementations are."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semantic_cases.case import conv, dense


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

"""Ordinary networks for images, small enough to be built in seconds: plain PyTorch, nothing written for a compiler."""

import torch
from torch import Tensor, nn
from torch.nn import functional


def _norm_relu(channels: int) -> nn.Sequential:
    return nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU())


class SqueezeExcite(nn.Module):
    """3x24x24 to 6 classes: channels weighted by what their means say, Hu et al., arXiv:1709.01507."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), _norm_relu(16))
        self.squeeze, self.excite = nn.Linear(16, 4), nn.Linear(4, 16)
        self.conv, self.classes = nn.Conv2d(16, 24, 3, padding=1), nn.Linear(24, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        factors = torch.sigmoid(self.excite(functional.relu(self.squeeze(x.mean(dim=(2, 3))))))
        x = functional.relu(self.conv(x * factors[:, :, None, None]))
        return self.classes(x.mean(dim=(2, 3)))


class Inception(nn.Module):
    """3x20x20 to 5 classes: branches of 1x1, 1x5 and 5x1, dilated 3x3 and pooling side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), _norm_relu(12))
        self.point = nn.Conv2d(12, 8, 1)
        self.asymmetric = nn.Sequential(
            nn.Conv2d(12, 8, (1, 5), padding=(0, 2)), nn.ReLU(), nn.Conv2d(8, 8, (5, 1), padding=(2, 0))
        )
        self.dilated = nn.Conv2d(12, 8, 3, padding=2, dilation=2)
        self.pooled = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), nn.Conv2d(12, 8, 1))
        self.norm, self.classes = _norm_relu(32), nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.norm(torch.cat([self.point(x), self.asymmetric(x), self.dilated(x), self.pooled(x)], dim=1))
        return self.classes(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class UNet(nn.Module):
    """1x24x24 to a mask: two levels down, and up again by interpolation or by transposed convolutions."""

    def __init__(self, *, bilinear: bool) -> None:
        super().__init__()
        self.first, self.second, self.bottom = self._pair(1, 8), self._pair(8, 12), self._pair(12, 16)
        self.pool = nn.MaxPool2d(2)
        if bilinear:
            self.up2: nn.Module = nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.Conv2d(16, 12, 1)
            )
            self.up1: nn.Module = nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(12, 8, 1)
            )
        else:
            self.up2, self.up1 = nn.ConvTranspose2d(16, 12, 2, stride=2), nn.ConvTranspose2d(12, 8, 2, stride=2)
        self.merge2, self.merge1, self.mask = self._pair(24, 12), self._pair(16, 8), nn.Conv2d(8, 1, 1)

    @staticmethod
    def _pair(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            _norm_relu(outputs),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            _norm_relu(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        one = self.first(x)
        two = self.second(self.pool(one))
        three = self.bottom(self.pool(two))
        two = self.merge2(torch.cat([two, self.up2(three)], dim=1))
        return torch.sigmoid(self.mask(self.merge1(torch.cat([one, self.up1(two)], dim=1))))


class ShuffleNet(nn.Module):
    """3x24x24 to 6 classes: grouped convolutions whose channels are shuffled, Zhang et al., arXiv:1707.01083."""

    GROUPS = 3

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 24, 3, stride=2, padding=1), _norm_relu(24))
        self.reduce = nn.Sequential(nn.Conv2d(24, 12, 1, groups=self.GROUPS), _norm_relu(12))
        self.depthwise = nn.Sequential(nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.BatchNorm2d(12))
        self.expand = nn.Sequential(nn.Conv2d(12, 24, 1, groups=self.GROUPS), nn.BatchNorm2d(24))
        self.classes = nn.Linear(24, 6)

    def _shuffle(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        x = x.view(batch, self.GROUPS, channels // self.GROUPS, height, width)
        return x.transpose(1, 2).reshape(batch, channels, height, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = functional.relu(x + self.expand(self.depthwise(self._shuffle(self.reduce(x)))))
        return self.classes(x.mean(dim=(2, 3)))


class Normalised(nn.Module):
    """3x16x16 to 5 classes: convolutions with norms of the sample itself."""

    def __init__(self, *norms: nn.Module) -> None:
        super().__init__()
        first, second = norms
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            first,
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 24, 3, padding=1),
            second,
            nn.SiLU(),
        )
        self.classes = nn.Linear(24, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.body(x).mean(dim=(2, 3)))


class TransposedAutoencoder(nn.Module):
    """1x14x14 through 8 numbers per place and back, by transposed convolutions with an output padding."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ReLU()
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(8, 8, 3, stride=2, padding=1, output_padding=0),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 3, stride=2, padding=1, output_padding=1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


class DenseBlock(nn.Module):
    """3x16x16 to 5 classes: every layer sees all before it, Huang et al., arXiv:1608.06993."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1)
        self.layers = nn.ModuleList(
            nn.Sequential(_norm_relu(12 + 6 * i), nn.Conv2d(12 + 6 * i, 6, 3, padding=1)) for i in range(3)
        )
        self.transition = nn.Sequential(_norm_relu(30), nn.Conv2d(30, 15, 1), nn.AvgPool2d(2))
        self.classes = nn.Linear(15, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], dim=1)
        return self.classes(functional.adaptive_avg_pool2d(self.transition(x), 1).flatten(1))


class MobileNetV3Block(nn.Module):
    """3x24x24 to 6 classes: an inverted residual with hard activations and squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12), nn.Hardswish())
        self.expand = nn.Sequential(nn.Conv2d(12, 36, 1), nn.BatchNorm2d(36), nn.Hardswish())
        self.depthwise = nn.Sequential(nn.Conv2d(36, 36, 5, padding=2, groups=36), nn.BatchNorm2d(36), nn.Hardswish())
        self.factors = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(36, 12, 1), nn.ReLU(), nn.Conv2d(12, 36, 1), nn.Hardsigmoid()
        )
        self.project = nn.Sequential(nn.Conv2d(36, 12, 1), nn.BatchNorm2d(12))
        self.classes = nn.Sequential(nn.Linear(12, 24), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(24, 6))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        inner = self.depthwise(self.expand(x))
        x = x + self.project(inner * self.factors(inner))
        return self.classes(x.mean(dim=(2, 3)))


class DilatedSeparable(nn.Module):
    """1x20x20 to a map: depthwise convolutions with growing gaps, reflected borders."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 12, 3, padding=1, padding_mode="reflect")
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(12, 12, 3, padding=d, dilation=d, groups=12), nn.Conv2d(12, 12, 1), _norm_relu(12)
                )
                for d in (1, 2, 4)
            )
        )
        self.map = nn.Conv2d(12, 1, 3, padding=1, padding_mode="replicate")

    def forward(self, x: Tensor) -> Tensor:
        return self.map(self.blocks(functional.relu(self.stem(x))))


class PooledShortcut(nn.Module):
    """3x24x24 to 6 classes: ResNet-D's residual, whose shortcut is an average pool and a 1x1 convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), _norm_relu(12))
        self.body = nn.Sequential(
            nn.Conv2d(12, 20, 3, stride=2, padding=1),
            _norm_relu(20),
            nn.Conv2d(20, 20, 3, padding=1),
            nn.BatchNorm2d(20),
        )
        self.shortcut = nn.Sequential(
            nn.AvgPool2d(2, stride=2, ceil_mode=True, count_include_pad=False), nn.Conv2d(12, 20, 1)
        )
        self.classes = nn.Linear(20, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = functional.relu(self.body(x) + self.shortcut(x))
        return self.classes(x.amax(dim=(2, 3)))


class SuperResolution(nn.Module):
    """1x12x12 to 1x24x24 by sub-pixel convolution and plain upsampling, Shi et al., arXiv:1609.05158."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + functional.interpolate(x, scale_factor=2, mode="nearest")


class Segmentation(nn.Module):
    """3x20x20 to the probabilities of 4 classes for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 12, 3, stride=2, padding=1), _norm_relu(12), nn.Conv2d(12, 12, 3, padding=2, dilation=2)
        )
        self.head = nn.Conv2d(12, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.head(functional.leaky_relu(self.body(x), 0.1))
        y = functional.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)
        return torch.softmax(y, dim=1)


class Siamese(nn.Module):
    """Two images of 1x16x16 to the cosine between their embeddings, and both embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 12, 3, stride=2, padding=1), nn.ReLU()
        )
        self.embedding = nn.Linear(12 * 4 * 4, 16)

    def _embed(self, x: Tensor) -> Tensor:
        return functional.normalize(self.embedding(self.body(x).flatten(1)), dim=1)

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        one, two = self._embed(first), self._embed(second)
        return (one * two).sum(dim=1), torch.abs(one - two)

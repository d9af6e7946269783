"""The four MLPerf Tiny topologies, in channels-first PyTorch, with seeded weights.

Shapes follow the MLPerf Tiny v1 closed-division reference networks (Banbury et al., "MLPerf Tiny Benchmark",
arXiv:2106.07597): keyword spotting (DS-CNN), image classification (ResNet-8), visual wake words (MobileNetV1 0.25) and
anomaly detection (deep autoencoder).
"""

from itertools import pairwise

import torch
from seeding import Example, seeded
from torch import Tensor, nn


def _conv_bn_relu(
    cin: int,
    cout: int,
    kernel: int | tuple[int, int],
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    groups: int = 1,
) -> list[nn.Module]:
    return [
        nn.Conv2d(cin, cout, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(),
    ]


def _separable(cin: int, cout: int, stride: int = 1) -> list[nn.Module]:
    """Depthwise 3x3 then pointwise 1x1, each with batch norm and ReLU."""
    return _conv_bn_relu(cin, cin, 3, stride, 1, groups=cin) + _conv_bn_relu(cin, cout, 1)


class DsCnn(nn.Module):
    """Keyword spotting: 49x10 MFCC map to 12 classes."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        layers = _conv_bn_relu(1, channels, (10, 4), 2, (5, 1))
        for _ in range(4):
            layers += _separable(channels, channels)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, 12)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions; a strided 1x1 shortcut where the shape changes."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_conv_bn_relu(cin, cout, 3, stride, 1),
            nn.Conv2d(cout, cout, 3, 1, 1, bias=False),
            nn.BatchNorm2d(cout),
        )
        self.shortcut = nn.Identity() if stride == 1 and cin == cout else nn.Conv2d(cin, cout, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet8(nn.Module):
    """Image classification: 3x32x32 to 10 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_conv_bn_relu(3, 16, 3, 1, 1),
            ResidualBlock(16, 16, 1),
            ResidualBlock(16, 32, 2),
            ResidualBlock(32, 64, 2),
            nn.AvgPool2d(8),
        )
        self.classifier = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.classifier(self.features(x).flatten(1)), dim=-1)


class MobileNetV1Quarter(nn.Module):
    """Visual wake words: 3x96x96 to 2 classes, width 0.25."""

    def __init__(self) -> None:
        super().__init__()
        layers = _conv_bn_relu(3, 8, 3, 2, 1)
        widths = [(8, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2)]
        widths += [(128, 128, 1)] * 5 + [(128, 256, 2), (256, 256, 1)]
        for cin, cout, stride in widths:
            layers += _separable(cin, cout, stride)
        self.features = nn.Sequential(*layers, nn.AvgPool2d(3))
        self.classifier = nn.Linear(256, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).flatten(1))


class DeepAutoencoder(nn.Module):
    """Anomaly detection: 640 log-mel features reconstructed through an 8-wide bottleneck."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        widths = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
        for cin, cout in pairwise(widths):
            layers += [nn.Linear(cin, cout), nn.BatchNorm1d(cout), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Linear(128, 640))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


def ds_cnn(channels: int = 64) -> Example:
    """Keyword spotting; MLPerf Tiny's network has 64 channels."""
    return seeded(lambda: DsCnn(channels), (1, 49, 10))


def resnet8() -> Example:
    """Image classification."""
    return seeded(ResNet8, (3, 32, 32))


def mobilenet_v1_025() -> Example:
    """Visual wake words."""
    return seeded(MobileNetV1Quarter, (3, 96, 96))


def deep_autoencoder() -> Example:
    """Anomaly detection."""
    return seeded(DeepAutoencoder, (640,))

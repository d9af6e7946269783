"""MobileNetV1 1.0 224 (Howard et al., arXiv:1704.04861, table 1), channels-first, with seeded weights."""

from itertools import pairwise

from seeding import Example, seeded
from torch import Tensor, nn


def _conv_bn_relu(cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(cout), nn.ReLU6()]


class MobileNetV1(nn.Module):
    """3x224x224 to 1000 classes."""

    WIDTHS = (32, 64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
    STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
    """Widths after the first convolution and after each of the thirteen separable ones, and the strides of those."""

    def __init__(self) -> None:
        super().__init__()
        layers = _conv_bn_relu(3, self.WIDTHS[0], 3, 2)
        for (cin, cout), stride in zip(pairwise(self.WIDTHS), self.STRIDES, strict=True):
            layers += _conv_bn_relu(cin, cin, 3, stride, groups=cin) + _conv_bn_relu(cin, cout, 1)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(self.WIDTHS[-1], 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


def mobilenet_v1() -> Example:
    """The network with seeded weights."""
    return seeded(MobileNetV1, (3, 224, 224))

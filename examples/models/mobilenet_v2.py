"""MobileNetV2 1.0 224 (Sandler et al., arXiv:1801.04381, table 2), channels-first, with seeded weights."""

from seeding import Example, seeded
from torch import Tensor, nn


def _conv_bn(cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1, act: bool = True) -> list[nn.Module]:
    layers: list[nn.Module] = [
        nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(cout),
    ]
    return [*layers, nn.ReLU6()] if act else layers


class InvertedResidual(nn.Module):
    """Expand 1x1, depthwise 3x3, project 1x1; the input is added where stride is 1 and the width stays."""

    def __init__(self, cin: int, cout: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = cin * expand
        self.residual = stride == 1 and cin == cout
        self.body = nn.Sequential(
            *(_conv_bn(cin, hidden, 1) if expand != 1 else []),
            *_conv_bn(hidden, hidden, 3, stride, groups=hidden),
            *_conv_bn(hidden, cout, 1, act=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y if self.residual else y


class MobileNetV2(nn.Module):
    """3x224x224 to 1000 classes."""

    # expansion, output width, repeats, stride of the first repeat
    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self) -> None:
        super().__init__()
        layers = _conv_bn(3, 32, 3, 2)
        cin = 32
        for expand, cout, repeats, stride in self.STAGES:
            for i in range(repeats):
                layers.append(InvertedResidual(cin, cout, stride if i == 0 else 1, expand))
                cin = cout
        self.features = nn.Sequential(*layers, *_conv_bn(cin, 1280, 1))
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


def mobilenet_v2() -> Example:
    """The network with seeded weights."""
    return seeded(MobileNetV2, (3, 224, 224))

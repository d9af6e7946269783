"""Networks whose times on silicon are published and that are no reference models; weights are seeded."""

import torch
from torch import Tensor, nn

Example = tuple[nn.Module, tuple[Tensor, ...], list[tuple[Tensor, ...]]]


class CifarNet(nn.Module):
    """Three convolutions of 5 x 5, each with a pool, and a linear layer: 32 x 32 pixels in ten classes."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for cin, cout in ((3, 32), (32, 32), (32, 64)):
            layers += [nn.Conv2d(cin, cout, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(4 * 4 * 64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).flatten(1)).softmax(1)


def _layers(cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    layer = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(cout), nn.ReLU6()]


class MobileNetV1Quarter(nn.Module):
    """MobileNetV1 0.25 of 128 x 128 pixels in 1,001 classes."""

    BLOCKS = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1))

    def __init__(self) -> None:
        super().__init__()
        layers, cin = _layers(3, 8, 3, 2), 8
        for cout, stride in self.BLOCKS:
            layers += [*_layers(cin, cin, 3, stride, cin), *_layers(cin, cout, 1)]
            cin = cout
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(cin, 1001)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3))).softmax(1)


def _example(network: type[nn.Module], pixels: int) -> Example:
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, pixels, pixels),)
    return network().eval(), inputs, [inputs]


def cifarnet() -> Example:
    return _example(CifarNet, 32)


def mobilenet_v1_025_128() -> Example:
    return _example(MobileNetV1Quarter, 128)

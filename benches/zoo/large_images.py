"""Networks for large images: intermediate results need far more memory than weights.

Like the reference models, they have seeded weights (`examples/models/seeding.py`). Shapes are those of the papers that
they are named after, except for numbers of channels that would only add weights.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from torch import Tensor, nn

from zoo.images import UNet

MODELS = Path(__file__).resolve().parents[2] / "examples" / "models"
sys.path.insert(0, str(MODELS))

from mlperf_tiny import ResNet8, mobilenet_v1_025  # noqa: E402
from mobilenet_v1 import mobilenet_v1  # noqa: E402
from mobilenet_v2 import mobilenet_v2  # noqa: E402
from seeding import Example, seeded  # noqa: E402


class WideResNet8(ResNet8):
    """3x224x224 to 10 classes: the residual blocks of MLPerf Tiny's image classification on a larger image."""

    def __init__(self) -> None:
        super().__init__()
        self.features[-1] = nn.AvgPool2d(56)


class InvertedBottleneck(nn.Module):
    """Expansion, depthwise convolution and projection, around which the input passes where shapes allow it."""

    def __init__(self, cin: int, cout: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = cin * expansion
        layers = [nn.Conv2d(cin, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()] if expansion > 1 else []
        self.layers = nn.Sequential(
            *layers,
            nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(),
            nn.Conv2d(inner, cout, 1, bias=False),
            nn.BatchNorm2d(cout),
        )
        self.adds = stride == 1 and cin == cout

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


class EfficientNetLite(nn.Module):
    """3x160x160 to 10 classes: the stages of EfficientNet-Lite0 (Tan and Le, arXiv:1905.11946) down to a 32nd."""

    STAGES = (
        (16, 3, 1, 1, 1),
        (24, 3, 2, 6, 2),
        (40, 5, 2, 6, 2),
        (80, 3, 2, 6, 3),
        (112, 5, 1, 6, 2),
        (160, 5, 2, 6, 1),
    )
    """Channels, kernel, stride, expansion and blocks of each stage, behind a first convolution with 32 filters."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
        channels = 32
        for width, kernel, stride, expansion, blocks in self.STAGES:
            for block in range(blocks):
                layers.append(InvertedBottleneck(channels, width, kernel, 1 if block else stride, expansion))
                channels = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


LARGE_IMAGES: Mapping[str, Callable[[], Example]] = MappingProxyType(
    {
        "mobilenet_v2": mobilenet_v2,
        "mobilenet_v1": mobilenet_v1,
        "mobilenet_v1_025": mobilenet_v1_025,
        "resnet8_224": partial(seeded, WideResNet8, (3, 224, 224)),
        "unet_128": partial(seeded, partial(UNet, bilinear=False), (1, 128, 128)),
        "efficientnet_lite_160": partial(seeded, EfficientNetLite, (3, 160, 160)),
    }
)
"""Networks by name."""

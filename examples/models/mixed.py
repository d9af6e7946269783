"""Small networks whose operators are for the NPU and the CPU of a chip together, with seeded weights."""

from seeding import Example, seeded
from torch import Tensor, cat, nn, softmax
from torch.nn import functional


class SqueezeExcite(nn.Module):
    """Each channel times a factor that is computed from the means of all channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 4, 1)
        self.expand = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        means = functional.adaptive_avg_pool2d(x, 1)
        return x * functional.hardsigmoid(self.expand(functional.relu(self.reduce(means))))


class Block(nn.Module):
    """Expand 1x1, depthwise 3x3, squeeze and excite, project 1x1 (Howard et al., arXiv:1905.02244, figure 4)."""

    def __init__(self, cin: int, hidden: int, cout: int, stride: int) -> None:
        super().__init__()
        self.residual = stride == 1 and cin == cout
        self.body = nn.Sequential(
            nn.Conv2d(cin, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.Hardswish(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.Hardswish(),
            SqueezeExcite(hidden),
            nn.Conv2d(hidden, cout, 1, bias=False),
            nn.BatchNorm2d(cout),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y if self.residual else y


class MobileNetV3Blocks(nn.Module):
    """3x32x32 to 10 classes: three blocks of MobileNetV3 between a convolution and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.Hardswish(),
            Block(16, 32, 16, 1),
            Block(16, 32, 24, 2),
            Block(24, 48, 24, 1),
        )
        self.classifier = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


class EncoderDecoder(nn.Module):
    """1x32x32 to 2 maps of the same size: strided convolutions down, a transposed one and upsampling back up."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 16, 2, 2)
        self.join = nn.Sequential(nn.Conv2d(32, 8, 3, padding=1), nn.ReLU())
        self.last = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        down = self.down(first)
        joined = self.join(cat([self.up(self.deep(down)), down], 1))
        return self.last(cat([functional.interpolate(joined, scale_factor=2.0, mode="nearest"), first], 1))


class Attention(nn.Module):
    """16 tokens of 32 numbers to 16 of 32: one head of attention and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(1, 2)
        scores = self.query(tokens) @ self.key(tokens).transpose(1, 2)
        return tokens + self.out(softmax(scores * 32**-0.5, -1) @ self.value(tokens))


class RefusedMiddle(nn.Module):
    """3x32x32 to 10 classes, with a pool between its convolutions that the NPU does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, 2, 1)
        self.second = nn.Conv2d(16, 24, 3, padding=1)
        self.third = nn.Conv2d(24, 24, 3, padding="same", groups=24)
        self.classifier = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.gelu(self.first(x))
        x = functional.avg_pool2d(functional.silu(self.second(x)), 3, 2, 1, ceil_mode=True)
        x = functional.relu6(self.third(x)) * 1.5 - 0.25
        return self.classifier(x.mean((2, 3)))


def mobilenet_v3_blocks() -> Example:
    """The block stack with seeded weights."""
    return seeded(MobileNetV3Blocks, (3, 32, 32))


def encoder_decoder() -> Example:
    """The encoder and decoder with seeded weights."""
    return seeded(EncoderDecoder, (1, 32, 32))


def attention() -> Example:
    """The attention block with seeded weights."""
    return seeded(Attention, (1, 16, 32))


def refused_middle() -> Example:
    """The network with operators in its middle that the NPU refuses, with seeded weights."""
    return seeded(RefusedMiddle, (3, 32, 32))

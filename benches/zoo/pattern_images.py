"""Ordinary patterns of activations and of images, each the way that PyTorch code writes it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as models write it

from zoo.pattern import IMAGE, VECTOR, Pattern, Written, conv, sequence


def activations() -> list[Pattern]:
    """Every activation between two convolutions, and written out by hand."""
    modules: dict[str, Callable[[], nn.Module]] = {
        "relu": nn.ReLU, "relu6": nn.ReLU6, "silu": nn.SiLU, "hardswish": nn.Hardswish, "hardsigmoid": nn.Hardsigmoid,
        "gelu": nn.GELU, "gelu_tanh": lambda: nn.GELU("tanh"), "mish": nn.Mish, "elu": nn.ELU, "celu": nn.CELU,
        "selu": nn.SELU, "softplus": nn.Softplus, "softsign": nn.Softsign, "logsigmoid": nn.LogSigmoid,
        "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "leaky_relu": lambda: nn.LeakyReLU(0.1), "hardtanh": nn.Hardtanh,
        "prelu": nn.PReLU, "prelu_channels": lambda: nn.PReLU(8), "tanhshrink": nn.Tanhshrink,
        "softshrink": nn.Softshrink, "hardshrink": nn.Hardshrink, "threshold": lambda: nn.Threshold(0.1, 0.0),
    }  # fmt: skip
    listed = [
        Pattern(f"act_{name}", lambda make=make: nn.Sequential(conv(), make(), conv(8, 4)), (IMAGE,))
        for name, make in modules.items()
    ]
    written: dict[str, Callable[[Tensor], Tensor]] = {
        "swish": lambda x: x * torch.sigmoid(x),
        "hswish": lambda x: x * F.relu6(x + 3) / 6,
        "mish": lambda x: x * torch.tanh(F.softplus(x)),
        "gelu": lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)),
        "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
        "square": lambda x: x**2,
        "squared_relu": lambda x: F.relu(x) ** 2,
        "abs_sqrt": lambda x: torch.sqrt(torch.abs(x) + 1e-5),
        "scaled_tanh": lambda x: 1.7 * torch.tanh(x * 0.67),
        "snake": lambda x: x + torch.sin(x) ** 2,
        "reciprocal": lambda x: 1 / (1 + x.abs()),
        "clamp_scale": lambda x: x.clamp(-1, 1) * 0.5 + 0.5,
        "log1p": lambda x: torch.log1p(x.abs()),
        "exp": lambda x: torch.exp(-x.abs()),
        "minimum": lambda x: torch.clamp_max(x, 0.5),
    }
    listed += [
        Pattern(
            f"written_{name}",
            lambda function=function: Written(
                lambda self, x: self.second(function(self.first(x))), first=conv(), second=conv(8, 4)
            ),
            (IMAGE,),
        )
        for name, function in written.items()
    ]
    listed += [
        Pattern(
            f"linear_{name}", lambda make=make: nn.Sequential(nn.Linear(16, 24), make(), nn.Linear(24, 8)), (VECTOR,)
        )
        for name, make in (("silu", nn.SiLU), ("gelu", nn.GELU), ("tanh", nn.Tanh), ("sigmoid", nn.Sigmoid))
    ]
    return listed


class SqueezeExcite(nn.Module):
    """Channels weighted by what their means say."""

    def __init__(self, channels: int, gate: nn.Module) -> None:
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, channels // 2, 1), nn.Conv2d(channels // 2, channels, 1)
        self.gate = gate

    def forward(self, x: Tensor) -> Tensor:
        """The weighted channels."""
        weights = self.expand(F.relu(self.reduce(F.adaptive_avg_pool2d(x, 1))))
        return x * self.gate(weights)


def _inverted(activation: nn.Module, *, excite: nn.Module | None) -> nn.Module:
    """A block of MobileNetV3 or EfficientNet."""
    layers = [nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16), activation]
    layers += [nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), activation]
    layers += [SqueezeExcite(16, excite)] if excite is not None else []
    layers += [nn.Conv2d(16, 8, 1, bias=False), nn.BatchNorm2d(8)]
    return nn.Sequential(*layers)


def images() -> list[Pattern]:  # noqa: C901 - a function per pattern
    """Pattern of images."""

    def residual(self: Any, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        return F.relu(x + self.norm(self.conv(x)))

    def pooled(self: Any, x: Tensor) -> Tensor:
        x = self.pool(F.relu(self.stem(x)))
        return x + self.conv(x)

    def block(self: Any, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.head((x + self.block(x)).mean((2, 3)))

    def dense(self: Any, x: Tensor) -> Tensor:
        x = torch.cat([x, self.first(x)], 1)
        return torch.cat([x, self.second(F.relu(self.norm(x)))], 1)

    def preactivation(self: Any, x: Tensor) -> Tensor:
        x = self.stem(x)
        return x + self.conv(F.relu(self.norm(x)))

    def shuffled(self: Any, x: Tensor) -> Tensor:
        left, right = self.stem(x).chunk(2, dim=1)
        x = torch.cat([left, F.relu(self.conv(right))], 1)
        n, c, h, w = x.shape
        return self.point(x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w))

    def unet(self: Any, x: Tensor) -> Tensor:
        skip = F.relu(self.down(x))
        x = F.interpolate(F.relu(self.bottom(F.max_pool2d(skip, 2))), scale_factor=2, **self.options)
        return self.up(torch.cat([x, skip], 1))

    def unet_of(**options: Any) -> Callable[[], nn.Module]:
        def make() -> nn.Module:
            module = Written(unet, down=conv(), bottom=conv(8, 8), up=conv(16, 2))
            module.options = options
            return module

        return make

    def branches(self: Any, x: Tensor) -> Tensor:
        return torch.cat([self.one(x), self.three(x), F.max_pool2d(x, 3, 1, 1)], 1)

    def twice(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.stem(x))
        return x, self.conv(x)

    def shared(self: Any, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.conv(F.relu(self.conv(F.relu(x))))

    def global_max(self: Any, x: Tensor) -> Tensor:
        return self.head(torch.amax(F.relu(self.stem(x)), dim=(2, 3)))

    def two_heads(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.stem(x)).mean((2, 3))
        return self.boxes(x), F.softmax(self.classes(x), dim=1)

    def normalised(self: Any, x: Tensor) -> Tensor:
        return self.stem((x - self.mean) / self.std)

    def gated(self: Any, x: Tensor) -> Tensor:
        return torch.sigmoid(self.gate(x)) * torch.tanh(self.value(x))

    def attention(self: Any, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        both = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return x * torch.sigmoid(self.conv(both))

    def argmaxed(self: Any, x: Tensor) -> Tensor:
        return self.conv(F.relu(self.stem(x))).argmax(1)

    def scaled(self: Any, x: Tensor) -> Tensor:
        x = self.stem(x)
        return x + self.gamma * self.conv(x)

    pair = {"stem": conv, "conv": lambda: conv(8, 8)}

    def parts(*names: str) -> dict[str, nn.Module]:
        return {name: pair[name]() for name in names}

    def vector(value: float, count: int) -> nn.Parameter:
        return nn.Parameter(torch.linspace(0.5, 1.5, count).view(1, count, 1, 1) * value)

    return [
        Pattern("conv_bn_relu", sequence(conv(), nn.BatchNorm2d(8), nn.ReLU()), (IMAGE,)),
        Pattern("conv_stride", sequence(conv(stride=2), nn.ReLU6(), conv(8, 8, stride=2)), (IMAGE,)),
        Pattern("conv_dilated", sequence(conv(padding=2, dilation=2), nn.ReLU()), (IMAGE,)),
        Pattern("conv_reflect", sequence(conv(padding_mode="reflect"), nn.ReLU()), (IMAGE,)),
        Pattern("conv_circular", sequence(conv(padding_mode="circular"), nn.ReLU()), (IMAGE,)),
        Pattern("conv_same", sequence(conv(padding="same", size=4), nn.ReLU()), (IMAGE,)),
        Pattern("conv_grouped", sequence(conv(3, 8), nn.ReLU(), conv(8, 8, groups=4)), (IMAGE,)),
        Pattern("depthwise", sequence(conv(), conv(8, 8, groups=8), nn.ReLU(), nn.Conv2d(8, 4, 1)), (IMAGE,)),
        Pattern("depthwise_multiplier", sequence(nn.Conv2d(3, 12, 3, groups=3), nn.ReLU()), (IMAGE,)),
        Pattern("transposed", sequence(conv(stride=2), nn.ReLU(), nn.ConvTranspose2d(8, 4, 2, 2)), (IMAGE,)),
        Pattern(
            "transposed_padded",
            sequence(conv(stride=2), nn.ReLU(), nn.ConvTranspose2d(8, 4, 3, 2, padding=1, output_padding=1)),
            (IMAGE,),
        ),
        Pattern("bn_first", sequence(nn.BatchNorm2d(3), conv(), nn.ReLU()), (IMAGE,)),
        Pattern("bn_last", sequence(conv(), nn.ReLU(), nn.BatchNorm2d(8)), (IMAGE,)),
        Pattern("maxpool", sequence(conv(), nn.ReLU(), nn.MaxPool2d(2), conv(8, 4)), (IMAGE,)),
        Pattern("maxpool_padded", sequence(conv(), nn.ReLU(), nn.MaxPool2d(3, 2, 1), conv(8, 4)), (IMAGE,)),
        Pattern("avgpool", sequence(conv(), nn.ReLU(), nn.AvgPool2d(2), conv(8, 4)), (IMAGE,)),
        Pattern("avgpool_padded", sequence(conv(), nn.AvgPool2d(3, 2, 1), conv(8, 4)), (IMAGE,)),
        Pattern(
            "classifier",
            sequence(conv(stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)),
            (IMAGE,),
        ),
        Pattern("adaptive_2", sequence(conv(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5)), (IMAGE,)),
        Pattern("adaptive_max", sequence(conv(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8, 5)), (IMAGE,)),
        Pattern("flatten_head", sequence(conv(stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(128, 10)), (IMAGE,)),
        Pattern("dropout", sequence(conv(), nn.ReLU(), nn.Dropout2d(), nn.Flatten(), nn.Linear(2048, 4)), (IMAGE,)),
        Pattern("softmax_head", sequence(nn.Flatten(), nn.Linear(768, 10), nn.Softmax(dim=1)), (IMAGE,)),
        Pattern("log_softmax_head", sequence(nn.Flatten(), nn.Linear(768, 10), nn.LogSoftmax(dim=1)), (IMAGE,)),
        Pattern("segmentation", sequence(conv(), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.Softmax(dim=1)), (IMAGE,)),
        Pattern("segmentation_argmax", lambda: Written(argmaxed, stem=conv(), conv=nn.Conv2d(8, 4, 1)), (IMAGE,)),
        Pattern("residual", lambda: Written(residual, **parts("stem", "conv"), norm=nn.BatchNorm2d(8)), (IMAGE,)),
        Pattern("residual_pooled", lambda: Written(pooled, **parts("stem", "conv"), pool=nn.MaxPool2d(2)), (IMAGE,)),
        Pattern(
            "preactivation", lambda: Written(preactivation, **parts("stem", "conv"), norm=nn.BatchNorm2d(8)), (IMAGE,)
        ),
        Pattern(
            "mobilenet_v3",
            lambda: Written(
                block,
                stem=conv(stride=2),
                head=nn.Linear(8, 5),
                block=_inverted(nn.Hardswish(), excite=nn.Hardsigmoid()),
            ),
            (IMAGE,),
        ),
        Pattern(
            "efficientnet",
            lambda: Written(
                block, stem=conv(stride=2), head=nn.Linear(8, 5), block=_inverted(nn.SiLU(), excite=nn.Sigmoid())
            ),
            (IMAGE,),
        ),
        Pattern(
            "mobilenet_v2",
            lambda: Written(block, stem=conv(stride=2), head=nn.Linear(8, 5), block=_inverted(nn.ReLU6(), excite=None)),
            (IMAGE,),
        ),
        Pattern(
            "dense_block",
            lambda: Written(dense, first=conv(3, 4), norm=nn.BatchNorm2d(7), second=conv(7, 4)),
            (IMAGE,),
        ),
        Pattern("shuffle", lambda: Written(shuffled, stem=conv(), conv=conv(4, 4), point=nn.Conv2d(8, 4, 1)), (IMAGE,)),
        Pattern("unet_nearest", unet_of(mode="nearest"), (IMAGE,)),
        Pattern("unet_bilinear", unet_of(mode="bilinear", align_corners=False), (IMAGE,)),
        Pattern("unet_aligned", unet_of(mode="bilinear", align_corners=True), (IMAGE,)),
        Pattern("upsample_x3", sequence(conv(), nn.Upsample(scale_factor=3), conv(8, 4)), ((1, 3, 6, 6),)),
        Pattern("pixel_shuffle", sequence(conv(3, 16), nn.ReLU(), nn.PixelShuffle(2), conv(4, 3)), (IMAGE,)),
        Pattern("pixel_unshuffle", sequence(nn.PixelUnshuffle(2), conv(12, 8), nn.ReLU()), (IMAGE,)),
        Pattern("inception", lambda: Written(branches, one=nn.Conv2d(3, 4, 1), three=conv(3, 4)), (IMAGE,)),
        Pattern("two_outputs", lambda: Written(twice, **parts("stem", "conv")), (IMAGE,)),
        Pattern("shared_module", lambda: Written(shared, **parts("stem", "conv")), (IMAGE,)),
        Pattern("global_max", lambda: Written(global_max, stem=conv(), head=nn.Linear(8, 4)), (IMAGE,)),
        Pattern(
            "two_heads",
            lambda: Written(two_heads, stem=conv(), boxes=nn.Linear(8, 4), classes=nn.Linear(8, 3)),
            (IMAGE,),
        ),
        Pattern(
            "normalised_input",
            lambda: Written(normalised, stem=conv(), mean=vector(0.4, 3), std=vector(0.6, 3)),
            (IMAGE,),
        ),
        Pattern("gated_conv", lambda: Written(gated, gate=conv(), value=conv()), (IMAGE,)),
        Pattern("spatial_attention", lambda: Written(attention, stem=conv(), conv=conv(2, 1, 7)), (IMAGE,)),
        Pattern("layer_scale", lambda: Written(scaled, **parts("stem", "conv"), gamma=vector(0.3, 8)), (IMAGE,)),
        Pattern("group_norm", sequence(conv(), nn.GroupNorm(2, 8), nn.ReLU(), conv(8, 4)), (IMAGE,)),
        Pattern("instance_norm", sequence(conv(), nn.InstanceNorm2d(8, affine=True), nn.ReLU()), (IMAGE,)),
        Pattern("glu_image", sequence(conv(), nn.GLU(dim=1), conv(4, 4)), (IMAGE,)),
        Pattern("zero_pad", sequence(nn.ZeroPad2d((1, 2, 1, 2)), nn.Conv2d(3, 8, 3), nn.ReLU()), (IMAGE,)),
        Pattern("reflection_pad", sequence(nn.ReflectionPad2d(1), nn.Conv2d(3, 8, 3), nn.ReLU()), (IMAGE,)),
        Pattern("replication_pad", sequence(nn.ReplicationPad2d(1), nn.Conv2d(3, 8, 3), nn.ReLU()), (IMAGE,)),
        Pattern("local_response", sequence(conv(), nn.ReLU(), nn.LocalResponseNorm(3)), (IMAGE,)),
        Pattern("conv3d", sequence(nn.Conv3d(1, 4, 3, padding=1), nn.ReLU()), ((1, 1, 4, 8, 8),)),
    ]

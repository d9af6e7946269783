"""Norms in all modes, pools, paddings, interpolation, convolutions, and activations by layer."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semantic_cases.case import IMAGE, SIGNAL, TOKENS, VECTOR, Cases, Written, conv, conv1, dense, normed

CASES = Cases("layers")


class GeneralisedMean(nn.Module):
    """Pools by the mean of powers, whose exponent is learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.c, self.p = conv(), nn.Parameter(torch.full((1,), 3.0))

    def forward(self, x: Tensor) -> Tensor:
        x = self.c(x).clamp(min=1e-6).pow(self.p)
        return F.avg_pool2d(x, (x.size(-2), x.size(-1))).pow(1.0 / self.p).flatten(1)


class InterleavedRotary(nn.Module):
    """Rotates pairs of neighbouring features into a tensor of unknown elements."""

    def __init__(self) -> None:
        super().__init__()
        self.f = dense()
        angles = torch.outer(torch.arange(6.0), torch.tensor([1.0, 0.3, 0.1, 0.03]))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x: Tensor) -> Tensor:
        x = self.f(x)
        even, odd = x[..., ::2], x[..., 1::2]
        rotated = torch.empty_like(x)
        rotated[..., ::2] = even * self.cos - odd * self.sin
        rotated[..., 1::2] = even * self.sin + odd * self.cos
        return rotated


ODD = (1, 3, 9, 7)
VOLUME = (1, 2, 4, 6, 6)


def layer(name: str, make: Callable[[], nn.Module], *inputs: Any) -> None:
    """Add a layer behind a convolution of 8 channels where it takes an image or a signal, else alone."""
    if inputs and inputs[0] in (IMAGE, ODD):
        CASES.add(name, lambda: nn.Sequential(conv(), normed(make())), *inputs)
    elif inputs and inputs[0] == SIGNAL:
        CASES.add(name, lambda: nn.Sequential(conv1(), normed(make())), *inputs)
    else:
        CASES.add(name, lambda: nn.Sequential(normed(make())), *inputs)


layer("batch_norm", lambda: nn.BatchNorm2d(8), IMAGE)
layer("batch_norm_without_affine", lambda: nn.BatchNorm2d(8, affine=False), IMAGE)
layer("batch_norm_without_statistics", lambda: nn.BatchNorm2d(8, track_running_stats=False), IMAGE)
layer("batch_norm_large_eps", lambda: nn.BatchNorm2d(8, eps=0.5), IMAGE)
layer("batch_norm_1d_of_signal", lambda: nn.BatchNorm1d(8), SIGNAL)
layer("batch_norm_1d_of_vector", lambda: nn.Sequential(dense(), nn.BatchNorm1d(8)), VECTOR)
layer("batch_norm_first", lambda: nn.BatchNorm1d(8), VECTOR)
layer("instance_norm", lambda: nn.InstanceNorm2d(8), IMAGE)
layer("instance_norm_affine", lambda: nn.InstanceNorm2d(8, affine=True), IMAGE)
layer("instance_norm_with_statistics", lambda: nn.InstanceNorm2d(8, track_running_stats=True), IMAGE)
layer("instance_norm_1d", lambda: nn.InstanceNorm1d(8, affine=True), SIGNAL)
layer("group_norm", lambda: nn.GroupNorm(2, 8), IMAGE)
layer("group_norm_of_one", lambda: nn.GroupNorm(1, 8), IMAGE)
layer("group_norm_of_each", lambda: nn.GroupNorm(8, 8, affine=False), IMAGE)
layer("group_norm_of_vector", lambda: nn.GroupNorm(4, 8), VECTOR)
layer("layer_norm", lambda: nn.LayerNorm(8), TOKENS)
layer("layer_norm_without_affine", lambda: nn.LayerNorm(8, elementwise_affine=False), TOKENS)
layer("layer_norm_without_bias", lambda: nn.LayerNorm(8, bias=False), TOKENS)
layer("layer_norm_of_two", lambda: nn.LayerNorm((6, 8)), TOKENS)
layer("layer_norm_of_image", lambda: nn.LayerNorm((8, 8, 8)), IMAGE)
layer("rms_norm", lambda: nn.RMSNorm(8), TOKENS)
layer("rms_norm_eps", lambda: nn.RMSNorm(8, eps=1e-3, elementwise_affine=False), TOKENS)
layer("local_response_norm", lambda: nn.LocalResponseNorm(3), IMAGE)
CASES.images(
    channel_layer_norm=lambda m, x: F.layer_norm(m.c(x).permute(0, 2, 3, 1), (8,)).permute(0, 3, 1, 2),
    functional_batch_norm=lambda m, x: F.batch_norm(m.c(x), torch.zeros(8), torch.full((8,), 2.0)),
    functional_instance_norm=lambda m, x: F.instance_norm(m.c(x)),
    functional_group_norm=lambda m, x: F.group_norm(m.c(x), 4),
    norm_by_hand=lambda m, x: (x - x.mean((2, 3), keepdim=True)) / (x.std((2, 3), keepdim=True) + 1e-5),
    adaptive_instance_norm=lambda m, x: F.instance_norm(m.c(x)) * (1 + x.mean()) + x.amax(),
    global_response_norm=lambda m, x: m.c(x) * (m.c(x).norm(dim=(2, 3), keepdim=True) / (m.c(x).norm() + 1e-6)),
)
CASES.tokens(
    rms_by_hand=lambda m, x: x * torch.rsqrt(m.f(x).pow(2).mean(-1, keepdim=True) + 1e-5),
    layer_norm_by_hand=lambda m, x: (m.f(x) - m.f(x).mean(-1, keepdim=True)) / (m.f(x).std(-1, keepdim=True) + 1e-5),
    modulated_norm=lambda m, x: F.layer_norm(x, (8,)) * (1 + m.f(x)) + m.f(x),
    l2_norm_of_tokens=lambda m, x: F.normalize(m.f(x), p=2.0, dim=1, eps=1e-6),
)

for name, pool in {
    "max": lambda: nn.MaxPool2d(2),
    "max_overlapping": lambda: nn.MaxPool2d(3, 2, 1),
    "max_ceil": lambda: nn.MaxPool2d(2, 2, ceil_mode=True),
    "max_ceil_padded": lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True),
    "max_dilated": lambda: nn.MaxPool2d(2, 1, dilation=2),
    "max_wide": lambda: nn.MaxPool2d((1, 3), (1, 2)),
    "max_one": lambda: nn.MaxPool2d(1, 2),
    "max_with_indices": lambda: nn.MaxPool2d(2, return_indices=True),
    "average": lambda: nn.AvgPool2d(2),
    "average_padded": lambda: nn.AvgPool2d(3, 2, 1),
    "average_without_padding": lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    "average_ceil": lambda: nn.AvgPool2d(2, 2, ceil_mode=True),
    "average_ceil_padded": lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True),
    "average_ceil_uncounted": lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
    "average_divisor": lambda: nn.AvgPool2d(2, divisor_override=3),
    "adaptive_average": lambda: nn.AdaptiveAvgPool2d(1),
    "adaptive_average_uneven": lambda: nn.AdaptiveAvgPool2d((3, 2)),
    "adaptive_average_kept": lambda: nn.AdaptiveAvgPool2d((None, 2)),
    "adaptive_max": lambda: nn.AdaptiveMaxPool2d(2),
    "adaptive_max_uneven": lambda: nn.AdaptiveMaxPool2d((4, 3)),
    "lp": lambda: nn.LPPool2d(2, 2),
    "unpooled": lambda: Written(lambda m, x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), {}),
    "gem": lambda: Written(lambda m, x: F.avg_pool2d(x.clamp(min=1e-6).pow(3), 2).pow(1 / 3), {}),
    "minimum": lambda: Written(lambda m, x: -F.max_pool2d(-x, 2), {}),
    "negated_of_relu": lambda: Written(lambda m, x: -F.max_pool2d(-F.relu(x), 2), {}),
    "mixed": lambda: Written(lambda m, x: 0.5 * F.max_pool2d(x, 2) + 0.5 * F.avg_pool2d(x, 2), {}),
    "global_both": lambda: Written(lambda m, x: torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1), {}),
}.items():
    layer(f"pool_{name}", pool, ODD if "ceil" in name or "padded" in name else IMAGE)
layer("pool_max_1d", lambda: nn.MaxPool1d(3, 2, ceil_mode=True), SIGNAL)
layer("pool_average_1d", lambda: nn.AvgPool1d(3, 2, 1, count_include_pad=False), SIGNAL)
layer("pool_adaptive_1d", lambda: nn.AdaptiveAvgPool1d(5), SIGNAL)
layer("pool_max_3d", lambda: nn.MaxPool3d(2), VOLUME)
layer("convolution_3d", lambda: nn.Conv3d(2, 4, 3, padding=1), VOLUME)
layer("pool_without_batch", lambda: nn.MaxPool2d(2), (3, 8, 8))

for name, pad in {
    "zeros": lambda: nn.ZeroPad2d((1, 2, 0, 1)),
    "constant": lambda: nn.ConstantPad2d(1, 0.5),
    "constant_negative": lambda: nn.ConstantPad2d((2, 0, 1, 1), -1.0),
    "reflection": lambda: nn.ReflectionPad2d(2),
    "replication": lambda: nn.ReplicationPad2d((1, 0, 2, 1)),
    "circular": lambda: nn.CircularPad2d(1),
    "cropping": lambda: nn.ZeroPad2d(-1),
    "mixed": lambda: nn.ZeroPad2d((-1, 2, 1, -2)),
    "channels": lambda: Written(lambda m, x: F.pad(x, (0, 0, 0, 0, 2, 2)), {}),
    "lowest_for_max": lambda: Written(lambda m, x: F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-1e4), 2), {}),
    "infinite_for_max": lambda: Written(lambda m, x: F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-torch.inf), 3, 2), {}),
}.items():
    layer(f"pad_{name}", lambda pad=pad: nn.Sequential(pad(), nn.ReLU()), IMAGE)
for mode in ("zeros", "reflect", "replicate", "circular"):
    layer(f"convolution_padded_{mode}", lambda mode=mode: conv(8, 4, padding_mode=mode), IMAGE)
    layer(f"convolution_1d_padded_{mode}", lambda mode=mode: conv1(8, 4, padding_mode=mode), SIGNAL)
layer("convolution_same", lambda: nn.Conv2d(8, 4, 4, padding="same"), IMAGE)
layer("convolution_same_dilated", lambda: nn.Conv2d(8, 4, 3, padding="same", dilation=2), IMAGE)
layer("convolution_valid", lambda: nn.Conv2d(8, 4, 3, padding="valid", stride=2), IMAGE)
layer("convolution_uneven", lambda: nn.Conv2d(8, 4, (1, 5), padding=(0, 2), stride=(2, 1)), IMAGE)
layer("convolution_grouped", lambda: nn.Conv2d(8, 16, 3, groups=4), IMAGE)
layer("convolution_depthwise", lambda: nn.Conv2d(8, 8, 3, groups=8, bias=False), IMAGE)
layer("convolution_depth_multiplied", lambda: nn.Conv2d(8, 16, 3, groups=8), IMAGE)
layer("convolution_transposed", lambda: nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1), IMAGE)
layer("convolution_transposed_grouped", lambda: nn.ConvTranspose2d(8, 4, 2, 2, groups=2), IMAGE)
layer("convolution_transposed_dilated", lambda: nn.ConvTranspose2d(8, 4, 3, dilation=2), IMAGE)
layer("convolution_transposed_1d", lambda: nn.ConvTranspose1d(8, 4, 4, 2, 1), SIGNAL)
layer("pixel_shuffle", lambda: nn.PixelShuffle(2), IMAGE)
layer("pixel_unshuffle", lambda: nn.PixelUnshuffle(2), IMAGE)
layer("channel_shuffle", lambda: nn.ChannelShuffle(2), IMAGE)
layer("unfold", lambda: nn.Unfold(2, stride=2), IMAGE)
layer("fold", lambda: Written(lambda m, x: F.fold(F.unfold(x, 2, stride=2), (8, 8), 2, stride=2), {}), IMAGE)
layer("blur", lambda: Written(lambda m, x: F.conv2d(x, torch.ones(8, 1, 3, 3) / 9, groups=8, padding=1), {}), IMAGE)
layer("dynamic_weight", lambda: Written(lambda m, x: F.conv2d(x, x.mean((2, 3)).view(1, 8, 1, 1)), {}), IMAGE)

for name, options in {
    "nearest": {"scale_factor": 2, "mode": "nearest"},
    "nearest_down": {"scale_factor": 0.5, "mode": "nearest"},
    "nearest_exact": {"size": (5, 7), "mode": "nearest-exact"},
    "nearest_uneven": {"size": (12, 10), "mode": "nearest"},
    "bilinear": {"scale_factor": 2, "mode": "bilinear", "align_corners": False},
    "bilinear_aligned": {"size": (15, 15), "mode": "bilinear", "align_corners": True},
    "bilinear_down": {"size": (5, 3), "mode": "bilinear", "align_corners": False},
    "bilinear_antialiased": {"size": (4, 4), "mode": "bilinear", "antialias": True},
    "bicubic": {"scale_factor": 2, "mode": "bicubic"},
    "area": {"size": (3, 4), "mode": "area"},
    "by_fraction": {"scale_factor": 1.5, "mode": "bilinear", "recompute_scale_factor": True},
}.items():
    layer(
        f"interpolate_{name}",
        lambda options=options: Written(lambda m, x: F.interpolate(x, **options), {}),
        IMAGE,
    )
layer("interpolate_linear_1d", lambda: nn.Upsample(scale_factor=2, mode="linear"), SIGNAL)
layer("interpolate_like", lambda: Written(lambda m, x: F.interpolate(F.avg_pool2d(x, 2), x.shape[2:]) + x, {}), IMAGE)
layer("grid_sample", lambda: Written(_rotated, {}), IMAGE)

for activation in (
    nn.ReLU6(), nn.LeakyReLU(0.2), nn.PReLU(), nn.ELU(), nn.SELU(), nn.CELU(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(),
    nn.Mish(), nn.Hardswish(), nn.Hardsigmoid(), nn.Hardtanh(-0.5, 1.5), nn.Hardshrink(0.3), nn.Softshrink(0.3),
    nn.Tanhshrink(), nn.Softsign(), nn.LogSigmoid(), nn.Threshold(0.1, -2.0), nn.RReLU(), nn.Softplus(), nn.GLU(),
    nn.Softmax2d(), nn.LogSoftmax(1), nn.Dropout2d(), nn.AlphaDropout(), nn.Identity(),
):  # fmt: skip
    tanh = "_tanh" if getattr(activation, "approximate", "") == "tanh" else ""
    name = f"activation_{type(activation).__name__.lower()}{tanh}"
    layer(name, lambda activation=activation: activation, IMAGE if "2d" in name else SIGNAL)


def _rotated(m: Any, x: Tensor) -> Tensor:
    angle = torch.tensor([[[0.8, -0.6, 0.0], [0.6, 0.8, 0.0]]])
    return F.grid_sample(x, F.affine_grid(angle, [1, 8, 8, 8], align_corners=False), align_corners=False)


CASES.add("generalised_mean", GeneralisedMean, IMAGE)
CASES.add("interleaved_rotary", InterleavedRotary, TOKENS)

CASES.images(
    median_of_neighbours=lambda m, x: F.unfold(m.c(x)[:, :1], 3, padding=1).view(1, 1, 9, 8, 8).median(2).values,
    planes_and_turned=lambda m, x: ((y := m.c(x).reshape(1, 8, 64)), y.reshape(1, 8, 8, 8).permute(0, 3, 2, 1)),
)

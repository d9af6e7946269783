"""CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV and FULLY_CONNECTED."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from deuteron.operators.cortex_m import BY_OPERATOR, QuantizedConvolutionParams
from deuteron.operators.tflite import BY_TFLITE_OPERATOR, ConvolutionParams, FullyConnectedParams
from deuteron.tflite.cortex_m import float32, float32_layers
from deuteron.tflite.cortex_m.call import Constant, CpuCall, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import Factor, as_words, factor, single_rounding_words
from deuteron.tflite.cortex_m.lowering import ACTIVATIONS, Lowering, by_type
from deuteron.tflite.cortex_m.operator_view import Array, Site
from deuteron.tflite.cortex_m.padding import fill
from deuteron.tflite.cortex_m.regions import Region, contiguous, copies, whole
from deuteron.tflite.cortex_m.same_padding import padding_before
from deuteron.tflite.flat_model import FlatTensor
from deuteron.tflite.normalize import INT32

MOST_PRODUCTS = 32768
"""Under a sum of the int8 operators."""

_MOST_FULLY_CONNECTED = 65536
"""Under a sum of a fully connected layer, whose weights are multiplied as they are stored."""

_HINT_WEIGHTS = "convert the model with the default int8 quantization, whose weights are symmetric"
_HINT_SMALLER = "split the layer, or make it smaller"


@dataclass(frozen=True, slots=True)
class _Axis:
    """A dimension of a map: sizes, kernel, stride, dilation, and the padding before it."""

    size: int
    out: int
    kernel: int
    stride: int
    dilation: int
    pad: int


def _axes(site: Site, kernel: tuple[int, int]) -> tuple[_Axis, _Axis]:
    x, y, padding = site.input().shape, site.output().shape, site.option("Padding")
    axes: list[_Axis] = []
    for i, letter in enumerate("HW"):
        stride, dilation = site.option(f"Stride{letter}", 1), site.option(f"Dilation{letter}Factor", 1)
        pad = padding_before(x[1 + i], y[1 + i], kernel[i], stride, dilation, padding)
        axes.append(_Axis(x[1 + i], y[1 + i], kernel[i], stride, dilation, pad))
    return axes[0], axes[1]


def _weights(site: Site, position: int = 1) -> tuple[FlatTensor, Array]:
    tensor = site.input(position)
    site.require(tensor, "INT8")
    return tensor, site.constant(position)


def _scales(site: Site, weights: FlatTensor, channels: int, axis: int) -> list[float]:
    """The weights' scales, one per output channel."""
    quant = weights.quant
    if quant is None:
        raise site.unsupported(f"tensor `{weights.name}` has no quantization; INT8 weights need scales")
    if len(quant.scales) == 1:
        return [quant.scales[0]] * channels
    if quant.axis != axis or len(quant.scales) != channels:
        raise site.unsupported(
            f"tensor `{weights.name}` has {len(quant.scales)} scales along dimension {quant.axis}; "
            f"one, or {channels} along dimension {axis} are allowed"
        )
    return list(quant.scales)


def _zero_point(site: Site, weights: FlatTensor) -> int:
    """The zero point of weights, which must be one for all of them."""
    zero_points = set(weights.quant.zero_points if weights.quant else (0,))
    if len(zero_points) != 1:
        raise site.unsupported(f"tensor `{weights.name}` has several zero points; one is allowed", _HINT_WEIGHTS)
    return zero_points.pop()


def _centred(site: Site, values: Array) -> tuple[Array, int]:
    """Weights and their zero point, which is 0 where their distance from it fits int8."""
    zero_point = _zero_point(site, site.input(1))
    distances = values.astype(np.int64) - zero_point
    if zero_point and distances.min() >= -128 and distances.max() <= 127:
        return distances.astype(np.int8), 0
    return values, zero_point


def _factors(site: Site, weights: FlatTensor, channels: int, axis: int) -> list[Factor]:
    scale_in, scale_out = site.scale(site.input(_input_position(site))), float(site.scale(site.output()))
    scales = _scales(site, weights, channels, axis)
    if site.op.is_unsigned:  # the product is one of float32
        return [factor(float(scale_in * np.float32(scales[0])) / scale_out)] * channels
    return [factor(float(scale_in) * scale / scale_out) for scale in scales]


def _input_position(site: Site) -> int:
    return 2 if site.op.name == "TRANSPOSE_CONV" else 0


def _bias(site: Site, position: int) -> Array | None:
    if not site.has_input(position):
        return None
    if site.op.name == "TRANSPOSE_CONV" and site.output().dtype == site.input(position).dtype == "INT16":
        return site.constant(position).ravel().astype(np.int64)  # as TFLite Micro takes it
    site.require(site.input(position), "INT32", "INT64")
    return site.constant(position).ravel()


def _is_narrow(site: Site, bias: Array | None) -> bool:
    """Return True if an int16 layer has 32-bit sums: its bias has them, or without a bias its options say it."""
    return site.option("QuantizedBiasType") == INT32 if bias is None else bias.dtype == np.int32


def convolution(site: Site) -> tuple[CpuCall, ...]:
    """Lower CONV_2D."""
    weights, values = _weights(site)
    out_c, kernel_h, kernel_w, seen = values.shape
    layer = _Layer(
        site, site.ref(), site.input().shape, _axes(site, (kernel_h, kernel_w)), site.input().shape[3] // seen
    )
    return layer.calls(*_centred(site, values), _factors(site, weights, out_c, 0), _bias(site, 2))


@dataclass(frozen=True, slots=True)
class _Layer:
    """A convolution but for its constants."""

    site: Site
    source: Operand
    shape: tuple[int, ...]
    axes: tuple[_Axis, _Axis]
    groups: int

    def calls(self, weights: Array, zero_point: int, factors: list[Factor], bias: Array | None) -> tuple[CpuCall, ...]:
        """A convolution with weights [out_c, kernel_h, kernel_w, in_c / groups]."""
        site = self.site
        if site.input(_input_position(site)).dtype == "INT16" or zero_point:
            return (self._rare(weights, factors, bias, zero_point),)
        _check_products(site, weights)
        in_offset = -site.zero_point(site.input())
        sums = _wrapped(weights.astype(np.int64).reshape(len(weights), -1).sum(axis=1) * in_offset, bias)
        params = _int8_params(site, self.shape, self.axes, self.groups, has_kernel_sum=1)
        inputs = (self.source, site.values(1, weights), *_factor_operands(factors), Constant(sums))
        return (CpuCall(BY_OPERATOR["quantized_conv2d"], inputs, (site.out(),), params),)

    def _rare(self, weights: Array, factors: list[Factor], bias: Array | None, weight_zp: int) -> CpuCall:
        """The convolution of int16 activations, and of int8 ones by weights with a zero point."""
        site, (rows, columns) = self.site, self.axes
        x, out = site.input(_input_position(site)), site.output()
        is_int16 = x.dtype == "INT16"
        narrow = not is_int16 or (site.op.name != "DEPTHWISE_CONV_2D" and _is_narrow(site, bias))
        act_min, act_max = site.stored_activation()
        params = ConvolutionParams(
            batches=self.shape[0], in_h=rows.size, in_w=columns.size, in_c=self.shape[3],
            out_h=rows.out, out_w=columns.out, out_c=out.shape[3], groups=self.groups,
            kernel_h=rows.kernel, kernel_w=columns.kernel, stride_h=rows.stride, stride_w=columns.stride,
            pad_h=rows.pad, pad_w=columns.pad, dilation_h=rows.dilation, dilation_w=columns.dilation,
            in_zp=site.zero_point(x), weight_zp=weight_zp, out_zp=site.zero_point(out),
            act_min=act_min, act_max=act_max, narrow=int(narrow), has_bias=int(bias is not None),
        )  # fmt: skip
        addend = () if bias is None else (Constant(bias),)
        inputs = (self.source, site.values(1, weights), *_factor_operands(factors), *addend)
        return CpuCall(BY_TFLITE_OPERATOR["convolution"], inputs, (site.out(),), params)


def _check_products(site: Site, weights: Array) -> None:
    products = math.prod(weights.shape[1:])
    if products > MOST_PRODUCTS:
        raise site.unsupported(
            f"each output is a sum of {products} products; at most {MOST_PRODUCTS} are allowed", _HINT_SMALLER
        )


def _wrapped(sums: Array, bias: Array | None) -> Array:
    """Kernel sums with the bias; they keep their low 32 bits, as the operators' sums do."""
    total = sums.astype(np.int64) + (0 if bias is None else bias.astype(np.int64))
    return total.astype(np.uint64).astype(np.uint32).astype(np.int32)


def _factor_operands(factors: list[Factor]) -> tuple[Constant, Constant]:
    return Constant(as_words([m for m, _ in factors])), Constant(as_words([s for _, s in factors]))


def _int8_params(
    site: Site,
    shape: tuple[int, ...],
    axes: tuple[_Axis, _Axis],
    groups: int,
    has_bias: int = 0,
    has_kernel_sum: int = 0,
) -> QuantizedConvolutionParams:
    rows, columns = axes
    act_min, act_max = site.stored_activation()
    return QuantizedConvolutionParams(
        batches=shape[0], in_h=rows.size, in_w=columns.size, in_c=shape[3],
        out_h=rows.out, out_w=columns.out, out_c=site.output().shape[3], groups=groups,
        kernel_h=rows.kernel, kernel_w=columns.kernel, stride_h=rows.stride, stride_w=columns.stride,
        pad_h=rows.pad, pad_w=columns.pad, dilation_h=rows.dilation, dilation_w=columns.dilation,
        in_offset=-site.zero_point(site.input(_input_position(site))), out_offset=site.zero_point(site.output()),
        act_min=act_min, act_max=act_max, has_bias=has_bias, has_kernel_sum=has_kernel_sum,
    )  # fmt: skip


def depthwise(site: Site) -> tuple[CpuCall, ...]:
    """Lower DEPTHWISE_CONV_2D, whose weights are [1, kernel_h, kernel_w, out_c]."""
    weights, values = _weights(site)
    _, kernel_h, kernel_w, out_c = values.shape
    axes = _axes(site, (kernel_h, kernel_w))
    factors, bias, in_c = _factors(site, weights, out_c, 3), _bias(site, 2), site.input().shape[3]
    values, zero_point = _centred(site, values)
    if site.input().dtype == "INT16" or in_c == 1 or zero_point:
        # With one input channel a depthwise convolution is a convolution.
        rows = np.ascontiguousarray(values.transpose(3, 1, 2, 0))
        layer = _Layer(site, site.ref(), site.input().shape, axes, in_c)
        return layer.calls(rows, zero_point, factors, bias)
    params = _int8_params(site, site.input().shape, axes, in_c, has_bias=int(bias is not None))
    addend = () if bias is None else (site.ref(2),)
    inputs = (site.ref(), site.values(1, values), *_factor_operands(factors), *addend)
    return (CpuCall(BY_OPERATOR["quantized_depthwise_conv2d"], inputs, (site.out(),), params),)


def transposed(site: Site) -> tuple[CpuCall, ...]:
    """Lower TRANSPOSE_CONV, whose inputs are the output's shape, weights, the map and a bias."""
    weights, values = _weights(site)
    out_c, kernel_h, kernel_w, _ = values.shape
    factors, bias = _factors(site, weights, out_c, 0), _bias(site, 3)
    shape, out = site.input(2).shape, site.output().shape
    axes: list[_Axis] = []
    for i, (letter, kernel) in enumerate((("H", kernel_h), ("W", kernel_w))):
        stride = site.option(f"Stride{letter}", 1)
        # The padding of the convolution that goes the other way, from the output to the input.
        pad = padding_before(out[1 + i], shape[1 + i], kernel, stride, 1, site.option("Padding"))
        axes.append(_Axis(shape[1 + i], out[1 + i], kernel, stride, 1, pad))
    values, zero_point = _centred(site, values)
    if site.input(2).dtype == "INT16" or zero_point:
        return _spread(site, (axes[0], axes[1]), (values, zero_point), factors, bias)
    _check_products(site, values)
    params = _int8_params(site, shape, (axes[0], axes[1]), 1, has_bias=int(bias is not None))
    addend = () if bias is None else (site.ref(3),)
    inputs = (site.ref(2), site.values(1, values), *_factor_operands(factors), *addend)
    return (CpuCall(BY_OPERATOR["quantized_transpose_conv2d"], inputs, (site.out(),), params),)


def _spread(
    site: Site, axes: tuple[_Axis, _Axis], weights: tuple[Array, int], factors: list[Factor], bias: Array | None
) -> tuple[CpuCall, ...]:
    """A convolution of the map with zeros between its elements, by the weights turned round."""
    x, dtype = site.input(2), site.dtype(site.input(2))
    batches, _, _, channels = x.shape
    rows, columns = axes
    spread = Temporary(
        (batches, (rows.size - 1) * rows.stride + 1, (columns.size - 1) * columns.stride + 1, channels), dtype
    )
    inner = [
        _Axis(size, axis.out, axis.kernel, 1, 1, axis.kernel - 1 - axis.pad)
        for axis, size in zip(axes, spread.shape[1:3], strict=True)
    ]
    steps = contiguous(spread.shape)
    written = Region(0, (steps[0], steps[1] * rows.stride, steps[2] * columns.stride, 1))
    turned = np.ascontiguousarray(weights[0][:, ::-1, ::-1, :])
    layer = _Layer(site, spread, spread.shape, (inner[0], inner[1]), 1)
    return (
        fill(spread, site.zero_point(x), dtype),
        *copies(dtype, site.ref(2), spread, x.shape, whole(x.shape), written),
        *layer.calls(turned, weights[1], factors, bias),
    )


def _with_input_offset(weights: Array, in_zp: int, bias: Array | None) -> tuple[int, Array | None]:
    """Return a zero point of 0, and the bias with what the zero point adds; both as they are beyond 32 bits."""
    sums = -in_zp * weights.astype(np.int64).sum(axis=1) + (0 if bias is None else bias)
    return (0, sums.astype(np.int32)) if np.array_equal(sums, sums.astype(np.int32)) else (in_zp, bias)


def fully_connected(site: Site) -> tuple[CpuCall, ...]:
    """Lower FULLY_CONNECTED, which rounds once: by the product of a sum and a float64 factor."""
    if site.option("WeightsFormat"):
        raise site.unsupported("the weights are shuffled; plain weights [out, in] are allowed", _HINT_WEIGHTS)
    weights = site.input(1)
    site.require(weights, "INT8")
    out_features, depth = weights.shape
    rows = math.prod(site.input().shape) // depth
    if site.input().dtype == "INT8" and depth > _MOST_FULLY_CONNECTED:
        raise site.unsupported(
            f"each output is a sum of {depth} products; at most {_MOST_FULLY_CONNECTED} are allowed", _HINT_SMALLER
        )
    scale_in, scale_out = float(site.scale(site.input())), float(site.scale(site.output()))
    scales = _scales(site, weights, out_features, 0)
    per_channel = int(weights.quant is not None and len(weights.quant.scales) > 1)
    words = [single_rounding_words(scale_in * s / scale_out) for s in (scales if per_channel else scales[:1])]
    in_zp, weight_zp = site.zero_point(site.input()), _zero_point(site, weights)
    bias = _bias(site, 2)
    if bias is not None and site.input().dtype == "INT8":
        site.require(site.input(2), "INT32")
    if in_zp and not weight_zp and site.is_constant(1):
        in_zp, bias = _with_input_offset(site.constant(1), in_zp, bias)
    act_min, act_max = site.stored_activation()
    params = FullyConnectedParams(
        rows=rows, in_features=depth, out_features=out_features, in_zp=in_zp, weight_zp=weight_zp,
        out_zp=site.zero_point(site.output()),
        act_min=act_min, act_max=act_max, per_channel=per_channel, has_bias=int(bias is not None),
    )  # fmt: skip
    addend = () if bias is None else (site.values(2, bias) if site.has_input(2) else Constant(bias),)
    inputs = (site.ref(), site.ref(1), Constant(np.array(words, np.int32)), *addend)
    return (CpuCall(BY_TFLITE_OPERATOR["fully_connected"], inputs, (site.out(),), params),)


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "CONV_2D": by_type({**dict.fromkeys(ACTIVATIONS, convolution), "FLOAT32": float32_layers.convolution}),
        "DEPTHWISE_CONV_2D": by_type({**dict.fromkeys(ACTIVATIONS, depthwise), "FLOAT32": float32_layers.depthwise}),
        "TRANSPOSE_CONV": by_type(
            {**dict.fromkeys(ACTIVATIONS, transposed), "FLOAT32": float32_layers.transposed}, operand=2
        ),
        "FULLY_CONNECTED": by_type({**dict.fromkeys(ACTIVATIONS, fully_connected), "FLOAT32": float32.fully_connected}),
    }
)

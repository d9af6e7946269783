"""Channels of quantized activations that have one value for every input: a forward analysis over a TFLite model.

A channel is an index of the last dimension. A layer's channel is constant if its weights for all inputs that vary are
zero. Operators that act on each channel alone pass constants on; their values are those of LiteRT's reference kernels.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from deuteron.errors import UnsupportedError
from deuteron.operators.cortex_m import QuantizedAddParams, QuantizedMulParams
from deuteron.operators.tflite import BroadcastAddParams, BroadcastMulParams, ReduceSumParams
from deuteron.tflite.cortex_m import lookup, lower
from deuteron.tflite.cortex_m.call import Constant
from deuteron.tflite.cortex_m.fixed_point import I64, factor, product
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.cortex_m.reduction import reduced_axes
from deuteron.tflite.cortex_m.same_padding import SAME
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor

Mask = npt.NDArray[np.bool_]

LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
"""Operators with weights."""

_WORD = 1 << 31
_TIE = Fraction(1, 1 << 40)
"""Distance from a tie within which the float64 product of a fully connected layer may round to the other side."""


@dataclass(frozen=True, slots=True)
class Channels:
    """The known values of a tensor's channels.

    Attributes:
        known: whether the channel has one stored value for every input.
        values: the stored value where it is known.
    """

    known: Mask
    values: I64


@dataclass(frozen=True, slots=True)
class Layer:
    """A CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED or TRANSPOSE_CONV with constant weights.

    Attributes:
        weights: distances from the zero point, as [outputs, positions of the kernel, inputs]; of a depthwise layer
            the last dimension is 1.
        bias: an integer for each output.
        source: the input channel of each output of a depthwise layer; None for other layers.
        addends: what each input channel adds to each output if it has its constant value; 0 where it varies.
        foldable: whether an input channel is constant, and adds the same everywhere: no padding hides it, and no gap
            of a TRANSPOSE_CONV.
    """

    weights: I64
    bias: I64
    source: I64 | None
    addends: I64
    foldable: Mask

    @property
    def reads(self) -> Mask:
        """True if an output [o] has weights other than zero for an input channel [i]."""
        return (self.weights != 0).max(axis=1, initial=False)


def ends(op: FlatOperator) -> tuple[int, int]:
    """Return the positions of a layer's input and bias among its operands; its weights are at 1."""
    return (2, 3) if op.name == "TRANSPOSE_CONV" else (0, 2)


def varying(channels: int) -> Channels:
    """Channels of which nothing is known."""
    return Channels(np.zeros(channels, bool), np.zeros(channels, np.int64))


def analyse(model: FlatModel) -> tuple[dict[int, Channels], dict[int, Layer]]:
    """Return the channels of each int8 activation by its tensor, and the layers by their operator."""
    found: dict[int, Channels] = {}
    layers: dict[int, Layer] = {}
    for index, op in enumerate(model.operators):
        site = Site(model, index)
        rule = _RULES.get(op.name)
        try:
            if (layer := layer_of(site, found)) is not None:
                layers[index] = layer
                result = _layer_values(site, layer)
            else:
                result = rule(site, found) if rule is not None and _is_plain(site) else None
        except UnsupportedError:  # the operator's own lowering reports this
            result = None
        if result is None or len(op.outputs) != 1 or site.output().dtype != "INT8":
            continue
        if site.output().shape[-1:] == result.known.shape:  # not so in a damaged file
            found[op.outputs[0]] = result
    return found, layers


def channels_of(site: Site, position: int, found: Mapping[int, Channels]) -> Channels:
    """The known values of an operand's channels; it may be a constant."""
    tensor = site.input(position)
    if site.op.inputs[position] in found:
        return found[site.op.inputs[position]]
    if tensor.data is None or not tensor.shape or tensor.dtype != "INT8":
        return varying(tensor.shape[-1] if tensor.shape else 1)
    rows = site.constant(position).astype(np.int64).reshape(-1, tensor.shape[-1])
    return Channels((rows == rows[:1]).all(axis=0), rows[0])


def layer_of(site: Site, found: Mapping[int, Channels]) -> Layer | None:
    """Return an operator as a layer whose channels can be removed; None for others."""
    name, (position, at_bias) = site.op.name, ends(site.op)
    if name not in LAYERS or not _is_plain(site) or (name == "TRANSPOSE_CONV" and not site.is_constant(0)):
        return None
    x, weights = site.input(position), site.input(1)
    has_bias = site.has_input(at_bias)
    if not site.is_constant(1) or weights.dtype != "INT8" or weights.quant is None or site.option("WeightsFormat"):
        return None
    if has_bias and site.input(at_bias).dtype not in ("INT32", "INT64"):
        return None
    if (has_bias and not site.is_constant(at_bias)) or not x.shape or len(set(weights.quant.zero_points)) != 1:
        return None
    stored = site.constant(1).astype(np.int64) - weights.quant.zero_points[0]
    source: I64 | None = None
    outputs: int = stored.shape[3 if name == "DEPTHWISE_CONV_2D" else 0]
    if name == "DEPTHWISE_CONV_2D":
        if x.shape[3] < 1 or outputs < 1 or outputs % x.shape[3]:
            return None
        source = np.arange(outputs) // (outputs // x.shape[3])
        stored = stored.reshape(-1, outputs).T[:, :, None]
    else:
        stored = stored.reshape(outputs, -1, stored.shape[-1])
        if stored.shape[-1] != x.shape[-1]:  # groups, or rows that lie across several dimensions
            return None
    bias = site.constant(at_bias).astype(np.int64).ravel() if has_bias else np.zeros(outputs, np.int64)
    if bias.size != outputs:
        return None
    channels = channels_of(site, position, found)
    distances = channels.values - site.zero_point(x)
    foldable = channels.known & ((distances == 0) | (not _is_padded(site)))
    sums = stored.sum(axis=1)
    folded = np.where(foldable, distances, 0)
    addends = sums * (folded if source is None else folded[source, None])
    if (np.abs(bias) + np.abs(addends).sum(axis=1) >= _WORD).any():
        foldable, addends = np.zeros_like(foldable), np.zeros_like(addends)
    return Layer(stored, bias, source, addends, foldable)


def _is_plain(site: Site) -> bool:
    """True if the input and the result are quantized as a whole, and the file computes them as integers."""
    tensors = (
        [site.input(ends(site.op)[0]), *(site.output(i) for i in range(len(site.op.outputs)))] if site.op.inputs else []
    )
    return bool(tensors) and all(_is_quantized(tensor) for tensor in tensors)


def _is_quantized(tensor: FlatTensor) -> bool:
    return tensor.dtype in ("INT8", "INT16") and tensor.quant is not None and tensor.quant.axis is None


def _is_padded(site: Site) -> bool:
    """Return True if some outputs do not see the whole window of a layer."""
    if site.op.name == "TRANSPOSE_CONV":
        return True
    if site.op.name == "FULLY_CONNECTED" or site.option("Padding") != SAME:
        return False
    x, y, kernel = site.input().shape, site.output().shape, site.input(1).shape
    for i, letter in enumerate("HW"):
        stride, dilation = site.option(f"Stride{letter}", 1), site.option(f"Dilation{letter}Factor", 1)
        if (y[1 + i] - 1) * stride + (kernel[1 + i] - 1) * dilation + 1 > x[1 + i]:
            return True
    return False


def _layer_values(site: Site, layer: Layer) -> Channels | None:
    if site.input(ends(site.op)[0]).dtype != "INT8":
        return None
    if layer.source is None:
        constant = ~(layer.reads & ~layer.foldable).any(axis=1)
    else:
        constant = ~layer.reads[:, 0] | layer.foldable[layer.source]
    sums = layer.bias + layer.addends.sum(axis=1)
    constant &= np.abs(sums) < _WORD
    quant = site.input(1).quant
    scales = np.resize(np.array(quant.scales if quant else ()), sums.size)
    act_min, act_max = site.stored_activation()
    values = np.zeros(sums.size, np.int64)
    for channel in np.flatnonzero(constant).tolist():
        result = _scaled(site, int(sums[channel]), float(scales[channel]))
        constant[channel] = result is not None
        values[channel] = np.clip((result or 0) + site.zero_point(site.output()), act_min, act_max)
    return Channels(constant, values)


def _scaled(site: Site, total: int, scale: float) -> int | None:
    """A layer's sum in steps of the output; None where it depends on the rounding of a float64 product."""
    scale_in, scale_out = site.scale(site.input(ends(site.op)[0])), float(site.scale(site.output()))
    if site.op.name != "FULLY_CONNECTED":
        product_in = float(scale_in * np.float32(scale)) if site.op.is_unsigned else float(scale_in) * scale
        return int(product(total, factor(product_in / scale_out)))
    exact = abs(total) * Fraction(float(scale_in) * scale / scale_out)
    if abs(exact - int(exact) - Fraction(1, 2)) < _TIE:
        return None
    return round(exact) * (1 if total >= 0 else -1)


_Rule = Callable[[Site, Mapping[int, Channels]], "Channels | None"]


def _passed(site: Site, found: Mapping[int, Channels]) -> Channels | None:
    """Operators that move elements or choose among those of a channel."""
    x, out = site.input(), site.output()
    channels = channels_of(site, 0, found)
    if x.quant != out.quant or not x.shape or not out.shape:
        return None
    if x.shape[-1] != out.shape[-1]:  # a RESHAPE that joins dimensions
        if out.shape[-1] % x.shape[-1]:
            return None
        times = out.shape[-1] // x.shape[-1]
        channels = Channels(np.tile(channels.known, times), np.tile(channels.values, times))
    values = channels.values
    if site.op.name.endswith("POOL_2D"):
        values = np.clip(values, *site.stored_activation())
    return Channels(channels.known, values)


def _padded(site: Site, found: Mapping[int, Channels]) -> Channels | None:
    """PAD: a channel stays constant if its value is that of the padding."""
    x = site.input()
    pads = site.constant(1)
    if pads.size != 2 * len(x.shape) or pads.ravel()[-2:].any() or x.quant != site.output().quant:
        return None
    channels = channels_of(site, 0, found)
    return Channels(channels.known & (channels.values == site.zero_point(x)), channels.values)


def _looked_up(site: Site, found: Mapping[int, Channels]) -> Channels | None:
    channels = channels_of(site, 0, found)
    if not channels.known.any():
        return channels
    call = lower(site.model, site.index)[0]
    table = call.inputs[1] if len(call.inputs) > 1 else None
    if not isinstance(table, Constant) or table.array.shape != (256,):
        return None
    return Channels(channels.known, table.array.astype(np.int64)[channels.values + 128])


def _mean(site: Site, found: Mapping[int, Channels]) -> Channels | None:
    x, axes = site.input(), reduced_axes(site)
    params = lower(site.model, site.index)[0].params
    if len(x.shape) - 1 in axes or not isinstance(params, ReduceSumParams):
        return None
    channels = channels_of(site, 0, found)
    count = int(np.prod([x.shape[axis] for axis in axes]))
    sums = (channels.values - params.in_zp) * count
    values = product(np.clip(sums, -_WORD, _WORD - 1), (params.multiplier, params.shift)) + params.out_zp
    return Channels(channels.known & (np.abs(sums) < _WORD), np.clip(values, -128, 127))


def _binary(site: Site, found: Mapping[int, Channels]) -> Channels | None:
    """ADD, SUB and MUL; a product with real 0 is constant for any other factor."""
    channels = site.output().shape[-1] if site.output().shape else 1
    a, b = (channels_of(site, position, found) for position in (0, 1))
    if any(each.known.size not in (1, channels) for each in (a, b)):  # only in a damaged file
        return None
    known, others = np.broadcast_to(a.known, channels), np.broadcast_to(b.known, channels)
    x, y = np.broadcast_to(a.values, channels), np.broadcast_to(b.values, channels)
    if not (known | others).any():
        return varying(channels)
    params = lower(site.model, site.index)[0].params
    if isinstance(params, QuantizedMulParams | BroadcastMulParams):
        x_zp, y_zp, out_zp = (site.zero_point(t) for t in (site.input(0), site.input(1), site.output()))
        is_zero = (known & (x == x_zp)) | (others & (y == y_zp))
        values = product(np.where(is_zero, 0, (x - x_zp) * (y - y_zp)), factor(_ratio(site))) + out_zp
        return Channels((known & others) | is_zero, np.clip(values, *site.stored_activation()))
    if not isinstance(params, QuantizedAddParams | BroadcastAddParams):
        return None
    p, left = params, params.left_shift if isinstance(params, BroadcastAddParams) else 20
    first = product((x - p.a_zp) << left, (p.a_multiplier, p.a_shift))
    second = product((y - p.b_zp) << left, (p.b_multiplier, p.b_shift))
    total = first - second if site.op.name == "SUB" else first + second
    values = product(total, (p.out_multiplier, p.out_shift)) + p.out_zp
    return Channels(known & others, np.clip(values, p.act_min, p.act_max))


def _ratio(site: Site) -> float:
    return float(site.scale(site.input(0)) * site.scale(site.input(1)) / site.scale(site.output()))


def _concatenated(site: Site, found: Mapping[int, Channels]) -> Channels | None:
    out = site.output()
    parts = [channels_of(site, position, found) for position in range(len(site.op.inputs))]
    if any(site.input(position).quant != out.quant for position in range(len(parts))):
        return None
    if site.option("Axis") % len(out.shape) == len(out.shape) - 1:
        joined = Channels(np.concatenate([p.known for p in parts]), np.concatenate([p.values for p in parts]))
    else:
        same = np.all([p.known & (p.values == parts[0].values) for p in parts], axis=0)
        joined = Channels(same, parts[0].values)
    return Channels(joined.known, np.clip(joined.values, *site.stored_activation()))


_RULES: Mapping[str, _Rule] = MappingProxyType(
    dict.fromkeys(lookup.OPERATORS, _looked_up)
    | dict.fromkeys(("ADD", "SUB", "MUL"), _binary)
    | dict.fromkeys(
        (
            "AVERAGE_POOL_2D",
            "EXPAND_DIMS",
            "MAX_POOL_2D",
            "RESHAPE",
            "RESIZE_NEAREST_NEIGHBOR",
            "SQUEEZE",
        ),
        _passed,
    )
    | {"CONCATENATION": _concatenated, "MEAN": _mean, "PAD": _padded, "QUANTIZE": _looked_up}
)

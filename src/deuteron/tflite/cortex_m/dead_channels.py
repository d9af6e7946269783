"""Removes dead channels: those that are constant, and those that only outputs with weights of zero read.

The layers that read a constant channel add it to their biases instead, so the model's outputs keep every bit. Inputs
and outputs of the model keep all channels, as do tensors of operators that mix channels in other ways.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from deuteron.tflite.cortex_m.constant_channels import LAYERS, Channels, Layer, Mask, analyse, ends
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.flat_model import NO_TENSOR, FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

_CHANNELWISE = {
    "ABS", "ADD", "AVERAGE_POOL_2D", "ELU", "EXPAND_DIMS", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC",
    "MAX_POOL_2D", "MAXIMUM", "MEAN", "MINIMUM", "MUL", "PAD", "PRELU", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1",
    "RELU_N1_TO_1", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SQUEEZE", "SUB", "TANH",
}  # fmt: skip
"""Operators whose output channel depends on the same channel of the inputs alone."""

_VIEWS = {"RESHAPE", "SQUEEZE", "EXPAND_DIMS"}

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RemovedChannels:
    """Channels that were removed from a layer.

    Attributes:
        op: name of the operator.
        tensor: name of its output.
        channels: output channels before.
        constant: removed ones that have one value for every input.
        unread: removed ones of which no other value is needed.
        macs: multiply-accumulates before.
        macs_left: after.
    """

    op: str
    tensor: str
    channels: int
    constant: int
    unread: int
    macs: int
    macs_left: int


def without_dead_channels(model: FlatModel) -> tuple[FlatModel, tuple[RemovedChannels, ...]]:
    """Return an int8 or int16 model without dead channels, and what was removed; the model itself if there are none."""
    if any(size < 1 for tensor in model.tensors for size in tensor.shape):
        return model, ()  # a damaged file, which is refused later
    constants, layers = analyse(model)
    kept = _Needs(model, layers).kept()
    if all(mask.all() for mask in kept.values()):
        return model, ()
    result = _Removal(model, layers, kept).model()
    return result, tuple(_removed(model, result, layers, kept, constants))


def _removed(
    model: FlatModel,
    result: FlatModel,
    layers: Mapping[int, Layer],
    kept: Mapping[int, Mask],
    found: Mapping[int, Channels],
) -> Iterator[RemovedChannels]:
    for index in layers:
        op = model.operators[index]
        tensor = op.outputs[0]
        before, after = (_macs(each, each.operators[index]) for each in (model, result))
        gone = ~kept[tensor]
        constant = gone & found[tensor].known if tensor in found else np.zeros_like(gone)
        if before != after:
            yield RemovedChannels(
                op.name,
                model.tensors[tensor].name,
                gone.size,
                int(constant.sum()),
                int(gone.sum() - constant.sum()),
                before,
                after,
            )


def macs(model: FlatModel) -> int:
    """Return the multiply-accumulates of a model's layers with constant weights."""
    return sum(_macs(model, op) for op in model.operators if op.name in LAYERS)


def _macs(model: FlatModel, op: FlatOperator) -> int:
    weights, results = model.tensors[op.inputs[1]].shape, math.prod(model.tensors[op.outputs[0]].shape)
    if op.name == "TRANSPOSE_CONV":
        return math.prod(model.tensors[op.inputs[2]].shape) * math.prod(weights[:3])
    return results * math.prod(weights[1:3] if op.name == "DEPTHWISE_CONV_2D" else weights[1:])


class _Needs:
    """The channels that have to stay, by tensor: grown from the model's ends until nothing changes."""

    def __init__(self, model: FlatModel, layers: Mapping[int, Layer]) -> None:
        self._model, self._layers = model, layers
        activations = {i for op in model.operators for i in (*op.inputs, *op.outputs) if i >= 0}
        self._kept = {
            i: np.zeros(max(0, shape[-1]), bool)
            for i in sorted({*activations, *model.inputs, *model.outputs})
            if (shape := model.tensors[i].shape) and model.tensors[i].data is None
        }
        variables = (i for i, tensor in enumerate(model.tensors) if tensor.is_variable)
        for i in (*model.inputs, *model.outputs, *variables):
            self._keep(i)

    def kept(self) -> dict[int, Mask]:
        """Return a mask for each tensor that is computed."""
        while True:
            self._settle()
            empty = [mask for mask in self._kept.values() if mask.size and not mask.any()]
            if not empty:
                return self._kept
            for mask in empty:  # a tensor without elements is no tensor
                mask[0] = True

    def _settle(self) -> None:
        count = -1
        while count != (count := sum(map(np.count_nonzero, self._kept.values()))):
            for index in range(len(self._model.operators) - 1, -1, -1):
                self._visit(index)

    def _visit(self, index: int) -> None:
        op = self._model.operators[index]
        layer = self._layers.get(index)
        channels = self._kept[op.outputs[0]].size if op.outputs and op.outputs[0] in self._kept else 0
        if layer is not None and layer.source is None and len(layer.reads) == channels:
            self._mix(op, layer)
            return
        links = self._links(index, op) if layer is None or layer.source is None else [(op.inputs[0], layer.source)]
        if not links or not all(self._reads_channels(i, source, channels) for i, source in links):
            for i in (*op.inputs, *op.outputs):
                self._keep(i)
            return
        out = self._kept[op.outputs[0]]
        count = -1
        while count != (count := int(np.count_nonzero(out))):
            for i, source in links:
                mask = self._kept[i]
                mask[source[out & (source >= 0)]] = True
                out |= (source >= 0) & mask[source]

    def _reads_channels(self, tensor: int, source: Indices, channels: int) -> bool:
        """Return True if each of some channels reads one of a tensor: the shapes of a damaged file may not agree."""
        return tensor in self._kept and source.size == channels and source.max(initial=-1) < self._kept[tensor].size

    def _mix(self, op: FlatOperator, layer: Layer) -> None:
        """A layer needs each input channel that it cannot add to the bias."""
        source = op.inputs[ends(op)[0]]
        if source in self._kept:
            rows = layer.reads[self._kept[op.outputs[0]]]
            self._kept[source] |= rows.any(axis=0) & ~layer.foldable

    def _links(self, index: int, op: FlatOperator) -> list[tuple[int, Indices]]:
        """Return for each computed operand the channel that an output channel reads, -1 for none; [] if they mix."""
        if len(op.outputs) != 1 or not op.inputs or op.inputs[0] < 0 or op.outputs[0] not in self._kept:
            return []
        site = Site(self._model, index)
        channels = np.arange(site.output().shape[-1])
        sizes = {i: self._kept[i].size for i in op.inputs if i in self._kept}
        if op.name == "CONCATENATION":
            return self._joined(op, channels) if len(sizes) == len({*op.inputs}) else []
        if op.name == "RESHAPE":  # of the dimensions before the channels, or one that joins them with the channels
            size = sizes.get(op.inputs[0], 0)
            return [(op.inputs[0], channels % size)] if size and channels.size % size == 0 else []
        if (
            op.name not in _CHANNELWISE
            or site.input().shape[-1:] != site.output().shape[-1:]
            or not _leaves_channels(site)
        ):
            return []
        return [(i, channels) for i in sizes] if {*sizes.values()} == {channels.size} else []

    def _joined(self, op: FlatOperator, channels: Indices) -> list[tuple[int, Indices]]:
        rank = len(self._model.tensors[op.outputs[0]].shape)
        if int(op.options.get("Axis", 0)) % rank != rank - 1:
            return [(i, channels) for i in op.inputs]
        links: list[tuple[int, Indices]] = []
        first = 0
        for i in op.inputs:
            size = self._kept[i].size
            links.append((i, np.where((channels >= first) & (channels < first + size), channels - first, -1)))
            first += size
        return links

    def _keep(self, tensor: int) -> None:
        if tensor in self._kept:
            self._kept[tensor][:] = True


def _leaves_channels(site: Site) -> bool:
    """Return True if an operator's constants keep the channels where they are."""
    rank = len(site.input().shape)
    match site.op.name:
        case "MEAN":
            return site.is_constant(1) and not {-1, rank - 1} & {*site.integers(1)}
        case "PAD":
            return site.is_constant(1) and not any(site.integers(1)[-2:])
        case _:
            return True


class _Removal:
    """Writes the model with the channels that stay."""

    def __init__(self, model: FlatModel, layers: Mapping[int, Layer], kept: Mapping[int, Mask]) -> None:
        self._model, self._layers, self._kept = model, layers, kept
        self._tensors = [
            replace(t, shape=(*t.shape[:-1], int(kept[i].sum()))) if i in kept else t
            for i, t in enumerate(model.tensors)
        ]

    def model(self) -> FlatModel:
        """Return it."""
        operators = tuple(self._operator(index, op) for index, op in enumerate(self._model.operators))
        return replace(self._model, tensors=tuple(self._tensors), operators=operators)

    def _operator(self, index: int, op: FlatOperator) -> FlatOperator:
        """An operator with the constants that its new operands need."""
        ends = [i for i in (*op.inputs, *op.outputs) if i in self._kept]
        if all(self._kept[i].all() for i in ends):
            return op
        if (layer := self._layers.get(index)) is not None:
            return self._layer(op, layer)
        out = self._tensors[op.outputs[0]]
        if op.name in _VIEWS:
            inputs, options = (op.inputs[0], self._shape_of(op.outputs[0])), {"NewShape": tuple(out.shape)}
            return FlatOperator("RESHAPE", inputs, op.outputs, "ReshapeOptions", options)
        channels = self._kept[op.outputs[0]]
        inputs = [i if i in self._kept or i < 0 else self._operand(op, i, channels) for i in op.inputs]
        return replace(op, inputs=tuple(inputs))

    def _operand(self, op: FlatOperator, index: int, channels: Mask) -> int:
        """The constant operand of an elementwise operator."""
        tensor = self._model.tensors[index]
        if op.name in ("PAD", "MEAN", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
            return index
        if not tensor.shape or tensor.shape[-1] != channels.size:
            return index
        return self._chosen(tensor, [(-1, channels)])

    def _layer(self, op: FlatOperator, layer: Layer) -> FlatOperator:
        position, at_bias = ends(op)
        x, weights, written = op.inputs[position], op.inputs[1], self._kept[op.outputs[0]]
        read = self._kept.get(x, np.ones(self._model.tensors[x].shape[-1], bool))
        axes = [(0, written), (-1, read)] if layer.source is None else [(-1, written)]
        folded = layer.addends[:, ~read].sum(axis=1) if layer.source is None else np.zeros_like(layer.bias)
        inputs = [*op.inputs[:at_bias], *([NO_TENSOR] if len(op.inputs) == at_bias else op.inputs[at_bias:])]
        if inputs[at_bias] >= 0 or folded[written].any():
            inputs[at_bias] = self._bias(op, inputs[at_bias], (layer.bias + folded)[written], written)
        elif len(op.inputs) == at_bias:
            del inputs[at_bias]
        inputs[1] = self._chosen(self._model.tensors[weights], axes)
        if op.name == "TRANSPOSE_CONV":
            inputs[0] = self._shape_of(op.outputs[0])
        return replace(op, inputs=tuple(inputs))

    def _shape_of(self, tensor: int) -> int:
        """A constant with the shape that a tensor has now."""
        out = self._tensors[tensor]
        shape = np.array(out.shape, "<i4")
        return self._add(FlatTensor(f"{out.name}/shape", shape.shape, "INT32", data=shape.tobytes()))

    def _bias(self, op: FlatOperator, index: int, values: Indices, written: Mask) -> int:
        if index >= 0:
            tensor = self._model.tensors[index]
        else:
            x, weights = (self._model.tensors[i].quant for i in (op.inputs[ends(op)[0]], op.inputs[1]))
            products = np.float32(x.scale if x else 1) * np.array(weights.scales if weights else (1,), np.float32)
            quant = Quant(tuple(map(float, products)), (0,) * products.size, None if products.size == 1 else 0)
            tensor = FlatTensor(f"{self._model.tensors[op.outputs[0]].name}/bias", (written.size,), "INT32", quant)
        data = values.astype("<i8" if tensor.dtype == "INT64" else "<i4").tobytes()
        return self._add(replace(tensor, shape=(values.size,), quant=_quant(tensor.quant, 0, written), data=data))

    def _chosen(self, tensor: FlatTensor, axes: Sequence[tuple[int, Mask]]) -> int:
        """A constant with the elements that stay along some axes."""
        values = np.frombuffer(tensor.data or b"", np.dtype(tensor.dtype.lower()).newbyteorder("<")).reshape(
            tensor.shape
        )
        quant = tensor.quant
        for axis, mask in axes:
            values = values.compress(mask, axis)
            quant = _quant(quant, axis % values.ndim, mask)
        return self._add(replace(tensor, shape=values.shape, quant=quant, data=values.tobytes()))

    def _add(self, tensor: FlatTensor) -> int:
        self._tensors.append(tensor)
        return len(self._tensors) - 1


def _quant(quant: Quant | None, axis: int, mask: Mask) -> Quant | None:
    """The scales of the channels that stay, where there is one for each along the axis."""
    if quant is None or quant.axis != axis or len(quant.scales) != mask.size:
        return quant
    chosen = np.flatnonzero(mask).tolist()
    scales, zero_points = tuple(quant.scales[i] for i in chosen), tuple(quant.zero_points[i] for i in chosen)
    return Quant(scales, zero_points, axis if len(chosen) > 1 else None)

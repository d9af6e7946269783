"""TFLite bytes -> `ir.Graph`: one function per operator, all listed in `LOWERINGS`."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from deuteron.errors import FormatError, UnsupportedError, VerifyError
from deuteron.ir.graph import Graph
from deuteron.ir.ops import (
    Add,
    AveragePool2D,
    Concat,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Function,
    MaxPool2D,
    Mean,
    Mul,
    Op,
    Pad,
    Pair,
    Quantize,
    Reshape,
    Slice,
    Softmax,
    Transpose,
    Unary,
)
from deuteron.ir.types import DType, Tensor, TensorType
from deuteron.ir.verify import verify
from deuteron.microcode.format import MAX_TENSORS
from deuteron.tflite.decode import decode
from deuteron.tflite.flat import FlatModel, FlatTensor
from deuteron.tflite.site import HINT_MALFORMED, Names, Site

_DTYPES = {"INT8": DType.INT8, "INT32": DType.INT32}
"""Element types of the tensors that ops name; `Site` lets no other through."""

_DILATION = ("DilationHFactor", "DilationWFactor", 1)
_STRIDE = ("StrideH", "StrideW")


def read(data: bytes) -> Graph:
    """The graph in a TFLite flatbuffer; tensors keep their names, each op names its TFLite index as its origin.

    Raises:
        FormatError: the bytes are damaged, truncated or contradict themselves.
        UnsupportedError: the model holds something that cannot be compiled.
    """
    return graph_of(decode(data))


def graph_of(model: FlatModel) -> Graph:
    """The graph in a flatbuffer that is decoded already; otherwise as `read`."""
    names = Names(model)
    constants: list[Tensor] = []
    inputs, outputs = (_boundary(model, names, which) for which in ("input", "output"))
    ops = tuple(_lower(Site(model, names, index, constants)) for index in range(len(model.operators)))
    used = {*inputs, *outputs, *(name for op in ops for name in (*op.inputs, *op.outputs))}
    tensors = tuple(_tensor(t, name) for t, name in zip(model.tensors, names.of, strict=True) if name in used)
    graph = Graph(model.name, (*tensors, *constants), inputs, outputs, ops)
    try:
        verify(graph)
    except VerifyError as error:
        raise FormatError(
            f"the model contradicts itself: {error.message}", where=error.where, hint=HINT_MALFORMED
        ) from error
    return graph


def op_names(data: bytes) -> tuple[str, ...]:
    """The builtin operator name of each operator of a TFLite flatbuffer, supported or not."""
    return tuple(op.name for op in decode(data).operators)


def _tensor(tensor: FlatTensor, name: str) -> Tensor:
    """The IR's tensor; its type and data must agree."""
    try:
        return Tensor(name, TensorType(tensor.shape, _DTYPES[tensor.dtype], tensor.quant), tensor.data)
    except VerifyError as error:
        raise FormatError(error.message, where=f"tensor `{name}`", hint=HINT_MALFORMED) from error


def _boundary(model: FlatModel, names: Names, which: Literal["input", "output"]) -> tuple[str, ...]:
    """Names of the graph's inputs or outputs, which must be few and INT8."""
    indices = model.inputs if which == "input" else model.outputs
    if len(indices) > MAX_TENSORS:
        raise UnsupportedError(
            f"{len(indices)} graph {which}s; at most {MAX_TENSORS} are possible", hint="split the partition"
        )
    for index in indices:
        if (dtype := model.tensors[index].dtype) != "INT8":
            problem = "float left in a partition: " if dtype.startswith("FLOAT") else ""
            raise UnsupportedError(
                f"{problem}graph {which} `{names.of[index]}` is {dtype}; INT8 is allowed",
                hint="quantise the inputs and outputs of the partition",
            )
    return tuple(names.of[index] for index in indices)


# one function per operator


def _conv_2d(site: Site) -> Op:
    weights = site.input_tensor(1)
    stride, dilation = site.pair(*_STRIDE), site.pair(*_DILATION)
    pads = site.pads(site.image_size(1), stride, dilation)
    return Conv2D(
        inputs=(site.operand(0), site.weights(), site.bias(2, weights.shape[0])),
        outputs=(site.output(),),
        origin=(site.index,),
        stride=stride,
        dilation=dilation,
        pads=pads,
        clamp=site.clamp(),
    )


def _depthwise_conv_2d(site: Site) -> Op:
    weights = site.input_tensor(1)
    stride, dilation = site.pair(*_STRIDE), site.pair(*_DILATION)
    window = site.image_size(1)
    site.image_size(0)
    channels, results = site.input_tensor(0).shape[3], weights.shape[3]
    if channels < 1 or results % channels:
        raise site.malformed(f"{results} output channels are no multiple of {channels} input channels")
    multiplier = results // channels
    if (said := site.option("DepthMultiplier")) not in (0, multiplier):
        raise site.malformed(f"depth multiplier {said} where {channels} input channels give {results}")
    return DepthwiseConv2D(
        inputs=(site.operand(0), site.weights(), site.bias(2, results)),
        outputs=(site.output(),),
        origin=(site.index,),
        multiplier=multiplier,
        stride=stride,
        dilation=dilation,
        pads=site.pads(window, stride, dilation),
        clamp=site.clamp(),
    )


def _fully_connected(site: Site) -> Op:
    weights = site.input_tensor(1)
    if site.option("WeightsFormat"):
        raise site.unsupported("shuffled weights; the default weights format is allowed")
    if len(weights.shape) != 2:
        raise site.malformed(f"weights `{weights.name}` have {len(weights.shape)} dimensions instead of 2")
    return FullyConnected(
        inputs=(site.operand(0), site.weights(), site.bias(2, weights.shape[0])),
        outputs=(site.output(),),
        origin=(site.index,),
        clamp=site.clamp(),
    )


def _binary(kind: type[Add] | type[Mul]) -> Callable[[Site], Op]:
    def lower(site: Site) -> Op:
        return kind(
            inputs=(site.operand(0), site.operand(1)),
            outputs=(site.output(),),
            origin=(site.index,),
            clamp=site.clamp(),
        )

    return lower


def _pool(kind: type[AveragePool2D] | type[MaxPool2D]) -> Callable[[Site], Op]:
    def lower(site: Site) -> Op:
        site.image_size(0)
        window, stride = site.pair("FilterHeight", "FilterWidth"), site.pair(*_STRIDE)
        return kind(
            inputs=(site.moved(0) if kind is MaxPool2D else site.operand(0),),
            outputs=(site.output(),),
            origin=(site.index,),
            window=window,
            stride=stride,
            pads=site.pads(window, stride),
            clamp=site.clamp(),
        )

    return lower


def _mean(site: Site) -> Op:
    rank = len(site.input_tensor(0).shape)
    axes = tuple(sorted({site.axis(value, rank) for value in site.integers(1, "axes")}))
    if not axes:
        raise site.unsupported("a mean over no axes; at least one is required")
    return Mean(inputs=(site.operand(0),), outputs=(site.output(),), origin=(site.index,), axes=axes)


def _paddings(site: Site) -> tuple[Pair, ...]:
    """One (before, after) pair per dimension."""
    rank, values = len(site.input_tensor(0).shape), site.integers(1, "paddings")
    if len(values) != 2 * rank or min(values, default=0) < 0:
        raise site.malformed(f"paddings {list(values)}; {2 * rank} values of at least 0 are required")
    return tuple(zip(values[::2], values[1::2], strict=True))


def _pad(site: Site) -> Op:
    return _make_pad(site, site.output_quant().zero_point)


def _pad_v2(site: Site) -> Op:
    site.operand(2)
    constant = site.input_tensor(2)
    if constant.data is None:
        raise site.unsupported(f"padding value `{constant.name}` is computed at run time; it must be a constant")
    if len(constant.data) != 1:
        raise site.malformed(f"padding value `{constant.name}` holds {len(constant.data)} bytes instead of 1")
    if constant.quant != site.output_quant():
        raise site.unsupported(f"padding value `{constant.name}` and the output have different quantisation")
    return _make_pad(site, int.from_bytes(constant.data, signed=True))


def _make_pad(site: Site, value: int) -> Op:
    return Pad(
        inputs=(site.moved(0),),
        outputs=(site.output(),),
        origin=(site.index,),
        paddings=_paddings(site),
        value=value,
    )


def _reshape(site: Site) -> Op:
    shape = site.output_tensor().shape
    if site.has_input(1):
        asked = site.integers(1, "shape")
        if len(asked) != len(shape) or any(a not in (-1, dim) for a, dim in zip(asked, shape, strict=True)):
            raise site.malformed(f"shape {list(asked)} is asked for, the output has {list(shape)}")
    return Reshape(inputs=(site.moved(0),), outputs=(site.output(),), origin=(site.index,))


def _softmax(site: Site) -> Op:
    beta = float(site.op.options.get("Beta", 0.0))
    if not (math.isfinite(beta) and beta > 0):
        raise site.malformed(f"beta {beta:g}; a positive number is required")
    return Softmax(inputs=(site.operand(0),), outputs=(site.output(),), origin=(site.index,), beta=beta)


def _transpose(site: Site) -> Op:
    rank = len(site.input_tensor(0).shape)
    perm = tuple(site.axis(value, rank) for value in site.integers(1, "permutation"))
    if sorted(perm) != list(range(rank)):
        raise site.malformed(f"{list(perm)} is no permutation of {rank} dimensions")
    return Transpose(inputs=(site.moved(0),), outputs=(site.output(),), origin=(site.index,), perm=perm)


def _concatenation(site: Site) -> Op:
    if site.option("FusedActivationFunction"):
        raise site.unsupported("a fused activation; NONE is allowed", hint="make the activation an operator of its own")
    return Concat(
        inputs=tuple(site.moved(i) for i in range(len(site.op.inputs))),
        outputs=(site.output(),),
        origin=(site.index,),
        axis=site.axis(site.option("Axis"), len(site.output_tensor().shape)),
    )


def _slice(site: Site) -> Op:
    shape, result = site.input_tensor(0).shape, site.output_tensor().shape
    begin, size = site.integers(1, "begin"), site.integers(2, "size")
    if not len(begin) == len(size) == len(shape):
        raise site.malformed(f"{len(begin)} begins and {len(size)} sizes for {len(shape)} dimensions")
    ends = tuple(dim if s == -1 else b + s for b, s, dim in zip(begin, size, shape, strict=True))
    if any(not 0 <= b < e <= dim for b, e, dim in zip(begin, ends, shape, strict=True)):
        raise site.malformed(f"begin {list(begin)} and size {list(size)} do not fit into {list(shape)}")
    if result != tuple(e - b for b, e in zip(begin, ends, strict=True)):
        raise site.malformed(f"begin {list(begin)} and size {list(size)} contradict the output's {list(result)}")
    return Slice(inputs=(site.moved(0),), outputs=(site.output(),), origin=(site.index,), begin=begin)


def _quantize(site: Site) -> Op:
    return Quantize(inputs=(site.operand(0),), outputs=(site.output(),), origin=(site.index,))


def _unary(function: Function) -> Callable[[Site], Op]:
    def lower(site: Site) -> Op:
        return Unary(inputs=(site.operand(0),), outputs=(site.output(),), origin=(site.index,), function=function)

    return lower


@dataclass(frozen=True, slots=True)
class Lowering:
    """How one TFLite operator becomes an IR op: the function, its option table ("" for none) and numbers of inputs."""

    function: Callable[[Site], Op]
    options: str
    inputs: range


_ANY_NUMBER = range(1, 1 << 16)

LOWERINGS: Mapping[str, Lowering] = {
    "ADD": Lowering(_binary(Add), "AddOptions", range(2, 3)),
    "AVERAGE_POOL_2D": Lowering(_pool(AveragePool2D), "Pool2DOptions", range(1, 2)),
    "CONCATENATION": Lowering(_concatenation, "ConcatenationOptions", _ANY_NUMBER),
    "CONV_2D": Lowering(_conv_2d, "Conv2DOptions", range(2, 4)),
    "DEPTHWISE_CONV_2D": Lowering(_depthwise_conv_2d, "DepthwiseConv2DOptions", range(2, 4)),
    "FULLY_CONNECTED": Lowering(_fully_connected, "FullyConnectedOptions", range(2, 4)),
    "MAX_POOL_2D": Lowering(_pool(MaxPool2D), "Pool2DOptions", range(1, 2)),
    "MEAN": Lowering(_mean, "ReducerOptions", range(2, 3)),
    "MUL": Lowering(_binary(Mul), "MulOptions", range(2, 3)),
    "PAD": Lowering(_pad, "PadOptions", range(2, 3)),
    "PADV2": Lowering(_pad_v2, "PadV2Options", range(3, 4)),
    "QUANTIZE": Lowering(_quantize, "QuantizeOptions", range(1, 2)),
    "RELU": Lowering(_unary(Function.RELU), "", range(1, 2)),
    "RELU6": Lowering(_unary(Function.RELU6), "", range(1, 2)),
    "RESHAPE": Lowering(_reshape, "ReshapeOptions", range(1, 3)),
    "SLICE": Lowering(_slice, "SliceOptions", range(3, 4)),
    "SOFTMAX": Lowering(_softmax, "SoftmaxOptions", range(1, 2)),
    "TRANSPOSE": Lowering(_transpose, "TransposeOptions", range(2, 3)),
}
"""Every TFLite operator that can be read."""


def _lower(site: Site) -> Op:
    """The IR op of one TFLite operator, after the checks that all operators share."""
    op = site.op
    lowering = LOWERINGS.get(op.name)
    if lowering is None:
        raise site.unsupported(
            f"this operator cannot be compiled; allowed are {', '.join(LOWERINGS)}",
            hint="keep the operator on the CPU, or express it through the allowed ones",
        )
    if len(op.inputs) not in lowering.inputs or len(op.outputs) != 1:
        raise site.malformed(f"{len(op.inputs)} inputs and {len(op.outputs)} outputs are not a form of this operator")
    if op.kind and lowering.options and op.kind != lowering.options:
        raise site.malformed(f"options {op.kind} instead of {lowering.options}")
    site.output()  # a float or unquantised output is reported as such, before anything that follows from it
    return lowering.function(site)

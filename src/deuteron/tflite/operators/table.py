"""Every TFLite operator that can be read; the docstring of a reader says what it accepts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deuteron.ir import ops
from deuteron.ir.ops import Function, Op
from deuteron.tflite.operators import dense, movement, windowed
from deuteron.tflite.site import Site


@dataclass(frozen=True, slots=True)
class Lowering:
    """How one TFLite operator becomes an IR op: the function, its option table ("" for none) and numbers of inputs."""

    function: Callable[[Site], Op]
    options: str
    inputs: range


_ONE, _TWO, _THREE = range(1, 2), range(2, 3), range(3, 4)
_ANY_NUMBER = range(1, 1 << 16)


def _function(function: Function) -> Lowering:
    return Lowering(dense.unary(function), "", _ONE)


LOWERINGS: Mapping[str, Lowering] = {
    "ABS": _function(Function.ABS),
    "ADD": Lowering(dense.binary(ops.Add), "AddOptions", _TWO),
    "AVERAGE_POOL_2D": Lowering(windowed.pool(ops.AveragePool2D), "Pool2DOptions", _ONE),
    "BATCH_MATMUL": Lowering(dense.batch_matmul, "BatchMatMulOptions", _TWO),
    "CONCATENATION": Lowering(movement.concatenation, "ConcatenationOptions", _ANY_NUMBER),
    "CONV_2D": Lowering(windowed.conv_2d, "Conv2DOptions", range(2, 4)),
    "DEPTHWISE_CONV_2D": Lowering(windowed.depthwise_conv_2d, "DepthwiseConv2DOptions", range(2, 4)),
    "EXP": _function(Function.EXP),
    "EXPAND_DIMS": Lowering(movement.drop_or_add_dimensions, "ExpandDimsOptions", _TWO),
    "FULLY_CONNECTED": Lowering(dense.fully_connected, "FullyConnectedOptions", range(2, 4)),
    "HARD_SWISH": _function(Function.HARD_SWISH),
    "LEAKY_RELU": Lowering(dense.leaky_relu, "LeakyReluOptions", _ONE),
    "LOG": _function(Function.LOG),
    "LOGISTIC": _function(Function.LOGISTIC),
    "MAXIMUM": Lowering(dense.extremum(ops.Maximum), "MaximumMinimumOptions", _TWO),
    "MAX_POOL_2D": Lowering(windowed.pool(ops.MaxPool2D), "Pool2DOptions", _ONE),
    "MEAN": Lowering(dense.reduction(ops.Mean, "mean"), "ReducerOptions", _TWO),
    "MINIMUM": Lowering(dense.extremum(ops.Minimum), "MaximumMinimumOptions", _TWO),
    "MIRROR_PAD": Lowering(movement.mirror_pad, "MirrorPadOptions", _TWO),
    "MUL": Lowering(dense.binary(ops.Mul), "MulOptions", _TWO),
    "PAD": Lowering(movement.pad, "PadOptions", _TWO),
    "PADV2": Lowering(movement.pad_v2, "PadV2Options", _THREE),
    "PRELU": Lowering(dense.prelu, "", _TWO),
    "QUANTIZE": Lowering(dense.quantize, "QuantizeOptions", _ONE),
    "REDUCE_MAX": Lowering(dense.reduction(ops.ReduceMax, "maximum"), "ReducerOptions", _TWO),
    "REDUCE_MIN": Lowering(dense.reduction(ops.ReduceMin, "minimum"), "ReducerOptions", _TWO),
    "RELU": _function(Function.RELU),
    "RELU6": _function(Function.RELU6),
    "RELU_0_TO_1": _function(Function.RELU_0_TO_1),
    "RELU_N1_TO_1": _function(Function.RELU_N1_TO_1),
    "RESHAPE": Lowering(movement.reshape, "ReshapeOptions", range(1, 3)),
    "RESIZE_BILINEAR": Lowering(windowed.resize_bilinear, "ResizeBilinearOptions", _TWO),
    "RESIZE_NEAREST_NEIGHBOR": Lowering(windowed.resize_nearest, "ResizeNearestNeighborOptions", _TWO),
    "RSQRT": _function(Function.RSQRT),
    "SLICE": Lowering(movement.slice_, "SliceOptions", _THREE),
    "SOFTMAX": Lowering(dense.softmax, "SoftmaxOptions", _ONE),
    "SQUEEZE": Lowering(movement.drop_or_add_dimensions, "SqueezeOptions", _ONE),
    "STRIDED_SLICE": Lowering(movement.strided_slice, "StridedSliceOptions", range(4, 5)),
    "SUB": Lowering(dense.binary(ops.Sub), "SubOptions", _TWO),
    "SUM": Lowering(dense.reduction(ops.Sum, "sum"), "ReducerOptions", _TWO),
    "TANH": _function(Function.TANH),
    "TRANSPOSE": Lowering(movement.transpose, "TransposeOptions", _TWO),
    "TRANSPOSE_CONV": Lowering(windowed.transpose_conv, "TransposeConvOptions", range(3, 5)),
}

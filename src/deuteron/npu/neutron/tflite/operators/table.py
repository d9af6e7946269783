"""Every TFLite operator that can be read; the docstring of a reader says what it accepts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.ops import Function, Op
from deuteron.npu.neutron.tflite.operator_view import Site
from deuteron.npu.neutron.tflite.operators import dense, movement, windowed
from deuteron.tflite.flat_model import CUSTOM, TABLE, FlatOperator


@dataclass(frozen=True, slots=True)
class Lowering:
    """How one TFLite operator becomes an IR op.

    Attributes:
        function: reads one; its docstring says what is accepted.
        makes: the class of the IR op.
        options: the option table, "" for none.
        inputs: the numbers of inputs that it may have.
    """

    function: Callable[[Site], Op]
    makes: type[Op]
    options: str
    inputs: range

    @property
    def accepts(self) -> str:
        """The accepted operators, as sentences."""
        return " ".join(str(self.function.__doc__).split())


_ONE, _TWO, _THREE = range(1, 2), range(2, 3), range(3, 4)
_ANY_NUMBER = range(1, 1 << 16)


def _function(function: Function) -> Lowering:
    return Lowering(dense.unary(function), ops.Unary, "", _ONE)


LOWERINGS: Mapping[str, Lowering] = {
    "ABS": _function(Function.ABS),
    "ADD": Lowering(dense.binary(ops.Add), ops.Add, "AddOptions", _TWO),
    "AVERAGE_POOL_2D": Lowering(windowed.pool(ops.AveragePool2D), ops.AveragePool2D, "Pool2DOptions", _ONE),
    "BATCH_MATMUL": Lowering(dense.batch_matmul, ops.BatchMatMul, "BatchMatMulOptions", _TWO),
    "CONCATENATION": Lowering(movement.concatenation, ops.Concat, "ConcatenationOptions", _ANY_NUMBER),
    "CONV_2D": Lowering(windowed.conv_2d, ops.Conv2D, "Conv2DOptions", range(2, 4)),
    "DEPTHWISE_CONV_2D": Lowering(
        windowed.depthwise_conv_2d, ops.DepthwiseConv2D, "DepthwiseConv2DOptions", range(2, 4)
    ),
    TABLE: Lowering(dense.lookup, ops.Lookup, "", _ONE),
    "EXP": _function(Function.EXP),
    "EXPAND_DIMS": Lowering(movement.drop_or_add_dimensions, ops.Reshape, "ExpandDimsOptions", _TWO),
    "FULLY_CONNECTED": Lowering(dense.fully_connected, ops.FullyConnected, "FullyConnectedOptions", range(2, 4)),
    "HARD_SWISH": _function(Function.HARD_SWISH),
    "LEAKY_RELU": Lowering(dense.leaky_relu, ops.LeakyRelu, "LeakyReluOptions", _ONE),
    "LOG": _function(Function.LOG),
    "LOGISTIC": _function(Function.LOGISTIC),
    "MAXIMUM": Lowering(dense.extremum(ops.Maximum), ops.Maximum, "MaximumMinimumOptions", _TWO),
    "MAX_POOL_2D": Lowering(windowed.pool(ops.MaxPool2D), ops.MaxPool2D, "Pool2DOptions", _ONE),
    "MEAN": Lowering(dense.reduction(ops.Mean, "mean"), ops.Mean, "ReducerOptions", _TWO),
    "MINIMUM": Lowering(dense.extremum(ops.Minimum), ops.Minimum, "MaximumMinimumOptions", _TWO),
    "MIRROR_PAD": Lowering(movement.mirror_pad, ops.MirrorPad, "MirrorPadOptions", _TWO),
    "MUL": Lowering(dense.binary(ops.Mul), ops.Mul, "MulOptions", _TWO),
    "PAD": Lowering(movement.pad, ops.Pad, "PadOptions", _TWO),
    "PADV2": Lowering(movement.pad_v2, ops.Pad, "PadV2Options", _THREE),
    "PRELU": Lowering(dense.prelu, ops.Prelu, "", _TWO),
    "QUANTIZE": Lowering(dense.quantize, ops.Quantize, "QuantizeOptions", _ONE),
    "REDUCE_MAX": Lowering(dense.reduction(ops.ReduceMax, "maximum"), ops.ReduceMax, "ReducerOptions", _TWO),
    "REDUCE_MIN": Lowering(dense.reduction(ops.ReduceMin, "minimum"), ops.ReduceMin, "ReducerOptions", _TWO),
    "RELU": _function(Function.RELU),
    "RELU6": _function(Function.RELU6),
    "RELU_0_TO_1": _function(Function.RELU_0_TO_1),
    "RELU_N1_TO_1": _function(Function.RELU_N1_TO_1),
    "RESHAPE": Lowering(movement.reshape, ops.Reshape, "ReshapeOptions", range(1, 3)),
    "RESIZE_BILINEAR": Lowering(windowed.resize_bilinear, ops.ResizeBilinear, "ResizeBilinearOptions", _TWO),
    "RESIZE_NEAREST_NEIGHBOR": Lowering(
        windowed.resize_nearest, ops.ResizeNearest, "ResizeNearestNeighborOptions", _TWO
    ),
    "RSQRT": _function(Function.RSQRT),
    "SLICE": Lowering(movement.slice_, ops.Slice, "SliceOptions", _THREE),
    "SOFTMAX": Lowering(dense.softmax, ops.Softmax, "SoftmaxOptions", _ONE),
    "SQUEEZE": Lowering(movement.drop_or_add_dimensions, ops.Reshape, "SqueezeOptions", _ONE),
    "STRIDED_SLICE": Lowering(movement.strided_slice, ops.Slice, "StridedSliceOptions", range(4, 5)),
    "SUB": Lowering(dense.binary(ops.Sub), ops.Sub, "SubOptions", _TWO),
    "SUM": Lowering(dense.reduction(ops.Sum, "sum"), ops.Sum, "ReducerOptions", _TWO),
    "TANH": _function(Function.TANH),
    "TRANSPOSE": Lowering(movement.transpose, ops.Transpose, "TransposeOptions", _TWO),
    "TRANSPOSE_CONV": Lowering(windowed.transpose_conv, ops.TransposeConv, "TransposeConvOptions", range(3, 5)),
}
"""By the names of the schema, and for custom operators by their codes."""


def lowering_of(op: FlatOperator) -> Lowering | None:
    """How this operator becomes an IR op; None when it cannot."""
    return LOWERINGS.get(op.custom_code if op.name == CUSTOM else op.name)

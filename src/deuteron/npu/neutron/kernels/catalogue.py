"""The NPU kernels: one entry each, with its number in the microcode, its operands and its C symbol."""

from types import MappingProxyType

from deuteron.operators import kernel_params as p
from deuteron.operators.program import Kernel

CONV2D = Kernel(1, "conv2d_s8", ("input", "weights", "bias", "requant"), p.Conv2DParams, workspace=True)
DEPTHWISE_CONV2D = Kernel(2, "depthwise_conv2d_s8", ("input", "weights", "bias", "requant"), p.DepthwiseConv2DParams)
FULLY_CONNECTED = Kernel(3, "fully_connected_s8", ("input", "weights", "bias", "requant"), p.FullyConnectedParams)
ADD = Kernel(4, "add_s8", ("a", "b"), p.AddParams)
MUL = Kernel(5, "mul_s8", ("a", "b"), p.MulParams)
AVERAGE_POOL = Kernel(6, "average_pool_s8", ("input",), p.AveragePoolParams)
MAX_POOL = Kernel(7, "max_pool_s8", ("input",), p.MaxPoolParams)
REDUCE_SUM = Kernel(8, "reduce_sum_s8", ("input",), p.ReduceSumParams)
SOFTMAX = Kernel(9, "softmax_s8", ("input", "table"), p.SoftmaxParams)
COPY = Kernel(10, "copy_s8", ("input",), p.CopyParams)
FILL = Kernel(11, "fill_s8", (), p.FillParams)
LUT = Kernel(12, "lut_s8", ("input", "table"), p.LutParams)
EXTREMUM = Kernel(13, "extremum_s8", ("a", "b"), p.ExtremumParams)
REDUCE_EXTREMUM = Kernel(14, "reduce_extremum_s8", ("input",), p.ReduceExtremumParams)
MATMUL = Kernel(15, "matmul_s8", ("x", "y"), p.MatMulParams)
RESIZE_BILINEAR = Kernel(16, "resize_bilinear_s8", ("input",), p.ResizeBilinearParams)
PRELU = Kernel(17, "prelu_s8", ("a", "b"), p.PreluParams)

KERNELS: tuple[Kernel, ...] = (
    CONV2D,
    DEPTHWISE_CONV2D,
    FULLY_CONNECTED,
    ADD,
    MUL,
    AVERAGE_POOL,
    MAX_POOL,
    REDUCE_SUM,
    SOFTMAX,
    COPY,
    FILL,
    LUT,
    EXTREMUM,
    REDUCE_EXTREMUM,
    MATMUL,
    RESIZE_BILINEAR,
    PRELU,
)
BY_KIND = MappingProxyType({kernel.kind: kernel for kernel in KERNELS})

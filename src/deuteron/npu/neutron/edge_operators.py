"""Edge operators that ExecuTorch's NXP backend or this package delegates, and the resulting TFLite operators.

A table, because importing the backend takes seconds; a test compares it with the backend's registry.
"""

from collections.abc import Mapping
from types import MappingProxyType

EDGE_OPERATORS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "aten._adaptive_avg_pool2d.default": ("AVERAGE_POOL_2D",),
        "aten._softmax.default": ("SOFTMAX",),
        "aten.abs.default": ("ABS",),
        "aten.add.Tensor": ("ADD",),
        "aten.addmm.default": ("FULLY_CONNECTED",),
        "aten.amax.default": ("REDUCE_MAX",),
        "aten.amin.default": ("REDUCE_MIN",),
        "aten.avg_pool2d.default": ("AVERAGE_POOL_2D", "PAD"),
        "aten.bmm.default": ("BATCH_MATMUL",),
        "aten.cat.default": ("CONCATENATION",),
        "aten.clamp.default": ("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "MAXIMUM", "MINIMUM"),
        "aten.clone.default": (),
        "aten.constant_pad_nd.default": ("PAD", "PADV2"),
        "aten.convolution.default": ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "PAD", "SLICE"),
        "aten.convolution.out": ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "PAD", "SLICE"),
        "aten.exp.default": ("EXP",),
        "aten.hardswish.default": ("HARD_SWISH",),
        "aten.hardtanh.default": ("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "MAXIMUM", "MINIMUM"),
        "aten.leaky_relu.default": ("LEAKY_RELU",),
        "aten.log.default": ("LOG",),
        "aten.max_pool2d_with_indices.default": ("MAX_POOL_2D", "PADV2"),
        "aten.maximum.default": ("MAXIMUM",),
        "aten.mean.dim": ("MEAN",),
        "aten.minimum.default": ("MINIMUM",),
        "aten.mm.default": ("FULLY_CONNECTED",),
        "aten.mul.Tensor": ("MUL",),
        "aten.neg.default": ("SUB",),
        "aten.pad.default": ("MIRROR_PAD",),
        "aten.permute_copy.default": ("TRANSPOSE",),
        "aten.prelu.default": ("PRELU",),
        "aten.relu.default": ("RELU",),
        "aten.rsqrt.default": ("RSQRT",),
        "aten.sigmoid.default": ("LOGISTIC",),
        "aten.slice_copy.Tensor": ("SLICE",),
        "aten.sub.Tensor": ("SUB",),
        "aten.sum.dim_IntList": ("SUM",),
        "aten.tanh.default": ("TANH",),
        "aten.upsample_bilinear2d.vec": ("RESIZE_BILINEAR",),
        "aten.upsample_nearest2d.vec": ("RESIZE_NEAREST_NEIGHBOR",),
        "aten.view_copy.default": ("RESHAPE",),
        "deuteron.table.default": ("DeuteronTable",),
        "dim_order_ops._clone_dim_order.default": ("TRANSPOSE",),
    }
)
"""Edge operator -> TFLite operators, without the TRANSPOSE, RESHAPE and QUANTIZE that any may add."""

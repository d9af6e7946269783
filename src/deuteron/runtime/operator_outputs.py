"""Positions of the arguments of a kernel call that its operator writes.

A `.pte` does not contain them. In ExecuTorch's argument order, outputs are the last ones before the returned value,
and most operators have one. `OUTPUTS` lists all other operators of its runtime and of its Cortex-M backend, whose
scratch tensors count as outputs; a test compares it with their schemas.
"""

from collections.abc import Mapping

OUTPUTS: Mapping[str, tuple[int, ...]] = {
    "aten::_local_scalar_dense": (),
    "aten::_native_batch_norm_legit.no_stats_out": (6, 7, 8),
    "aten::_native_batch_norm_legit.out": (3, 4, 8, 9, 10),
    "aten::_native_batch_norm_legit_no_training.out": (7, 8, 9),
    "aten::convolution_backward.out": (11, 12, 13),
    "aten::copy_": (0,),
    "aten::index_put_": (0,),
    "aten::max.dim_max": (3, 4),
    "aten::max_pool2d_with_indices.out": (6, 7),
    "aten::min.dim_min": (3, 4),
    "aten::native_dropout.out": (3, 4),
    "aten::native_group_norm.out": (8, 9, 10),
    "aten::native_layer_norm.out": (5, 6, 7),
    "aten::sym_numel": (),
    "aten::sym_size.int": (),
    "aten::topk.values": (5, 6),
    "aten::var_mean.correction_out": (4, 5),
    "cortex_m::quantized_conv2d.out": (12, 13),
    "cortex_m::quantized_conv2d_nhwc.out": (12, 13),
    "cortex_m::quantized_depthwise_conv2d.out": (13, 14),
    "cortex_m::quantized_depthwise_conv2d_nhwc.out": (13, 14),
    "cortex_m::quantized_transpose_conv2d.out": (13, 14, 15),
    "cortex_m::quantized_transpose_conv2d_nhwc.out": (13, 14, 15),
    "cortex_m::quantized_avg_pool2d.out": (8, 9),
    "cortex_m::quantized_avg_pool2d_nhwc.out": (8, 9),
    "cortex_m::quantized_batch_matmul.out": (7, 8),
    "deuteron::gru.out": (6, 7, 8),
    "deuteron::lstm.out": (7, 8, 9),
    "deuteron::rnn.out": (6, 7),
    "executorch_prim::et_copy_index.tensor": (0,),
    "executorch_prim::et_view.default": (),
    "quantized_decomposed::choose_qparams.Tensor_out": (5, 6),
    "quantized_decomposed::choose_qparams_per_token_asymmetric.out": (2, 3),
}
"""Written arguments of operators that do not write exactly one."""

VIEW = "executorch_prim::et_view.default"
"""The operator that makes its last argument a view of its first one. It writes no element."""


def written(operator: str, arguments: int) -> tuple[int, ...]:
    """Return the positions of the arguments that a call with this number of arguments writes."""
    listed = OUTPUTS.get(operator)
    if listed is None:
        return (arguments - 2,) if arguments >= 2 else ()
    return tuple(position for position in listed if position < arguments)

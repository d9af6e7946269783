"""The CPU operators of firmware: arguments of each, and the parameter words for its C function.

`operators.h`, `cortex_m.h`, `custom_ops.h` and `aten.h` in `firmware/include/deuteron/` define the results.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from deuteron.board.operators import aten, convolution, cortex_m, custom_ops, direct, movement, quantize
from deuteron.board.operators.lowering import Argument, OperatorCall, RefusedError, Tensor
from deuteron.operators import catalogue
from deuteron.operators.custom_ops import BY_FORMER_NAME, BY_NAME

__all__ = ["TRANSPOSE", "Argument", "OperatorCall", "RefusedError", "Tensor", "lower", "supported"]

TRANSPOSE = "dtn_op_transpose"
"""Transposes [batches, rows, columns], its parameters, to [batches, columns, rows]."""

_Lowering = Callable[[Sequence[Argument]], OperatorCall | tuple[OperatorCall, ...]]

_LOWERINGS: Mapping[str, _Lowering] = {
    "quantized_decomposed::quantize_per_tensor.out": quantize.quantize,
    "quantized_decomposed::dequantize_per_tensor.out": quantize.dequantize,
    "cortex_m::quantize_per_tensor.out": quantize.quantize,
    "cortex_m::dequantize_per_tensor.out": quantize.dequantize,
    "cortex_m::quantized_add.out": cortex_m.quantized_add,
    "cortex_m::quantized_mul.out": cortex_m.quantized_mul,
    "cortex_m::quantized_div.out": cortex_m.quantized_div,
    "cortex_m::quantized_activation.out": cortex_m.quantized_activation,
    "cortex_m::minimum.out": cortex_m.minimum,
    "cortex_m::maximum.out": cortex_m.maximum,
    "cortex_m::softmax.out": cortex_m.softmax,
    "cortex_m::transpose.out": movement.permute,
    "cortex_m::pad.out": cortex_m.pad,
    "cortex_m::quantized_avg_pool2d.out": cortex_m.avg_pool,
    "cortex_m::quantized_avg_pool2d_nhwc.out": partial(cortex_m.avg_pool, explicit=True),
    "cortex_m::quantized_max_pool2d.out": cortex_m.max_pool,
    "cortex_m::quantized_max_pool2d_nhwc.out": partial(cortex_m.max_pool, explicit=True),
    "cortex_m::quantized_conv2d.out": convolution.conv2d,
    "cortex_m::quantized_conv2d_nhwc.out": partial(convolution.conv2d, explicit=True),
    "cortex_m::quantized_depthwise_conv2d.out": convolution.depthwise_conv2d,
    "cortex_m::quantized_depthwise_conv2d_nhwc.out": partial(convolution.depthwise_conv2d, explicit=True),
    "cortex_m::quantized_transpose_conv2d.out": convolution.transpose_conv2d,
    "cortex_m::quantized_transpose_conv2d_nhwc.out": partial(convolution.transpose_conv2d, explicit=True),
    "cortex_m::quantized_linear.out": convolution.linear,
    "cortex_m::quantized_batch_matmul.out": convolution.batch_matmul,
    "aten::copy_": movement.copy_into,
    "aten::view_copy.out": movement.view,
    "aten::permute_copy.out": movement.permute,
    "aten::squeeze_copy.dims_out": movement.squeeze,
    "aten::unsqueeze_copy.out": movement.squeeze,
    "aten::expand_copy.out": movement.expand,
    "aten::slice_copy.Tensor_out": movement.slice_copy,
    "aten::select_copy.int_out": movement.select,
    "aten::cat.out": movement.cat,
    "aten::stack.out": movement.stack,
    "aten::index_select.out": movement.index_select,
    "aten::split_with_sizes_copy.out": movement.split,
    "aten::split_copy.Tensor_out": movement.split,
    "aten::upsample_nearest2d.vec_out": movement.upsample_nearest,
    "aten::add.out": aten.add,
    "aten::sub.out": aten.sub,
    "aten::mul.out": aten.mul,
    "aten::div.out": aten.div,
    "aten::remainder.Tensor_out": aten.remainder,
    "aten::remainder.Scalar_out": aten.remainder,
    "aten::eq.Tensor_out": aten.eq,
    "aten::ne.Tensor_out": aten.ne,
    "aten::gt.Tensor_out": aten.gt,
    "aten::ge.Tensor_out": aten.ge,
    "aten::lt.Tensor_out": aten.lt,
    "aten::le.Tensor_out": aten.le,
    "aten::clamp.out": aten.clamp,
    "aten::amax.out": aten.amax,
    "aten::full.out": aten.full,
    "aten::convolution.out": aten.convolution,
    "aten::max_pool2d_with_indices.out": aten.max_pool,
    "dim_order_ops::_clone_dim_order.out": movement.clone,
    "dim_order_ops::_to_dim_order_copy.out": movement.clone,
    **{name: partial(custom_ops.lower, operator) for name, operator in (*BY_NAME.items(), *BY_FORMER_NAME.items())},
}


def lower(operator: str, args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Return the C calls for an operator of a program, in order.

    Raises:
        RefusedError: firmware does not have it, or not for these arguments.
    """
    if function := catalogue.named(operator):
        calls: OperatorCall | tuple[OperatorCall, ...] = direct.lower(function, args)
    elif operator in _LOWERINGS:
        calls = _LOWERINGS[operator](args)
    else:
        raise RefusedError("is not in firmware")
    # A call without output elements need not run.
    return tuple(
        call for call in (calls if isinstance(calls, tuple) else (calls,)) if any(y.bytes for y in call.outputs)
    )


def supported() -> tuple[str, ...]:
    """Return the operators of programs that firmware has, by PyTorch's names, without names of older releases."""
    return tuple(dict.fromkeys(name.partition(".")[0] for name in _LOWERINGS if name not in BY_FORMER_NAME))

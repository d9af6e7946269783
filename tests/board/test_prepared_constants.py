"""Constants made with a bundle: kernel sums in place of biases, and convolutions in place of depthwise ones."""

import numpy as np
import numpy.typing as npt
import pytest

from deuteron.board.operators import lower
from deuteron.board.operators.lowering import OperatorCall, Tensor
from deuteron.board.operators.prepared_constants import kernel_sum
from deuteron.operators.cortex_m import BY_OPERATOR, QuantizedConvolutionParams, QuantizedLinearParams
from deuteron.runtime.program import Constant, Place, TensorSpec, TensorValue

Array = npt.NDArray[np.generic]
LARGEST = (1 << 31) - 1


def tensor(index: int, like: Array, *, constant: bool) -> Tensor:
    data = like.tobytes()
    spec = TensorSpec(like.shape, like.dtype.name, tuple(range(like.ndim)))
    content = Constant(data, 0, len(data)) if constant else None
    place = None if constant else Place(1, 0)
    return Tensor(index, TensorValue(spec, len(data), place, content, False, False))


def weights(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape).astype(np.int8)


def numbers(sums: Tensor | None) -> list[int]:
    assert sums is not None
    assert sums.index is None
    assert sums.value.constant is not None
    assert sums.spec.dtype == "int32"
    return np.frombuffer(sums.value.constant.data, np.int32).tolist()


@pytest.mark.parametrize(
    ("bias", "expected"), [(None, [15, 60]), ([1, -1], [16, 59]), ([LARGEST, 0], [14 - (1 << 31), 60])]
)
def test_a_kernel_sum_has_the_bias_and_what_the_offset_adds(bias: list[int] | None, expected: list[int]) -> None:
    rows = tensor(0, weights(2, 3), constant=True)
    addend = None if bias is None else tensor(1, np.array(bias, np.int32), constant=True)
    assert numbers(kernel_sum(rows, addend, 5)) == expected


def test_the_offset_of_the_weights_counts() -> None:
    assert numbers(kernel_sum(tensor(0, weights(2, 3), constant=True), None, 5, weight_offset=-1)) == [0, 45]


@pytest.mark.parametrize("constant", [(True, False), (False, True)])
def test_what_is_computed_has_none(constant: tuple[bool, bool]) -> None:
    rows = tensor(0, weights(2, 3), constant=constant[0])
    assert kernel_sum(rows, tensor(1, np.zeros(2, np.int32), constant=constant[1]), 5) is None


def conv(*, constant: bool) -> OperatorCall:
    x, y = (tensor(i, np.zeros((1, 4, 4, c), np.int8), constant=False) for i, c in ((0, 3), (5, 2)))
    rows = tensor(1, weights(2, 3, 3, 3), constant=constant)
    bias, multipliers, shifts = (tensor(i, np.ones(2, np.int32), constant=True) for i in (2, 3, 4))
    scratch = tensor(6, np.zeros(108, np.uint8), constant=False)
    plane = ((1, 1), (1, 1), (1, 1))
    (call,) = lower(
        "cortex_m::quantized_conv2d_nhwc.out",
        (x, rows, bias, *plane, 5, 0, multipliers, shifts, -128, 127, scratch, y, y),
    )
    return call


def test_a_convolution_with_constant_weights_takes_it_instead_of_the_bias() -> None:
    call = conv(constant=True)
    params = QuantizedConvolutionParams.from_words(call.params)
    assert (params.has_bias, params.has_kernel_sum) == (0, 1)
    total = weights(2, 3, 3, 3).reshape(2, -1).sum(axis=1, dtype=np.int64) * 5 + 1
    assert numbers(call.inputs[-1]) == total.tolist()
    params = QuantizedConvolutionParams.from_words(conv(constant=False).params)
    assert (params.has_bias, params.has_kernel_sum) == (1, 0)


@pytest.mark.parametrize("given", ["nothing", "bias", "kernel sum"])
def test_a_linear_layer_keeps_its_own(given: str) -> None:
    x, y = (tensor(i, np.zeros((1, n), np.int8), constant=False) for i, n in ((0, 3), (3, 2)))
    addend = tensor(2, np.array([7, 8], np.int32), constant=True)
    bias, own = (addend if given == name else None for name in ("bias", "kernel sum"))
    args = (x, tensor(1, weights(2, 3), constant=True), bias, own, 5, 0, 0, (1 << 30,), (-3,), 127, -128, y, y)
    (call,) = lower("cortex_m::quantized_linear.out", args)
    assert call.function == BY_OPERATOR["quantized_linear"].symbol
    params = QuantizedLinearParams.from_words(call.params)
    assert (params.has_bias, params.has_kernel_sum) == (0, 1)
    if own:
        assert call.inputs[-1] is own
    else:
        assert numbers(call.inputs[-1]) == ([22, 68] if bias else [15, 60])


def depthwise(channels: int, planned: int, *, constant: bool = True) -> OperatorCall:
    """A depthwise layer that makes 6 channels of some, with as much scratch memory as was planned."""
    x, y = (tensor(i, np.zeros((1, 4, 4, c), np.int8), constant=False) for i, c in ((0, channels), (5, 6)))
    rows = tensor(1, weights(1, 2, 3, 6), constant=constant)
    bias, multipliers, shifts = (tensor(i, np.ones(6, np.int32), constant=True) for i in (2, 3, 4))
    scratch = tensor(6, np.zeros(planned, np.uint8), constant=False)
    plane = ((1, 1), (1, 1), (1, 1), 6 // channels)
    (call,) = lower(
        "cortex_m::quantized_depthwise_conv2d_nhwc.out",
        (x, rows, bias, *plane, 5, 0, multipliers, shifts, -128, 127, scratch, y, y),
    )
    return call


@pytest.mark.parametrize(("planned", "index"), [(0, None), (63, None), (64, 6)])
def test_a_depthwise_layer_of_one_channel_is_a_convolution(planned: int, index: int | None) -> None:
    call = depthwise(1, planned)
    assert call.function == BY_OPERATOR["quantized_conv2d"].symbol
    params = QuantizedConvolutionParams.from_words(call.params)
    assert (params.in_c, params.out_c, params.groups, params.kernel_h, params.kernel_w) == (1, 6, 1, 2, 3)
    rows = call.inputs[1]
    assert rows.value.constant is not None
    assert (rows.spec.shape, rows.bytes) == ((6, 2, 3, 1), 36)
    stored = np.frombuffer(rows.value.constant.data, np.int8).reshape(rows.spec.shape)
    np.testing.assert_array_equal(stored, weights(1, 2, 3, 6).transpose(3, 1, 2, 0))
    assert (call.outputs[0].index, call.outputs[0].bytes) == (index, 64)


@pytest.mark.parametrize(("channels", "constant"), [(2, True), (1, False)])
def test_others_stay_depthwise(channels: int, constant: bool) -> None:
    assert depthwise(channels, 0, constant=constant).function == BY_OPERATOR["quantized_depthwise_conv2d"].symbol

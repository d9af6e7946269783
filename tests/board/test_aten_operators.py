"""The portable ExecuTorch operators that the firmware runs, and the reasons for refusals of the rest."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.board.programs import Maker

from deuteron.board.host_executor import HostExecutor
from deuteron.board.operators import Argument, RefusedError, Tensor, lower
from deuteron.board.translate import translate
from deuteron.operators.portable import (
    AddParams,
    AmaxParams,
    ClampParams,
    ConvolutionParams,
    FullParams,
)
from deuteron.runtime.program import TensorSpec, TensorValue

BYTES = {"bool": 1, "int8": 1, "int32": 4, "int64": 8, "float32": 4}
HALF = 0x3F000000
INFINITY = 0x7F800000


def tensor(*shape: int, dtype: str = "float32", order: Sequence[int] | None = None) -> Tensor:
    """A tensor, in the order of its shape if none is named."""
    spec = TensorSpec(shape, dtype, tuple(order or range(len(shape))))
    return Tensor(0, TensorValue(spec, BYTES[dtype] * math.prod(shape), None, None, dynamic=False, external=False))


def words(operator: str, *args: Argument) -> tuple[int, ...]:
    """The parameter words of its one call, signed."""
    (call,) = lower(operator, args)
    return tuple(word - (word >> 31 << 32) for word in call.params)


def test_a_sum_repeats_its_smaller_operand_and_walks_along_as_few_dimensions_as_there_can_be() -> None:
    y = tensor(2, 3, 4, 5)
    assert AddParams.from_words(words("aten::add.out", y, tensor(3, 1, 1), 0.5, y, y)) == AddParams(
        dims=(1, 1, 2, 3, 20), a_strides=(0, 0, 60, 20, 1), b_strides=(0, 0, 0, 1, 0), alpha=HALF
    )


def test_a_difference_is_a_sum_with_the_negated_factor() -> None:
    y = tensor(4)
    assert AddParams.from_words(words("aten::sub.out", y, y, 1, y, y)).alpha == HALF + (1 << 23) - (1 << 31)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "expected"),
    [
        ("int8", 0, None, ClampParams(0, 127)),
        ("int8", None, -3, ClampParams(-128, -3)),
        ("float32", 0.5, None, ClampParams(HALF, INFINITY)),
        ("float32", None, 0, ClampParams(INFINITY - (1 << 31), 0)),
    ],
)
def test_limits(dtype: str, low: float | None, high: float | None, expected: ClampParams) -> None:
    x = tensor(7, dtype=dtype)
    assert ClampParams.from_words(words("aten::clamp.out", x, low, high, x, x)) == expected


B, L, J = (tensor(4, dtype=dtype) for dtype in ("bool", "int64", "int32"))


@pytest.mark.parametrize(
    ("operator", "compute"),
    [
        ("aten::add.out", np.add),
        ("aten::sub.out", np.subtract),
        ("aten::mul.out", np.multiply),
        ("aten::eq.Tensor_out", np.equal),
        ("aten::ne.Tensor_out", np.not_equal),
        ("aten::gt.Tensor_out", np.greater),
        ("aten::ge.Tensor_out", np.greater_equal),
        ("aten::lt.Tensor_out", np.less),
        ("aten::le.Tensor_out", np.less_equal),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers(operator: str, compute: np.ufunc, dtype: str) -> None:
    make = Maker()
    a, b = make.unplanned((2, 3), dtype), make.unplanned((3,), dtype)
    y = make.unplanned((2, 3), "bool" if operator.endswith("Tensor_out") else dtype)
    factor = (make.value(1),) if operator in ("aten::add.out", "aten::sub.out") else ()
    make.call(operator, a, b, *factor, y, y)
    executor = HostExecutor(translate(make.program((a, b), (y,)), name="integers"))
    limits = np.iinfo(dtype)
    x, z = np.array([[7, -7, limits.max], [3, 1 << 20, limits.min]], dtype), np.array([3, -7, 1], dtype)
    np.testing.assert_array_equal(executor.run([x, z])[0], compute(x, z), strict=True)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("divisor", [5, -5, -1])
def test_remainders_have_the_sign_of_the_divisor_as_in_pytorch(dtype: str, divisor: int) -> None:
    make = Maker()
    a, y = make.unplanned((5,), dtype), make.unplanned((5,), dtype)
    make.call("aten::remainder.Scalar_out", a, make.value(divisor), y, y)
    executor = HostExecutor(translate(make.program((a,), (y,)), name="remainders"))
    numbers = np.array([7, -7, 10, 0, np.iinfo(dtype).min], dtype)
    assert executor.run([numbers])[0].tolist() == [int(number) % divisor for number in numbers]


@pytest.mark.parametrize("keep", [False, True])
def test_what_is_reduced_may_lie_anywhere_in_memory(keep: bool) -> None:
    x = tensor(2, 3, 4, 5, order=(0, 2, 3, 1))
    y = tensor(*((2, 1, 4, 1) if keep else (2, 4)))
    assert AmaxParams.from_words(words("aten::amax.out", x, (1, -1), keep, y, y)) == AmaxParams(
        kept=(1, 1, 1, 1, 8), kept_strides=(0, 0, 0, 0, 15), reduced=(1, 1, 1, 3, 5), reduced_strides=(0, 0, 0, 1, 3)
    )


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [("float32", 0.5, (HALF, 0)), ("bool", True, (1, 0)), ("int8", -1, (0xFF, 0)), ("int64", -2, (-2, -1))],
)
def test_values_of_any_type(dtype: str, value: float, expected: tuple[int, int]) -> None:
    y = tensor(3, dtype=dtype)
    assert FullParams.from_words(words("aten::full.out", (3,), value, y, y)) == FullParams(*expected)


def test_a_convolution_of_a_sequence_has_one_row() -> None:
    x, w, y = tensor(2, 4, 9), tensor(6, 2, 3), tensor(2, 6, 5)
    found = words("aten::convolution.out", x, w, None, (2,), (1,), (1,), False, (0,), 2, y, y)
    assert ConvolutionParams.from_words(found) == ConvolutionParams(
        input=(2, 4, 1, 9),
        output=(2, 6, 1, 5),
        input_strides=(36, 9, 0, 1),
        weight_strides=(6, 3, 0, 1),
        output_strides=(30, 5, 0, 1),
        groups=2,
        kernel_h=1,
        kernel_w=3,
        stride_h=1,
        stride_w=2,
        pad_h=0,
        pad_w=1,
        dilation_h=1,
        dilation_w=1,
        transposed=0,
        has_bias=0,
    )


B, L, J = (tensor(4, dtype=dtype) for dtype in ("bool", "int64", "int32"))
F, Q = tensor(4), tensor(4, dtype="int8")
IMAGE, WEIGHTS = tensor(1, 4, 8, 8), tensor(4, 2, 3, 3)
CONVOLUTION = (IMAGE, WEIGHTS, None, (1, 1), (0, 0), (1, 1))


@pytest.mark.parametrize(
    ("operator", "args", "why"),
    [
        ("aten::add.out", (F, Q, 1, F, F), "has a int8 tensor, firmware supports float32 only"),
        ("aten::add.out", (F, F, 1e40, F, F), "has the number 1e+40, which float32 cannot represent"),
        ("aten::mul.out", (F, tensor(3), F, F), "does not broadcast (3,) to (4,)"),
        ("aten::ge.Tensor_out", (F, Q, B, B), "has a int8 tensor, firmware supports float32 only"),
        ("aten::add.out", (L, J, 1, L, L), "has a int32 tensor, firmware supports int64 only"),
        ("aten::eq.Tensor_out", (L, J, B, B), "has a int32 tensor, firmware supports int64 only"),
        ("aten::sub.out", (L, L, 2, L, L), "has the factor 2, firmware supports 1 for integers"),
        ("aten::remainder.Scalar_out", (L, 0, L, L), "divides by 0"),
        ("aten::remainder.Tensor_out", (L, L, L, L), "divides by a computed tensor, firmware supports constants"),
        ("aten::remainder.Tensor_out", (F, F, F, F), "has a float32 tensor, firmware supports int32 and int64 only"),
        ("aten::clamp.out", (Q, 0.5, None, Q, Q), "clamps int8 values to 0.5..127, firmware clamps within -128..127"),
        ("aten::clamp.out", (F, "x", None, F, F), "has arguments that this version of Deuteron does not know"),
        (
            "aten::convolution.out",
            (*CONVOLUTION, True, (0, 0), 2, IMAGE, IMAGE),
            "is transposed and has 2 groups, firmware supports 1",
        ),
        (
            "aten::convolution.out",
            (*CONVOLUTION[:3], (40000, 1), *CONVOLUTION[4:], False, (0, 0), 2, IMAGE, IMAGE),
            "has the dimension or stride 40000, firmware supports at most 32767",
        ),
        (
            "aten::convolution.out",
            (F, *CONVOLUTION[1:], False, (0, 0), 2, IMAGE, IMAGE),
            "takes a tensor of shape (4,), firmware supports images and sequences",
        ),
    ],
)
def test_refusals(operator: str, args: Sequence[Argument], why: str) -> None:
    with pytest.raises(RefusedError) as caught:
        lower(operator, args)
    assert str(caught.value) == why

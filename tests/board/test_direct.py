"""Calls that name a C function: what the lowering takes and refuses."""

import math

import pytest

from deuteron.board.operators import Argument, OperatorCall, RefusedError, Tensor, lower
from deuteron.runtime.program import TensorSpec, TensorValue

CONVOLUTION = "firmware::dtn_cm_quantized_conv2d.out"
WORDS = tuple(range(-1, 21))


def tensor(index: int, *shape: int) -> Tensor:
    spec = TensorSpec(shape, "int8", tuple(range(len(shape))))
    return Tensor(index, TensorValue(spec, math.prod(shape), None, None, dynamic=False, external=False))


X, W, M, S, B, SCRATCH, Y = (tensor(index, 4) for index in range(7))


def test_the_call_has_the_arguments_in_the_functions_order():
    (call,) = lower(CONVOLUTION, [(X, W, M, S, B), WORDS, (SCRATCH, Y), (SCRATCH, Y)])
    words = (0xFFFFFFFF, *range(21))
    assert call == OperatorCall("dtn_cm_quantized_conv2d", (X, W, M, S, B), (SCRATCH, Y), words)


def test_optional_inputs_may_be_left_out():
    (call,) = lower(CONVOLUTION, [(X, W, M, S), WORDS, (SCRATCH, Y), (SCRATCH, Y)])
    assert call.inputs == (X, W, M, S)


@pytest.mark.parametrize(
    "args",
    [
        [(X, W, M), WORDS, (SCRATCH, Y), (SCRATCH, Y)],
        [(X, W, M, S, B, B, B), WORDS, (SCRATCH, Y), (SCRATCH, Y)],
        [(X, W, M, S), WORDS[1:], (SCRATCH, Y), (SCRATCH, Y)],
        [(X, W, M, S), WORDS, (Y,), (Y,)],
        [(X, W, M, S), WORDS, (SCRATCH, 3), (SCRATCH, 3)],
        [X, WORDS, (SCRATCH, Y), (SCRATCH, Y)],
    ],
)
def test_other_arguments_are_refused(args: list[Argument]):
    with pytest.raises(RefusedError) as caught:
        lower(CONVOLUTION, args)
    assert str(caught.value) == "has arguments that this version of Deuteron does not know"


def test_functions_that_are_not_there_are_refused():
    with pytest.raises(RefusedError) as caught:
        lower("firmware::dtn_cm_absent.out", [(X,), (), (Y,), (Y,)])
    assert str(caught.value) == "is not in firmware"

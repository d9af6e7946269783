"""The Cortex-M convolutions equal the wheel's Python definitions, and refuse what does not fit."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.cortex_m.convolutions import (
    Call,
    call_of,
    expected,
    random_conv,
    random_depthwise,
    random_transposed,
    with_params,
)
from tests.cortex_m.operator_library import OperatorLibrary, RefusedError

from deuteron.operators.cortex_m import QuantizedConvolutionParams

CALLS = 20
"""Random calls per seed."""

KINDS: tuple[Callable[[np.random.Generator], Call], ...] = (random_conv, random_depthwise, random_transposed)
SCRATCH = {"quantized_conv2d": 1, "quantized_depthwise_conv2d": 1, "quantized_transpose_conv2d": 2}


def columns(call: Call) -> int:
    """Bytes of scratch memory from which on a convolution gathers its windows there."""
    p = call.params
    return 4 * p.kernel_h * p.kernel_w * (p.in_c // p.groups)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_wheel(c_operators: OperatorLibrary, kind: Callable[[np.random.Generator], Call], seed: int) -> None:
    generator = np.random.default_rng([11, seed])
    for _ in range(CALLS):
        call = kind(generator)
        result = expected(call)
        for size in {0, columns(call) - 1, columns(call)}:
            found = call.run(c_operators, [size] * SCRATCH[call.operator])
            np.testing.assert_array_equal(found, result, str((size, call.params)))


@pytest.mark.parametrize("value", [-128, 127])
@pytest.mark.parametrize("offset", [-127, 128])
def test_largest_sums(c_operators: OperatorLibrary, value: int, offset: int) -> None:
    """32,768 products of the largest numbers, on top of the largest bias."""
    generator = np.random.default_rng(12)
    for scratch in (0, 131072):
        call = call_of(generator, "quantized_conv2d", 1, (16, 16), (128, 2), (16, 16))
        bias = np.array([(1 << 31) - 1, -(1 << 31)], np.int32)
        shifts = np.array([-24, -23], np.int32)
        call = with_params(replace(call, bias=bias, shifts=shifts), in_offset=offset, has_bias=1)
        call.input.fill(value)
        call.weights.fill(-128)
        np.testing.assert_array_equal(call.run(c_operators, [scratch]), expected(call))


def valid(operator: str, *, bias: bool = True) -> Call:
    """A small call that is taken."""
    generator = np.random.default_rng(13)
    size, kernel, stride = (5, 6), (3, 2), (2, 1)
    groups = 4 if operator == "quantized_depthwise_conv2d" else 1
    call = call_of(generator, operator, 2, size, (4, 8), kernel, stride, (1, 1), groups=groups)
    multipliers, shifts = np.full(8, 1 << 30, np.int32), np.full(8, -9, np.int32)
    call = replace(call, multipliers=multipliers, shifts=shifts, bias=np.arange(8, dtype=np.int32) if bias else None)
    return with_params(call, has_bias=int(bias))


@pytest.mark.parametrize("operator", SCRATCH)
def test_bias_may_be_absent(c_operators: OperatorLibrary, operator: str) -> None:
    for bias in (False, True):
        call = valid(operator, bias=bias)
        np.testing.assert_array_equal(call.run(c_operators, [0] * SCRATCH[operator]), expected(call))


REFUSED = (
    *({field: value} for field in ("batches", "in_h", "in_w", "in_c", "out_h", "out_w", "out_c")
      for value in (0, -1, 97, 32768)),
    *({field: value} for field in ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w")
      for value in (0, -1, 7, 32768, 65537)),
    *({field: value} for field in ("pad_h", "pad_w") for value in (-1, 3, 32768)),
    {"groups": 0}, {"groups": 3}, {"groups": -1}, {"groups": 2}, {"groups": 8},
    {"in_offset": -128}, {"in_offset": 129}, {"out_offset": -129}, {"out_offset": 128},
    {"act_min": -129}, {"act_max": 128}, {"act_min": 1, "act_max": 0}, {"has_bias": 2}, {"has_bias": 0},
    {"has_bias": -1}, {"has_bias": -4},
)  # fmt: skip
"""Changes of the numbers of a valid call that no operator takes."""


@pytest.mark.parametrize("operator", SCRATCH)
def test_refuses_numbers(c_operators: OperatorLibrary, operator: str) -> None:
    call = valid(operator)
    output = call.run(c_operators, [0] * SCRATCH[operator])
    inputs = [call.input, call.weights, call.multipliers, call.shifts, np.arange(8, dtype=np.int32)]
    status = dict[str, str]()
    for change in REFUSED:
        changed = with_params(call, **change)
        try:
            c_operators.run(operator, inputs, changed.params, output, [0] * SCRATCH[operator])
            status[str(change)] = "taken"
        except RefusedError as e:
            status[str(change)] = str(e)
    assert {change: text for change, text in status.items() if "72" not in text} == {}
    assert len(status) == len(REFUSED)


@pytest.mark.parametrize(
    ("in_h", "pad_h", "batches", "is_taken"),
    [(2, 3, 1, True), (2, 4, 1, False), (9, 4, 1, True), (9, 5, 1, False), (2, 3, 2, False)],
    ids=["last row in reach", "last row beyond", "first row of a later input", "first row beyond", "batches"],
)
def test_takes_rows_of_a_transposed_call_that_its_input_reaches(
    c_operators: OperatorLibrary, in_h: int, pad_h: int, batches: int, *, is_taken: bool
) -> None:
    """Three rows of outputs; kernels of three rows, a stride of two, no size that a whole call has."""
    call = valid("quantized_transpose_conv2d")
    assert call.bias is not None
    changed = with_params(call, batches=batches, in_h=in_h, out_h=3, pad_h=pad_h)
    image = np.ones((batches, in_h, *call.input.shape[2:]), np.int8)
    inputs = [image, call.weights, call.multipliers, call.shifts, call.bias]
    output = np.zeros((batches, 3, changed.params.out_w, changed.params.out_c), np.int8)
    if is_taken:
        c_operators.run(call.operator, inputs, changed.params, output, [0, 0])
    else:
        with pytest.raises(RefusedError, match="72"):
            c_operators.run(call.operator, inputs, changed.params, output, [0, 0])


@pytest.mark.parametrize("operator", ["quantized_conv2d", "quantized_depthwise_conv2d"])
@pytest.mark.parametrize(
    ("in_h", "pad_h", "is_taken"),
    [(5, 2, True), (5, 3, False), (5, 0, True), (4, 0, False)],
    ids=["first window ends in it", "first window before it", "last window begins in it", "last window behind it"],
)
def test_takes_rows_of_a_call_whose_windows_reach_the_input(
    c_operators: OperatorLibrary, operator: str, in_h: int, pad_h: int, *, is_taken: bool
) -> None:
    """Three rows of outputs; kernels of three rows, a stride of two, no size that a whole call has."""
    call = valid(operator)
    assert call.bias is not None
    changed = with_params(call, batches=1, in_h=in_h, pad_h=pad_h)
    inputs = [call.input[:1, :in_h], call.weights, call.multipliers, call.shifts, call.bias]
    output = call.run(c_operators, [0])[:1]
    if is_taken:
        c_operators.run(operator, inputs, changed.params, output, [0])
    else:
        with pytest.raises(RefusedError, match="72"):
            c_operators.run(operator, inputs, changed.params, output, [0])


@pytest.mark.parametrize("operator", SCRATCH)
@pytest.mark.parametrize(("multiplier", "shift"), [(-1, -9), (-(1 << 31), -9), (1 << 30, 31), (1 << 30, -63)])
def test_run_refuses_factors(c_operators: OperatorLibrary, operator: str, multiplier: int, shift: int) -> None:
    """They are constants: the check does not read them."""
    call = valid(operator)
    call.multipliers[7], call.shifts[7] = multiplier, shift
    with pytest.raises(RefusedError, match="72"):
        call.run(c_operators, [0] * SCRATCH[operator])


@pytest.mark.parametrize("operator", SCRATCH)
def test_refuses_other_values(c_operators: OperatorLibrary, operator: str) -> None:
    call, scratch = valid(operator), [np.zeros(0, np.uint8)] * SCRATCH[operator]
    words, output = call.params.words(), call.run(c_operators, [0] * SCRATCH[operator])
    assert call.bias is not None
    good = [call.input, call.weights, call.multipliers, call.shifts, call.bias]
    np.testing.assert_array_equal(c_operators.call(operator, words, good, scratch, output), output)
    bad = [[*good[:i], good[i].view(t), *good[i + 1 :]] for i in range(5) for t in (np.uint8, np.float32)]
    bad += [[*good[:i], good[i].ravel()[: good[i].size // 2], *good[i + 1 :]] for i in range(5)]
    bad += [[*good[:i], np.concatenate([good[i]] * 2), *good[i + 1 :]] for i in range(5)]
    bad += [good[:4], [*good, good[4]]]
    for inputs in bad[: len(bad) - (len(scratch) == 2)]:  # a call has no room for more values
        with pytest.raises(RefusedError, match="72"):
            c_operators.call(operator, words, inputs, scratch, output)
    for others, to, given in (
        (scratch[1:], output, words),
        ([np.zeros(4, np.float32), *scratch[1:]], output, words),
        ([*scratch[1:], np.zeros(4, np.int8)], output, words),
        (scratch, output.view(np.uint8), words),
        (scratch, output[:1], words),
        (scratch, output, words[:-1]),
        (scratch, output, (*words, 0)),
    ):
        with pytest.raises(RefusedError, match="72"):
            c_operators.call(operator, given, good, others, to)


def test_refuses_longer_sums(c_operators: OperatorLibrary) -> None:
    generator = np.random.default_rng(14)
    call = call_of(generator, "quantized_conv2d", 1, (129, 1), (256, 1), (129, 1))
    with pytest.raises(RefusedError, match="72"):
        call.run(c_operators, [0])


def test_outputs_of_one_by_one_behind_the_map_are_of_padding(c_operators: OperatorLibrary) -> None:
    """An axis may have one more output than windows; nothing behind the input is read for it."""
    p = QuantizedConvolutionParams(1, 4, 4, 5, 5, 5, 3, 1, 1, 1, 1, 1, 0, 0, 1, 1, 7, 0, -128, 127, 1, 0)
    x, weights = np.full((1, 4, 4, 5), 100, np.int8), np.ones((3, 1, 1, 5), np.int8)
    factor = np.full(3, 1 << 30, np.int32), np.full(3, -4, np.int32)
    bias = np.array([64, 320, -64], np.int32)
    found = c_operators.run("quantized_conv2d", (x, weights, *factor, bias), p, np.zeros((1, 5, 5, 3), np.int8), [0])
    outside = np.array([2, 10, -2], np.int8)
    np.testing.assert_array_equal(found[0, 4], np.broadcast_to(outside, (5, 3)))
    np.testing.assert_array_equal(found[0, :, 4], np.broadcast_to(outside, (5, 3)))
    np.testing.assert_array_equal(found[0, 0, 0], np.array([19, 27, 15], np.int8))

"""The operators that Deuteron adds: their C functions give the bytes of their definitions in Python."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.cortex_m import int16_calls
from tests.cortex_m.int16_calls import Case
from tests.cortex_m.operator_library import Array, OperatorLibrary, RefusedError

from deuteron.frontend.cortex_m.custom_ops import library
from deuteron.frontend.cortex_m.custom_ops.catalogue import DEFINITIONS
from deuteron.frontend.cortex_m.custom_ops.resize import positions
from deuteron.native import CORTEX_M, load_cortex_m
from deuteron.numerics import softmax_multiplier, softmax_table
from deuteron.operators.custom_ops import (
    ADDED,
    BY_FORMER_NAME,
    BY_NAME,
    NAMESPACE,
    ArgmaxArgminParams,
    CompareParams,
    CumsumParams,
    LogSoftmaxParams,
    MaskedSoftmaxParams,
    NormaliseParams,
    WhereParams,
)
from deuteron.operators.int16 import ReduceSumS16Params
from deuteron.operators.kernel_params import (
    AddParams,
    Dims5,
    LutParams,
    MulParams,
    ReduceExtremumParams,
    ReduceSumParams,
    ResizeBilinearParams,
)


def bytes_of(rng: np.random.Generator, *shape: int) -> Array:
    """Any int8 numbers."""
    return rng.integers(-128, 128, shape).astype(np.int8)


def runs(rng: np.random.Generator) -> tuple[int, int, int]:
    """Elements before, among and behind dimensions."""
    a, b, c = (int(n) for n in rng.integers(1, (5, 40, 6)))
    return a, b, c


def reduce_sum(rng: np.random.Generator) -> Case:
    """A sum or a mean."""
    shape = runs(rng)
    divisor = int(rng.choice([1, shape[1]]))
    x_zp, y_zp = (int(n) for n in rng.integers(-128, 128, 2))
    params = ReduceSumParams(*shape, divisor, x_zp, int(rng.integers(1 << 29, 1 << 31)), 34, y_zp)
    return params, (bytes_of(rng, *shape),), np.empty(shape[::2], np.int8)


def reduce_extremum(rng: np.random.Generator) -> Case:
    """A maximum or minimum."""
    shape = runs(rng)
    return ReduceExtremumParams(*shape, int(rng.integers(2))), (bytes_of(rng, *shape),), np.empty(shape[::2], np.int8)


def resize_bilinear(rng: np.random.Generator) -> Case:
    """A resize as PyTorch has it."""
    batches, in_h, in_w, channels, out_h, out_w = (int(n) for n in rng.integers(1, 8, 6))
    factor = float(rng.choice([1.5, 2.0, 0.7])) if rng.integers(2) else None
    aligns = bool(rng.integers(2))
    rows, columns = (positions(size, out, factor, align_corners=aligns) for size, out in ((in_h, out_h), (in_w, out_w)))
    zero_point = int(rng.integers(-128, 128))
    params = ResizeBilinearParams(batches, in_h, in_w, channels, out_h, out_w, *rows, *columns, zero_point)
    return params, (bytes_of(rng, batches, in_h, in_w, channels),), np.empty((batches, out_h, out_w, channels), np.int8)


def masked_softmax(rng: np.random.Generator) -> Case:
    """A softmax with a mask, which may leave out whole rows."""
    repeats, mask_rows, depth = (int(n) for n in rng.integers(1, (4, 6, 40)))
    x, rows = bytes_of(rng, repeats * mask_rows, depth), repeats * mask_rows
    mask = rng.integers(0, int(rng.integers(1, 5)), (mask_rows, depth)).astype(np.int8)
    table = softmax_table(float(rng.choice([0.001, 0.05, 2.0])), 1.0).astype(np.int32)
    params = MaskedSoftmaxParams(rows, depth, mask_rows, *softmax_multiplier(1 / 256), int(rng.choice([-128, 3])))
    return params, (x, table, mask), np.empty_like(x)


def argmax_argmin(rng: np.random.Generator) -> Case:
    """The place of a maximum or minimum."""
    shape = runs(rng)
    return ArgmaxArgminParams(*shape, int(rng.integers(2))), (bytes_of(rng, *shape),), np.empty(shape[::2], np.int64)


def cumsum(rng: np.random.Generator) -> Case:
    """Sums up to each element."""
    shape = runs(rng)
    x_zp, y_zp = (int(n) for n in rng.integers(-128, 128, 2))
    params = CumsumParams(*shape, x_zp, int(rng.integers(1 << 29, 1 << 31)), 34, y_zp)
    return params, (bytes_of(rng, *shape),), np.empty(shape, np.int8)


def normalise(rng: np.random.Generator) -> Case:
    """Groups of an image in either order of memory; some have equal elements only."""
    batches, groups, channels, spatial = (int(n) for n in rng.integers(1, (3, 4, 9, 9)))
    count = channels * spatial
    plain = groups * count, count, spatial, 1
    last = groups * count, channels, 1, groups * channels
    epsilon = int(rng.integers(1 << 50)) >> int(rng.integers(50))
    centred, in_zp, steps, offset_shift, out_zp = (
        int(n) for n in rng.integers((0, -128, 0, 0, -9), (2, 128, 2, 30, 9))
    )
    bits = 30 - ((count - 1).bit_length() + 1) // 2
    params = NormaliseParams(
        batches, groups, channels, spatial, *(plain if rng.integers(2) else last), centred, in_zp,
        (epsilon & 0xFFFFFFFF) - ((epsilon >> 31 & 1) << 32), epsilon >> 32, 2 * int(rng.integers(15)), bits, steps,
        offset_shift, bits + 24, out_zp,
    )  # fmt: skip
    x = bytes_of(rng, batches * groups * count)
    x[: int(rng.integers(2)) * len(x)] //= 64
    factors = groups * channels if steps else 1
    numbers = (rng.integers(-(1 << 30), 1 << 30, factors).astype(np.int32) for _ in range(2))
    return params, (x, *numbers), np.empty(x.shape, np.int8)


def log_softmax(rng: np.random.Generator) -> Case:
    """Logarithms of shares."""
    shape = runs(rng)
    table = softmax_table(float(rng.choice([1e-4, 0.02, 0.1, 3.0])), 1.0).astype(np.int32)
    mult, log_mult = (int(n) for n in rng.integers(1 << 29, 1 << 31, 2))
    params = LogSoftmaxParams(*shape, mult, int(rng.integers(28, 36)), log_mult, int(rng.integers(20, 40)), 100)
    return params, (bytes_of(rng, *shape), table), np.empty(shape, np.int8)


def stretched(rng: np.random.Generator, dims: Dims5) -> tuple[Dims5, int]:
    """Strides of an operand that is repeated along some dimensions, and its elements."""
    strides, step = [0] * 5, 1
    for i in reversed(range(5)):
        if rng.integers(2):
            strides[i], step = step, step * dims[i]
    a, b, c, d, e = strides
    return (a, b, c, d, e), step


def broadcast(rng: np.random.Generator, count: int) -> tuple[Dims5, list[Dims5], list[Array]]:
    """Dimensions, strides of some operands along them, and the operands."""
    a, b, c, d, e = (int(n) for n in rng.integers(1, 5, 5))
    dims = (a, b, c, d, e)
    operands = [stretched(rng, dims) for _ in range(count)]
    return dims, [strides for strides, _ in operands], [bytes_of(rng, elements) for _, elements in operands]


def broadcast_add(rng: np.random.Generator) -> Case:
    """A sum or difference."""
    dims, (a, b), operands = broadcast(rng, 2)
    first, second = (int(n) for n in rng.integers((1 << 29, -(1 << 31) + 1), (1 << 31) - 1, 2))
    params = AddParams(dims, a, b, 3, -5, first, second, 30, 7, -128, 127)
    return params, tuple(operands), np.empty(dims, np.int8)


def broadcast_mul(rng: np.random.Generator) -> Case:
    """A product."""
    dims, (a, b), operands = broadcast(rng, 2)
    params = MulParams(dims, a, b, 3, -5, int(rng.integers(1 << 29, 1 << 31)), 37, 7, -128, 127)
    return params, tuple(operands), np.empty(dims, np.int8)


def compare(rng: np.random.Generator) -> Case:
    """A comparison, of numbers that are often equal."""
    dims, (a, b), operands = broadcast(rng, 2)
    small = tuple(x // np.int8(32) for x in operands)
    return CompareParams(dims, a, b, int(rng.integers(4))), small, np.empty(dims, np.bool_)


def compare_scalar(rng: np.random.Generator) -> Case:
    """A decision by a table."""
    x, table = bytes_of(rng, 50), rng.integers(0, 2, 256).astype(np.int8)
    return LutParams(x.size), (x, table), np.empty(x.shape, np.bool_)


def where(rng: np.random.Generator) -> Case:
    """A choice."""
    dims, strides, (condition, *operands) = broadcast(rng, 3)
    return WhereParams(dims, *strides), (condition > 0, *operands), np.empty(dims, np.int8)


CASES: Mapping[str, Callable[[np.random.Generator], Case]] = {
    "reduce_sum": reduce_sum,
    "reduce_extremum": reduce_extremum,
    "resize_bilinear": resize_bilinear,
    "masked_softmax": masked_softmax,
    "argmax_argmin": argmax_argmin,
    "cumsum": cumsum,
    "normalise": normalise,
    "log_softmax": log_softmax,
    "broadcast_add": broadcast_add,
    "broadcast_mul": broadcast_mul,
    "compare": compare,
    "compare_scalar": compare_scalar,
    "where": where,
    **int16_calls.CASES,
}
"""Random calls of each operator."""


@pytest.mark.parametrize("name", CASES)
def test_the_c_function_gives_the_bytes_of_the_definition(c_operators: OperatorLibrary, name: str, seed: int) -> None:
    library.load()
    for i in range(20):
        params, inputs, output = CASES[name](np.random.default_rng([seed, i]))
        actual = c_operators.run(f"dtn_cm_{name}", inputs, params, output)
        tensors = [torch.from_numpy(x) for x in inputs]
        wanted = getattr(torch.ops.deuteron, name)(*tensors, [*output.shape], [*params.words()])
        in_memory = wanted.as_strided((wanted.numel(),), (1,))
        np.testing.assert_array_equal(actual.flatten(), in_memory.numpy(), str(params))


@pytest.mark.parametrize("name", CASES)
def test_the_c_function_refuses_tensors_that_do_not_fit_the_record(c_operators: OperatorLibrary, name: str) -> None:
    params, inputs, output = CASES[name](np.random.default_rng(1))
    with pytest.raises(RefusedError):
        c_operators.run(f"dtn_cm_{name}", (inputs[0].flatten()[1:], *inputs[1:]), params, output)
    with pytest.raises(RefusedError):
        c_operators.run(f"dtn_cm_{name}", inputs, params, np.empty(output.size + 1, output.dtype))
    with pytest.raises(RefusedError):
        c_operators.run(f"dtn_cm_{name}", (*inputs, inputs[0]), params, output)
    with pytest.raises(RefusedError):
        c_operators.call(f"dtn_cm_{name}", params.words()[:-1], inputs, [], output)
    with pytest.raises(RefusedError):
        c_operators.run(f"dtn_cm_{name}", (inputs[0].astype(np.float32), *inputs[1:]), params, output)


@pytest.mark.parametrize(("reduced", "mult"), [(65536, (1 << 31) - 1), (1 << 18, (1 << 29) - 1)])
def test_a_mean_of_int16_is_right_up_to_the_most_elements(
    c_operators: OperatorLibrary, reduced: int, mult: int
) -> None:
    shift = (mult + 1).bit_length() - 1
    x, output = np.full((1, reduced, 1), -32768, np.int16), np.empty((1, 1), np.int16)
    params = ReduceSumS16Params(1, reduced, 1, reduced, 0, mult, shift, 0)
    actual = c_operators.run("dtn_cm_reduce_sum_s16", (x,), params, output)
    assert actual.item() == DEFINITIONS["reduce_sum_s16"].compute(params, x).item() == -32768
    beyond = np.full((1, reduced + 1, 1), -32768, np.int16)
    with pytest.raises(RefusedError):
        c_operators.run("dtn_cm_reduce_sum_s16", (beyond,), replace(params, reduced=reduced + 1), output)


def test_every_operator_has_a_definition_and_runs_in_executorchs_runtime() -> None:
    from executorch.runtime import Runtime

    assert set(DEFINITIONS) == {operator.name for operator in ADDED}
    assert f"{NAMESPACE}::" in CORTEX_M
    runtime = Runtime.get()
    load_cortex_m()
    names = {name for name in runtime.operator_registry.operator_names if name.startswith("deuteron::")}
    assert {*BY_NAME, *BY_FORMER_NAME} == names

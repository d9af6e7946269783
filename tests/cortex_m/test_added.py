"""The operators that Deuteron adds: their C functions give the bytes of their definitions in Python."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch
from tests.cortex_m.bench import Array, Bench, RefusedError

from deuteron.board.operators.added import ADDED, BY_NAME, NAMESPACE, MaskedSoftmaxParams
from deuteron.frontend.cortex_m.added import library
from deuteron.frontend.cortex_m.added.families import DEFINITIONS
from deuteron.frontend.cortex_m.added.resize import positions
from deuteron.native import CORTEX_M, load_cortex_m
from deuteron.npu.neutron.kernels.params import (
    KernelParams,
    ReduceExtremumParams,
    ReduceSumParams,
    ResizeBilinearParams,
)
from deuteron.numerics import softmax_multiplier, softmax_table

Case = tuple[KernelParams, tuple[Array, ...], Array]
"""A record, inputs, and an array like the output."""


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


CASES: Mapping[str, Callable[[np.random.Generator], Case]] = {
    "reduce_sum": reduce_sum,
    "reduce_extremum": reduce_extremum,
    "resize_bilinear": resize_bilinear,
    "masked_softmax": masked_softmax,
}
"""Random calls of each operator."""


@pytest.mark.parametrize("name", [operator.name for operator in ADDED])
def test_the_c_function_gives_the_bytes_of_the_definition(bench: Bench, name: str, seed: int) -> None:
    library.load()
    for i in range(20):
        params, inputs, output = CASES[name](np.random.default_rng([seed, i]))
        actual = bench.run(f"dtn_cm_{name}", inputs, params, output)
        tensors = [torch.from_numpy(x) for x in inputs]
        wanted = getattr(torch.ops.deuteron, name)(*tensors, [*output.shape], [*params.words()])
        np.testing.assert_array_equal(actual, wanted.numpy(), str(params))


@pytest.mark.parametrize("name", [operator.name for operator in ADDED])
def test_the_c_function_refuses_tensors_that_do_not_fit_the_record(bench: Bench, name: str) -> None:
    params, inputs, output = CASES[name](np.random.default_rng(1))
    with pytest.raises(RefusedError):
        bench.run(f"dtn_cm_{name}", (inputs[0].flatten()[1:], *inputs[1:]), params, output)
    with pytest.raises(RefusedError):
        bench.run(f"dtn_cm_{name}", inputs, params, np.empty(output.size + 1, output.dtype))
    with pytest.raises(RefusedError):
        bench.run(f"dtn_cm_{name}", (*inputs, inputs[0]), params, output)
    with pytest.raises(RefusedError):
        bench.call(f"dtn_cm_{name}", params.words()[:-1], inputs, [], output)
    with pytest.raises(RefusedError):
        bench.run(f"dtn_cm_{name}", (inputs[0].astype(np.float32), *inputs[1:]), params, output)


def test_every_operator_has_a_definition_and_runs_in_executorchs_runtime() -> None:
    from executorch.runtime import Runtime

    assert set(DEFINITIONS) == {operator.name for operator in ADDED}
    assert f"{NAMESPACE}::" in CORTEX_M
    runtime = Runtime.get()
    load_cortex_m()
    assert set(BY_NAME) == {name for name in runtime.operator_registry.operator_names if name.startswith("deuteron::")}

"""Every operator that the wheel registers is one of ours, and has a test against its Python definition."""

import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from tests.cortex_m import test_convolutions, test_elementwise, test_movement, test_pools, test_products, test_softmax
from tests.cortex_m.executorch_definitions import wheel
from tests.cortex_m.operator_library import OperatorLibrary
from tests.cortex_m.programs import Everything, inputs
from torch._ops import OpOverloadPacket

from deuteron.board import operators
from deuteron.frontend.cortex_m import upstream
from deuteron.native import load_cortex_m
from deuteron.operators.custom_ops import BY_FORMER_NAME, BY_NAME, FORMER_NAMES, NAMESPACE

SCALES = (1.0, 0.5, 0.1, 1 / 255, 3e-5, 1e-30, 3e38)


@pytest.mark.parametrize("dtype", [np.int8, np.int16], ids=str)
@pytest.mark.parametrize("scale", SCALES)
def test_quantize_and_dequantize(c_operators: OperatorLibrary, dtype: type[np.signedinteger], scale: float) -> None:
    limits = np.iinfo(dtype)
    bits = struct.unpack("<i", struct.pack("<f", scale))[0]
    steps = np.concatenate([np.arange(-300, 300, 0.25), [limits.min, limits.max, -70000, 70000]])
    with np.errstate(over="ignore"):
        x = (steps * scale).astype(np.float32)
    x = x[np.isfinite(x)]
    every = np.arange(limits.min, limits.max + 1).astype(dtype)
    torch_type = {np.int8: torch.int8, np.int16: torch.int16}[dtype]
    for zero_point in (limits.min, 0, 5, limits.max):
        numbers = (scale, zero_point, int(limits.min), int(limits.max), torch_type)
        words = (bits, zero_point, int(limits.min), int(limits.max))
        found = c_operators.call("dtn_op_quantize_per_tensor", words, [x], [], np.zeros(x.shape, dtype))
        # The definition divides 1 by the scale in float64, ExecuTorch's own operator and ours in float32.
        reference, exact = wheel("quantize_per_tensor", x, *numbers).astype(int), x.astype(np.float64) / scale
        off_tie = np.abs(exact - np.floor(exact) - 0.5) > 1e-6 * (1 + np.abs(exact))
        np.testing.assert_array_equal(found[off_tie], reference[off_tie])
        assert np.abs(found - reference).max() <= 1
        given = c_operators.call(
            "dtn_op_dequantize_per_tensor", words[:2], [every], [], np.zeros(every.shape, np.float32)
        )
        np.testing.assert_array_equal(given, wheel("dequantize_per_tensor", every, *numbers))


DIFFERENTIAL: Mapping[str, Callable[..., None]] = {
    "dequantize_per_tensor": test_quantize_and_dequantize,
    "maximum": test_elementwise.test_extremum,
    "minimum": test_elementwise.test_extremum,
    "pad": test_movement.test_pad,
    "quantize_per_tensor": test_quantize_and_dequantize,
    "quantized_activation": test_elementwise.test_activation,
    "quantized_add": test_elementwise.test_add,
    "quantized_avg_pool2d": test_pools.test_average_pool,
    "quantized_batch_matmul": test_products.test_matmul,
    "quantized_conv2d": test_convolutions.test_equals_the_wheel,
    "quantized_depthwise_conv2d": test_convolutions.test_equals_the_wheel,
    "quantized_div": test_elementwise.test_div,
    "quantized_linear": test_products.test_linear,
    "quantized_max_pool2d": test_pools.test_max_pool,
    "quantized_mul": test_elementwise.test_mul,
    "quantized_transpose_conv2d": test_convolutions.test_equals_the_wheel,
    "softmax": test_softmax.test_softmax,
    "transpose": test_movement.test_transpose,
}
"""The test of each C function, on random shapes and the limits of its numbers; layouts share a function."""


def registered() -> frozenset[str]:
    """The operators that the wheel has, each in two forms: it gives a tensor, or writes one that it is given."""
    upstream.load()
    packets: list[Any] = [getattr(torch.ops.cortex_m, name) for name in dir(torch.ops.cortex_m)]
    forms = {p.__name__: set(p.overloads()) for p in packets if isinstance(p, OpOverloadPacket)}
    assert all(overloads == {"default", "out"} for overloads in forms.values())
    return frozenset(forms)


def test_every_operator_of_the_wheel_has_a_test() -> None:
    assert len(registered()) == 23
    assert {name.removesuffix("_nhwc") for name in registered()} == set(DIFFERENTIAL)


def test_every_operator_runs_in_executorchs_runtime_and_in_bundles() -> None:
    from executorch.runtime import Runtime

    wanted = {f"cortex_m::{name}.out" for name in registered()}
    runtime = Runtime.get()
    load_cortex_m()
    assert wanted == {name for name in runtime.operator_registry.operator_names if name.startswith("cortex_m::")}
    assert {name.removesuffix(".out") for name in wanted} == {
        name for name in operators.supported() if name.startswith("cortex_m::")
    }


def test_programs_of_older_releases_find_their_operators() -> None:
    from executorch.runtime import Runtime

    runtime = Runtime.get()
    load_cortex_m()
    names = set(runtime.operator_registry.operator_names)
    assert FORMER_NAMES
    for former, name in FORMER_NAMES.items():
        assert {f"{NAMESPACE}::{former}.out", f"{NAMESPACE}::{name}.out"} <= names
        assert f"{NAMESPACE}::{former}" not in operators.supported()
        assert BY_FORMER_NAME[f"{NAMESPACE}::{former}.out"] is BY_NAME[f"{NAMESPACE}::{name}.out"]


def test_the_program_of_every_operator_has_every_operator() -> None:
    """`test_host.py` runs it in ExecuTorch's runtime, `tests/board/test_cortex_m.py` as a bundle."""
    names: set[str] = set()
    for explicit in (False, True):
        graph = torch.export.export(Everything(explicit=explicit), inputs(explicit=explicit)).graph
        names |= {node.target.name() for node in graph.nodes if hasattr(node.target, "name")}
    assert {name for name in names if name.startswith("cortex_m::")} == {f"cortex_m::{name}" for name in registered()}

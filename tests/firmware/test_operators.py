"""The firmware's CPU operators give the bytes that ExecuTorch's own runtime gives, whatever the numbers."""

import ctypes
import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path

import executorch.kernels.quantized  # noqa: F401 -- registers the operators
import numpy as np
import numpy.typing as npt
import pytest
import torch
from executorch.exir import to_edge
from executorch.runtime import Runtime

Array = npt.NDArray[np.generic]

FIRMWARE = Path(__file__).parents[2] / "firmware"
MAX_VALUES = 8
DTYPES = (torch.uint8, torch.int8, torch.int16)
SCALES = (1.0, 0.5, 0.1, 1 / 255, 3.0e-5, 1.2e-38, 1e-40, 1e-46, 0.0, 3.0e38, float("inf"), float("nan"))


class Type(IntEnum):
    """`DTN_TYPE_*` of deuteron/bundle.h."""

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    FLOAT32 = 6


class Tensor(ctypes.Structure):
    """`dtn_tensor_t`."""

    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_uint32), ("type", ctypes.c_uint32))


class Call(ctypes.Structure):
    """`dtn_operator_call_t`."""

    _fields_ = (
        ("params", ctypes.POINTER(ctypes.c_uint32)),
        ("param_count", ctypes.c_uint32),
        ("input_count", ctypes.c_uint32),
        ("output_count", ctypes.c_uint32),
        ("values", Tensor * MAX_VALUES),
    )


Operator = Callable[[Array, Array, Sequence[int]], None]


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Operator]:
    """An operator by its name, from a library of just these: checks the call, then fills the second array."""
    path = tmp_path_factory.mktemp("operators") / "liboperators.so"
    sources = sorted((FIRMWARE / "src").glob("operators/*.c"))
    sources += (
        FIRMWARE / "src" / "cortex_m" / "portable" / f"{name}.c"
        for name in ("strided_copy_portable", "quantize_s8_portable")
    )
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-std=c99", "-O2", "-fPIC", "-shared", f"-I{FIRMWARE / 'include'}", *sources, "-o", path],
                   check=True)  # fmt: skip
    library = ctypes.CDLL(str(path))

    def operator(name: str) -> Operator:
        function = getattr(library, f"dtn_op_{name}")

        def run(source: Array, target: Array, params: Sequence[int]) -> None:
            call = Call((ctypes.c_uint32 * len(params))(*(p & 0xFFFFFFFF for p in params)), len(params), 1, 1)
            for i, array in enumerate((source, target)):
                call.values[i] = Tensor(array.ctypes.data, array.nbytes, Type[array.dtype.name.upper()])
            for phase in range(2):
                assert function(ctypes.byref(call), phase) == 0

        return run

    return operator


def executed(module: torch.nn.Module, *inputs: torch.Tensor) -> list[Array]:
    """The outputs of the module in ExecuTorch's runtime."""
    program = to_edge(torch.export.export(module.eval(), inputs, strict=False)).to_executorch()
    method = Runtime.get().load_program(bytes(program.buffer)).load_method("forward")
    assert method is not None
    return [output.numpy().copy() for output in method.execute(inputs)]


def bits(number: float) -> int:
    """Return the parameters of a scale."""
    with np.errstate(over="ignore"):
        return int(np.float32(number).view(np.uint32))


def ranges(dtype: torch.dtype) -> tuple[tuple[int, int, int], ...]:
    """Zero point, minimum and maximum: the whole type with zero points at its limits, and less than the type."""
    info = torch.iinfo(dtype)
    half = info.max // 2
    return (info.min, info.min, info.max), (info.max, info.min, info.max), (half, half - 2, half + 7)


def awkward_floats() -> npt.NDArray[np.float32]:
    """Random bits, ties of each scale and their neighbours, and the numbers at which a conversion goes wrong."""
    generator = np.random.default_rng(4)
    patterns = generator.integers(0, 1 << 32, 4000, dtype=np.uint32).view(np.float32)
    finite = np.array([s for s in SCALES if 0 < s < 1e30], np.float32)
    halves = (np.arange(-300, 300, dtype=np.float32) + np.float32(0.5))[:, None] * finite
    ties = np.concatenate([np.nextafter(halves, np.float32(end)) for end in (-np.inf, np.inf)] + [halves]).ravel()
    powers = np.float32(2) ** np.arange(-149, 128, dtype=np.float32)
    wide = generator.normal(0, 1, 2000).astype(np.float32) * np.float32(200)
    edges = np.array([0.0, -0.0, np.nan, np.inf, -np.inf], np.float32)
    below = np.nextafter(powers, np.float32(0))
    return np.concatenate([patterns, ties, powers, -powers, below, -below, wide, edges]).astype(np.float32)


class Quantize(torch.nn.Module):
    """Every scale and range of a type."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.cases = [(scale, *numbers) for scale in SCALES for numbers in ranges(dtype)]
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default
        return tuple(quantize(x, *case, self.dtype) for case in self.cases)


class Dequantize(torch.nn.Module):
    """Every scale and zero point of a type."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.cases = [(scale, *numbers) for scale in SCALES for numbers in ranges(dtype)]
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        dequantize = torch.ops.quantized_decomposed.dequantize_per_tensor.default
        return tuple(dequantize(x, *case, self.dtype) for case in self.cases)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_quantize(operators: Callable[[str], Operator], dtype: torch.dtype) -> None:
    quantize = operators("quantize_per_tensor")
    module = Quantize(dtype)
    x = awkward_floats()
    if platform.machine() not in ("x86_64", "AMD64"):
        x = x[np.abs(x) < 1e-30]  # what other hosts make of sums outside int64 is their own
    for case, expected in zip(module.cases, executed(module, torch.from_numpy(x)), strict=True):
        found = np.zeros(x.shape, expected.dtype)
        quantize(x, found, (bits(case[0]), *case[1:]))
        np.testing.assert_array_equal(found, expected, str(case))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dequantize(operators: Callable[[str], Operator], dtype: torch.dtype) -> None:
    dequantize = operators("dequantize_per_tensor")
    module = Dequantize(dtype)
    info = torch.iinfo(dtype)
    x = torch.arange(info.min, info.max + 1, dtype=torch.int32).to(dtype)
    for case, expected in zip(module.cases, executed(module, x), strict=True):
        found = np.zeros(x.shape, np.float32)
        dequantize(x.numpy(), found, (bits(case[0]), case[1]))
        # All bits, so that the sign of a zero counts; the bits of a NaN are nobody's.
        there = ~np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(found), ~there, str(case))
        np.testing.assert_array_equal(found.view(np.uint32)[there], expected.view(np.uint32)[there], str(case))


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 5), (2, 3, 4), (3, 1, 7), (4, 7, 1), (1, 64, 33)], ids=str)
def test_transpose(operators: Callable[[str], Operator], shape: tuple[int, int, int]) -> None:
    x = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    found = np.zeros((shape[0], shape[2], shape[1]), np.int8)
    operators("transpose")(x, found, shape)
    np.testing.assert_array_equal(found, x.transpose(0, 2, 1))

"""The Cortex-M operators in ExecuTorch's own runtime: what they compute, loading them twice, and refusals."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cortex_m.programs import Everything, inputs, lowered

from deuteron.errors import DeuteronError
from deuteron.frontend.cortex_m import upstream
from deuteron.native import library
from deuteron.runtime.host import HostRunner

pytestmark = pytest.mark.slow

NCHW = b"\x04\0\0\0\x00\x01\x02\x03"
NHWC = b"\x04\0\0\0\x00\x02\x03\x01"

Program = Callable[[bool], bytes]


@pytest.fixture(scope="module")
def program() -> Program:
    """The program of every operator, in the explicit layout or not."""
    made = {explicit: lowered(Everything(explicit=explicit), inputs(explicit=explicit)) for explicit in (False, True)}
    return made.__getitem__


def runner(data: bytes, folder: Path) -> HostRunner:
    """The program, loaded."""
    path = folder / "model.pte"
    path.write_bytes(data)
    return HostRunner(path)


@pytest.mark.parametrize("explicit", [False, True], ids=["channels last", "explicit"])
def test_every_operator_computes_what_the_wheel_defines(program: Program, explicit: bool, tmp_path: Path) -> None:
    given = inputs(explicit=explicit)
    expected = Everything(explicit=explicit)(*given)
    found = runner(program(explicit), tmp_path).run([x.numpy() for x in given])
    for i, (y, wanted) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(y, wanted.numpy(), f"output {i}")


@pytest.mark.full
def test_a_second_copy_of_the_library_changes_nothing(tmp_path: Path) -> None:
    shutil.copy(library("cortex_m"), tmp_path / "again.so")
    code = f"""
import ctypes
from executorch.runtime import Runtime
before = Runtime.get().operator_registry.operator_names
for path in ({str(library("cortex_m"))!r}, {str(tmp_path / "again.so")!r}):
    ctypes.CDLL(path)
    print(sum(n.startswith("cortex_m::") for n in Runtime.get().operator_registry.operator_names - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "23\n23\n"), done.stderr


class Concatenation(torch.nn.Module):
    """Operators on maps in channels-last memory, after an operator of the back end."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = torch.ops.cortex_m.quantized_add(a, 0, 1 << 30, 0, b, 0, 1 << 30, 0, 0, 1 << 30, -18, -128, 127)
        return torch.cat([c, a], 1)


def test_maps_in_channels_last_are_concatenated_by_channel(tmp_path: Path) -> None:
    upstream.load()
    generator = np.random.default_rng(3)
    a, b = (generator.integers(-128, 128, (2, 3, 4, 5)).astype(np.int8) for _ in range(2))
    given = tuple(torch.tensor(x).to(memory_format=torch.channels_last) for x in (a, b))
    (found,) = runner(lowered(Concatenation(), given), tmp_path).run([a, b])
    np.testing.assert_array_equal(found, Concatenation()(*given).numpy())


def refusal(data: bytes, folder: Path, *, explicit: bool) -> str:
    """The message of a program that must not run."""
    with pytest.raises(DeuteronError) as caught:
        runner(data, folder).run([np.ascontiguousarray(x.numpy()) for x in inputs(explicit=explicit)])
    return caught.value.message


def test_another_dim_order_is_refused(program: Program, tmp_path: Path) -> None:
    data = program(False)
    assert NHWC in data
    assert refusal(data.replace(NHWC, NCHW), tmp_path, explicit=False) == (
        "ExecuTorch's runtime failed to run the program: cortex_m::quantized_conv2d cannot run: a map does not have "
        "four dimensions in channels-last order"
    )


class Sum(torch.nn.Module):
    """An addition with a shift that no lowering makes."""

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return torch.ops.cortex_m.quantized_add(a, 0, 1 << 30, 0, a, 0, 1 << 30, 0, 0, 1 << 30, 31, -128, 127)


def test_numbers_out_of_range_are_refused(tmp_path: Path) -> None:
    upstream.load()
    x = torch.zeros(4, dtype=torch.int8)
    with pytest.raises(DeuteronError) as caught:
        runner(lowered(Sum(), (x,)), tmp_path).run([x.numpy()])
    assert caught.value.message == (
        "ExecuTorch's runtime failed to run the program: cortex_m::quantized_add cannot run: its tensors and numbers "
        "do not fit together, or are out of range"
    )

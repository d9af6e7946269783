"""Reads behind a value of an operator call fail, for all tests of Cortex-M operators."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

READS = """
import ctypes
import numpy as np
from tests.cortex_m.operator_library import Guarded
guarded = Guarded(np.arange(3, dtype=np.int16), {multiple})
value = guarded.tensor
assert ctypes.string_at(value.data, 6) == np.arange(3, dtype=np.int16).tobytes()
print("inside", flush=True)
ctypes.string_at(value.data + {beyond}, 1)
print("beyond", flush=True)
"""


@pytest.mark.parametrize(("multiple", "beyond"), [(1, 6), (16, 16)], ids=["value", "scratch"])
def test_a_read_beyond_a_value_dies(multiple: int, beyond: int) -> None:
    code = READS.format(multiple=multiple, beyond=beyond)
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "inside\n"), done.stderr

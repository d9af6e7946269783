"""The Cortex-M operators of the firmware behind ctypes: numpy arrays and a parameter record in, arrays out.

Behind each value stands memory that may not even be read.
"""

import ctypes
import mmap
import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tests import store

from deuteron.arch.cores import InnerWork
from deuteron.board import library
from deuteron.operators.cortex_m import BY_OPERATOR
from deuteron.operators.kernel_params import KernelParams

Array = npt.NDArray[np.generic]

REFUSED = 72
"""`DTN_REASON_OPERATOR` of deuteron/errors.h."""

_FIRMWARE = Path(__file__).parents[2] / "firmware"
_PATTERNS = ("cortex_m/*.c", "operators/*.c", "tflite/*.c", "kernels/check/*.c", "kernels/fast/*.c")
_FLAGS = ("-std=c99", "-O1", "-g", "-fPIC", "-fsanitize=undefined", "-fno-sanitize-recover=all")
_TYPES = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float32": 6, "bool": 11, "uint32": 28, "uint64": 29,
}  # fmt: skip
_LIBRARY = "liboperators.so"
_MOST_VALUES = 8
_GUARD = 64
_LIBC = ctypes.CDLL(None, use_errno=True)
_NOTHING = 0
"""`PROT_NONE`: no access."""


class _Tensor(ctypes.Structure):
    """`dtn_tensor_t`."""

    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_uint32), ("type", ctypes.c_uint32))


class _Call(ctypes.Structure):
    """`dtn_operator_call_t`."""

    _fields_ = (
        ("params", ctypes.POINTER(ctypes.c_uint32)),
        ("param_count", ctypes.c_uint32),
        ("input_count", ctypes.c_uint32),
        ("output_count", ctypes.c_uint32),
        ("values", _Tensor * _MOST_VALUES),
    )


class RefusedError(Exception):
    """The operator refused the call in its check."""


class Guarded:
    """A copy of an array after read-only bytes, and before a page that cannot be read.

    It ends at the page, except for scratch, which operators want at a multiple of 16.
    """

    def __init__(self, array: Array, multiple: int = 1) -> None:
        room = -(-(array.nbytes + _GUARD) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, room + mmap.PAGESIZE)
        whole = np.frombuffer(self._map, np.uint8)
        address = whole.ctypes.data
        assert _LIBC.mprotect(ctypes.c_void_p(address + room), mmap.PAGESIZE, _NOTHING) == 0
        self._memory = whole[:room]
        self._start = (room - array.nbytes) // multiple * multiple
        self._end = self._start + array.nbytes
        self._memory[:] = 0xA5
        self._memory[self._start : self._end] = np.frombuffer(array.tobytes(), np.uint8)
        self._like = array
        self.tensor = _Tensor(address + self._start, array.nbytes, _TYPES[array.dtype.name])

    def content(self) -> Array:
        """The array as it is now; the guards must be as they were."""
        assert (self._memory[: self._start] == 0xA5).all(), "written before the start"
        assert (self._memory[self._end :] == 0xA5).all(), "written behind the end"
        return np.frombuffer(self._memory[self._start : self._end].tobytes(), self._like.dtype).reshape(
            self._like.shape
        )


def _compile(compiler: str, inner: InnerWork, output: Path) -> None:
    output.mkdir()
    sources = [source for pattern in _PATTERNS for source in sorted((_FIRMWARE / "src").glob(pattern))]
    sources += [source.path for source in library.inner_work(inner)]
    include = f"-I{_FIRMWARE / 'include'}"
    cached = filter(None, [os.environ.get("CMAKE_C_COMPILER_LAUNCHER")])  # both libraries have most objects in common
    command = [*cached, compiler, *_FLAGS, include, "-c"]

    def compiled(source: Path) -> Path:
        made = output / f"{source.parent.name}-{source.stem}.o"
        subprocess.run([*command, source, "-o", made], check=True)
        return made

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = [*pool.map(compiled, sources)]
    subprocess.run([compiler, *_FLAGS, "-shared", *objects, "-o", output / _LIBRARY], check=True)
    for made in objects:
        made.unlink()


class OperatorLibrary:
    """The operators, compiled with the checks of undefined behaviour; DSP instructions are emulated."""

    def __init__(self, inner: InnerWork) -> None:
        compiler = os.environ.get("CC", "cc")
        key = ("operators", inner, compiler)
        folder = store.kept(key, lambda output: _compile(compiler, inner, output), name="lib", source=Path(__file__))
        self._library = ctypes.CDLL(str(folder / _LIBRARY))

    def run(
        self,
        operator: str,
        inputs: Sequence[Array],
        params: KernelParams,
        output: Array,
        scratch: Sequence[int] = (),
    ) -> Array:
        """The output, which looks like `output`; RefusedError when the check refuses the call.

        Args:
            operator: its name without `dtn_cm_`, or the whole name of a function.
            inputs: in C order, whatever the layout is called.
            params: the record.
            output: an array of the output's shape and type; its content is what is in memory before.
            scratch: bytes of each scratch value.
        """
        return self.call(operator, params.words(), inputs, [np.zeros(size, np.uint8) for size in scratch], output)

    def call(
        self, operator: str, words: Sequence[int], inputs: Sequence[Array], scratch: Sequence[Array], output: Array
    ) -> Array:
        """The same with any words and values."""
        (result,) = self.call_all(operator, words, inputs, scratch, [output])
        return result

    def call_all(
        self,
        operator: str,
        words: Sequence[int],
        inputs: Sequence[Array],
        scratch: Sequence[Array],
        outputs: Sequence[Array],
    ) -> list[Array]:
        """The same of an operator with several outputs."""
        values = [*map(Guarded, inputs), *(Guarded(value, 16) for value in scratch), *map(Guarded, outputs)]
        memory = (ctypes.c_uint32 * max(1, len(words)))(*(word & 0xFFFFFFFF for word in words))
        call = _Call(memory, len(words), len(inputs), len(scratch) + len(outputs))
        for i, value in enumerate(values):
            call.values[i] = value.tensor
        symbol = BY_OPERATOR[operator].symbol if operator in BY_OPERATOR else operator
        function: Callable[[object, int], int] = self._library[symbol]
        if reason := function(ctypes.byref(call), 0):
            raise RefusedError(reason)
        if reason := function(ctypes.byref(call), 1):
            raise RefusedError(reason)
        for value, given in zip(values, inputs, strict=False):
            np.testing.assert_array_equal(value.content(), given, "an input was written")
        return [value.content() for value in values[len(inputs) :]][len(scratch) :]

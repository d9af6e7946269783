"""Results of each operator of a `.pte` in ExecuTorch's runtime on this machine.

The runtime writes operator results into a debug buffer, and their offsets into its ETDump. Slot numbers follow
ExecuTorch's `etdump_schema_flatcc.fbs`.
"""

import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deuteron.flatbuffer import Buffer
from deuteron.runtime import pte
from deuteron.runtime.host import HostRunner
from deuteron.runtime.program import KernelCall, Method, TensorSpec, TensorValue

Array = npt.NDArray[np.generic]

_PREFIX = struct.calcsize("<I")
_APART = 64
"""Bytes that the runtime may skip before a result for alignment."""


def operator_results(path: Path, sample: Sequence[Array]) -> Mapping[int, Array]:
    """Return the result of each operator for one sample, by the number of its instruction.

    Results have their logical shapes, for any memory order. Operators that return lists are left out.

    Raises:
        FormatError: the file is damaged.
        InputError: the sample does not fit.
    """
    method = next(m for m in pte.read(path.read_bytes(), str(path)).methods if m.name == "forward")
    specs = dict(_results(method))
    # Delegates write their results into the buffer, too, and the runtime aborts if it is too small.
    tensors = [value.spec for value in method.values if isinstance(value, TensorValue)]
    total = sum(_bytes(spec) + _APART for spec in [*specs.values(), *tensors])
    # The buffer also holds the program's outputs and results not counted above.
    runner = HostRunner(path, etdump=True, debug_bytes=2 * total + (1 << 20))
    runner.run(sample)
    with tempfile.TemporaryDirectory(prefix="deuteron-") as folder:
        events, values = Path(folder) / "events", Path(folder) / "values"
        runner.write_etdump(events, values)
        content = values.read_bytes()
        return {
            number: _shaped(content, offset, specs[number])
            for number, offset in _offsets(events.read_bytes(), str(path))
            if number in specs
        }


def _results(method: Method) -> Iterator[tuple[int, TensorSpec]]:
    """Yield the calls of operators with one tensor result, which is their last argument."""
    for number, call in enumerate(method.chains[0]):
        if isinstance(call, KernelCall) and isinstance(value := method.values[call.args[-1]], TensorValue):
            yield number, value.spec


def _offsets(etdump: bytes, where: str) -> Iterator[tuple[int, int]]:
    """Yield the instruction and the offset of each result."""
    for run in Buffer(etdump[_PREFIX:], where).root().tables(1):
        for event in run.tables(3):
            debug = event.table(2)
            entry = debug.table(2) if debug else None
            tensor = entry.table(1) if entry else None
            is_output = entry is not None and entry.scalar(7, "?")
            if debug is not None and tensor is not None and not is_output:
                yield debug.scalar(1, "i", -1), tensor.scalar(3, "q")


def _shaped(content: bytes, offset: int, spec: TensorSpec) -> Array:
    stored = np.frombuffer(content, spec.dtype, int(np.prod(spec.shape)), offset)
    return stored.reshape([spec.shape[i] for i in spec.dim_order]).transpose(np.argsort(spec.dim_order))


def _bytes(spec: TensorSpec) -> int:
    return int(np.prod(spec.shape)) * np.dtype(spec.dtype).itemsize

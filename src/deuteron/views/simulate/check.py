"""Checks a build's record of its partitions against their microcode, before anything uses it."""

from pathlib import Path

from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Manifest, Partition
from deuteron.errors import FormatError
from deuteron.npu.program import NpuProgram


def check_count(manifest: Manifest, partitions: int, directory: Path) -> None:
    """Raise FormatError unless the record has as many partitions as the program."""
    described = len(manifest.partitions)
    if described != partitions:
        raise _damaged(
            f"{described} partitions are described, `{manifests.PROGRAM}` has {partitions}",
            str(directory / manifests.NAME),
        )


def check_record(entry: Partition, program: NpuProgram, where: str) -> None:
    """Raise FormatError, placed at `where`, unless the entry's values, calls and operators match the program.

    The simulator checks the reads and writes of each call, and names the command if they are wrong.
    """
    values = entry.dataflow
    try:
        values.uses()
    except ValueError as e:
        raise _damaged("an operand is not of the form `value+offset`", where) from e
    for side, names, sizes in (
        ("inputs", values.inputs, program.inputs),
        ("outputs", values.outputs, program.outputs),
    ):
        if len(names) != len(sizes):
            raise _damaged(f"{len(names)} {side} are described, the microcode has {len(sizes)}", where)
    weights = program.weights_bytes
    for constant in values.constants:
        end = constant.offset + constant.nbytes
        if not 0 <= constant.offset <= end <= weights:
            message = f"`{constant.name}` has bytes {constant.offset} to {end} of weights of {weights} bytes"
            raise _damaged(message, where)
    calls = [call.kernel for call in program.calls]
    if len(entry.kernels) != len(calls):
        raise _damaged(f"{len(entry.kernels)} kernel calls are described, the microcode has {len(calls)}", where)
    for number, (kernel, name) in enumerate(zip(entry.kernels, calls, strict=True)):
        if (kernel.index, kernel.kernel) != (number, name):
            call = f"call {kernel.index}, `{kernel.kernel}`"
            raise _damaged(f"{call}, is described where the microcode has call {number}, `{name}`", where)
        if not all(0 <= op < len(entry.ops) for op in kernel.ops):
            raise _damaged(f"call {kernel.index} names an operator that is not described", where)


def _damaged(message: str, where: str) -> FormatError:
    return FormatError(message, where=where, hint="build the model again; the file has been changed or is damaged")

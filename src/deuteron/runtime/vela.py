"""TFLite files compiled by Vela: runs their Ethos-U partitions in order on this machine."""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deuteron.errors import FormatError, UnsupportedError
from deuteron.npu.ethosu.blob import Blob, Tensor
from deuteron.npu.neutron.tflite.float_edges import find_edges
from deuteron.runtime.ethosu import Partition
from deuteron.tflite.flat_model import CUSTOM, FlatModel, FlatOperator, FlatTensor

CUSTOM_CODE = "ethos-u"
"""The custom operator of a partition; its first inputs are commands, constants, scratch and fast scratch memory."""
PLAN = "OfflineMemoryAllocation"
"""The metadata that says where tensors lie in the scratch memory."""
_OWN_INPUTS = 4
_HEADER_WORDS = 3
_BYTES = {"INT8": 1, "UINT8": 1, "BOOL": 1, "INT16": 2, "INT32": 4}
_HINT = "the file is damaged: compile the model again"


@dataclass(frozen=True, slots=True)
class VelaPartition:
    """A partition, and the file's tensors (indices) that it reads and writes."""

    blob: Blob
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VelaProgram:
    """The partitions of a file between its float inputs and outputs.

    Attributes:
        partitions: in execution order.
        cpu_operators: names of the CPU operators, which this module does not run.
    """

    model: FlatModel
    partitions: tuple[VelaPartition, ...]
    cpu_operators: tuple[str, ...]

    def check(self) -> None:
        """Reject a program with CPU operators."""
        if self.cpu_operators:
            names = ", ".join(self.cpu_operators)
            raise UnsupportedError(
                f"Vela left operators on the CPU, but only NPU partitions run here: {names}",
                hint="`deuteron inspect` shows the partitions; run the file that Vela compiled in its place",
            )

    def run(self, inputs: Sequence[npt.NDArray[np.generic]]) -> list[bytes]:
        """Return the bytes of the outputs, for arrays of the tensors' types."""
        edges = find_edges(self.model)
        values = {index: value.tobytes() for index, value in zip(edges.inputs, inputs, strict=True)}
        for i, partition in enumerate(self.partitions):
            ready = Partition(partition.blob, f"npu {i}")
            results = ready.run([values[index] for index in partition.inputs])
            values |= dict(zip(partition.outputs, results, strict=True))
        return [values[index] for index in edges.outputs]


def is_compiled(model: FlatModel) -> bool:
    """Return true if a file has partitions of Vela."""
    return any(map(is_partition, model.operators))


def program_of(model: FlatModel) -> VelaProgram:
    """Return the program of a file that Vela compiled; FormatError when it is damaged."""
    edges = find_edges(model)
    inside = [op for i, op in enumerate(model.operators) if i not in edges.operators]
    cpu = dict.fromkeys(op.custom_code or op.name for op in inside if not is_partition(op))
    return VelaProgram(model, partitions_of(model), tuple(cpu))


def partitions_of(model: FlatModel) -> tuple[VelaPartition, ...]:
    """The partitions in their order; FormatError when one is damaged."""
    offsets = _offsets(model)
    return tuple(_partition(model, op, offsets) for op in model.operators if is_partition(op))


def is_partition(op: FlatOperator) -> bool:
    """Return True if an operator is a partition that Vela made."""
    return (op.name, op.custom_code) == (CUSTOM, CUSTOM_CODE)


def _offsets(model: FlatModel) -> Mapping[int, int]:
    """Return the offsets of the tensors in the scratch memory."""
    data = model.metadata.get(PLAN, b"")
    words = struct.unpack(f"<{len(data) // 4}i", data[: len(data) // 4 * 4])[_HEADER_WORDS:]
    return {index: offset for index, offset in enumerate(words) if offset >= 0}


def _partition(model: FlatModel, op: FlatOperator, offsets: Mapping[int, int]) -> VelaPartition:
    if len(op.inputs) < _OWN_INPUTS or not all(0 <= i < len(model.tensors) for i in (*op.inputs, *op.outputs)):
        raise FormatError(f"operator `{CUSTOM_CODE}` has no commands and memories among its inputs", hint=_HINT)
    commands, weights, scratch = (model.tensors[index] for index in op.inputs[:3])
    if commands.data is None:
        raise FormatError(f"the commands `{commands.name}` are not a constant", hint=_HINT)
    inputs, outputs = op.inputs[_OWN_INPUTS:], op.outputs
    tensors = {index: _tensor(model.tensors[index], offsets.get(index)) for index in (*inputs, *outputs)}
    end = max((tensor.offset + tensor.nbytes for tensor in tensors.values()), default=0)
    size = max(end, math.prod(scratch.shape))
    sides = (tuple(tensors[index] for index in side) for side in (inputs, outputs))
    return VelaPartition(Blob(commands.data, weights.data or b"", size, *sides), inputs, outputs)


def _tensor(tensor: FlatTensor, offset: int | None) -> Tensor:
    if offset is None or tensor.dtype not in _BYTES:
        what = "place" if offset is None else f"type that an Ethos-U has, but {tensor.dtype}"
        raise FormatError(f"tensor `{tensor.name}` of a partition has no {what}", hint=_HINT)
    return Tensor(tensor.shape, _BYTES[tensor.dtype], offset)

"""The converted partition for ExecuTorch's NXP backend: a TFLite file with one `NeutronGraph` custom operator.

Its inputs are the graph's, then microcode, weights and kernels as uint8 constants. Its outputs are the graph's, then a
uint8 tensor for the scratch area. When the microcode has profiling on, the profile and debug areas follow.
"""

from collections.abc import Mapping
from dataclasses import replace

from deuteron.errors import FormatError
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.layout import read_header
from deuteron.npu.neutron.tflite.float_edges import find_edges
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import CUSTOM, Buffer, FlatModel, FlatOperator, FlatTensor

CUSTOM_CODE = "NeutronGraph"

_BLOCKS = ("microcode", "weights", "kernels")


def wrap(source: Buffer, container: Container | None, metadata: Mapping[str, bytes]) -> bytes:
    """Return the converted TFLite file of `source`, with `metadata` as named buffers.

    Names, types and order of inputs and outputs are those of `source`; its float edges stay operators. Without a
    container, because everything was optimised away, the file has no operator, and the caller skips the partition.
    """
    model = decode(source)
    edges = find_edges(model)
    # Inputs and outputs of the NPU are separate tensors, even if they are one in `source`, or a constant.
    before = tuple(dict.fromkeys((*model.inputs, *edges.inputs)))
    after = tuple(dict.fromkeys((*edges.outputs, *model.outputs)))
    tensors = [replace(model.tensors[index], data=None) for index in (*before, *after)]
    inputs = tuple(before.index(index) for index in edges.inputs)
    outputs = tuple(len(before) + after.index(index) for index in edges.outputs)
    around = [model.operators[i] for i in edges.operators]
    operators = [_between(op, before, 0) for op in around if op.name == "QUANTIZE"]
    if container is not None:
        constants, results = blocks(container), areas(container)
        first, last = len(tensors), len(tensors) + len(constants)
        node_inputs = (*inputs, *range(first, last))
        node_outputs = (*outputs, *range(last, last + len(results)))
        operators.append(FlatOperator(CUSTOM, node_inputs, node_outputs, custom_code=CUSTOM_CODE))
        tensors += [*constants, *results]
    operators += [_between(op, after, len(before)) for op in around if op.name == "DEQUANTIZE"]
    ends = tuple(before.index(i) for i in model.inputs), tuple(len(before) + after.index(i) for i in model.outputs)
    return encode(FlatModel(model.name, tuple(tensors), *ends, tuple(operators), metadata))


def _between(op: FlatOperator, tensors: tuple[int, ...], first: int) -> FlatOperator:
    """Return the operator with new tensor indices: `tensors` are the former indices of those from `first` on."""
    inputs, outputs = (tuple(first + tensors.index(i) for i in operands) for operands in (op.inputs, op.outputs))
    return replace(op, inputs=inputs, outputs=outputs)


def is_converted(model: FlatModel) -> bool:
    """Return True if `wrap` made the model of a container."""
    return any(is_partition(op) for op in model.operators)


def is_partition(op: FlatOperator) -> bool:
    """Return True if the NPU runs an operator."""
    return (op.name, op.custom_code) == (CUSTOM, CUSTOM_CODE)


def is_mixed(model: FlatModel) -> bool:
    """Return True if a converted file has operators other than one partition and float edges."""
    edges = find_edges(model).operators
    inside = [is_partition(op) for i, op in enumerate(model.operators) if i not in edges]
    return any(inside) and inside != [True]


def unwrap(data: Buffer) -> tuple[Container, Mapping[str, bytes]]:
    """Return the container and the metadata of a file from `wrap`.

    Raises:
        FormatError: the file is damaged or is not a converted partition.
    """
    model = decode(data)
    edges = find_edges(model)
    inside = [op for i, op in enumerate(model.operators) if i not in edges.operators]
    if [(op.name, op.custom_code) for op in inside] != [(CUSTOM, CUSTOM_CODE)]:
        names = ", ".join(op.custom_code or op.name for op in model.operators[:5]) or "none"
        raise FormatError(
            f"not a converted partition: its operators are {names}; exactly one {CUSTOM_CODE} is required",
            hint="a partition that is still to be converted holds plain TFLite operators",
        )
    return container_of(model, inside[0]), model.metadata


def blocks(container: Container) -> tuple[FlatTensor, ...]:
    """Return the constants after the graph's inputs."""
    data = (container.microcode, container.weights, container.kernels)
    return tuple(_bytes_tensor(name, len(block), block) for name, block in zip(_BLOCKS, data, strict=True))


def areas(container: Container) -> tuple[FlatTensor, ...]:
    """Return the memory areas after the graph's outputs."""
    return tuple(_bytes_tensor(name, size) for name, size in _area_sizes(container.microcode).items())


def container_of(model: FlatModel, op: FlatOperator) -> Container:
    """Return the container in an operator.

    Raises:
        FormatError: it has none.
    """
    found = [model.tensors[index].data or b"" for index in op.inputs[-len(_BLOCKS) :] if index >= 0]
    if len(found) != len(_BLOCKS) or not all(found):
        raise FormatError(f"the {CUSTOM_CODE} operator does not end in {', '.join(_BLOCKS)}, none of them empty")
    microcode, weights, kernels = found
    return Container(microcode, weights, kernels)


def _bytes_tensor(name: str, size: int, data: bytes | None = None) -> FlatTensor:
    return FlatTensor(name, (size,), "UINT8", None, data)


def _area_sizes(microcode: bytes) -> dict[str, int]:
    """Return the bytes of each area of the driver after the outputs (`spec/microcode.md` section 2)."""
    header = read_header(microcode)
    profiling = {"profile": header.profile_bytes, "debug": header.debug_bytes} if header.profiling else {}
    return {"scratch": header.scratch_bytes, **profiling}

"""Partitions of Ethos-U from TFLite files: what Vela makes of them, as ExecuTorch's Ethos-U backend writes it."""

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import tflite

_BYTES = {
    tflite.TensorType.INT8: 1,
    tflite.TensorType.UINT8: 1,
    tflite.TensorType.INT16: 2,
    tflite.TensorType.INT32: 4,
}


def compiled(model: bytes, accelerator: str, folder: Path) -> bytes | None:
    """The payload of the partition that a TFLite file becomes, None where a part of it would stay on the CPU."""
    return _run(model, accelerator, folder, is_sound=True)


def defective(model: bytes, accelerator: str, folder: Path) -> bytes:
    """The payload that Vela writes although it says that it is wrong."""
    payload = _run(model, accelerator, folder, is_sound=False)
    assert payload is not None
    return payload


def _run(model: bytes, accelerator: str, folder: Path, *, is_sound: bool) -> bytes | None:
    path = folder / "model.tflite"
    path.write_bytes(model)
    vela = Path(sys.executable).parent / "vela"
    command = (vela, path, "--accelerator-config", accelerator, "--output-dir", folder / "vela")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    if ("Error" not in done.stdout + done.stderr) != is_sound:
        return None
    data = (folder / "vela" / "model_vela.tflite").read_bytes()
    return _payload(tflite.Model.GetRootAsModel(data, 0))


def _payload(model: tflite.Model) -> bytes | None:
    graph = model.Subgraphs(0)
    if graph.OperatorsLength() != 1 or model.OperatorCodes(0).CustomCode() != b"ethos-u":
        return None
    commands, weights, scratch, _, *inputs = graph.Operators(0).InputsAsNumpy().tolist()
    outputs = graph.Operators(0).OutputsAsNumpy().tolist()
    offsets = _offsets(model)
    end = max(offsets[i] + _nbytes(graph.Tensors(i)) for i in (*inputs, *outputs))
    blocks = {
        "vela_bin_stream": b"",
        "cmd_data": _content(model, graph, commands),
        "weight_data": _content(model, graph, weights),
        "scratch_size": struct.pack("<I", max(end, int(graph.Tensors(scratch).ShapeAsNumpy()[0]))),
        "inputs": _tensors(graph, inputs, offsets),
        "outputs": _tensors(graph, outputs, offsets),
        "vela_end_stream": b"",
    }
    return b"".join(block(name, data) for name, data in blocks.items())


def block(name: str, data: bytes) -> bytes:
    """A block of a payload."""
    return struct.pack("<16sIB11x", name.encode(), len(data), 0) + data + bytes(-len(data) % 16)


def _content(model: tflite.Model, graph: tflite.SubGraph, tensor: int) -> bytes:
    content = model.Buffers(graph.Tensors(tensor).Buffer()).DataAsNumpy()
    return b"" if isinstance(content, int) else content.tobytes()


def _offsets(model: tflite.Model) -> list[int]:
    """Return the offset of each tensor in the scratch memory."""
    entries = (model.Metadata(i) for i in range(model.MetadataLength()))
    (buffer,) = (entry.Buffer() for entry in entries if entry.Name() == b"OfflineMemoryAllocation")
    return np.frombuffer(model.Buffers(buffer).DataAsNumpy().tobytes(), np.int32)[3:].tolist()


def _nbytes(tensor: tflite.Tensor) -> int:
    return int(np.prod(tensor.ShapeAsNumpy())) * _BYTES[tensor.Type()]


def _tensors(graph: tflite.SubGraph, tensors: list[int], offsets: list[int]) -> bytes:
    records = [struct.pack("<i", len(tensors))]
    for i in tensors:
        shape = graph.Tensors(i).ShapeAsNumpy().tolist()
        element = _BYTES[graph.Tensors(i).Type()]
        records.append(struct.pack("<9i", *[1] * (6 - len(shape)), *shape, element, offsets[i], 1))
    return b"".join(records)

"""A TFLite file as a build: converted in memory."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from deuteron.arch import targets
from deuteron.arch.cores import Work
from deuteron.builds.manifest import (
    PROGRAM,
    CpuOp,
    Manifest,
    ModelInfo,
    Node,
    Partition,
    PartitionOp,
    TensorInfo,
    entry_of,
    tflite_name,
)
from deuteron.builds.options import BuildOptions
from deuteron.errors import UnsupportedError
from deuteron.npu.families import NEUTRON
from deuteron.npu.neutron.convert import Conversion, ConvertOptions
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.layout import read_header
from deuteron.npu.neutron.payload import Payload, compose
from deuteron.npu.neutron.tflite.decode import decode
from deuteron.npu.neutron.tflite.flat import FlatModel, FlatTensor
from deuteron.npu.provenance import Fate
from deuteron.runtime import pte_writer, tflite_model
from deuteron.runtime.program import TensorSpec
from deuteron.runtime.pte_writer import Edge

_LAYERS = {
    "CONV_2D": Work.CONVOLUTION,
    "DEPTHWISE_CONV_2D": Work.DEPTHWISE,
    "FULLY_CONNECTED": Work.LINEAR,
    "TRANSPOSE_CONV": Work.CONVOLUTION,
}
"""Operators whose multiply-accumulates are counted."""


def build_of(path: Path, target: str, *, profiling: bool = False) -> tuple[Manifest, dict[str, bytes]]:
    """What `build.json` says of the file once it is converted, and the files of the build."""
    options = BuildOptions(use_profiling=profiling)
    loaded = tflite_model.load(path, target, ConvertOptions(profiling=profiling, memory=options.memory))
    conversion, container = loaded.conversion, loaded.container
    where = f"`{path}`"
    if conversion is None:
        message, hint = "the file has been converted or compiled already", "give the file that it was made from"
        raise UnsupportedError(message, where=where, hint=hint)
    if container is None:
        message = "the model computes nothing: each of its outputs is an input"
        raise UnsupportedError(message, where=where, hint="run it without the NPU")
    model = decode(loaded.source)
    stored = loaded.stored
    inputs = [_edge(info, tensor) for info, tensor in zip(loaded.inputs, stored[0], strict=True)]
    outputs = [_edge(info, tensor) for info, tensor in zip(loaded.outputs, stored[1], strict=True)]
    payload = _payload(container, len(inputs), len(outputs))
    program = pte_writer.write(inputs, outputs, NEUTRON.delegate_id, payload)
    files = {PROGRAM: program, tflite_name(0): loaded.source}
    manifest = Manifest(
        deuteron=version("deuteron"),
        executorch="",
        torch="",
        target=targets.load(target).name,
        converter="deuteron",
        options=options,
        model=ModelInfo(path.stem),
        files={name: entry_of(data) for name, data in files.items()},
        inputs=loaded.inputs,
        outputs=loaded.outputs,
        nodes=tuple(_nodes(model, conversion)),
        partitions=(_partition(model, conversion, container, payload, stored),),
        cpu_ops=tuple(_edges_on_cpu(inputs, outputs)),
    )
    return manifest, files


def _edge(info: TensorInfo, tensor: FlatTensor) -> Edge:
    order = tuple(range(len(info.shape)))
    outer, stored = (TensorSpec(tensor.shape, dtype, order) for dtype in (info.dtype, tensor.dtype.lower()))
    if info.dtype == stored.dtype or tensor.quant is None:
        return Edge(outer, stored)
    limits = np.iinfo(stored.dtype)
    return Edge(outer, stored, tensor.quant.scale, tensor.quant.zero_point, int(limits.min), int(limits.max))


def _payload(container: Container, inputs: int, outputs: int) -> bytes:
    """The partition as a delegate takes it: every argument as it is, in its own order of memory."""
    plain = (False,) * inputs, (False,) * outputs
    version = int(read_header(container.microcode).profiling)
    return compose(Payload(inputs, *plain, tuple(range(inputs)), tuple(range(outputs)), version, container))


def _partition(
    model: FlatModel,
    conversion: Conversion,
    container: Container,
    payload: bytes,
    stored: tuple[Sequence[FlatTensor], Sequence[FlatTensor]],
) -> Partition:
    header, known = read_header(container.microcode), conversion.plan.known
    inputs, outputs = (tuple(TensorInfo(t.shape, t.dtype.lower(), t.name) for t in side) for side in stored)
    return Partition(
        payload_sha256=hashlib.sha256(payload).hexdigest(),
        microcode_bytes=len(container.microcode),
        weights_bytes=len(container.weights),
        kernels_bytes=len(container.kernels),
        scratch_bytes=header.scratch_bytes,
        scratch_proven_optimal=known.scratch_proven_optimal,
        prefetch_bytes=header.prefetch_bytes,
        prefetch_bound=known.prefetch_bound,
        prefetch_proven_optimal=known.prefetch_proven_optimal,
        inputs=inputs,
        outputs=outputs,
        ops=tuple(
            PartitionOp(i, op.name, tuple(model.tensors[t].name for t in op.outputs), (_name(model, i),), ())
            for i, op in enumerate(model.operators)
        ),
        kernels=conversion.provenance.kernels,
        dataflow=conversion.dataflow,
        whole_scratch_bytes=known.whole_scratch_bytes,
    )


def _name(model: FlatModel, operator: int) -> str:
    """What an operator is called: the tensor that it writes."""
    outputs = model.operators[operator].outputs
    return model.tensors[outputs[0]].name if outputs else str(operator)


def _nodes(model: FlatModel, conversion: Conversion) -> Iterator[Node]:
    """The operators of the file but for its edges."""
    for fate in conversion.provenance.ops:
        if fate.fate is Fate.EDGE:
            continue
        op = model.operators[fate.index]
        results = sum(math.prod(model.tensors[i].shape) for i in op.outputs)
        work = _LAYERS.get(op.name, Work.UNKNOWN)
        operands = {i for i in (*op.inputs, *op.outputs) if i >= 0}
        yield Node(
            name=_name(model, fate.index),
            op=op.name,
            quantised="",
            source=(),
            partition=0,
            why="",
            work=work,
            elements=results,
            terms=_terms(model, fate.index) if work.multiplies else 0,
            nbytes=sum(_nbytes(model.tensors[i]) for i in operands if model.tensors[i].data is None),
        )


def _terms(model: FlatModel, operator: int) -> int:
    """Multiply-accumulates of a layer."""
    op = model.operators[operator]
    tensors = model.tensors
    weights, results = tensors[op.inputs[1]].shape, math.prod(tensors[op.outputs[0]].shape)
    if op.name == "TRANSPOSE_CONV":
        return math.prod(tensors[op.inputs[2]].shape) * math.prod(weights[:3])
    return results * math.prod(weights[1:3] if op.name == "DEPTHWISE_CONV_2D" else weights[1:])


def _nbytes(tensor: FlatTensor) -> int:
    return math.prod(tensor.shape) * np.dtype(tensor.dtype.lower()).itemsize


def _edges_on_cpu(inputs: Sequence[Edge], outputs: Sequence[Edge]) -> Iterator[CpuOp]:
    """The operators of the program on the CPU, which the instructions call in this order, the delegate in between."""
    number = 0
    why = "quantises what integer operators read"
    for i, edge in enumerate(inputs):
        if edge.is_float:
            size = math.prod(edge.outer.shape)
            yield CpuOp(pte_writer.QUANTIZE, f"input_{i}", (), "", why, Work.QUANTISE, size, (number,))
            number += 1
    why = "turns integers into float for those who read them so"
    for i, edge in enumerate(outputs):
        if edge.is_float:
            number += 1
            size = math.prod(edge.outer.shape)
            yield CpuOp(pte_writer.DEQUANTIZE, f"output_{i}", (), "", why, Work.DEQUANTISE, size, (number,))

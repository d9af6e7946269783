"""A TFLite file as a build: converted in memory."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from deuteron.errors import InternalError, UnsupportedError
from deuteron.npu.families import NEUTRON
from deuteron.npu.neutron.convert import ConvertOptions
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.layout import read_header
from deuteron.npu.neutron.payload import Payload, compose
from deuteron.npu.neutron.tflite import neutron_graph
from deuteron.npu.neutron.tflite.float_edges import find_edges
from deuteron.npu.neutron.tflite.operator_view import Names, Site
from deuteron.npu.neutron.tflite_partitioner import Mixed, Part, convert_most
from deuteron.npu.provenance import Fate
from deuteron.runtime import pte_writer, tflite_model, vela
from deuteron.runtime.program import TensorSpec
from deuteron.runtime.pte_writer import CODES, Call, Contents, Delegated, refs
from deuteron.runtime.tflite_calls import DEQUANTIZE, QUANTIZE, call_of
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import Buffer, FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.normalize import normalized

_LAYERS = {
    "CONV_2D": Work.CONVOLUTION,
    "DEPTHWISE_CONV_2D": Work.DEPTHWISE,
    "FULLY_CONNECTED": Work.LINEAR,
    "TRANSPOSE_CONV": Work.CONVOLUTION,
}
"""Operators whose multiply-accumulates are counted."""

_BETWEEN = {
    QUANTIZE: (Work.QUANTISE, "quantises what integer operators read"),
    DEQUANTIZE: (Work.DEQUANTISE, "turns integers into float for those who read them so"),
}


def build_of(path: Path, target: str, *, profiling: bool = False) -> tuple[Manifest, dict[str, bytes]]:
    """What `build.json` says of the file once it is converted, and the files of the build.

    Operators that the NPU does not take are called on the CPU: by those that boards have, where there is one, or by a
    name that says which is missing.
    """
    options = BuildOptions(use_profiling=profiling)
    source = tflite_model.read(path)
    with tflite_model.told_where(path):
        mixed = _apart(_mixed(source, target, ConvertOptions(profiling=profiling, memory=options.memory)))
        steps = _needed(mixed)
        _check_tensors(mixed.model, steps)
        called = _called(mixed.model, [step for step in steps if isinstance(step, int)])
    parts = [step for step in steps if isinstance(step, Part)]
    payloads = [_payload(part) for part in parts]
    delegated = map(_delegated, payloads, parts)
    calls = [next(delegated) if isinstance(step, Part) else called[step] for step in steps]
    program = pte_writer.write(_contents(mixed.model, calls), NEUTRON.delegate_id)
    files = {PROGRAM: program} | {tflite_name(number): bytes(part.source) for number, part in enumerate(parts)}
    nodes, cpu_ops = _on_cpu(mixed, steps, calls)
    inputs, outputs = (tflite_model.infos(mixed.model, side) for side in (mixed.model.inputs, mixed.model.outputs))
    manifest = Manifest(
        deuteron=version("deuteron"),
        executorch="",
        torch="",
        target=targets.load(target).name,
        converter="deuteron",
        options=options,
        model=ModelInfo(path.stem),
        files={name: entry_of(data) for name, data in files.items()},
        inputs=inputs,
        outputs=outputs,
        nodes=(*(node for number, part in enumerate(parts) for node in _nodes(part, number)), *nodes),
        partitions=tuple(_partition(mixed.model, *pair) for pair in zip(parts, payloads, strict=True)),
        cpu_ops=tuple(cpu_ops),
    )
    return manifest, files


def _mixed(source: Buffer, target: str, options: ConvertOptions) -> Mixed:
    """The file, whole for the NPU but for its float edges where that can be, else what the NPU takes of it."""
    model = decode(source, partial=True)
    if neutron_graph.is_converted(model) or vela.is_compiled(model):
        message, hint = "the file has been converted or compiled already", "give the file that it was made from"
        raise UnsupportedError(message, hint=hint)
    source = normalized(source, model).source
    model = decode(source, partial=True)
    conversion = convert_most(source, target, options)
    if isinstance(conversion, Mixed):
        return conversion
    if conversion.container is None:
        message = "the model computes nothing: each of its outputs is an input"
        raise UnsupportedError(message, hint="run it without the NPU")
    edges = find_edges(model)
    inside = tuple(i for i in range(len(model.operators)) if i not in edges.operators)
    before = [i for i in edges.operators if model.operators[i].outputs[0] in edges.inputs]
    after = [i for i in edges.operators if i not in before]
    part = Part(inside, edges.inputs, edges.outputs, source, conversion)
    return Mixed(model, (*before, part, *after), {}, b"")


def _apart(mixed: Mixed) -> Mixed:
    """The same with a copy of each output that is an input: in a program both have memory of their own."""
    model, steps, refused = mixed.model, [*mixed.steps], dict(mixed.refused)
    for tensor in sorted({*model.inputs} & {*model.outputs}):
        new, number = len(model.tensors), len(model.operators)
        model = replace(
            model,
            tensors=(*model.tensors, replace(model.tensors[tensor], data=None)),
            operators=(*model.operators, FlatOperator("RESHAPE", (tensor,), (new,))),
            outputs=tuple(new if i == tensor else i for i in model.outputs),
        )
        steps.append(number)
        refused[number] = UnsupportedError("it copies an input that is an output, too")
    return replace(mixed, model=model, steps=tuple(steps), refused=refused)


def _needed(mixed: Mixed) -> list[Part | int]:
    """The steps that an output depends on, or that have none themselves."""
    needed, steps = {*mixed.model.outputs}, list[Part | int]()
    for step in reversed(mixed.steps):
        one = _one(mixed.model, step)
        if not one.outputs or needed & {*one.outputs}:
            needed |= {*one.inputs}
            steps.append(step)
    return steps[::-1]


def _one(model: FlatModel, step: Part | int) -> Part | FlatOperator:
    """What a step reads and writes."""
    return step if isinstance(step, Part) else model.operators[step]


def _called(model: FlatModel, operators: Sequence[int]) -> dict[int, Call]:
    """The calls of operators, by index."""
    names = Names(model)
    return {index: call_of(Site(model, names, index, [])) for index in operators}


def _check_tensors(model: FlatModel, steps: Sequence[Part | int]) -> None:
    """Raise UnsupportedError for tensors that a program cannot hold."""
    ends = (_one(model, step) for step in steps)
    for index in sorted({i for one in ends for i in (*one.inputs, *one.outputs) if i >= 0}):
        tensor = model.tensors[index]
        if tensor.problem or tensor.dtype.lower() not in CODES:
            raise UnsupportedError(
                tensor.problem or f"tensor `{tensor.name}` is {tensor.dtype}, which no program holds",
                hint="`deuteron run` leaves such operators to LiteRT; other commands need a model without them",
            )


def _delegated(payload: bytes, part: Part) -> Delegated:
    return Delegated(payload, (*part.inputs, *part.outputs))


def _contents(model: FlatModel, calls: Sequence[Call | Delegated]) -> Contents:
    """The program of these calls, with the tensors that they name and the file's inputs and outputs."""
    named = {i for call in calls for i in (call.args if isinstance(call, Delegated) else refs(call.args))}
    used = sorted(named | {*model.inputs, *model.outputs})
    tensors = {i: model.tensors[i] for i in used}
    specs = {i: TensorSpec(t.shape, t.dtype.lower(), tuple(range(len(t.shape)))) for i, t in tensors.items()}
    constants = {i: t.data for i, t in tensors.items() if t.data is not None}
    return Contents(specs, constants, model.inputs, model.outputs, calls)


def _payload(part: Part) -> bytes:
    """The partition as a delegate takes it: every argument as it is, in its own order of memory."""
    container = _container(part)
    inputs, outputs = len(part.inputs), len(part.outputs)
    plain = (False,) * inputs, (False,) * outputs
    version = int(read_header(container.microcode).profiling)
    return compose(Payload(inputs, *plain, tuple(range(inputs)), tuple(range(outputs)), version, container))


def _container(part: Part) -> Container:
    if part.conversion.container is None:
        raise InternalError("a partition that computes nothing")
    return part.conversion.container


def _partition(whole: FlatModel, part: Part, payload: bytes) -> Partition:
    model, conversion, container = decode(part.source), part.conversion, _container(part)
    header, known = read_header(container.microcode), conversion.plan.known
    inputs, outputs = (
        tuple(TensorInfo(t.shape, t.dtype.lower(), t.name) for t in (whole.tensors[i] for i in side))
        for side in (part.inputs, part.outputs)
    )
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
        planned_cycles=known.planned_cycles,
        cycles_bound=known.cycles_bound,
    )


def _name(model: FlatModel, operator: int) -> str:
    """What an operator is called: the tensor that it writes."""
    outputs = model.operators[operator].outputs
    return model.tensors[outputs[0]].name if outputs else str(operator)


def _nodes(part: Part, number: int) -> Iterator[Node]:
    """The operators of a partition."""
    model = decode(part.source)
    for fate in part.conversion.provenance.ops:
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
            partition=number,
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


def _on_cpu(
    mixed: Mixed, steps: Sequence[Part | int], calls: Sequence[Call | Delegated]
) -> tuple[list[Node], list[CpuOp]]:
    """The operators of the file that the CPU runs, but for those between integers and floats, and all their calls."""
    model, nodes, ops = mixed.model, list[Node](), list[CpuOp]()
    for number, (step, call) in enumerate(zip(steps, calls, strict=True)):
        if isinstance(step, Part) or isinstance(call, Delegated):
            continue
        op, operator = model.operators[step], call.operator
        name = model.tensors[op.outputs[0]].name if op.outputs else str(number)
        size, called = sum(math.prod(model.tensors[i].shape) for i in op.outputs), operator.partition(".")[0]
        if operator in _BETWEEN:
            work, why = _BETWEEN[operator]
            ops.append(CpuOp(called, name, (), "", why, work, size, (number,)))
            continue
        why = mixed.refused[step].message
        nbytes = sum(_nbytes(model.tensors[i]) for i in {*op.inputs, *op.outputs} if i >= 0)
        nodes.append(Node(name, op.title, "", (), None, why, Work.UNKNOWN, size, 0, nbytes))
        ops.append(CpuOp(called, name, (), name, why, Work.UNKNOWN, size, (number,)))
    return nodes, ops

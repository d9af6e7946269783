"""A TFLite file as a build: converted in memory."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path

from deuteron.arch import targets
from deuteron.arch.cores import Work
from deuteron.arch.targets import Arch, EthosU
from deuteron.arch.vela import VelaOptions
from deuteron.builds.manifest import (
    PROGRAM,
    TFLITE,
    CpuOp,
    DeadChannels,
    Manifest,
    ModelInfo,
    Node,
    Partition,
    PartitionOp,
    StripedSegment,
    TensorInfo,
    entry_of,
    tflite_name,
)
from deuteron.builds.options import BuildOptions, TfliteOptions
from deuteron.errors import InternalError, OptionError, UnsupportedError, counted
from deuteron.npu.families import ETHOSU, NEUTRON, Family
from deuteron.npu.neutron.convert import ConvertOptions
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.layout import read_header
from deuteron.npu.neutron.payload import Payload, compose
from deuteron.npu.neutron.tflite.float_edges import find_edges
from deuteron.npu.neutron.tflite.operator_view import Names, Site
from deuteron.npu.neutron.tflite_partitioner import Mixed, Part, convert_most
from deuteron.npu.provenance import Fate
from deuteron.operators import catalogue
from deuteron.operators.operation_counts import work_of
from deuteron.runtime import (
    pte_writer,
    tflite_ethosu,
    tflite_model,
    tflite_quantize,
    vela,
)
from deuteron.runtime.program import TensorSpec
from deuteron.runtime.pte_writer import CODES, Call, Contents, Delegated, Ref, refs
from deuteron.runtime.tflite_calls import DEQUANTIZE, QUANTIZE, call_of
from deuteron.runtime.tflite_ethosu import LAYERS, nbytes, terms
from deuteron.runtime.tflite_program import Step, TfliteProgram
from deuteron.runtime.vela_compile import by_vela
from deuteron.tflite.cortex_m import lower
from deuteron.tflite.cortex_m.dead_channels import RemovedChannels
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import Buffer, FlatModel, FlatOperator
from deuteron.tflite.variables import resolved, with_states_of

_BETWEEN = {
    QUANTIZE: (Work.QUANTIZE, "quantises what integer operators read"),
    DEQUANTIZE: (Work.DEQUANTIZE, "turns integers into float for those who read them so"),
}


_EDGE = "changes between integers and floats, at the inputs and outputs of the file"
"""Why an operator is on the CPU that the NPU needs none of."""

_OPTIONS = ("use_profiling", "memory", "vela", "force", "tflite")
"""Options of builds that mean something for a file, which is quantised already."""


_FLOAT_LAYERS = ("dtn_op_convolution", "convolution_f32", "batch_matmul_f32")
"""Ends of the names of float32 layers."""

_QUANTIZING = ("activations", "remove_quant_io_ops")
"""Options of builds that mean something for a float file with calibration data."""


def check_options(path: Path, target: str, options: BuildOptions, *, quantizes: bool = False) -> None:
    """Refuse options that are for PyTorch models, and those that the target does not take; OptionError."""
    options.check(targets.load(target))
    allowed = (*_OPTIONS, *_QUANTIZING) if quantizes else _OPTIONS
    for field in fields(options):
        if field.name not in allowed and getattr(options, field.name) != getattr(BuildOptions(), field.name):
            name = f"--{field.name.replace('_', '-')}"
            message = f"`{name}` is for PyTorch models, and `{path}` is a TFLite file"
            raise OptionError(message, hint="leave it out")


def build_of(
    path: Path,
    target: str,
    options: BuildOptions = BuildOptions(),
    calibration: object | None = None,
    choose: "Choose | None" = None,
) -> tuple[Manifest, dict[str, bytes]]:
    """Convert the file, and return the manifest `build.json` and the files of the build.

    The CPU runs operators that the NPU does not support: by the firmware's C operators, or by ExecuTorch's portable
    ones for a target that has these. A call of a missing portable operator has a name that says so.

    Args:
        path: the file.
        target: a name of `deuteron targets`.
        options: of the build.
        calibration: samples, or the name of a file with them, for a float file that is quantised first.
        choose: chooses among builds for an Ethos-U; by default the file is compiled as it is.

    Raises:
        OptionError: an option is not for TFLite files or not for the target.
        UnsupportedError: naming every operator that cannot run.
        FormatError: the file is damaged.
    """
    check_options(path, target, options, quantizes=calibration is not None)
    source, arch, notes = tflite_model.read(path), targets.load(target), tuple[str, ...]()
    with tflite_model.told_where(path):
        if calibration is not None:
            source, note = tflite_quantize.quantized(source, calibration, options)
            kept = TfliteOptions(keep_dead_channels=options.tflite.keep_dead_channels)
            options, notes = replace(options, tflite=kept), (note,)
        try:
            is_ethosu = isinstance(arch.npu, EthosU)
            made = _for_ethosu(source, arch, options, choose) if is_ethosu else _made(source, arch, options)
        except UnsupportedError as error:
            if not tflite_quantize.has_float_layers(source, options.tflite.signature):
                raise
            raise UnsupportedError(error.message, where=error.where, hint=tflite_quantize.HINT) from error
    program = pte_writer.write(made.contents, made.family.delegate_id)
    files = {PROGRAM: program, TFLITE: bytes(source), **made.files}
    inputs, outputs = (tflite_model.infos(made.model, side) for side in (made.model.own_inputs, made.model.own_outputs))
    manifest = Manifest(
        deuteron=version("deuteron"),
        executorch="",
        torch="",
        target=arch.name,
        converter="deuteron",
        options=options,
        model=ModelInfo(path.stem),
        files={name: entry_of(data) for name, data in files.items()},
        inputs=inputs,
        outputs=outputs,
        nodes=made.nodes,
        partitions=made.partitions,
        cpu_ops=made.cpu_ops,
        warnings=(*notes, *made.notes, *_float_notes(made)),
        dead_channels=tuple(
            DeadChannels(each.op, each.tensor, each.channels, each.constant, each.unread, each.macs, each.macs_left)
            for each in made.removed
        ),
        stripes=made.stripes,
    )
    return manifest, files


@dataclass(frozen=True, slots=True)
class _Made:
    """A file as a program, and what its manifest says."""

    model: FlatModel
    contents: Contents
    family: Family
    nodes: tuple[Node, ...]
    partitions: tuple[Partition, ...]
    cpu_ops: tuple[CpuOp, ...]
    files: Mapping[str, bytes]
    notes: tuple[str, ...]
    removed: tuple[RemovedChannels, ...]
    stripes: tuple[StripedSegment, ...] = ()


def _made(source: Buffer, arch: Arch, options: BuildOptions) -> _Made:
    """Convert the file for a CPU alone, or for a Neutron and the CPU."""
    prepared = tflite_model.prepare(source, options.tflite)
    has_c_operators = tflite_model.has_c_operators(arch.name)
    if arch.npu is None:
        mixed = _for_cpu(prepared.model, f"the target `{arch.name}` has no NPU")
    else:
        file = prepared.file if has_c_operators else prepared.portable
        try:
            mixed = _mixed(file, arch.name, ConvertOptions(profiling=options.use_profiling, memory=options.memory))
        except UnsupportedError as error:
            if not has_c_operators:
                raise
            mixed = _for_cpu(prepared.model, f"the NPU takes no operator of the file: {error.message.splitlines()[0]}")
        else:
            mixed = replace(mixed, model=with_states_of(_with_origins(mixed.model, prepared.model), prepared.model))
    mixed = _apart(mixed)
    steps = _needed(mixed)
    parts = [step for step in steps if isinstance(step, Part)]
    payloads = [_payload(part) for part in parts]
    if has_c_operators:
        left = iter(payloads)
        order = [(next(left), step.inputs, step.outputs) if isinstance(step, Part) else step for step in steps]
        contents, nodes, cpu_ops = _with_c_operators(mixed, order)
    else:
        contents, nodes, cpu_ops = _with_portable_operators(mixed, steps, payloads)
    return _Made(
        model=mixed.model,
        contents=contents,
        family=NEUTRON,
        nodes=(*(node for number, part in enumerate(parts) for node in _nodes(part, number)), *nodes),
        partitions=tuple(_partition(mixed.model, *pair) for pair in zip(parts, payloads, strict=True)),
        cpu_ops=tuple(cpu_ops),
        files={tflite_name(number): bytes(part.source) for number, part in enumerate(parts)},
        notes=prepared.notes,
        removed=prepared.removed,
    )


def _for_ethosu(source: Buffer, arch: Arch, options: BuildOptions, choose: "Choose | None") -> _Made:
    """The file for an Ethos-U: compiled by Vela, now or before, and what that leaves to the CPU."""
    model = decode(source, partial=True)
    if vela.is_compiled(model):
        tflite_model.check_compiled(options.tflite, options.memory)
        found = resolved(source, model)
        return _around_vela(tflite_ethosu.compiled(None, found.model), arch, {}, found.notes, ())
    builder = VelaBuilder(tflite_model.prepare(source, options.tflite), arch, options)
    return (choose or VelaBuilder.built)(builder).made


@dataclass(frozen=True, slots=True)
class VelaBuild:
    """A file that Vela compiled.

    Attributes:
        made: the program.
        inside: the operators of the model that each partition computes.
        cycles: Vela's estimate of the cycles of all partitions.
    """

    made: "_Made"
    inside: tuple[tuple[int, ...], ...]
    cycles: int

    @property
    def program(self) -> bytes:
        """The program as a `.pte`."""
        return pte_writer.write(self.made.contents, self.made.family.delegate_id)

    def noted(self, stripes: tuple[StripedSegment, ...], notes: tuple[str, ...]) -> "VelaBuild":
        """Return the build with a record of its stripes, and further notes."""
        return replace(self, made=replace(self.made, stripes=stripes, notes=(*self.made.notes, *notes)))


@dataclass(frozen=True, slots=True)
class VelaBuilder:
    """Compiles a file with Vela, as it is or in stripes.

    Attributes:
        prepared: the file.
        arch: the target.
        options: of the build.
    """

    prepared: tflite_model.Prepared
    arch: Arch
    options: BuildOptions

    def built(
        self, options: VelaOptions | None = None, given: FlatModel | None = None, *, is_cached: bool = False
    ) -> VelaBuild:
        """Return the build.

        Args:
            options: for Vela, by default those of the build.
            given: the model in stripes, for Vela.
            is_cached: keep Vela's result on this machine.

        Raises:
            UnsupportedError: Vela does not compile the file.
        """
        prepared = self.prepared
        shown = (
            replace(prepared, model=given, source=encode(given), is_unsigned=False, removed=()) if given else prepared
        )
        result = by_vela(shown, self.arch, options or self.options.vela, is_cached=is_cached)
        file = tflite_ethosu.compiled(prepared.model, decode(result.file, partial=True), given)
        made = _around_vela(file, self.arch, result.left, prepared.notes, prepared.removed)
        return VelaBuild(made, tuple(map(tuple, file.inside())), result.figure("cycles_total"))

    def names(self) -> tuple[str, ...]:
        """Return the name of each operator in the manifest."""
        known = Names(self.prepared.model).of
        return tuple(known[op.outputs[0]] if op.outputs else "" for op in self.prepared.model.operators)


Choose = Callable[[VelaBuilder], VelaBuild]
"""Chooses among builds of one file."""


def _around_vela(
    file: tflite_ethosu.EthosUFile,
    arch: Arch,
    left: Mapping[str, str],
    notes: tuple[str, ...],
    removed: tuple[RemovedChannels, ...],
) -> _Made:
    """The program of a file that Vela compiled, with what it leaves to the CPU."""
    refused = {i: _left_by_vela(file.model, op, left) for i, op in enumerate(file.model.operators)}
    mixed = _apart(Mixed(file.model, tuple(range(len(file.model.operators))), refused, b""))
    known = dict(enumerate(file.steps()))
    order = [known.get(step, step) for step in _needed(mixed) if isinstance(step, int)]
    contents, nodes, cpu_ops = _with_c_operators(mixed, order)
    return _Made(
        model=mixed.model,
        contents=contents,
        family=ETHOSU,
        nodes=(*file.nodes(), *nodes),
        partitions=file.described(arch),
        cpu_ops=tuple(cpu_ops),
        files={},
        notes=notes,
        removed=removed,
    )


def _left_by_vela(model: FlatModel, op: FlatOperator, left: Mapping[str, str]) -> UnsupportedError:
    """Why an operator is on the CPU."""
    why = left.get(model.tensors[op.outputs[0]].name, "") if op.outputs else ""
    return UnsupportedError(f"Vela leaves it to the CPU{': ' if why else ''}{why}")


def _for_cpu(model: FlatModel, reason: str) -> Mixed:
    """The file with all of its operators on the CPU."""
    why = UnsupportedError(reason)
    steps = tuple(range(len(model.operators)))
    return Mixed(model, steps, dict.fromkeys(steps, why), b"")


def _with_c_operators(mixed: Mixed, order: Sequence[Step]) -> tuple[Contents, list[Node], list[CpuOp]]:
    """The program whose operators on the CPU are the firmware's own, bit for bit as LiteRT's reference kernels."""
    program = TfliteProgram(mixed.model, lower)
    program.add(order)
    names = Names(mixed.model).of
    nodes, ops = list[Node](), list[CpuOp]()
    for index, calls in program.executed.items():
        op = mixed.model.operators[index]
        name, why = names[op.outputs[0]], mixed.refused[index].message if index in mixed.refused else _EDGE
        size = sum(nbytes(mixed.model, i) for i in {*op.inputs, *op.outputs} if i >= 0)
        works = [work_of(call.operator.symbol, call.params, call.elements) for call in calls]
        main = max(range(len(calls)), key=lambda at: (works[at][0].multiplies, works[at][1]), default=0)
        work, elements, count = works[main] if works else (Work.NOTHING, 0, 0)
        nodes.append(Node(name, op.title, "", (), None, why, work, elements, count, size))
        for at, call in enumerate(calls):
            written = names[call.tensor] if call.tensor is not None else f"{name}, call {at}"
            called = catalogue.name_of(call.operator).partition(".")[0]
            if at == main:
                ops.append(CpuOp(called, written, (), name, why, Work.NOTHING, elements, (call.instruction,)))
            else:
                reason = f"is a step of {op.title}"
                ops.append(CpuOp(called, written, (), "", reason, *works[at][:2], (call.instruction,)))
    return program.contents(), nodes, ops


def _with_portable_operators(
    mixed: Mixed, steps: Sequence[Part | int], payloads: Sequence[bytes]
) -> tuple[Contents, list[Node], list[CpuOp]]:
    """The program whose operators on the CPU are ExecuTorch's portable ones."""
    _check_tensors(mixed.model, steps)
    called = _called(mixed.model, [step for step in steps if isinstance(step, int)])
    delegated = map(_delegated, payloads, (step for step in steps if isinstance(step, Part)))
    calls = [next(delegated) if isinstance(step, Part) else called[step] for step in steps]
    return _contents(mixed.model, calls), *_on_cpu(mixed, steps, calls)


def _mixed(source: Buffer, target: str, options: ConvertOptions) -> Mixed:
    """The file, whole for the NPU but for its float edges where that can be, else what the NPU takes of it."""
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


def _float_notes(made: _Made) -> Iterator[str]:
    """Yield a note for layers that compute in float32 on the CPU."""
    layers = [op for op in made.cpu_ops if op.op.endswith(_FLOAT_LAYERS)]
    if layers:
        yield f"computed in float32 on the CPU: {counted(len(layers), 'layer')}; `--calibration` quantises the file"


def _with_origins(model: FlatModel, source: FlatModel) -> FlatModel:
    """A model with the operators' numbers in the file that it was made from, if it has the same operators."""
    if len(model.operators) != len(source.operators):
        return model
    pairs = zip(model.operators, source.operators, strict=True)
    return replace(model, operators=tuple(replace(op, origin=before.origin) for op, before in pairs))


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
        steps.insert(0, number)  # it reads a state before others change it
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
    """The operator or part of a step, which has its inputs and outputs."""
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
        if tensor.is_variable:
            raise UnsupportedError(
                f"tensor `{tensor.name}` is the state of an operator that this target's CPU does not run",
                hint="name a target whose CPU has C operators, such as `imxrt700cm` or `cortex-m55`",
            )
        if tensor.problem or tensor.dtype.lower() not in CODES:
            raise UnsupportedError(
                tensor.problem or f"tensor `{tensor.name}` is {tensor.dtype}, which no program holds",
                hint="`deuteron run` leaves such operators to LiteRT; other commands need a model without them",
            )


def _delegated(payload: bytes, part: Part) -> Delegated:
    return Delegated(payload, (*part.inputs, *part.outputs))


def _contents(model: FlatModel, calls: Sequence[Call | Delegated]) -> Contents:
    """The program of these calls, with the tensors that they name and the file's inputs and outputs."""
    calls = [*calls, *(_written_back(model, *ends) for ends in model.state_ends)]
    named = {i for call in calls for i in (call.args if isinstance(call, Delegated) else refs(call.args))}
    used = sorted(named | {*model.inputs, *model.outputs})
    tensors = {i: model.tensors[i] for i in used}
    specs = {i: TensorSpec(t.shape, t.dtype.lower(), tuple(range(len(t.shape)))) for i, t in tensors.items()}
    constants = {i: t.data for i, t in tensors.items() if t.data is not None}
    states = {before: state for (before, _), state in zip(model.state_ends, model.states, strict=True)}
    return Contents(specs, constants, model.own_inputs, model.own_outputs, calls, states)


def _written_back(model: FlatModel, before: int, after: int) -> Call:
    """The call that copies the next value of a state over the present one."""
    return Call("aten::view_copy.out", (Ref(after), model.tensors[before].shape, Ref(before), Ref(before)))


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
    """The name of an operator: the tensor that it writes."""
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
        work = LAYERS.get(op.name, Work.UNKNOWN)
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
            terms=terms(model, fate.index) if work.multiplies else 0,
            nbytes=sum(nbytes(model, i) for i in operands if model.tensors[i].data is None),
        )


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
        moved = sum(nbytes(model, i) for i in {*op.inputs, *op.outputs} if i >= 0)
        nodes.append(Node(name, op.title, "", (), None, why, Work.UNKNOWN, size, 0, moved))
        ops.append(CpuOp(called, name, (), name, why, Work.UNKNOWN, size, (number,)))
    return nodes, ops

"""A TFLite file as a build: converted in memory."""

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
    StripedSegment,
    entry_of,
    tflite_name,
)
from deuteron.builds.options import BuildOptions, TfliteOptions
from deuteron.errors import MissingOperatorError, OptionError, UnsupportedError, counted
from deuteron.npu.families import ETHOSU, NEUTRON, Family
from deuteron.npu.neutron.convert import ConvertOptions
from deuteron.npu.neutron.tflite.float_edges import find_edges
from deuteron.npu.neutron.tflite.operator_view import Names
from deuteron.npu.neutron.tflite_partitioner import Mixed, Part, convert_most
from deuteron.operators import catalogue
from deuteron.operators.operation_counts import work_of
from deuteron.runtime import (
    pte_writer,
    tflite_ethosu,
    tflite_model,
    tflite_neutron,
    tflite_quantize,
    vela,
)
from deuteron.runtime.pte_writer import Contents
from deuteron.runtime.tflite_nodes import nbytes, with_origins
from deuteron.runtime.tflite_portable import ends_of, with_portable_operators
from deuteron.runtime.tflite_program import Step, TfliteProgram
from deuteron.runtime.vela_compile import by_vela
from deuteron.tflite.cortex_m import lower
from deuteron.tflite.cortex_m.dead_channels import RemovedChannels
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import Buffer, FlatModel, FlatOperator
from deuteron.tflite.variables import resolved, with_states_of

_EDGE = "changes between integers and floats, at the inputs and outputs of the file"
"""Why an operator is on the CPU that the NPU needs none of."""

_WRONG = "Vela's commands for it and its neighbours compute other values"
"""Why an operator is on the CPU that Vela takes."""

_OPTIONS = ("use_profiling", "memory", "vela", "force", "tflite")
"""Options of builds that mean something for a file, which is quantized already."""


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
        calibration: samples, or the name of a file with them, for a float file that is quantized first.
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
        except MissingOperatorError:
            raise  # quantization would not help
        except UnsupportedError as error:
            hint = tflite_quantize.hint(source, options.tflite.signature)
            if hint is None:
                raise
            raise UnsupportedError(error.message, where=error.where, hint=hint) from error
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
            mixed = replace(mixed, model=with_states_of(with_origins(mixed.model, prepared.model), prepared.model))
    mixed = _apart(mixed)
    steps = _needed(mixed)
    parts = [step for step in steps if isinstance(step, Part)]
    payloads = [tflite_neutron.payload(part) for part in parts]
    if has_c_operators:
        left = iter(payloads)
        order = [(next(left), step.inputs, step.outputs) if isinstance(step, Part) else step for step in steps]
        contents, nodes, cpu_ops = _with_c_operators(mixed, order)
    else:
        contents, nodes, cpu_ops = with_portable_operators(mixed, steps, payloads)
    return _Made(
        model=mixed.model,
        contents=contents,
        family=NEUTRON,
        nodes=(*(node for number, part in enumerate(parts) for node in tflite_neutron.nodes(part, number)), *nodes),
        partitions=tuple(tflite_neutron.partition(mixed.model, *pair) for pair in zip(parts, payloads, strict=True)),
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
        on_cpu: tensors whose operators the CPU computes, because Vela's commands for these were wrong.
    """

    prepared: tflite_model.Prepared
    arch: Arch
    options: BuildOptions
    on_cpu: frozenset[str] = frozenset()

    def built(
        self, options: VelaOptions | None = None, given: FlatModel | None = None, *, is_cached: bool = False
    ) -> VelaBuild:
        """Return the build.

        Args:
            options: for Vela, by default those of the build.
            given: the model that Vela gets, such as the model in stripes.
            is_cached: keep Vela's result on this machine.

        Raises:
            UnsupportedError: Vela does not compile the file.
        """
        prepared = self.prepared
        shown = (
            replace(prepared, model=given, source=encode(given), is_unsigned=False, removed=()) if given else prepared
        )
        result = by_vela(shown, self.arch, options or self.options.vela, self.on_cpu, is_cached=is_cached)
        made = decode(result.file, partial=True)
        file = tflite_ethosu.compiled(prepared.model, made, given, result.database, result.given)
        left = {**result.left, **dict.fromkeys(self.on_cpu, _WRONG)}
        program = _around_vela(file, self.arch, left, prepared.notes, prepared.removed)
        return VelaBuild(program, tuple(map(tuple, file.inside())), result.figure("cycles_total"))

    def built_for_cpu(self, model: FlatModel) -> VelaBuild:
        """Return a program of C operators alone, for a model such as that of the file.

        Raises:
            UnsupportedError: an operator has no C operators.
        """
        mixed = _apart(_for_cpu(model, "no part of it is for the NPU"))
        steps = [step for step in _needed(mixed) if isinstance(step, int)]
        contents, nodes, cpu_ops = _with_c_operators(mixed, steps)
        made = _Made(mixed.model, contents, ETHOSU, tuple(nodes), (), tuple(cpu_ops), {}, (), ())
        return VelaBuild(made, (), 0)

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
    if why == _WRONG:
        return UnsupportedError(_WRONG)
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
        yield f"computed in float32 on the CPU: {counted(len(layers), 'layer')}; `--calibration` quantizes the file"


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
        one = ends_of(mixed.model, step)
        if not one.outputs or needed & {*one.outputs}:
            needed |= {*one.inputs}
            steps.append(step)
    return steps[::-1]

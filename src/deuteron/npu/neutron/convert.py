"""The compiler: from the TFLite bytes of a partition to container and provenance."""

import json
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import get_type_hints

from deuteron.arch import targets
from deuteron.arch.memory import MemoryOptions
from deuteron.errors import InternalError, OptionError, UnsupportedError
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.neutron.budget import budget
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Add, Concat, Mul, ReduceMax, ReduceMin, Reshape, Sub, Sum, Transpose
from deuteron.npu.neutron.ir.verify import verify
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.kernels.selection import Selection
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.attribute import attribute, constant_ops
from deuteron.npu.neutron.passes.canonicalise import Canonicalise
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise, passes
from deuteron.npu.neutron.passes.remove_no_ops import is_no_op
from deuteron.npu.neutron.tflite import neutron_graph, reader
from deuteron.npu.provenance import Fate, KernelOrigin, OpFate, Provenance
from deuteron.operators.program import Program
from deuteron.planner import Budget, Plan, PlanQuality, check, plan, plan_within, reorder_calls
from deuteron.records import parse, plain
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import Buffer, FlatModel

IDLE = (Reshape, Concat, Add, Sub, Mul, Sum, ReduceMax, ReduceMin, Transpose)
"""Operators that ExecuTorch's partitioner ignores if they change nothing; all others count as work."""

_KEYS = {"provenance": "deuteron.provenance", "dataflow": "deuteron.dataflow", "known": "deuteron.plan"}
"""Fields of `Metadata`, and the names of their JSON buffers in a converted file."""

_AGAIN = "convert the model again"

VERSION_KEY = "deuteron.version"
"""Name of the buffer with the version of Deuteron that converted the file."""


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """Options of the compiler.

    Attributes:
        profiling: the driver writes a profile record for each command.
        memory: how the program may use the memories of the target.
        dump_kernel_selection_code: also write the kernel selection file next to the result.
        verify_each: check the graph after every pass.
        excluded_passes: names of passes to skip, for measurements.
    """

    profiling: bool = False
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    dump_kernel_selection_code: bool = False
    verify_each: bool = False
    excluded_passes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = [step.name for step in passes()]
        for name in self.excluded_passes:
            if name not in known:
                raise OptionError(f"there is no pass `{name}`", hint=f"the passes are {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class SourceOp:
    """A TFLite operator of the source: its builtin name and the tensors that it reads and writes."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata of a converted file; empty if a vendor's converter wrote it."""

    provenance: Provenance = field(default_factory=Provenance)
    dataflow: Dataflow = field(default_factory=Dataflow)
    known: PlanQuality = field(default_factory=PlanQuality)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A partition before planning; independent of memories.

    Attributes:
        source: the graph of the file.
        graph: the graph after all passes.
        op_names: the name of each TFLite operator by index.
        selected: kernel calls with the operators that they compute as origins.
        program: the same calls, with all operators that they represent as origins.
        empty: whether the partition computes nothing.
    """

    source: Graph
    graph: Graph
    op_names: tuple[str, ...]
    selected: Program
    program: Program
    empty: bool


@dataclass(frozen=True, slots=True)
class Conversion:
    """Result of the conversion of one partition.

    `container` is None if the partition computes nothing: each output is an input under another name.
    """

    source: Graph
    graph: Graph
    program: Program
    plan: Plan
    provenance: Provenance
    container: Container | None

    @property
    def selection(self) -> Selection:
        """The kernels that the microcode calls."""
        return Selection.of(() if self.container is None else (call.kernel for call in self.program.calls))

    @property
    def dataflow(self) -> Dataflow:
        """The dataflow record of the program."""
        return dataflow(self.program, self.plan.constants)


def convert(tflite: Buffer, target: str | targets.Arch, options: ConvertOptions = ConvertOptions()) -> Conversion:
    """Compile a partition for `target`.

    Raises:
        FormatError: the bytes are not a TFLite model.
        UnsupportedError: no kernel supports an operator of the model, or the model is already converted.
        OptionError: there is no such target, or it has no NPU.
    """
    return convert_model(decode(tflite), target, options)


def convert_model(
    model: FlatModel,
    target: str | targets.Arch,
    options: ConvertOptions = ConvertOptions(),
    within: Budget | None = None,
) -> Conversion:
    """`convert` for a decoded file; `within` replaces the memory budget of the options."""
    arch = targets.load(target) if isinstance(target, str) else target
    lowered = lower_model(model, arch, options)
    return planned(lowered, options, within or budget(arch, options.memory))


def lower_model(model: FlatModel, arch: targets.Arch, options: ConvertOptions) -> Lowered:
    """Compile a decoded file up to planning."""
    arch.need_neutron()
    if neutron_graph.is_converted(model):
        raise UnsupportedError(
            "the model has been converted already", hint="run it as it is, or convert the file that it was made from"
        )
    names = tuple(op.title for op in model.operators)
    return lower(reader.graph_of(model), names, options)


def convert_graph(
    source: Graph,
    op_names: tuple[str, ...],
    options: ConvertOptions = ConvertOptions(),
    within: Budget | None = None,
) -> Conversion:
    """`convert` for a graph.

    Args:
        source: the graph.
        op_names: the name of each TFLite operator by index.
        options: options of the compiler.
        within: the memory budget; None for no limit.
    """
    return planned(lower(source, op_names, options), options, within)


def lower(source: Graph, op_names: tuple[str, ...], options: ConvertOptions) -> Lowered:
    """`convert_graph` up to planning."""
    verify(source)
    graph = optimise(source, verify_each=options.verify_each, excluded=options.excluded_passes)
    for op in graph.ops:
        if not op.origin:
            raise InternalError(f"the passes lost the origin of the op that writes `{op.outputs[0]}`")
    selected = reorder_calls(select(graph))
    return Lowered(source, graph, op_names, selected, attribute(source, selected), _is_empty(source, graph))


def planned(lowered: Lowered, options: ConvertOptions, within: Budget | None) -> Conversion:
    """Plan and encode a lowered partition."""
    source, graph = lowered.source, lowered.graph
    program, places = (
        (lowered.program, plan(lowered.program)) if within is None else plan_within(lowered.program, within)
    )
    check(program, places)
    if lowered.empty:
        nothing = replace(program, calls=())
        return Conversion(source, graph, program, places, _trace(source, lowered.op_names, nothing, nothing), None)
    provenance = _trace(source, lowered.op_names, lowered.selected, program)
    return Conversion(source, graph, program, places, provenance, encode(program, places, options.profiling))


def source_ops(tflite: Buffer) -> tuple[SourceOp, ...]:
    """Return the operators of a TFLite file by index."""
    model = decode(tflite)

    def names(indices: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(model.tensors[index].name for index in indices if index >= 0)

    return tuple(SourceOp(op.title, names(op.inputs), names(op.outputs)) for op in model.operators)


def to_tflite(tflite: Buffer, conversion: Conversion) -> bytes:
    """Return the converted file for ExecuTorch's NXP backend, with the provenance in its metadata."""
    metadata = Metadata(conversion.provenance, conversion.dataflow, conversion.plan.known)
    texts = {key: json.dumps(plain(getattr(metadata, name)), separators=(",", ":")) for name, key in _KEYS.items()}
    texts[VERSION_KEY] = version("deuteron")
    return neutron_graph.wrap(tflite, conversion.container, {key: text.encode() for key, text in texts.items()})


def metadata_of(converted: bytes) -> Metadata:
    """Read the metadata that `to_tflite` wrote into a converted file.

    Raises:
        FormatError: the file or its metadata is damaged.
    """
    _, buffers = neutron_graph.unwrap(converted)
    kinds = get_type_hints(Metadata)
    return Metadata(
        **{name: parse(buffers[key], kinds[name], key, _AGAIN) for name, key in _KEYS.items() if key in buffers}
    )


def _is_empty(source: Graph, graph: Graph) -> bool:
    """Return True if every output is an input and no operator of the source changes anything by itself.

    ExecuTorch's partitioner ignores such operators, and expects no microcode for a partition of them. If operators undo
    each other it expects microcode, which then copies.
    """
    source = Canonicalise().apply(source)
    idle = all(isinstance(op, IDLE) and is_no_op(source, op) for op in source.ops)
    copies = all(isinstance(op, Reshape) and op.inputs[0] in graph.inputs for op in graph.ops)
    return idle and copies and not any(graph.tensor(name).is_const for name in graph.outputs)


def _trace(source: Graph, op_names: tuple[str, ...], selected: Program, program: Program) -> Provenance:
    """Return the kernels and what became of each TFLite operator.

    `selected` is the program before operators without a kernel are attributed to a call.
    """
    kernels = tuple(KernelOrigin(i, call.kernel.name, call.origin, call.stripe) for i, call in enumerate(program.calls))
    computed = {index for call in selected.calls for index in call.origin}
    folded = constant_ops(source)
    needed = {index for op in source.without_dead_ops().ops for index in op.origin}
    inside = {index for op in source.ops for index in op.origin}
    fates: list[OpFate] = []
    for index, name in enumerate(op_names):
        match index:
            case _ if index in computed:
                fate = Fate.KERNELS
            case _ if index in folded:
                fate = Fate.FOLDED
            case _ if index in needed:
                fate = Fate.FREE
            case _ if index in inside:
                fate = Fate.UNUSED
            case _:
                fate = Fate.EDGE
        fates.append(OpFate(index, name, fate, tuple(k.index for k in kernels if index in k.ops)))
    return Provenance(kernels, tuple(fates))

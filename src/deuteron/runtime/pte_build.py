"""Builds from programs: facts from the program and from the ETRecord of its source model."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import prod
from pathlib import Path

from deuteron.arch import targets
from deuteron.arch.cores import Work
from deuteron.arch.engine import Engine, engine
from deuteron.arch.targets import Arch, CpuOperators
from deuteron.builds.manifest import (
    ETRECORD,
    PROGRAM,
    CpuOp,
    Manifest,
    ModelInfo,
    Node,
    Partition,
    PartitionOp,
    TensorInfo,
    entry_of,
)
from deuteron.builds.options import BuildOptions
from deuteron.errors import InputError, OptionError, UnsupportedError, unreadable
from deuteron.npu.ethosu.program import EthosUProgram
from deuteron.npu.families import ETHOSU, NEUTRON
from deuteron.npu.program import NpuProgram
from deuteron.npu.provenance import KernelOrigin
from deuteron.npu.schedule import Schedule
from deuteron.npu.timeline import Activity
from deuteron.runtime import etrecord, pte
from deuteron.runtime.etrecord import EdgeNode, EtRecord
from deuteron.runtime.etrecord_match import differences
from deuteron.runtime.partitions import NpuPartition, partitions_of
from deuteron.runtime.program import DelegateCall, KernelCall, Method, TensorSpec, TensorValue, called

_CORTEX_M = ("cortex_m::", "deuteron::")
_VIEW = "executorch_prim::et_view"
"""Prefix of view calls, which are not operators of the model."""

_EDGES = {
    "quantize_per_tensor": (Work.QUANTIZE, "quantizes for integer operators"),
    "dequantize_per_tensor": (Work.DEQUANTIZE, "dequantizes for float operators"),
}
_NO_REASON = "the program runs it on the CPU and does not record why"

_WORK = {
    "conv2d_s8": Work.CONVOLUTION,
    "depthwise_conv2d_s8": Work.DEPTHWISE,
    "fully_connected_s8": Work.LINEAR,
    "matmul_s8": Work.LINEAR,
    "conv": Work.CONVOLUTION,
    "depthwise": Work.DEPTHWISE,
}
"""Kernels whose multiply-accumulates are counted."""

_MULTIPLIED = ("aten::convolution", "aten::addmm", "aten::mm", "aten::bmm", "aten::linear")
"""Operators with such kernels."""


def read_bytes(path: Path) -> bytes:
    """Read a file; InputError when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as e:
        raise unreadable(path, e) from e


def build_of(path: Path, target: str | None, record: Path | None) -> tuple[Manifest, dict[str, bytes]]:
    """Return the `build.json` of a program, and the files of the build.

    Args:
        path: the program.
        target: its target; by default one that its delegates and operators fit.
        record: its ETRecord, if there is one.

    Raises:
        InputError: the file does not exist, or the ETRecord is another program's.
        FormatError: one of them is damaged.
        OptionError: it was compiled for another target.
        UnsupportedError: no target runs it.
    """
    data = read_bytes(path)
    methods = pte.read(data, f"`{path}`").methods
    return _Program(path, methods, target, record).build(data)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A partition: its program, the instruction that calls it, and the ETRecord's entry for its kernel calls."""

    listed: NpuPartition
    program: NpuProgram
    instruction: int
    engine: Engine

    @property
    def least(self) -> Schedule:
        """Return a lower bound of the schedule, for an NPU whose commands have no times."""
        return self.program.least(self.engine)


class _Program:
    """One method of a program with its target and ETRecord."""

    def __init__(self, path: Path, methods: Sequence[Method], target: str | None, record: Path | None) -> None:
        self._path, self._method, self._others = path, methods[0], len(methods) - 1
        calls = {c.delegate: i for i, c in reversed([*enumerate(methods[0].chains[0])]) if isinstance(c, DelegateCall)}
        programs = [(one, one.program()) for one in partitions_of(methods[0])]
        self._arch = _target(path, methods[0], programs, target)
        self._is_assumed = target is None and not programs
        self._parts = [_Loaded(*pair, calls.get(pair[0].delegate, -1), engine(self._arch)) for pair in programs]
        self._file = record
        self._record = etrecord.read(record, methods[0].name) if record else None
        if self._record:
            self._check_record(self._record)

    def build(self, data: bytes) -> tuple[Manifest, dict[str, bytes]]:
        """Return the manifest and the files."""
        files = {PROGRAM: data} | ({ETRECORD: read_bytes(self._file)} if self._file else {})
        partitions = tuple(map(self._partition, self._parts))
        nodes, cpu_ops = self._on_cpu()
        manifest = Manifest(
            deuteron=version("deuteron"),
            executorch="",
            torch="",
            target=self._arch.name,
            converter="",
            options=BuildOptions(use_profiling=self._records()),
            model=ModelInfo(self._path.stem),
            files={name: entry_of(content) for name, content in files.items()},
            inputs=tuple(_tensors(self._method.input_specs, "input")),
            outputs=tuple(_tensors(self._method.output_specs, "output")),
            nodes=(*(node for part in self._parts for node in self._on_npu(part)), *nodes),
            partitions=partitions,
            cpu_ops=cpu_ops,
            warnings=tuple(self._missing()),
        )
        return manifest, files

    def _check_record(self, record: EtRecord) -> None:
        """Raise InputError if the record belongs to another program."""
        kernels = {part.instruction: [call.kernel for call in part.program.calls] for part in self._parts}
        difference = next(differences(record, self._method, kernels), None)
        if difference:
            raise InputError(
                f"`{self._file}` is not the ETRecord of `{self._path}`: {difference}",
                hint="give the ETRecord saved with the program",
            )

    def _records(self) -> bool:
        return any(part.program.records for part in self._parts)

    def _handles(self, instruction: int) -> tuple[int, ...]:
        return self._record.instructions.get(instruction, ()) if self._record else ()

    def _recorded(self, part: _Loaded) -> Mapping[int, tuple[int, ...]]:
        """Return the debug handles of each kernel call of a partition."""
        delegate = self._record.delegates.get(part.instruction) if self._record else None
        return delegate.calls if delegate else {}

    def _computed(self, handles: Sequence[int]) -> list[EdgeNode]:
        """Return the operators of the model with these debug handles."""
        nodes = self._record.nodes if self._record else ()
        return [node for node in nodes if node.handle in handles and not node.quantizes]

    def _ops_of(self, part: _Loaded) -> tuple[list[PartitionOp], list[tuple[int, ...]]]:
        """Return the operators of a partition, and the operators of each kernel call.

        A kernel call without known operators counts as an operator itself.
        """
        calls = part.program.calls
        nodes = self._computed(self._handles(part.instruction))
        recorded = self._recorded(part)
        if not nodes or not recorded:
            names = [(_call(part, i),) for i in range(len(calls))]
            own = [PartitionOp(i, call.kernel, (), names[i], ()) for i, call in enumerate(calls)]
            rest = [_op(len(own) + i, node) for i, node in enumerate(nodes)]
            return [*own, *rest], [(i,) for i in range(len(calls))]
        ops = [_op(i, node) for i, node in enumerate(nodes)]
        of = [tuple(i for i, node in enumerate(nodes) if node.handle in recorded.get(c, ())) for c in range(len(calls))]
        return ops, of

    def _partition(self, part: _Loaded) -> Partition:
        ops, of = self._ops_of(part)
        program = part.program
        call = self._method.chains[0][part.instruction] if part.instruction >= 0 else None
        specs = [self._method.values[i] for i in call.args] if isinstance(call, DelegateCall) else []
        tensors = [*_tensors([v.spec if isinstance(v, TensorValue) else None for v in specs], "argument")]
        inputs = len(tensors) - len(program.outputs)
        return Partition(
            payload_sha256=hashlib.sha256(part.listed.payload).hexdigest(),
            microcode_bytes=len(part.listed.payload) - program.weights_bytes,
            weights_bytes=program.weights_bytes,
            kernels_bytes=0,
            scratch_bytes=0,
            scratch_proven_optimal=False,
            prefetch_bytes=0,
            prefetch_bound=0,
            prefetch_proven_optimal=False,
            inputs=tuple(tensors[:inputs]),
            outputs=tuple(tensors[inputs:]),
            ops=tuple(ops),
            kernels=tuple(KernelOrigin(i, c.kernel, of[i]) for i, c in enumerate(program.calls)),
            dataflow=program.traced(),
            schedule=part.least,
        )

    def _on_npu(self, part: _Loaded) -> Iterator[Node]:
        """Yield the model's operators in a partition; its kernel calls where the operators are unknown."""
        ops, of = self._ops_of(part)
        timeline = part.program.scheduled(part.least).timeline(part.engine)
        costs = [e.cost for e in timeline.events if e.activity is Activity.KERNEL and e.cost is not None]
        counted: dict[int, tuple[Work, int, int, int]] = {}
        for call, cost, own in zip(part.program.calls, costs, of, strict=True):
            if own:
                work = _WORK.get(call.kernel, Work.UNKNOWN)
                main = next((i for i in own if work.multiplies and ops[i].op in _MULTIPLIED), own[0])
                before = counted.get(main, (Work.UNKNOWN, 0, 0, 0))
                terms = before[2] + (cost.macs if work.multiplies else 0)
                kept = (work, call.result_bytes) if work.multiplies else before[:2]
                counted[main] = (*kept, terms, before[3] + cost.sram_bytes)
        for i, op in enumerate(ops):
            work, elements, terms, nbytes = counted.get(i, (Work.UNKNOWN, 0, 0, 0))
            yield Node(op.nodes[0], op.op, "", op.source, part.listed.number, "", work, elements, terms, nbytes)

    def _on_cpu(self) -> tuple[tuple[Node, ...], tuple[CpuOp, ...]]:
        """Return the model's operators on the CPU, and the program's CPU operators."""
        on_npu = {h for part in self._parts for h in self._handles(part.instruction)}
        nodes: dict[str, Node] = {}
        ops: list[CpuOp] = []
        for number, step in enumerate(self._method.chains[0]):
            name, results = self._operator(step)
            if not name or name == _VIEW:
                continue
            computed = self._computed([h for h in self._handles(number) if h not in on_npu])
            sources = computed[0].source if computed else ()
            if (edge := _EDGES.get(name.partition("::")[2])) is not None:
                ops.append(CpuOp(name, f"instruction_{number}", sources, "", edge[1], edge[0], results, (number,)))
                continue
            computed = computed or [EdgeNode(f"instruction_{number}", name, 0, ())]
            first = computed[0].name
            ops.append(CpuOp(name, first, sources, first, _NO_REASON, Work.UNKNOWN, results, (number,)))
            for node in computed:
                whole = Node(node.name, node.op, "", node.source, None, _NO_REASON, Work.UNKNOWN, results, 0, None)
                nodes.setdefault(node.name, whole)
        return tuple(nodes.values()), tuple(ops)

    def _operator(self, step: object) -> tuple[str, int]:
        """Return the CPU operator of a step, without overload, and its number of result elements; empty for the NPU."""
        match step:
            case KernelCall(operator, args):
                value = self._method.values[args[-1]] if args else None
                results = prod(value.spec.shape) if isinstance(value, TensorValue) else 0
                return self._method.operators[operator].partition(".")[0], results
            case DelegateCall(delegate) if all(delegate != part.listed.delegate for part in self._parts):
                return called(self._method.delegates[delegate]), 0
            case _:
                return "", 0

    def _missing(self) -> Iterator[str]:
        """Yield sentences about facts that the program does not record."""
        name = f"`{self._path.name}`"
        if self._others:
            yield f"{name} has {self._others + 1} methods; only the first, `{self._method.name}`, is shown"
        if self._is_assumed:
            yield f"{name} does not name its target; `{self._arch.name}` is assumed: `--target` sets another"
        if self._record is None:
            yield (
                f"{name} does not have source lines and modules of the model: they are in the ETRecord that ExecuTorch "
                "saves with it; give that with `--etrecord`"
            )
        for part in self._parts:
            if self._record and not self._recorded(part):
                yield (
                    f"the ETRecord lists the operators of npu {part.listed.number}, but not which kernel call "
                    "computes which operator"
                )
        if any(part.listed.family is NEUTRON for part in self._parts):
            yield (
                "only a build directory records which value each kernel call must read; the simulator does not check "
                "it for this program"
            )
        if any(part.least.steps for part in self._parts):
            yield (
                "Vela estimates the time of an Ethos-U when it compiles, and the program does not contain it: the "
                "shown times are a lower bound"
            )


def _op(index: int, node: EdgeNode) -> PartitionOp:
    return PartitionOp(index, node.op, (node.name,), (node.name,), node.source)


def _call(part: _Loaded, number: int) -> str:
    """Return the operator name for a kernel call without a known operator."""
    return f"npu_{part.listed.number}_call_{number}"


def _tensors(specs: Sequence[TensorSpec | None], side: str) -> Iterator[TensorInfo]:
    for i, spec in enumerate(specs):
        if spec is not None:
            yield TensorInfo(spec.shape, spec.dtype, f"{side} {i}")


def _target(
    path: Path, method: Method, programs: Sequence[tuple[NpuPartition, NpuProgram]], wanted: str | None
) -> Arch:
    """Return the target of a program: the requested one if it fits, else the most likely one."""
    operators = CpuOperators.CORTEX_M if any(op.startswith(_CORTEX_M) for op in method.operators) else None
    npus = dict.fromkeys(_npu(*pair) for pair in programs)
    what = " and ".join(f"`{npu}`" for npu in npus) or "no NPU"
    if len(npus) > 1:
        raise UnsupportedError(
            f"the program has partitions for {what}; no target has both",
            where=f"`{path}`",
            hint="run it on this computer, without `--on`",
        )
    fitting = [arch for arch in map(targets.load, targets.names()) if [*npus] == ([_name(arch)] if arch.npu else [])]
    if wanted is not None:
        if (arch := targets.load(wanted)) not in fitting:
            listed = ", ".join(f"`{known.name}`" for known in fitting) or "none of Deuteron's targets"
            raise OptionError(
                f"`{path}` was compiled for {what}, not for the target `{wanted}`",
                hint=f"leave out `--target`, or choose {listed}",
            )
        return arch
    if not fitting:
        raise UnsupportedError(f"no target has the NPU {what}", where=f"`{path}`", hint="`deuteron targets` lists all")
    preferred = operators or (CpuOperators.PORTABLE if npus else CpuOperators.CORTEX_M)
    likely = [arch for arch in fitting if arch.cpu.operators is preferred] or fitting
    default = targets.load(targets.DEFAULT_WITHOUT_NPU)
    return default if default in likely else likely[0]


def _npu(listed: NpuPartition, program: NpuProgram) -> str:
    """Return the NPU of a partition, as `_name` names it."""
    if listed.family is ETHOSU and isinstance(program, EthosUProgram):
        return program.stream.config.name
    return "Neutron" if listed.family is NEUTRON else listed.family.delegate_id


def _name(arch: Arch) -> str:
    return arch.npu.program_name if arch.npu else ""

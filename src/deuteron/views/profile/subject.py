"""A build's data for a profile: partitions with their kernels, operators, lines and memories."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deuteron import records
from deuteron.arch import targets
from deuteron.board import firmware_record as firmwares
from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Manifest, Node
from deuteron.errors import InputError, UnsupportedError
from deuteron.npu.program import NpuProgram
from deuteron.runtime import pte
from deuteron.runtime.partitions import partitions_of
from deuteron.runtime.program import DelegateCall, KernelCall, Method, called
from deuteron.views.events import record
from deuteron.views.events.events import Measure, SpanKind, Stream
from deuteron.views.events.instruction_map import Instructions, PartitionCalls
from deuteron.views.memory import ArenaPlanning, PartitionPlan, planning
from deuteron.views.simulate import PartitionRun

_UNTIMED = (
    "the commands of `npu {}` have branches, which skip or repeat operations: boards record the time of the "
    "partition alone; `deuteron profile` without a board shows each operation"
)


@dataclass(frozen=True, slots=True)
class Build:
    """A build that can be profiled.

    Attributes:
        directory: its directory.
        manifest: its manifest.
        partitions: each on a model of the target's NPU, with the plan of its memories; none without an NPU.
        instructions: the meaning of its program's instructions.
        basis: assumptions of simulated times.
        sections: sizes of the firmware that runs it, if there is one.
        arena: the memory of that firmware's bundle, if it uses our plan.
        warnings: sentences about faults of its partitions.
        state: the tensors that last from one run to the next.
    """

    directory: Path
    manifest: Manifest
    partitions: tuple[tuple[PartitionRun, PartitionPlan], ...]
    instructions: Instructions
    basis: tuple[str, ...] = ()
    sections: tuple[record.Section, ...] = ()
    arena: ArenaPlanning | None = None
    warnings: tuple[str, ...] = ()
    state: tuple[str, ...] = ()

    @property
    def program_sha256(self) -> str:
        """Return the hash of its `.pte`."""
        return self.manifest.files[manifests.PROGRAM].sha256

    @property
    def profiles(self) -> bool:
        """Return true if its microcode records when kernels start and stop."""
        return self.manifest.options.use_profiling


def read(directory: Path) -> Build:
    """Read the build in a directory.

    Raises:
        InputError: the directory is not a build, or has nothing for our NPU driver.
        FormatError: it is damaged.
        UnsupportedError: a vendor's converter made it.
    """
    if (directory / firmwares.FILE.name).is_file() and not (directory / manifests.NAME).is_file():
        raise InputError(f"`{directory}` is firmware, not a build", hint="give the build that it was made from")
    manifest = manifests.read(directory)
    if any(not part.kernels and part.ops for part in manifest.partitions):
        raise UnsupportedError(
            f"`{directory}` was built with the vendor's converter, whose kernels are unknown",
            hint="build it with `--converter open`",
        )
    partitions: tuple[tuple[PartitionRun, PartitionPlan], ...] = ()
    basis: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    if manifest.partitions:
        planned = planning(directory)
        partitions = tuple(zip(planned.simulation.partitions, planned.partitions, strict=True))
        basis, warnings = planned.simulation.basis, planned.warnings
    calls = tuple(_calls(run.program) for run, _ in partitions)
    file = directory / manifests.PROGRAM
    method = pte.read(file.read_bytes(), str(file)).methods[0]
    instructions = _instructions(method, manifest, calls)
    return Build(directory, manifest, partitions, instructions, basis, warnings=warnings, state=tuple(_state(method)))


def _state(method: Method) -> Iterator[str]:
    """Yield the tensors that last from one run to the next, with their sizes."""
    for index, tensor in method.state:
        name = tensor.name or f"value {index}"
        yield f"{name}: {tensor.spec.dtype} {list(tensor.spec.shape)}, {tensor.bytes:,} B"


def _instructions(method: Method, manifest: Manifest, calls: tuple[PartitionCalls, ...]) -> Instructions:
    """Return the meaning of the instructions of a build's program."""
    ours = {partition.delegate: partition.number for partition in partitions_of(method)}
    listed = {number: i for i, op in enumerate(manifest.cpu_ops) for number in op.instructions}
    partitions: dict[int, int] = {}
    operators: dict[int, tuple[str, int]] = {}
    others: dict[int, tuple[str, int]] = {}
    for number, instruction in enumerate(method.chains[0]):
        match instruction:
            case DelegateCall(delegate) if delegate in ours:
                partitions[number] = ours[delegate]
            case DelegateCall(delegate):
                others[number] = called(method.delegates[delegate]), listed.get(number, -1)
            case KernelCall(operator):
                operators[number] = method.operators[operator], listed.get(number, -1)
            case _:
                pass
    return Instructions(manifest.files[manifests.PROGRAM].sha256, partitions, operators, calls, others)


def _calls(program: NpuProgram) -> PartitionCalls:
    numbered = zip(program.commands, program.calls_before, strict=False)
    return PartitionCalls(
        tuple(call.kernel for call in program.calls),
        tuple(number if command.call else None for command, number in numbered),
        tuple(command.fetched for command in program.commands),
    )


def profile(build: Build, on: str, stream: Stream) -> record.Profile:
    """Return the profile of a run of a build."""
    manifest, npu = build.manifest, targets.load(build.manifest.target).npu
    hz = next((run.timeline.engine.clock for run, _ in build.partitions), npu.clock.value if npu else 0)
    nodes = {node.name: node for node in manifest.nodes}
    return record.Profile(
        model=manifest.model.name,
        target=manifest.target,
        on=on,
        program_sha256=build.program_sha256,
        versions={"deuteron": manifest.deuteron, "executorch": manifest.executorch, "torch": manifest.torch},
        options=dict(_flat(records.plain(manifest.options))),
        files={name: entry.sha256 for name, entry in manifest.files.items()},
        npu_macs_per_cycle=npu.macs_per_cycle if npu else 0,
        npu_hz=hz,
        stream=stream,
        partitions=tuple(_partition(run, plan, nodes) for run, plan in build.partitions),
        cpu_ops=tuple(_cpu_ops(build)),
        sections=build.sections,
        basis=build.basis if stream.measure in (Measure.SIMULATED, Measure.ESTIMATED) else (),
        npu_measure=next((run.timeline.measure for run, _ in build.partitions), Measure.SIMULATED),
        quality=_quality(manifest),
        state=build.state,
        depth_first=tuple(build.arena.depth_first()) if build.arena else (),
    )


def _quality(manifest: Manifest) -> record.Quality:
    quality = manifest.quality
    if not quality.samples:
        return record.NOT_MEASURED
    outputs = (line for i, output in enumerate(quality.outputs) for line in output.lines(i))
    return record.Quality(
        quality.title,
        (*outputs, *(metric.text() for metric in quality.metrics)),
        tuple(record.LayerLoss(one.op, one.name, one.own, one.sqnr, one.source) for one in quality.layers),
    )


def warnings(build: Build, profiled: record.Profile) -> Iterator[str]:
    """Yield sentences about kernels that ran but were not recorded."""
    kinds = {event.kind for event in profiled.stream.events}
    if SpanKind.DELEGATE not in kinds:
        return
    timed = {event.partition for event in profiled.stream.events if event.kind is SpanKind.KERNEL}
    untimed = [i for i, (run, _) in enumerate(build.partitions) if run.program.has_branches and i not in timed]
    if build.profiles and not profiled.stream.lost:
        yield from map(_UNTIMED.format, untimed)
    if SpanKind.KERNEL in kinds or len(untimed) == len(build.partitions):
        return
    if not build.profiles:
        yield (
            "the microcode of this build does not record its kernels: their time is not attributed; build it with "
            "`--use-profiling`"
        )
    elif not profiled.stream.lost:
        yield (
            "there are no kernel events, but the build records them: their time is not attributed; compile all files "
            "of the firmware, including the driver, with `-DDTN_PROFILING=1`"
        )


def _cpu_ops(build: Build) -> Iterator[record.CpuOp]:
    """Yield the operators on the CPU; if several compute one node of the model, the first has its work."""
    nodes = {node.name: node for node in build.manifest.nodes}
    chains = build.arena.arena.chains if build.arena else ()
    stripes = {at: f"in {chain.stripes} stripes of chain {chain.number}" for chain in chains for at in chain.ops}
    for index, op in enumerate(build.manifest.cpu_ops):
        node = nodes.pop(op.computes, None)
        work = (node.macs, node.nbytes or 0) if node else (0, 0)
        cut = next((stripes[at] for at in op.instructions if at in stripes), "")
        name = node.op if node is not None and op.op.startswith("firmware::") else op.op  # of a TFLite file
        yield record.CpuOp(index, name, op.node, op.source, op.why, *work, cut)


def _flat(options: Mapping[str, object], prefix: str = "") -> Sequence[tuple[str, str]]:
    """Return options and nested options by their dotted names."""
    rows: list[tuple[str, str]] = []
    for name, value in options.items():
        if isinstance(value, Mapping):
            rows += _flat({str(key): item for key, item in value.items()}, f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        else:
            rows.append((f"{prefix}{name}", str(value)))
    return rows


def _partition(run: PartitionRun, plan: PartitionPlan, nodes: Mapping[str, Node]) -> record.ProfiledPartition:
    entry = run.entry
    ops = tuple(record.Op(op.index, op.op, op.nodes, op.source) for op in entry.ops)
    costs = [event.cost for event in run.timeline.events if event.cost is not None]
    kernels = [
        record.Kernel(
            index=origin.index,
            name=call.kernel,
            ops=origin.ops,
            module=_module([ops[op] for op in origin.ops], nodes),
            macs=cost.macs,
            nbytes=cost.sram_bytes,
            weight_bytes=call.weight_bytes,
            cycles=cost.cycles,
            bound=cost.bound,
            output=tuple(dict.fromkeys(uses[result].buffer for result in call.results)),
            stripe=str(origin.stripe or ""),
        )
        for call, cost, origin, uses in zip(run.program.calls, costs, entry.kernels, entry.dataflow.uses(), strict=True)
    ]
    return record.ProfiledPartition(
        payload_sha256=entry.payload_sha256,
        ops=ops,
        kernels=tuple(kernels),
        memories=tuple(_memory(memory, run.program.calls_before) for memory in plan.memories),
        depth_first=tuple(run.depth_first()),
    )


def _module(ops: Sequence[record.Op], nodes: Mapping[str, Node]) -> str:
    """Return the module of the node with the most multiply-accumulates, else of the first."""
    computed = [nodes[name] for op in ops for name in op.nodes if name in nodes and nodes[name].source]
    if computed:
        return max(computed, key=lambda node: node.macs).source[0].module
    return next((source.module for op in ops for source in op.sources), "")


def _memory(memory: record.Memory, before: Sequence[int]) -> record.Memory:
    """Return the memory with lifetimes in kernel calls instead of commands."""
    last = max(0, before[-1] - 1)
    blocks = (
        replace(block, first=min(before[block.first], last), last=max(0, before[block.last + 1] - 1))
        for block in memory.blocks
    )
    return replace(memory, blocks=tuple(blocks))

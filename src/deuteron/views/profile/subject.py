"""What a profile holds of its build, whoever ran it: partitions with their kernels, operators, lines and memories."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deuteron.arch import targets
from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Manifest, Node
from deuteron.errors import UnsupportedError
from deuteron.npu.program import NpuProgram
from deuteron.runtime import pte
from deuteron.runtime.partitions import partitions_of
from deuteron.runtime.program import DelegateCall, KernelCall, called
from deuteron.views.events import record
from deuteron.views.events.events import Kind, Measure, Stream
from deuteron.views.events.instructions import Instructions, PartitionCalls
from deuteron.views.memory import ArenaPlanning, PartitionPlan, planning
from deuteron.views.simulate import PartitionRun

_UNTOLD = (
    "the commands of `npu {}` have branches, which leave operations out or repeat them: boards record the time of the "
    "partition alone; `deuteron profile` without a board has that of each operation"
)


@dataclass(frozen=True, slots=True)
class Build:
    """A build that can be profiled.

    Attributes:
        directory: where it is.
        manifest: what it says of itself.
        partitions: each on a model of the target's NPU, beside the plan of its memories; none without an NPU.
        instructions: what the instructions of its program stand for.
        basis: what simulated times rest on.
        sections: sizes of the firmware that runs it, where there is one.
        arena: the memory of that firmware's bundle, where it is planned anew.
        warnings: sentences about what is wrong with its partitions.
    """

    directory: Path
    manifest: Manifest
    partitions: tuple[tuple[PartitionRun, PartitionPlan], ...]
    instructions: Instructions
    basis: tuple[str, ...] = ()
    sections: tuple[record.Section, ...] = ()
    arena: ArenaPlanning | None = None
    warnings: tuple[str, ...] = ()

    @property
    def program_sha256(self) -> str:
        """Of its `.pte`."""
        return self.manifest.files[manifests.PROGRAM].sha256

    @property
    def profiles(self) -> bool:
        """Whether its microcode records when kernels start and stop."""
        return self.manifest.options.use_profiling


def read(directory: Path) -> Build:
    """The build in a directory.

    Raises:
        InputError: the directory is no build, or has nothing for our NPU driver.
        FormatError: it is damaged.
        UnsupportedError: a vendor's converter made it.
    """
    manifest = manifests.read(directory)
    if any(not part.kernels and part.ops for part in manifest.partitions):
        raise UnsupportedError(
            f"`{directory}` was built with the vendor's converter, which does not say what its kernels compute",
            hint="build it with `--converter open`",
        )
    partitions: tuple[tuple[PartitionRun, PartitionPlan], ...] = ()
    basis: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    if targets.load(manifest.target).npu is not None:
        planned = planning(directory)
        partitions = tuple(zip(planned.simulation.partitions, planned.partitions, strict=True))
        basis, warnings = planned.simulation.basis, planned.warnings
    calls = tuple(_calls(run.program) for run, _ in partitions)
    instructions = _instructions(directory / manifests.PROGRAM, manifest, calls)
    return Build(directory, manifest, partitions, instructions, basis, warnings=warnings)


def _instructions(file: Path, manifest: Manifest, calls: tuple[PartitionCalls, ...]) -> Instructions:
    """What the instructions of a build's program stand for."""
    program = pte.read(file.read_bytes(), str(file))
    method = program.methods[0]
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
    """The profile of a run of a build."""
    manifest, npu = build.manifest, targets.load(build.manifest.target).npu
    hz = next((run.timeline.engine.clock for run, _ in build.partitions), npu.clock.value if npu else 0)
    nodes = {node.name: node for node in manifest.nodes}
    return record.Profile(
        model=manifest.model.name,
        target=manifest.target,
        on=on,
        program_sha256=build.program_sha256,
        versions={"deuteron": manifest.deuteron, "executorch": manifest.executorch, "torch": manifest.torch},
        options=dict(_flat(manifest.options.to_json())),
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
    """Sentences about kernels that ran and were not recorded."""
    kinds = {event.kind for event in profiled.stream.events}
    if Kind.DELEGATE not in kinds:
        return
    timed = {event.partition for event in profiled.stream.events if event.kind is Kind.KERNEL}
    untold = [i for i, (run, _) in enumerate(build.partitions) if run.program.has_branches and i not in timed]
    if build.profiles and not profiled.stream.lost:
        yield from map(_UNTOLD.format, untold)
    if Kind.KERNEL in kinds or len(untold) == len(build.partitions):
        return
    if not build.profiles:
        yield (
            "the microcode of this build does not record its kernels: their time is not attributed; build it with "
            "`--use-profiling`"
        )
    elif not profiled.stream.lost:
        yield (
            "no event is of a kernel, though the build records them: their time is not attributed; compile all files "
            "of the firmware with `-DDTN_PROFILING=1`, also the driver's"
        )


def _cpu_ops(build: Build) -> Iterator[record.CpuOp]:
    """The operators on the CPU; where several compute one node of the model, its work counts with the first."""
    nodes = {node.name: node for node in build.manifest.nodes}
    chains = build.arena.arena.chains if build.arena else ()
    stripes = {at: f"in {chain.stripes} stripes of chain {chain.number}" for chain in chains for at in chain.ops}
    for index, op in enumerate(build.manifest.cpu_ops):
        node = nodes.pop(op.computes, None)
        work = (node.macs, node.nbytes or 0) if node else (0, 0)
        cut = next((stripes[at] for at in op.instructions if at in stripes), "")
        yield record.CpuOp(index, op.op, op.node, op.source, op.why, *work, cut)


def _flat(options: Mapping[str, object], prefix: str = "") -> Sequence[tuple[str, str]]:
    """Options and options of options by their dotted names."""
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
    """The module of the node with the most multiply-accumulates that these compute, else of the first."""
    computed = [nodes[name] for op in ops for name in op.nodes if name in nodes and nodes[name].source]
    if computed:
        return max(computed, key=lambda node: node.macs).source[0].module
    return next((source.module for op in ops for source in op.sources), "")


def _memory(memory: record.Memory, before: Sequence[int]) -> record.Memory:
    """The memory, whose blocks the plan counts in commands, in kernel calls."""
    last = max(0, before[-1] - 1)
    blocks = (
        replace(block, first=min(before[block.first], last), last=max(0, before[block.last + 1] - 1))
        for block in memory.blocks
    )
    return replace(memory, blocks=tuple(blocks))

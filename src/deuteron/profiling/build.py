"""What a profile holds of its build, whoever ran it: partitions with their kernels, operators, lines and memories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deuteron.errors import UnsupportedError
from deuteron.frontend import manifest as manifests
from deuteron.frontend.manifest import Manifest
from deuteron.frontend.manifest import Source as Line
from deuteron.kernels.cost import Cost
from deuteron.kernels.regions import Region
from deuteron.microcode.decode import Call, Decoded, Fetch
from deuteron.planning import Memory as PlannedMemory
from deuteron.planning import PartitionPlan, planning
from deuteron.profile import record
from deuteron.profile.events import Stream
from deuteron.profile.program import Instructions, PartitionCalls
from deuteron.runtime import payload as payloads
from deuteron.runtime import pte
from deuteron.runtime.program import DelegateCall, KernelCall
from deuteron.simulation import PartitionRun, Simulation


@dataclass(frozen=True, slots=True)
class Build:
    """A build that can be profiled.

    Attributes:
        directory: where it is.
        manifest: what it says of itself.
        simulation: its partitions on a model of the target.
        plans: their memories.
        sections: sizes of the firmware that runs it, where there is one.
    """

    directory: Path
    manifest: Manifest
    simulation: Simulation
    plans: tuple[PartitionPlan, ...]
    sections: tuple[record.Section, ...] = field(default=())

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
    planned = planning(directory)
    return Build(directory, manifest, planned.simulation, planned.partitions)


def instructions(build: Build) -> Instructions:
    """What the instructions of the build's program stand for."""
    program = pte.read((build.directory / manifests.PROGRAM).read_bytes(), str(build.directory / manifests.PROGRAM))
    method = program.methods[0]
    ours = [i for i, delegate in enumerate(method.delegates) if delegate.id == payloads.BACKEND_ID]
    listed = list(enumerate(build.manifest.cpu_ops))
    partitions: dict[int, int] = {}
    operators: dict[int, tuple[str, int]] = {}
    for number, instruction in enumerate(method.chains[0]):
        match instruction:
            case DelegateCall(delegate) if delegate in ours:
                partitions[number] = ours.index(delegate)
            case KernelCall(operator):
                name = method.operators[operator]
                # Programs have calls that the manifest does not list; those that it lists come in its order.
                at = next((i for i, (_, op) in enumerate(listed) if _base(op.op) == _base(name)), None)
                operators[number] = name, -1 if at is None else listed[at][0]
                listed = listed if at is None else listed[at + 1 :]
            case _:
                pass
    calls = tuple(_calls(run.decoded) for run in build.simulation.partitions)
    return Instructions(build.program_sha256, partitions, operators, calls)


def _base(operator: str) -> str:
    return operator.partition(".")[0]


def _calls(decoded: Decoded) -> PartitionCalls:
    numbers: list[int | None] = []
    calls = 0
    for command in decoded.commands:
        numbers.append(calls if isinstance(command, Call) else None)
        calls += isinstance(command, Call)
    fetched = (command.nbytes if isinstance(command, Fetch) else 0 for command in decoded.commands)
    return PartitionCalls(tuple(call.kernel.name for call in decoded.calls), tuple(numbers), tuple(fetched))


def profile(build: Build, on: str, stream: Stream) -> record.Profile:
    """The profile of a run of a build."""
    manifest, engine = build.manifest, build.simulation.engine
    return record.Profile(
        model=manifest.model.name,
        target=manifest.target,
        on=on,
        program_sha256=build.program_sha256,
        versions={"deuteron": manifest.deuteron, "executorch": manifest.executorch, "torch": manifest.torch},
        options=dict(_flat(manifest.options.to_json())),
        files={name: entry.sha256 for name, entry in manifest.files.items()},
        npu_macs_per_cycle=engine.rows * engine.columns,
        npu_hz=engine.clock,
        stream=stream,
        partitions=tuple(_partition(*pair) for pair in zip(build.simulation.partitions, build.plans, strict=True)),
        cpu_ops=tuple(
            record.CpuOp(i, op.op, op.node, _sources(op.source), "") for i, op in enumerate(manifest.cpu_ops)
        ),
        sections=build.sections,
    )


def _flat(options: Mapping[str, object], prefix: str = "") -> Sequence[tuple[str, str]]:
    """Options and options of options by their dotted names."""
    found: list[tuple[str, str]] = []
    for name, value in options.items():
        if isinstance(value, Mapping):
            found += _flat({str(key): item for key, item in value.items()}, f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        else:
            found.append((f"{prefix}{name}", str(value)))
    return found


def _partition(run: PartitionRun, plan: PartitionPlan) -> record.Partition:
    entry = run.entry
    costs = [event.cost for event in run.timeline.events if event.cost is not None]
    uses = entry.dataflow.uses()
    kernels = [
        _kernel(call, cost, i, entry.kernels[i].ops, tuple(use.buffer for use in uses[i][len(call.kernel.reads) :]))
        for i, (call, cost) in enumerate(zip(run.decoded.calls, costs, strict=True))
    ]
    calls = [isinstance(command, Call) for command in run.decoded.commands]
    return record.Partition(
        payload_sha256=entry.payload_sha256,
        ops=tuple(record.Op(op.index, op.op, op.nodes, _sources(op.source)) for op in entry.ops),
        kernels=tuple(kernels),
        memories=tuple(_memory(memory, calls) for memory in plan.memories),
    )


def _kernel(call: Call, cost: Cost, index: int, ops: tuple[int, ...], written: tuple[str, ...]) -> record.Kernel:
    operands = zip(call.kernel.operands, call.operands, strict=True)
    outputs = call.kernel.operands[len(call.kernel.reads) :]
    return record.Kernel(
        index=index,
        name=call.kernel.name,
        ops=ops,
        macs=cost.macs,
        nbytes=cost.sram_bytes,
        weight_bytes=sum(place.nbytes for _, place in operands if place.region in (Region.WEIGHTS, Region.PREFETCH)),
        cycles=cost.cycles,
        bound="compute" if cost.compute >= cost.sram else "SRAM",
        output=tuple(dict.fromkeys(name for name, role in zip(written, outputs, strict=True) if role != "workspace")),
    )


def _memory(memory: PlannedMemory, calls: Sequence[bool]) -> record.Memory:
    """The memory, whose blocks the plan counts in commands, in kernel calls."""
    before = [sum(calls[:command]) for command in range(len(calls) + 1)]
    last = max(0, before[-1] - 1)
    return record.Memory(
        memory.name,
        memory.nbytes,
        memory.bound,
        tuple(
            record.Block(b.name, b.offset, b.nbytes, min(before[b.first], last), max(0, before[b.last + 1] - 1))
            for b in memory.blocks
        ),
    )


def _sources(lines: Sequence[Line]) -> tuple[record.Source, ...]:
    return tuple(record.Source(line.file, line.line, line.code, line.module) for line in lines)

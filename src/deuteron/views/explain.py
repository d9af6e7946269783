"""Explains a build: the processor of each operator, the reason, and the cost."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from deuteron.arch import cores, targets
from deuteron.arch.cores import InnerWork
from deuteron.arch.memory import MemoryOptions
from deuteron.arch.targets import CpuOperators
from deuteron.board import image, weight_choices
from deuteron.board.arena import Arena, arena_of
from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Cascade, CpuOp, Manifest, Node
from deuteron.builds.options import Partitioning
from deuteron.errors import UnsupportedError, shortened
from deuteron.records import Source, plain
from deuteron.runtime.tflite_model import has_c_operators
from deuteron.views import offload_costs as placement
from deuteron.views.offload_costs import Costs

SCHEMA = 1
LAYERS = 12
"""Number of layers whose quality the text lists; the JSON has all."""

_CPU = {CpuOperators.CORTEX_M: "{} Cortex-M operators", CpuOperators.PORTABLE: "ExecuTorch's portable operators"}


@dataclass(frozen=True, slots=True)
class UnitShare:
    """Share of one processor in a run; a number is None if one of its operators has none.

    `clock` is the clock of the cycles, `npu` or `cpu`.
    """

    runs_on: str
    kind: str
    operators: int
    macs: int | None
    nbytes: int | None
    cycles: int | None
    clock: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A build, its costs, and on a CPU-only target the chain of each node that runs depth first, and the memory.

    The memory is None for other targets, and for default options unless free memory makes layers faster.
    """

    path: str
    manifest: Manifest
    costs: Costs
    chains: Mapping[str, Cascade] = field(default_factory=dict[str, Cascade])
    arena: Arena | None = None

    @property
    def _is_tflite(self) -> bool:
        """Return true for a build of a TFLite file, whose operators have names and no source lines."""
        return manifests.TFLITE in self.manifest.files

    @property
    def cpu(self) -> str:
        """Return the library of the CPU's operators."""
        if self._is_tflite and has_c_operators(self.manifest.target):
            return "C operators of the firmware, which compute as LiteRT's reference kernels"
        operators = targets.load(self.manifest.target).cpu.operators
        return _CPU[operators].format(self.manifest.options.activations.value)

    def shares(self) -> tuple[UnitShare, ...]:
        """Return the shares of the NPU, of the CPU, and of the operators that lowering added on the CPU."""
        nodes = self.manifest.nodes
        npu, cpu = ([n for n in nodes if (n.partition is None) is on_cpu] for on_cpu in (False, True))
        added = [op for op in self.manifest.cpu_ops if not op.computes]
        npu_cycles, kind = self._npu_cycles()
        turns = [island.turns for island in self.costs.islands if island.turns != 0]
        counted = [cost for op, cost in zip(self.manifest.cpu_ops, self.costs.added, strict=True) if not op.computes]
        arch = targets.load(self.manifest.target)
        clock = "npu" if arch.npu and arch.npu.scales_clock else "cpu"  # the clock of `Costs`
        return (
            *([UnitShare("npu", kind, len(npu), _macs(npu), _nbytes(npu), npu_cycles, "npu")] if arch.npu else []),
            UnitShare("cpu", "estimated", len(cpu), _macs(cpu), _nbytes(cpu), _sum(self.costs.nodes.values()), clock),
            UnitShare("cpu, added", "estimated", len(added) + len(turns), 0, 0, _sum([*counted, *turns]), clock),
        )

    @property
    def _has_npu(self) -> bool:
        return targets.load(self.manifest.target).npu is not None

    @property
    def _unit(self) -> str:
        """The unit of costs: without an NPU, the instructions of the core are estimated."""
        return "cycles" if self._has_npu else "instructions"

    def _npu_cycles(self) -> tuple[int | None, str]:
        """Return the cycles of all partitions, None if unknown, and their origin."""
        schedules = [part.schedule for part in self.manifest.partitions if part.schedule.steps]
        if schedules:
            return sum(s.cycles for one in schedules for s in one.steps), f"estimated by {schedules[0].compiler}"
        known = self.costs.islands or not self.manifest.partitions
        return _sum([island.npu for island in self.costs.islands] if known else [None]), "simulated"

    def runs_on(self, node: Node) -> str:
        """Return the place of a node, as a short text."""
        return "cpu" if node.partition is None else f"npu {node.partition}"

    def chain(self, node: Node) -> Cascade | None:
        """Return the chain of a node that runs depth first."""
        own = (part for at, part in enumerate(self.manifest.partitions) if at == node.partition)
        return next((part.chained.get(node.name) for part in own), self.chains.get(node.name))

    def by(self, node: Node) -> tuple[str, ...]:
        """Return the program's operators that compute a node on the CPU; none if another node's operators do."""
        return tuple(op.op for op in self.manifest.cpu_ops if op.computes == node.name)

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield f"{self.path} on {self.manifest.target}: {self.manifest.model.name}; on the CPU {self.cpu}"
        yield ""
        yield f"{'runs on':<12}{'operators':>10}{'MACs':>14}{'bytes':>12}  {self._unit:>22}"
        for share in self.shares():
            cycles = self._uncounted(share) if share.cycles is None else f"{share.cycles:,}  {share.kind}"
            macs, nbytes = _known(share.macs), _known(share.nbytes)
            yield f"{share.runs_on:<12}{share.operators:>10,}{macs:>14}{nbytes:>12}  {cycles:>22}"
        if len({share.clock for share in self.shares() if share.cycles}) > 1:
            yield "NPU cycles and CPU cycles are of different clocks and do not add up"
        yield ""
        shared = _shared_lines(self.manifest.nodes)
        for node in self.manifest.nodes:
            yield from self._node_lines(node, shared)
        added = [op for op in self.manifest.cpu_ops if not op.computes]
        if added:
            yield ""
            yield "added on the CPU:"
            yield from _counted(added)
        if self.arena:
            larger = list(weight_choices.lines(self.arena, self.manifest))
            yield from ("", *larger) if larger else ()
            transformed = list(weight_choices.transformed_lines(self.arena, self.manifest))
            yield from ("", *transformed) if transformed else ()
            compressed = list(weight_choices.compressed_lines(self.arena, self.manifest))
            yield from ("", *compressed) if compressed else ()
            packed = list(weight_choices.packed_lines(self.arena.bundle, self.manifest))
            yield from ("", *packed) if packed else ()
        yield from self._dead_channel_lines()
        if self.manifest.stripes:
            yield from ("", *self.manifest.stripe_lines())
        yield from self._island_lines()
        yield from self._quality_lines(shared)

    def _uncounted(self, share: UnitShare) -> str:
        """Return the known cycles of a share that has operators without."""
        known = [cost for cost in self.costs.nodes.values() if cost is not None]
        if share.runs_on != "cpu" or not known:
            return "not known"
        unknown = [node.op for node in self.manifest.nodes if self.costs.nodes.get(node.name, 0) is None]
        return f"{sum(known):,}  {share.kind}, without {len(unknown)}: {', '.join(sorted(set(unknown)))}"

    def _dead_channel_lines(self) -> Iterator[str]:
        layers = self.manifest.dead_channels
        if not layers:
            return
        yield ""
        before, after = sum(layer.macs for layer in layers), sum(layer.macs_left for layer in layers)
        yield f"dead channels, removed; {before - after:,} of {before:,} MACs of these layers; results stay the same:"
        for layer in layers:
            reasons = (f"{layer.constant} constant for every input", f"{layer.unread} read by nothing else")
            counts = layer.constant, layer.unread
            why = ", ".join(reason for reason, count in zip(reasons, counts, strict=True) if count)
            gone = f"{sum(counts)} of {layer.channels} channels: {why}" if any(counts) else "input channels"
            yield f"  {layer.op} {layer.node}: {gone}; {layer.macs:,} MACs become {layer.macs_left:,}"

    def _quality_lines(self, shared: Collection[str]) -> Iterator[str]:
        quality = self.manifest.quality
        if not quality.samples:
            return
        yield ""
        yield f"{quality.title}:"
        for i, output in enumerate(quality.outputs):
            yield from output.lines(i)
        if quality.layers:
            yield ""
            yield f"{'layers, worst first, of quantized PyTorch':<44}{'own, dB':>9}{'so far, dB':>12}"
        for layer in quality.layers[:LAYERS]:
            source = layer.source[0] if layer.source else None
            place = f"  {source.short}{_module(source, shared)}" if source else ""
            yield f"{f'{layer.op} {layer.name}':<44}{layer.own:>9.1f}{layer.sqnr:>12.1f}{place}"
        if len(quality.layers) > LAYERS:
            yield f"[{len(quality.layers) - LAYERS} others]"
        for metric in quality.metrics:
            yield metric.text()

    def _node_lines(self, node: Node, shared: Collection[str]) -> Iterator[str]:
        source = node.source[0] if node.source else None
        name = f"  {shortened(node.name)}" if self._is_tflite else ""
        place = f"  {_with_code(source, shared)}" if source else name
        yield f"{self.runs_on(node):<7}{node.op}{place}"
        if node.partition is None:
            by = ", ".join(self.by(node))
            if self._has_npu:
                yield f"       {node.why}"
            cost = self.costs.nodes.get(node.name)
            cycles = f", about {cost:,} {self._unit}" if self._is_tflite and by and cost is not None else ""
            yield f"       computed by {by}{cycles}" if by else "       computed with the operator before it"
        if chain := self.chain(node):
            yield f"       depth first, in {chain.stripes} stripes of rows, with all of chain {chain.number}"

    def _island_lines(self) -> Iterator[str]:
        if self.costs.islands:
            yield ""
            yield "partitions on the NPU, in cycles (simulated), against the CPU (estimated):"
        for index, island in enumerate(self.costs.islands):
            edges = _known(_sum((island.turns, island.copies)))
            yield (
                f"npu {index}: {island.npu:,}, copies of inputs and outputs {edges} ({island.copied:,} B); "
                f"on the CPU {_known(island.cpu)}"
            )
            if gap := self.manifest.partitions[index].gap():
                yield f"       depth first{gap}"
            if island.gain is not None and island.gain < 0:
                yield f"       costs {-island.gain:,} cycles more than it saves by itself: {self._advice}"

    @property
    def _advice(self) -> str:
        """Return the advice for a partition that does not pay off by itself."""
        if self.manifest.options.partition is Partitioning.COST:
            return "`--partition cost` keeps it there because the whole build would be slower without it"
        return "`--partition cost` moves it to the CPU if that makes the whole build faster"

    def to_json(self) -> dict[str, object]:
        """Return the report as plain values."""
        estimates = self.costs.nodes
        return {
            "schema": SCHEMA,
            "path": self.path,
            "target": self.manifest.target,
            "cpu": self.cpu,
            "summary": [asdict(share) for share in self.shares()],
            "nodes": [
                {
                    "name": node.name,
                    "op": node.op,
                    "runs_on": self.runs_on(node),
                    "chain": chain.number if (chain := self.chain(node)) else None,
                    "why": node.why,
                    "computed_by": list(self.by(node)),
                    "source": [asdict(line) for line in node.source],
                    "macs": _macs((node,)),
                    "bytes": node.nbytes,
                    "estimated_cycles": estimates.get(node.name),
                }
                for node in self.manifest.nodes
            ],
            "dead_channels": [asdict(layer) for layer in self.manifest.dead_channels],
            "stripes": [asdict(segment) for segment in self.manifest.stripes],
            "added": [
                {"op": op.op, "node": op.node, "why": op.why, "estimated_cycles": cost}
                for op, cost in zip(self.manifest.cpu_ops, self.costs.added, strict=True)
                if not op.computes
            ],
            "islands": [
                asdict(island) | {"gain": island.gain, "kind": {"npu": "simulated", "others": "estimated"}}
                for island in self.costs.islands
            ],
            "quality": plain(self.manifest.quality),
        }


def explain(directory: Path) -> Explanation:
    """Explain a build directory.

    Raises:
        InputError: the directory is not a build.
        FormatError: it is damaged, or another version's.
    """
    manifest = manifests.read(directory)
    program = (directory / manifests.PROGRAM).read_bytes()
    arena = _arena(directory, manifest)
    costs = placement.costs(manifest, program, arena.work if arena else {})
    return Explanation(str(directory), manifest, costs, _chains(arena, manifest), arena)


def _arena(directory: Path, manifest: Manifest) -> Arena | None:
    """Return the memory of a build's firmware; None if it changes nothing that a report says."""
    arch = targets.load(manifest.target)
    if manifest.options.memory != MemoryOptions():
        return arena_of(image.translated(directory, manifest), manifest)
    if arch.npu is None and cores.load(arch.cpu.name).inner is InnerWork.DSP:
        with suppress(UnsupportedError):  # a program for ExecuTorch's runtime alone
            return arena_of(image.translated(directory, manifest), manifest)
    return None


def _chains(arena: Arena | None, manifest: Manifest) -> Mapping[str, Cascade]:
    """Return the chain of each striped node, if a CPU-only target runs the program in stripes."""
    chain_of = {at: chain for chain in (arena.chains if arena else ()) for at in chain.ops}
    return {op.computes: chain_of[at] for op in manifest.cpu_ops for at in op.instructions if at in chain_of}


def _macs(nodes: Iterable[Node]) -> int | None:
    return _sum(None if node.nbytes is None else node.macs for node in nodes)


def _nbytes(nodes: Iterable[Node]) -> int | None:
    return _sum(node.nbytes for node in nodes)


def _known(count: int | None) -> str:
    return "not known" if count is None else f"{count:,}"


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


def _counted(ops: Iterable[CpuOp]) -> Iterator[str]:
    """Yield the operators that lowering added, grouped by kind."""
    kinds: dict[tuple[str, str], int] = {}
    for op in ops:
        kinds[op.op, op.why] = kinds.get((op.op, op.why), 0) + 1
    for (name, why), count in kinds.items():
        yield f"{count:>5}  {name}: {why}"


def _shared_lines(nodes: Iterable[Node]) -> set[str]:
    """Return the lines that belong to several modules, such as a call of an `nn.Sequential`."""
    modules: dict[str, set[str]] = {}
    for source in (source for node in nodes for source in node.source):
        modules.setdefault(str(source), set()).add(source.module)
    return {line for line, names in modules.items() if len(names) > 1}


def _with_code(source: Source, shared: Collection[str]) -> str:
    """Return the line, its module if it has several, and the code."""
    return f"{source.short}{_module(source, shared)}: {source.code}" if source.line else source.short


def _module(source: Source, shared: Collection[str]) -> str:
    """Return the module that a line runs in, if the line has several."""
    return f" {source.module}" if str(source) in shared and source.module else ""

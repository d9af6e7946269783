"""Costs of running operators on the NPU or on the CPU: islands, and those that do not pay off.

An island is a partition on the NPU. Its cost is the cycles of its kernel calls (simulated) and of the layout copies of
its inputs and outputs; the alternative is the cycles of its operators on the CPU (both estimated).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from deuteron.arch import cores, targets
from deuteron.arch.cores import Core, Work
from deuteron.arch.engine import engine
from deuteron.arch.targets import Arch, CpuOperators, Neutron
from deuteron.board.partition import delegate_of, matrices_of
from deuteron.builds.manifest import KEPT, Manifest
from deuteron.errors import OptionError
from deuteron.npu.firmware import FirmwarePartition
from deuteron.runtime import pte
from deuteron.runtime.partitions import partitions_of
from deuteron.runtime.program import DelegateCall, KernelCall, Method, TensorValue

COPIES = ("dim_order_ops::_clone_dim_order", "dim_order_ops::_to_dim_order_copy")
"""Operators that lowering inserts to change the memory order of an image."""


KEEPS_MEMORY_ORDER = "cortex_m::quantized_activation"
"""Prefix of operators that keep the memory order of their input."""


@dataclass(frozen=True, slots=True)
class Island:
    """A partition on the NPU, in cycles of the NPU's clock.

    Attributes:
        operators: number of the model's operators in it.
        npu: cycles of its kernel calls, including the driver's; simulated.
        turns: cycles of transposes of its tensors by the CPU; estimated, None if not counted.
        copies: cycles of adjacent operators that only change an image's memory order; estimated, None if not counted.
        copied: bytes that transposes and copies move.
        cpu: cycles of its operators on the CPU; estimated, None if one of them is not counted.
    """

    operators: int
    npu: int
    turns: int | None
    copies: int | None
    copied: int
    cpu: int | None

    @property
    def gain(self) -> int | None:
        """Return the cycles that the NPU saves; negative if it costs more."""
        if self.cpu is None or self.turns is None or self.copies is None:
            return None
        return self.cpu - self.npu - self.turns - self.copies


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost of one run of a build, in cycles of a Neutron's clock, or of the CPU's if there is none.

    Attributes:
        islands: per partition.
        nodes: cycles of the model's operators on the CPU, by name; estimated, None if not counted.
        added: cycles of CPU operators that lowering added, in the order of the manifest; estimated, None if not
            counted.
    """

    islands: tuple[Island, ...]
    nodes: Mapping[str, int | None]
    added: tuple[int | None, ...]

    @property
    def total(self) -> int:
        """Return the sum of all known cycles; copies next to islands are among the added operators."""
        islands = sum(island.npu + (island.turns or 0) for island in self.islands)
        return islands + sum(c or 0 for c in self.nodes.values()) + sum(c or 0 for c in self.added)


class _Clock:
    """Estimates of a CPU core, in cycles of the common clock."""

    def __init__(self, arch: Arch) -> None:
        counted = arch.cpu.operators is CpuOperators.CORTEX_M
        self._core: Core | None = cores.load(arch.cpu.name) if counted else None
        self._ratio = arch.npu.clock.value / arch.npu.driver.clock.value if isinstance(arch.npu, Neutron) else 1.0

    def cycles(self, work: Work, elements: int, terms: int = 0) -> int | None:
        """Return the estimate for an operator of the CPU."""
        count = self._core.instructions(work, elements, terms) if self._core else None
        return None if count is None else round(count * self._ratio)

    def call(self, work: int) -> int | None:
        """Return the estimate for a call whose work takes so many instructions."""
        return None if self._core is None else round((self._core.call.value + work) * self._ratio)

    @staticmethod
    def sum(counts: Iterable[int | None]) -> int | None:
        """Return the sum, None if one is unknown."""
        known = list(counts)
        return None if None in known else sum(count or 0 for count in known)


def costs(manifest: Manifest, program: bytes, work: Mapping[int, int] = {}) -> Costs:
    """Return the costs of a build.

    Islands of a vendor's converter are not simulated and are left out.

    Args:
        manifest: its manifest.
        program: its `.pte`.
        work: estimated work of instructions that the firmware computes otherwise, by number: `Arena.work`.
    """
    arch = targets.load(manifest.target)
    clock = _Clock(arch)
    on_cpu = {n.name: clock.cycles(n.work, n.elements, n.terms) for n in manifest.nodes if n.partition is None}
    otherwise = [(op.computes, at) for op in manifest.cpu_ops for at in op.instructions if at in work]
    on_cpu |= {name: clock.call(work[at]) for name, at in otherwise if name in on_cpu}
    added = tuple(None if op.computes else clock.cycles(op.work, op.elements) for op in manifest.cpu_ops)
    return Costs(_islands(arch, clock, manifest, program), on_cpu, added)


def _islands(arch: Arch, clock: _Clock, manifest: Manifest, program: bytes) -> tuple[Island, ...]:
    if not (arch.npu and arch.npu.plans_sram) or any(not part.kernels and part.ops for part in manifest.partitions):
        return ()
    rates = engine(arch, flash_bandwidth=manifest.options.memory.flash_bandwidth)
    method = pte.read(program).methods[0]
    islands: list[Island] = []
    ours = partitions_of(method)
    for part in ours:
        ported = delegate_of(method.delegates[part.delegate], part.number).partition
        nodes = [node for node in manifest.nodes if node.partition == part.number]
        calls = [c for c in method.chains[0] if isinstance(c, DelegateCall) and c.delegate == part.delegate]
        transposed = [nbytes for call in calls for nbytes in _transposed(method, call, ported)]
        copied = [nbytes for call in calls for nbytes in _copied(method, call)]
        islands.append(
            Island(
                operators=len(nodes),
                npu=part.program().timeline(rates, keep_resident=len(ours) == 1).cycles,
                turns=clock.sum(clock.cycles(Work.TRANSPOSE, nbytes) for nbytes in transposed),
                copies=clock.sum(clock.cycles(Work.TRANSPOSE, nbytes) for nbytes in copied),
                copied=sum(transposed) + sum(copied),
                cpu=clock.sum(clock.cycles(node.work, node.elements, node.terms) for node in nodes),
            )
        )
    return tuple(islands)


def _transposed(method: Method, call: DelegateCall, partition: FirmwarePartition) -> Iterator[int]:
    """Yield the bytes of each tensor of a partition that needs another memory order."""
    for port in (*partition.inputs, *partition.outputs):
        value = method.values[call.args[port.argument]]
        if isinstance(value, TensorValue) and matrices_of(port, value) is not None:
            yield value.bytes


def _copied(method: Method, call: DelegateCall) -> Iterator[int]:
    """Yield the bytes of each copy that exists because a partition has its own memory order."""
    calls = [other for other in method.chains[0] if isinstance(other, KernelCall)]
    before, after = set(call.args), set(call.args)
    for same in [other for other in calls if method.operators[other.operator].startswith(KEEPS_MEMORY_ORDER)]:
        after |= {same.args[-1]} if same.args[0] in after else set()
    for same in reversed([other for other in calls if method.operators[other.operator].startswith(KEEPS_MEMORY_ORDER)]):
        before |= {same.args[0]} if same.args[-1] in before else set()
    for copy in calls:
        value = method.values[copy.args[-1]]
        is_adjacent = copy.args[0] in after or copy.args[-1] in before
        if is_adjacent and method.operators[copy.operator].startswith(COPIES) and isinstance(value, TensorValue):
            yield value.bytes


def kept_by_cost(manifest: Manifest, estimate: Costs) -> dict[str, str]:
    """Return the operators of partitions that are slower on the NPU than on the CPU: node name to reason."""
    kept: dict[str, str] = {}
    for index, island in enumerate(estimate.islands):
        if island.gain is not None and island.gain < 0:
            why = (
                f"{KEPT} `--partition cost`: its share of the NPU's work takes {island.npu:,} cycles there "
                f"(simulated) and {(island.turns or 0) + (island.copies or 0):,} for copies of inputs and outputs, "
                f"{island.cpu:,} on the CPU (estimated)"
            )
            kept |= {node.quantised: why for node in manifest.nodes if node.partition == index and node.quantised}
    return kept


_B = TypeVar("_B", bound="Built")


class Built(Protocol):
    """The parts of a build that the costs need."""

    @property
    def manifest(self) -> Manifest:
        """Return the manifest."""
        ...

    @property
    def pte(self) -> bytes:
        """Return the program."""
        ...


def check_target(target: str) -> None:
    """Check that costs of NPU and CPU can be compared.

    Raises:
        OptionError: the target has no Neutron, or its CPU has no cycle counts.
    """
    arch = targets.load(target)
    hint = "build for `imxrt700cm`, or with `--partition npu-first`"
    if not (arch.npu and arch.npu.plans_sram):
        raise OptionError(f"`--partition cost` compares a Neutron with the CPU; `{target}` has none", hint=hint)
    if arch.cpu.operators is not CpuOperators.CORTEX_M:
        raise OptionError(
            f"`--partition cost` compares with int8 operators on the CPU, which `{target}` does not have", hint=hint
        )


def cheapest(target: str, build: Callable[[Mapping[str, str]], _B]) -> tuple[_B, Mapping[str, str]]:
    """Return the build with the fewest cycles by the cycle model, and the operators that it keeps on the CPU.

    `build` builds with the given operators on the CPU. Islands that cost more than they save are moved there while that
    makes the whole faster.

    Raises:
        OptionError: see `check_target`.
    """
    check_target(target)
    keep: Mapping[str, str] = {}
    best = build(keep)
    estimate = costs(best.manifest, best.pte)
    while kept := kept_by_cost(best.manifest, estimate):
        more = {**keep, **kept}
        tried = build(more)
        after = costs(tried.manifest, tried.pte)
        if after.total >= estimate.total:
            break
        best, estimate, keep = tried, after, more
    return best, keep

"""The memory of a bundle, planned anew: all values in one, layer by layer or, where that does not fit, in stripes.

What single steps need beside their operands shares the memory, too, and lives as long as the step alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from deuteron.arch import cores, targets
from deuteron.arch.memory import DepthFirst, MemoryOptions
from deuteron.arch.targets import Arch, CpuOperators, Neutron
from deuteron.board.bundle import Bundle, StepKind
from deuteron.board.call_sequence import ENDS, bundle_of, program_of
from deuteron.board.memory_check import hazards
from deuteron.board.row_dependencies import CPU, Counted, macs
from deuteron.board.translate import translate
from deuteron.builds.manifest import Manifest
from deuteron.errors import CapacityError, InternalError
from deuteron.npu.neutron.kernels.limits import ALIGNMENT, round_up
from deuteron.npu.neutron.kernels.program import KernelCall, Program
from deuteron.npu.provenance import Cascade, KernelOrigin, cascades
from deuteron.npu.schedule import Block, Memory
from deuteron.planner.cascades import Cascades, Cut
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.packing import place
from deuteron.runtime import pte

LIMITS = 32
"""How many limits of what is alive at once are tried between the least and that of whole steps."""


@dataclass(frozen=True, slots=True)
class Arena:
    """The memory of a bundle.

    Attributes:
        bundle: the tables.
        memory: what lives where: at 0 the caller writes the inputs, then come the steps, at last it reads the outputs.
        names: what each block is, for readers.
        chains: of steps that run depth first; `calls` and `ops` count the instructions of the program.
        whole_bytes: that the values take where every step runs as a whole.
        instructions: that a run takes, estimated, and that it takes where every step runs as a whole.
        uncounted: steps of the CPU that nobody has counted, of which `instructions` has the calls alone; they are never
            cut. Of what an NPU computes it has nothing.
    """

    bundle: Bundle
    memory: Memory
    names: Mapping[str, str]
    chains: tuple[Cascade, ...]
    whole_bytes: int
    instructions: tuple[int, int]
    uncounted: int = 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """A program with a place for each of its blocks: offsets by buffer."""

    program: Program
    memory: Memory
    offsets: Mapping[str, int]


def arena_of(bundle: Bundle, manifest: Manifest) -> Arena | None:
    """The memory of a build's bundle; None where ExecuTorch's plan stays; errors as `beside`."""
    partitions = [delegate.partition for delegate in bundle.delegates]
    working = max((each.budget_bytes for each in partitions), default=0)
    taken = sum(each.linked_bytes for each in partitions) + working
    return beside(bundle, manifest.options.memory, targets.load(manifest.target), taken)


def beside(bundle: Bundle, memory: MemoryOptions, arch: Arch, partitions: int) -> Arena | None:
    """The memory of a bundle beside `partitions` bytes of a target's SRAM; None where ExecuTorch's plan stays.

    That stays where an NPU computes, unless the CPU beside it has operators that can be cut, and the plan does not fit
    beside what partitions have, or all is to be cut; and where all lies in the memory of partitions.

    Raises:
        CapacityError: it does not fit into the budget that is asked for.
    """
    if arch.npu is None:
        return planned(bundle, memory, arch.cpu.name)
    if not may_be_cut(arch) or len(bundle.memories) == 1:
        return None
    sram = memory.sram(arch)
    taken = sum(each.bytes for each in bundle.memories[:-1]) + partitions
    if taken <= sram and memory.depth_first is not DepthFirst.ALWAYS:
        return None
    try:
        return planned(bundle, replace(memory, sram_budget=sram), arch.cpu.name, partitions)
    except CapacityError:
        if memory.sram_budget is not None and bundle.planned_bytes + partitions > sram:
            raise
        return None  # of ExecuTorch's plan a budget does not bound what single steps need; without one boards say no


def may_be_cut(arch: Arch) -> bool:
    """Whether bundles of a target with a Neutron may have a memory of our own plan."""
    return isinstance(arch.npu, Neutron) and arch.cpu.operators is CpuOperators.CORTEX_M


def check(program: bytes, manifest: Manifest) -> None:
    """Check that a program fits into the budget that its build was given, if its target has no NPU.

    Raises:
        CapacityError: when it does not, naming the least that would do.
        UnsupportedError: when it cannot be a bundle, for which the budget is.
    """
    if manifest.options.memory.sram_budget is not None and targets.load(manifest.target).npu is None:
        arena_of(translate(pte.read(program), manifest, name=manifest.model.name), manifest)


def planned(bundle: Bundle, memory: MemoryOptions, core: str, partitions: int = 0) -> Arena:
    """The bundle with its values in one memory, within the budget where there is one.

    Args:
        bundle: as ExecuTorch's plan has it.
        memory: the budget, and which chains run depth first.
        core: the CPU, whose counts decide between plans.
        partitions: bytes of the budget that they have.

    Raises:
        CapacityError: when no plan that is found fits, naming the least.
    """
    rates = Counted(cores.load(core))
    whole = _plan(program_of(bundle))
    plan = _chosen(bundle, whole, memory, rates, partitions)
    after = bundle_of(bundle, plan.program, plan.offsets, plan.memory.nbytes)
    if plan is not whole:
        _check_rows(bundle, after, whole.program, plan.program)
    return Arena(
        after,
        plan.memory,
        _names(bundle, plan.program),
        _chains(bundle, plan.program),
        whole.memory.nbytes,
        (_instructions(bundle, plan.program, rates), _instructions(bundle, whole.program, rates)),
        sum(not rates.is_counted(call.params) for call in _on_cpu(bundle, whole.program)),
    )


def _check_rows(bundle: Bundle, after: Bundle, whole: Program, program: Program) -> None:
    """Checks that no row is read before it is written, or after something else took its place."""
    calls, cut = ([call for call in each.calls if call.origin != ENDS] for each in (whole, program))
    found = hazards(bundle, after, calls, cut)
    if found:
        raise InternalError(
            f"the stripes of `{bundle.name}` are unsound: {found[0]}",
            hint="report the model with this text; `--depth-first never` makes no stripes",
        )


def _chosen(bundle: Bundle, whole: _Plan, memory: MemoryOptions, rates: Counted, partitions: int) -> _Plan:
    budget = None if memory.sram_budget is None else memory.sram_budget - partitions
    if memory.depth_first is not DepthFirst.ALWAYS and (budget is None or whole.memory.nbytes <= budget):
        return whole
    search = None if memory.depth_first is DepthFirst.NEVER else _cascades(whole.program, rates.core.name)
    least = search.least(area=None) if search else None  # weights stay where they are
    if search and least and budget is not None and memory.depth_first is DepthFirst.AUTO:
        fitting = [cut for cut in _cuts(search, least.scratch, whole.memory.bound, budget) if cut.scratch <= budget]
        if fitting:
            return _plan(min(fitting, key=lambda cut: cut.cycles).program)
    cut = whole if least is None else _plan(least.program)
    best = cut if cut.memory.nbytes < whole.memory.nbytes else whole
    if budget is not None and best.memory.nbytes > budget:
        raise _too_large(bundle, best, partitions, memory)
    return best


@lru_cache(maxsize=2)
def _cascades(program: Program, core: str) -> Cascades:
    """The chains of a program, with what is known of them from plans for other budgets."""
    return Cascades(program, Counted(cores.load(core)), CPU)


def _cuts(search: Cascades, least: int, whole: int, budget: int) -> Iterator[Cut]:
    """The fastest programs with limits up to a budget, the largest limit first; a smaller one may have a faster one."""
    for limit in _limits(least, whole):
        cut = search.with_alive(limit, None) if limit <= budget else None
        if cut is not None:
            yield cut


def _limits(least: int, whole: int) -> Iterable[int]:
    """What may be alive at once in the plans that are tried, the most first.

    They do not depend on the budget: more of it leaves more of them, so that no plan is slower with more.
    """
    step = round_up(-(-max(0, whole - least) // LIMITS)) or ALIGNMENT
    return reversed(range(least, whole, step))


def _plan(program: Program) -> _Plan:
    blocks = lifetimes(program)  # of one buffer each, as no step may write onto what it reads
    packing = place(blocks)
    offsets = {b.buffers[0]: packing.offsets[b] for b in blocks if b.nbytes}
    placed = (
        Block(name, offsets[name] + part.offset, min(part.nbytes, b.nbytes - part.offset), part.first, part.last)
        for b in blocks
        if (name := b.buffers[0]) in offsets
        for part in b.parts
    )
    return _Plan(program, Memory("memory", packing.nbytes, packing.bound, tuple(placed)), offsets)


def _on_cpu(bundle: Bundle, program: Program) -> Iterator[KernelCall]:
    """The calls of operators."""
    for call in program.calls:
        if call.origin != ENDS and bundle.steps[call.origin[0]].kind is StepKind.OPERATOR:
            yield call


def _instructions(bundle: Bundle, program: Program, rates: Counted) -> int:
    return sum(rates.dispatch + rates.work(call.params) for call in _on_cpu(bundle, program))


def _names(bundle: Bundle, program: Program) -> Mapping[str, str]:
    """What writes each block first, or that the caller does."""
    names: dict[str, str] = {}
    for call in program.calls:
        step = None if call.origin == ENDS else bundle.steps[call.origin[0]]
        rows = "" if call.stripe is None else f", {call.stripe}"
        writer = "an input" if step is None else f"{step.title}{rows} {step.source}".rstrip()
        for ref in call.operands:
            names.setdefault(ref.buffer, writer)
    return names


def _chains(bundle: Bundle, program: Program) -> tuple[Cascade, ...]:
    """The chains, of the program's instructions."""
    origins = [
        KernelOrigin(at, call.kernel.name, tuple(bundle.steps[i].instruction for i in call.origin), call.stripe)
        for at, call in enumerate(program.calls)
        if call.stripe is not None
    ]
    return cascades(origins, [macs(program.calls[origin.index].params) for origin in origins])


def _too_large(bundle: Bundle, best: _Plan, partitions: int, memory: MemoryOptions) -> CapacityError:
    """Says at which step the most is alive, and how much would do."""
    alive = [
        sum(round_up(block.nbytes) for block in best.memory.blocks if block.first <= at <= block.last)
        for at in range(len(best.program.calls))
    ]
    call = best.program.calls[alive.index(max(alive))]
    where = "" if call.origin == ENDS else bundle.steps[call.origin[0]].source
    title = "the inputs or outputs" if call.origin == ENDS else f"`{bundle.steps[call.origin[0]].title}`"
    beside = f" beside {partitions:,} of partitions" if partitions else ""
    other = ", or leave out `--depth-first never`" if memory.depth_first is DepthFirst.NEVER else ""
    return CapacityError(
        f"inputs, outputs and what lies between operators need {best.memory.nbytes:,} bytes of SRAM{beside}, "
        f"the budget is {memory.sram_budget:,}; most are alive with {title}",
        where=where or None,
        hint=f"make what is alive there smaller (a smaller input, fewer channels, a stride earlier), or give "
        f"`--sram-budget {best.memory.nbytes + partitions}`{other}",
    )

"""Plans the memory of a bundle: all values in one arena, layer by layer or, if that does not fit, in stripes.

Scratch memory of a step shares the arena and is live during that step only.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from deuteron.arch import cores, targets
from deuteron.arch.cores import InnerWork
from deuteron.arch.memory import DepthFirst, MemoryOptions, SpeedForFlash, WeightsCompression
from deuteron.arch.targets import Arch, CpuOperators
from deuteron.board import compressed_weights, interleaved_weights, larger_weights, transformed_weights
from deuteron.board.bundle import Bundle, StepKind
from deuteron.board.call_sequence import CALLER, bundle_of, program_of
from deuteron.board.compressed_weights import CompressedWeights
from deuteron.board.larger_weights import Form, LargerWeights
from deuteron.board.memory_check import hazards
from deuteron.board.row_dependencies import Counted, macs
from deuteron.board.transformed_weights import TransformedWeights
from deuteron.board.translate import translate
from deuteron.builds.manifest import Manifest
from deuteron.errors import CapacityError, InternalError, UnsupportedError
from deuteron.npu.provenance import Cascade, KernelOrigin, cascades
from deuteron.npu.schedule import Block, Memory
from deuteron.operators.limits import ALIGNMENT, round_up
from deuteron.operators.program import KernelCall, Program
from deuteron.planner.cascades import CascadeSearch, Cut
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.packing import pack
from deuteron.runtime import pte

SHARES = (1, 0.85, 0.7, 0.5)
"""Shares of the free memory that are tried for transformed weights: blocks of a plan do not fill all gaps."""

LIMITS = 32
"""Number of limits on live bytes that are tried between the minimum and the maximum with whole steps."""


@dataclass(frozen=True, slots=True)
class Arena:
    """The planned memory of a bundle.

    Attributes:
        bundle: the tables.
        memory: lifetimes of all blocks: the caller writes the inputs at 0, then the steps follow, then it reads the
            outputs.
        names: a description of each block.
        chains: chains of steps that run depth first; `calls` and `ops` count the instructions of the program.
        whole_bytes: bytes of the values if every step runs as a whole.
        instructions: estimated instructions of a run, with these stripes and with whole steps.
        uncounted: CPU steps without an instruction count: `instructions` has only their dispatch, and they are never
            split into stripes. Work of an NPU is not counted.
        larger: steps that take more flash to be faster.
        transformed: steps whose weights each run transforms in scratch memory, to be faster.
        compressed: constants that take less flash, and a step to be decompressed.
    """

    bundle: Bundle
    memory: Memory
    names: Mapping[str, str]
    chains: tuple[Cascade, ...]
    whole_bytes: int
    instructions: tuple[int, int]
    uncounted: int = 0
    larger: tuple[LargerWeights, ...] = ()
    transformed: tuple[TransformedWeights, ...] = ()
    compressed: tuple[CompressedWeights, ...] = ()

    @property
    def work(self) -> Mapping[int, int]:
        """Return the estimated work of steps with larger or transformed weights, by instruction of the program."""
        larger = {choice.instruction: choice.instructions[1] for choice in self.larger if len(choice.steps) == 1}
        return larger | {choice.instruction: choice.instructions[1] for choice in self.transformed}


@dataclass(frozen=True, slots=True)
class _Plan:
    """A program with an offset for each of its blocks."""

    program: Program
    memory: Memory
    offsets: Mapping[str, int]


def arena_of(bundle: Bundle, manifest: Manifest) -> Arena | None:
    """Return the memory of a build's bundle; None if ExecuTorch's plan is used. Raises the errors of the next one."""
    arch = targets.load(manifest.target)
    return next_to_partitions(bundle, manifest.options.memory, arch, sram_of_partitions(bundle))


def sram_of_partitions(bundle: Bundle) -> int:
    """Return the bytes of SRAM of the partitions' weights, and of the largest scratch and prefetch area."""
    partitions = [delegate.partition for delegate in bundle.delegates]
    working = max((each.budget_bytes for each in partitions), default=0)
    return sum(each.linked_bytes for each in partitions) + working


def next_to_partitions(bundle: Bundle, memory: MemoryOptions, arch: Arch, partitions: int) -> Arena | None:
    """Return the memory of a bundle next to `partitions` bytes of a target's SRAM; None if ExecuTorch's plan is used.

    Programs with partitions use ExecuTorch's plan, unless the CPU has operators that can run in stripes, and either the
    plan does not fit next to the partitions or depth-first order is requested. It is also used if all values are in the
    memory of partitions.

    Raises:
        CapacityError: the bundle does not fit into the requested budget.
    """
    if arch.npu is None or not bundle.delegates:
        return planned(bundle, memory, arch.cpu.name)
    if not may_be_cut(arch) or len(bundle.memories) == (2 if bundle.state else 1):
        return None
    sram = memory.sram(arch)
    taken = sum(each.bytes for each in bundle.memories[:-1]) + partitions
    if taken <= sram and memory.depth_first is not DepthFirst.ALWAYS:
        return None
    own = replace(memory, sram_budget=sram, speed_for_flash=SpeedForFlash.NEVER)  # free memory stays so
    try:
        return planned(bundle, own, arch.cpu.name, partitions)
    except CapacityError:
        if memory.sram_budget is not None and bundle.tensor_bytes + partitions > sram:
            raise
        return None  # a budget does not bound scratch in ExecuTorch's plan; without a budget, linking checks


def may_be_cut(arch: Arch) -> bool:
    """Return true if bundles of a target with a Neutron may use our plan instead of ExecuTorch's."""
    return arch.npu is not None and arch.npu.plans_sram and arch.cpu.operators is CpuOperators.CORTEX_M


def check(program: bytes, manifest: Manifest) -> None:
    """Check that a program fits into its build's budgets, if nothing of it is on an NPU.

    Raises:
        CapacityError: it does not fit; the error names the smallest budget that does.
        UnsupportedError: it cannot become a bundle.
    """
    if _has_budget(manifest.options.memory) and not manifest.partitions:
        arena_of(translate(pte.read(program), manifest, name=manifest.model.name), manifest)


def _has_budget(memory: MemoryOptions) -> bool:
    compresses = memory.weights_compression is WeightsCompression.AUTO
    return memory.sram_budget is not None or memory.flash_budget is not None or compresses


def constant_bytes(program: bytes, manifest: Manifest) -> int:
    """Return the least bytes of flash of a program's constants; raises the errors of `translate`."""
    bundle = translate(pte.read(program), manifest, name=manifest.model.name)
    rates = Counted(cores.load(targets.load(manifest.target).cpu.name))
    size = _flash_bytes(bundle, rates)
    if manifest.options.memory.weights_compression is WeightsCompression.AUTO:
        size -= sum(choice.saved for choice in compressed_weights.candidates(bundle, rates))
    return size


def check_program(program: bytes, manifest: Manifest) -> None:
    """Check a program that is about to be written: one with operators that firmware lacks is for ExecuTorch's runtime.

    Raises:
        FormatError: its parts contradict each other.
        CapacityError: as of `check`.
        UnsupportedError: as of `check`.
    """
    with suppress(UnsupportedError):
        translate(pte.read(program), manifest, name=manifest.model.name)
    check(program, manifest)


def planned(bundle: Bundle, memory: MemoryOptions, core: str, partitions: int = 0) -> Arena:
    """Plan a bundle with all values but the state in one memory, within the budgets if there are any.

    Args:
        bundle: the bundle with ExecuTorch's plan.
        memory: the budgets, and which chains run depth first.
        core: the CPU, whose instruction counts decide between plans.
        partitions: bytes of the budget that partitions use.

    Raises:
        CapacityError: no plan fits; the error names the smallest one.
    """
    rates = Counted(cores.load(core))
    choices = _compressible(bundle, memory, rates)
    excess = 0 if memory.flash_budget is None or not choices else _flash_bytes(bundle, rates) - memory.flash_budget
    while choices:
        taken = choices if memory.flash_budget is None else compressed_weights.enough(choices, excess)
        with suppress(CapacityError):
            small = compressed_weights.applied(bundle, taken)
            return replace(_fastest(small, memory, rates, partitions), compressed=tuple(taken))
        # Without the largest quarter, where the SRAM does not hold them.
        largest = sorted(choices, key=lambda choice: choice.sizes[0])[-max(1, len(choices) // 4) :]
        left_out = {choice.constant for choice in largest}
        choices = [choice for choice in choices if choice.constant not in left_out]
    return _fastest(bundle, memory, rates, partitions)


def _compressible(bundle: Bundle, memory: MemoryOptions, rates: Counted) -> list[CompressedWeights]:
    """Return the constants that may be compressed, those first that save the largest share of their bytes.

    Raises:
        CapacityError: the constants exceed the flash budget if all are compressed.
    """
    if memory.weights_compression is WeightsCompression.NEVER:
        return []
    choices = compressed_weights.candidates(bundle, rates)
    least = _flash_bytes(bundle, rates) - sum(choice.saved for choice in choices)
    if memory.flash_budget is not None and least > memory.flash_budget:
        raise _exceeds_flash(bundle, memory.flash_budget, least, "`--weights-bits auto` makes constants smaller")
    return choices


def _flash_bytes(bundle: Bundle, rates: Counted) -> int:
    """Return the bytes of a bundle's constants in the flash of a core."""
    return interleaved_weights.constant_bytes(bundle, rates.core.inner)


def _exceeds_flash(bundle: Bundle, budget: int, size: int, other: str) -> CapacityError:
    return CapacityError(
        f"the constants of `{bundle.name}` take {size:,} bytes of flash, the budget is {budget:,}",
        hint=f"give `--flash-budget {size}` or more, or leave it out; {other}",
    )


def _fastest(bundle: Bundle, memory: MemoryOptions, rates: Counted, partitions: int) -> Arena:
    """Plan a bundle, with larger weights of layers where these make it faster within the budgets."""
    plain = _planned(bundle, memory, rates, partitions)
    candidates, flash = _larger_weights(bundle, memory, rates)
    while choices := larger_weights.within(candidates, flash):
        with suppress(CapacityError):
            made = larger_weights.applied(bundle, choices)
            arena = _planned(made, memory, rates, partitions)
            if arena.instructions[0] < plain.instructions[0]:
                return _with_transformed_weights(made, replace(arena, larger=tuple(choices)), memory, rates, partitions)
        # Fewer by Winograd's algorithm, where the scratch memory of all does not fit.
        by_winograd = [choice for choice in choices if choice.form is Form.WINOGRAD]
        if not by_winograd:
            break
        left_out = by_winograd[len(by_winograd) // 2 :]
        candidates = [choice for choice in candidates if choice not in left_out]
    return _with_transformed_weights(bundle, plain, memory, rates, partitions)


def _with_transformed_weights(
    bundle: Bundle, arena: Arena, memory: MemoryOptions, rates: Counted, partitions: int
) -> Arena:
    """Return a plan with weights that runs transform, in memory that the budget or, without one, the plan has free."""
    is_allowed = memory.speed_for_flash is SpeedForFlash.AUTO and memory.depth_first is not DepthFirst.ALWAYS
    if not is_allowed or rates.core.inner is not InnerWork.DSP or arena.chains:
        return arena
    budget = _budget(bundle, memory, partitions)
    limit = arena.memory.nbytes if budget is None else budget
    live = _live_bytes(bundle, arena.memory)
    candidates = transformed_weights.candidates(bundle, rates)
    for share in SHARES:
        free = {at: int(share * (limit - nbytes)) for at, nbytes in live.items()}
        choices = transformed_weights.chosen(candidates, free)
        if sum(choice.saved for choice in choices) < transformed_weights.LEAST_SAVED * arena.instructions[0]:
            break
        made = transformed_weights.applied(bundle, choices)
        planned = _planned(made, replace(memory, sram_budget=None), rates, partitions)
        if planned.memory.nbytes <= limit:
            return replace(planned, larger=arena.larger, transformed=tuple(choices))
    return arena


def _live_bytes(bundle: Bundle, memory: Memory) -> dict[int, int]:
    """Return the live bytes of each step of a plan of whole steps, without its scratch memory."""
    calls = enumerate(program_of(bundle).calls)
    return {
        call.origin[0]: sum(
            round_up(block.nbytes)
            for block in memory.blocks
            if block.first <= at <= block.last and block.first < block.last
        )
        for at, call in calls
        if call.origin != CALLER
    }


def _larger_weights(bundle: Bundle, memory: MemoryOptions, rates: Counted) -> tuple[list[LargerWeights], int]:
    """Return the steps that may have larger weights, and the bytes of flash that are left for them.

    Raises:
        CapacityError: the constants alone exceed the budget.
    """
    if memory.flash_budget is None:
        return [], 0
    size = _flash_bytes(bundle, rates)
    if size > memory.flash_budget:
        compresses = memory.weights_compression is WeightsCompression.AUTO
        other = (
            "more SRAM holds more compressed weights"
            if compresses
            else "`--weights-compression auto` and `--weights-bits auto` make constants smaller"
        )
        raise _exceeds_flash(bundle, memory.flash_budget, size, other)
    if memory.speed_for_flash is SpeedForFlash.NEVER:
        return [], 0
    return larger_weights.candidates(bundle, rates), memory.flash_budget - size


def _planned(bundle: Bundle, memory: MemoryOptions, rates: Counted, partitions: int) -> Arena:
    """Plan a bundle as it is."""
    whole = _plan(program_of(bundle))
    plan = _plan_in_budget(bundle, whole, memory, rates, partitions)
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
    """Check that every row is read after it is written and before its memory is reused."""
    calls, cut = ([call for call in each.calls if call.origin != CALLER] for each in (whole, program))
    found = hazards(bundle, after, calls, cut)
    if found:
        raise InternalError(
            f"the stripes of `{bundle.name}` are wrong: {found[0]}",
            hint="report the model with this text; `--depth-first never` makes no stripes",
        )


def _plan_in_budget(bundle: Bundle, whole: _Plan, memory: MemoryOptions, rates: Counted, partitions: int) -> _Plan:
    budget = _budget(bundle, memory, partitions)
    if memory.depth_first is not DepthFirst.ALWAYS and (budget is None or whole.memory.nbytes <= budget):
        return whole
    search = None if memory.depth_first is DepthFirst.NEVER else _cascades(whole.program, rates.core.name)
    least = search.least(area=None) if search else None  # weights are read in place
    if search and least and budget is not None and memory.depth_first is DepthFirst.AUTO:
        cuts = _plans_by_limit(search, least.scratch, whole.memory.bound, budget)
        fitting = [cut for cut in cuts if cut.scratch <= budget]
        if fitting:
            return _plan(min(fitting, key=lambda cut: cut.cycles).program)
    cut = whole if least is None else _plan(least.program)
    best = cut if cut.memory.nbytes < whole.memory.nbytes else whole
    if budget is not None and best.memory.nbytes > budget:
        raise _too_large(bundle, best, partitions, memory)
    return best


def _budget(bundle: Bundle, memory: MemoryOptions, partitions: int) -> int | None:
    """Return the bytes that a plan may take, None without a budget."""
    return None if memory.sram_budget is None else memory.sram_budget - partitions - bundle.state_bytes


@lru_cache(maxsize=2)
def _cascades(program: Program, core: str) -> CascadeSearch:
    """Return the search over chains of a program, with its cache for other budgets."""
    return CascadeSearch(program, Counted(cores.load(core)))


def _plans_by_limit(search: CascadeSearch, least: int, whole: int, budget: int) -> Iterator[Cut]:
    """Yield the fastest programs for limits up to a budget, largest first; a smaller one may give a faster program."""
    for limit in _limits(least, whole):
        cut = search.within_live_bytes(limit, None) if limit <= budget else None
        if cut is not None:
            yield cut


def _limits(least: int, whole: int) -> Iterable[int]:
    """Return the limits on live bytes that are tried, largest first.

    They do not depend on the budget: a larger budget allows more of them, so no plan gets slower with more memory.
    """
    step = round_up(-(-max(0, whole - least) // LIMITS)) or ALIGNMENT
    return reversed(range(least, whole, step))


def _plan(program: Program) -> _Plan:
    blocks = lifetimes(program)  # one buffer each: no step may overwrite its inputs
    packing = pack(blocks)
    offsets = {b.buffers[0]: packing.offsets[b] for b in blocks if b.nbytes}
    placed = (
        Block(name, offsets[name] + part.offset, min(part.nbytes, b.nbytes - part.offset), part.first, part.last)
        for b in blocks
        if (name := b.buffers[0]) in offsets
        for part in b.parts
    )
    return _Plan(program, Memory("memory", packing.nbytes, packing.bound, tuple(placed)), offsets)


def _on_cpu(bundle: Bundle, program: Program) -> Iterator[KernelCall]:
    """Yield the calls of CPU operators."""
    for call in program.calls:
        if call.origin != CALLER and bundle.steps[call.origin[0]].kind is StepKind.OPERATOR:
            yield call


def _instructions(bundle: Bundle, program: Program, rates: Counted) -> int:
    return sum(rates.dispatch + rates.work(call.params) for call in _on_cpu(bundle, program))


def _names(bundle: Bundle, program: Program) -> Mapping[str, str]:
    """Return the first writer of each block, or the caller."""
    names: dict[str, str] = {}
    for call in program.calls:
        step = None if call.origin == CALLER else bundle.steps[call.origin[0]]
        rows = "" if call.stripe is None else f", {call.stripe}"
        writer = "an input" if step is None else f"{step.title}{rows} {step.source}".rstrip()
        for ref in call.operands:
            names.setdefault(ref.buffer, writer)
    return names


def _chains(bundle: Bundle, program: Program) -> tuple[Cascade, ...]:
    """Return the chains, in instructions of the program."""
    origins = [
        KernelOrigin(at, call.kernel.name, tuple(bundle.steps[i].instruction for i in call.origin), call.stripe)
        for at, call in enumerate(program.calls)
        if call.stripe is not None
    ]
    return cascades(origins, [macs(program.calls[origin.index].params) for origin in origins])


def _too_large(bundle: Bundle, best: _Plan, partitions: int, memory: MemoryOptions) -> CapacityError:
    """Return an error that names the step with the most live bytes, and the smallest budget that fits."""
    alive = [
        sum(round_up(block.nbytes) for block in best.memory.blocks if block.first <= at <= block.last)
        for at in range(len(best.program.calls))
    ]
    call = best.program.calls[alive.index(max(alive))]
    where = "" if call.origin == CALLER else bundle.steps[call.origin[0]].source
    title = "the inputs or outputs" if call.origin == CALLER else f"`{bundle.steps[call.origin[0]].title}`"
    others = {"partitions": partitions, "the state": bundle.state_bytes}
    listed = " and ".join(f"{nbytes:,} of {what}" for what, nbytes in others.items() if nbytes)
    in_addition = f" in addition to {listed}" if listed else ""
    other = ", or leave out `--depth-first never`" if memory.depth_first is DepthFirst.NEVER else ""
    return CapacityError(
        f"inputs, outputs and intermediate tensors need {best.memory.nbytes:,} bytes of SRAM{in_addition}, "
        f"the budget is {memory.sram_budget:,}; the peak is at {title}",
        where=where or None,
        hint=f"make the tensors of that operator smaller (smaller input, fewer channels, earlier stride), or give "
        f"`--sram-budget {best.memory.nbytes + sum(others.values())}`{other}",
    )

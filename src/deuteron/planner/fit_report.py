"""Whether a program fits, and what to say when it does not: bytes, where the peak is, and what is alive there.

Lines of these errors name TFLite operators as `op N`, which a build turns into lines of the PyTorch model.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from deuteron.arch.memory import Effort
from deuteron.errors import CapacityError
from deuteron.npu.neutron.kernels.limits import ALIGNMENT, round_up
from deuteron.npu.neutron.kernels.program import KernelCall, Program
from deuteron.planner.budget import Budget, FetchPolicy
from deuteron.planner.lifetimes import lifetimes, spans
from deuteron.planner.packing import Packing
from deuteron.planner.weight_chunks import alive, chunks
from deuteron.planner.weight_residency import least_area
from deuteron.planner.weight_tiling import cut, unshared
from deuteron.planner.weight_tiling_search import beside

LISTED = 5
"""Values that an error names."""


def may_fit(packed: Packing, weights: int, budget: Budget) -> bool:
    """Whether scratch fits, and `weights` bytes of constants do beside it or may be fetched."""
    return packed.nbytes <= budget.sram and (budget.policy is not FetchPolicy.NEVER or _links(packed, weights, budget))


def area_for(packed: Packing, weights: int, budget: Budget) -> int | None:
    """Bytes of the prefetch area of what may fit, or None when weights are not fetched."""
    linked = budget.policy is not FetchPolicy.ALWAYS and _links(packed, weights, budget)
    if linked or not weights:
        return None
    left = (budget.sram - packed.nbytes) // ALIGNMENT * ALIGNMENT
    return min(left, weights, left if budget.weights is None else budget.weights)


def _links(packed: Packing, weights: int, budget: Budget) -> bool:
    """Whether all constants have room beside scratch."""
    return packed.nbytes + weights <= budget.sram and (budget.weights is None or weights <= budget.weights)


def least_room(program: Program) -> int:
    """Bytes that calls, cut as far as they can be, need for weights at once, wherever these lie."""
    return _least(program, None).nbytes


def too_large(program: Program, packed: Packing, weights: int, budget: Budget) -> CapacityError:
    """The error for a program that does not fit.

    Args:
        program: the calls.
        packed: all intermediate results.
        weights: bytes of all constants.
        budget: what there is.
    """
    if packed.nbytes > budget.sram:
        return _scratch_error(program, packed, weights, budget)
    if budget.policy is FetchPolicy.NEVER:
        return _linked_error(program, packed, weights, budget)
    return _fetched_error(program, packed, budget)


@dataclass(frozen=True, slots=True)
class _Value:
    """An intermediate result or a constant, and the TFLite operator that it belongs to, if any."""

    nbytes: int
    text: str
    op: int | None

    def __str__(self) -> str:
        place = "" if self.op is None else f"op {self.op}: "
        return f"{place}{self.nbytes:,} bytes, {self.text}"


def _scratch_error(program: Program, packed: Packing, weights: int, budget: Budget) -> CapacityError:
    at, alive = _peak(program)
    scratch = packed.nbytes
    live = sum(value.nbytes for value in alive)
    fetched = weights and budget.policy is not FetchPolicy.NEVER
    needed = scratch + (_least(program, packed).nbytes if fetched else weights)
    hint = "make what is alive there smaller (a smaller input, fewer channels, a stride earlier)"
    if budget.sram <= 0:
        hint = f"make what lies beside smaller, it needs {budget.taken:,} bytes alone"
    if scratch > live and live <= budget.sram and budget.effort is Effort.FAST:
        hint += f", or try `--effort exact`, which may pack them into {live:,} bytes"
    cut = ", computed some rows at a time," if any(call.stripe for call in program.calls) else ""
    return CapacityError(
        f"intermediate results{cut} need {scratch:,} bytes of SRAM{_beside(budget)}, {_available(budget)}; most are "
        f"alive here, the largest are:{_listed(alive)}",
        where=_where(program, at),
        hint=f"{hint}{_or_more(needed, budget)}",
        needed=needed + budget.taken,
    )


def _linked_error(program: Program, packed: Packing, weights: int, budget: Budget) -> CapacityError:
    at, alive = _peak(program)
    scratch = packed.nbytes
    least = scratch + _least(program, packed).nbytes + budget.taken
    needed = scratch + weights
    auto = f"fetch weights from flash with `--fetch-constants-to-sram auto`: {least:,} bytes do then"
    return CapacityError(
        f"{needed + budget.taken:,} bytes of SRAM are needed, {scratch:,} for intermediate results, most of which are "
        f"alive here, and {weights:,} for weights{_beside(budget)}; {_available(budget)}; the largest values are:"
        f"{_listed((*alive, *_constants(program).values()))}",
        where=_where(program, at),
        hint=f"{auto}{_or_more(needed, budget, 'weights do not fit without that')}",
        needed=needed + budget.taken,
    )


def _fetched_error(program: Program, packed: Packing, budget: Budget) -> CapacityError:
    needed = _least(program, packed)
    scratch, least, own = packed.nbytes, needed.nbytes, needed.constants
    where = _where(program, needed.call)
    split = "give this layer fewer inputs" if needed.is_piece else "split this layer into smaller ones"
    weights = "the smallest piece of the weights of this call" if needed.is_piece else "the weights of this call"
    if budget.weights is not None and budget.weights < least:
        room = f", or give `--weights-budget {least}` or more"
        if scratch + least > budget.sram:
            room += f" and `--sram-budget {scratch + least + budget.taken}`"
        return CapacityError(
            f"{weights} need{'s' * needed.is_piece} {least:,} bytes of SRAM at once, `--weights-budget` allows "
            f"{budget.weights:,}; the largest are:{_listed(own)}",
            where=where,
            hint=f"{split}{room}",
            needed=scratch + least + budget.taken,
        )
    return CapacityError(
        f"{scratch + least + budget.taken:,} bytes of SRAM are needed, {scratch:,} for intermediate results and "
        f"{least:,} for {weights}, all at once{_beside(budget)}; {_available(budget)}; the largest values are:"
        f"{_listed((*_peak(program)[1], *own))}",
        where=where,
        hint=f"{split}{_or_more(scratch + least, budget)}",
        needed=scratch + least + budget.taken,
    )


def _beside(budget: Budget) -> str:
    """What else is in the same SRAM."""
    listed = " and ".join(f"{nbytes:,} for {what}" for nbytes, what in budget.beside)
    return f" beside {listed}" if listed else ""


def _available(budget: Budget) -> str:
    return f"{budget.sram + budget.taken:,} are available"


def _or_more(needed: int, budget: Budget, otherwise: str = "it would not fit either") -> str:
    """The budget that would do, where the target has as much."""
    needed += budget.taken
    if budget.target is not None and needed > budget.target:
        return f"; with all {budget.target:,} bytes of the target {otherwise}"
    return f", or give `--sram-budget {needed}` or more"


def _where(program: Program, at: int) -> str:
    op = _op(program.calls[at])
    return f"kernel call {at}, `{program.calls[at].kernel.name}`{'' if op is None else f' of op {op}'}"


def _listed(values: Iterable[_Value]) -> str:
    largest = sorted(values, key=lambda value: (-value.nbytes, value.text))[:LISTED]
    return "".join(f"\n  {value}" for value in largest)


@dataclass(frozen=True, slots=True)
class _Least:
    """What fetching needs at least, with calls cut as far as they can be.

    Attributes:
        nbytes: of the smallest prefetch area.
        call: the one that needs most at once, beside what is free in scratch.
        is_piece: whether it has been cut.
        constants: what (its neediest piece) reads.
    """

    nbytes: int
    call: int
    is_piece: bool
    constants: tuple[_Value, ...]


def _least(program: Program, packed: Packing | None) -> _Least:
    pieces = cut(unshared(program), 0)
    parts, scratch = chunks(pieces.program), beside(pieces.program, packed)
    count = len(pieces.program.calls)
    needs, free = alive(parts, count), scratch.free(count)
    at = max((chunk.first for chunk in parts), key=lambda at: needs[at] - free[at])
    there = {name for chunk in parts if chunk.first <= at <= chunk.last for name in chunk.buffers}
    constants = tuple(value for name, value in _constants(pieces.program).items() if name in there)
    return _Least(least_area(parts, scratch), pieces.calls[at], pieces.calls.count(pieces.calls[at]) > 1, constants)


def _peak(program: Program) -> tuple[int, tuple[_Value, ...]]:
    """The call at which most scratch is alive, and what is; values that share a block count once."""
    blocks, live = lifetimes(program), spans(program)
    in_use = [[block for block in blocks if block.alive(at)] for at in range(len(program.calls))]
    at = max(range(len(in_use)), key=lambda i: sum(block.alive(i) for block in in_use[i]))
    values: list[_Value] = []
    for block in in_use[at]:
        name = [name for name in block.buffers if live[name][0] <= at][-1]
        writer = program.calls[live[name][0]]
        values.append(_Value(block.alive(at), f"`{name}` of `{writer.kernel.name}`", _op(writer)))
    return at, tuple(values)


def _constants(program: Program) -> dict[str, _Value]:
    """The constants that calls read, by name, each with the first that does."""
    sizes = {buffer.name: buffer.nbytes for buffer in program.buffers if buffer.data is not None}
    constants: dict[str, _Value] = {}
    for call in program.calls:
        for ref in call.operands:
            if ref.buffer in sizes:
                text = f"weights `{ref.buffer}` of `{call.kernel.name}`"
                constants.setdefault(ref.buffer, _Value(round_up(sizes[ref.buffer]), text, _op(call)))
    return constants


def _op(call: KernelCall) -> int | None:
    return call.origin[0] if call.origin else None

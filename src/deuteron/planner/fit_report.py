"""Checks whether a program fits, and composes the error if it does not: bytes, the call at the peak, and its values.

Lines of these errors name TFLite operators as `op N`, which a build replaces by lines of the PyTorch model.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from deuteron.arch.memory import Effort
from deuteron.errors import WHERE, CapacityError
from deuteron.operators.limits import ALIGNMENT, round_up
from deuteron.operators.program import KernelCall, Program
from deuteron.planner.budget import Budget, FetchPolicy
from deuteron.planner.lifetimes import lifetimes, live_ranges
from deuteron.planner.packing import Packing
from deuteron.planner.weight_chunks import bytes_needed, chunks
from deuteron.planner.weight_residency import min_area
from deuteron.planner.weight_tiling import tile, unshare_constants
from deuteron.planner.weight_tiling_search import tiled_scratch

LISTED = 5
"""Number of values that an error lists."""


def may_fit(packed: Packing, weights: int, budget: Budget) -> bool:
    """Return True if scratch fits, and `weights` bytes of constants either fit next to it or may be fetched."""
    return packed.nbytes <= budget.sram and (budget.policy is not FetchPolicy.NEVER or _links(packed, weights, budget))


def area_for(packed: Packing, weights: int, budget: Budget) -> int | None:
    """Return the bytes of the prefetch area, or None if weights are not fetched."""
    linked = budget.policy is not FetchPolicy.ALWAYS and _links(packed, weights, budget)
    if linked or not weights:
        return None
    left = (budget.sram - packed.nbytes) // ALIGNMENT * ALIGNMENT
    return min(left, weights, left if budget.weights is None else budget.weights)


def _links(packed: Packing, weights: int, budget: Budget) -> bool:
    """Return True if all constants fit next to scratch."""
    return packed.nbytes + weights <= budget.sram and (budget.weights is None or weights <= budget.weights)


def least_weight_bytes(program: Program) -> int:
    """Return the smallest prefetch area of a program with the smallest possible weight tiles, without scratch."""
    return _least(program, None).nbytes


def too_large(program: Program, packed: Packing, weights: int, budget: Budget) -> CapacityError:
    """Return the error for a program that does not fit.

    Args:
        program: the calls.
        packed: packing of the intermediate results.
        weights: bytes of all constants.
        budget: the available memory.
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
    hint = "make these values smaller (a smaller input, fewer channels, a stride earlier)"
    if budget.sram <= 0:
        hint = f"make the other contents of SRAM smaller, they need {budget.other_bytes:,} bytes"
    if scratch > live and live <= budget.sram and budget.effort is Effort.FAST:
        hint += f", or try `--effort exact`, which may pack them into {live:,} bytes"
    cut = ", computed some rows at a time," if any(call.stripe for call in program.calls) else ""
    return _error(
        program,
        at,
        f"intermediate results{cut} need {scratch:,} bytes of SRAM{_other_uses(budget)}, {_available(budget)}; the "
        "peak is here; the largest values are:",
        alive,
        hint=f"{hint}{_or_more(needed, budget)}",
        needed=needed + budget.other_bytes,
    )


def _linked_error(program: Program, packed: Packing, weights: int, budget: Budget) -> CapacityError:
    at, alive = _peak(program)
    scratch = packed.nbytes
    least = scratch + _least(program, packed).nbytes + budget.other_bytes
    needed = scratch + weights
    auto = f"fetch weights from flash with `--fetch-constants-to-sram auto`: {least:,} bytes are enough then"
    return _error(
        program,
        at,
        f"{needed + budget.other_bytes:,} bytes of SRAM are needed, {scratch:,} for intermediate results, whose peak "
        f"is here, and {weights:,} for weights{_other_uses(budget)}; {_available(budget)}; the largest values are:",
        (*alive, *_constants(program).values()),
        hint=f"{auto}{_or_more(needed, budget, 'weights do not fit without that')}",
        needed=needed + budget.other_bytes,
    )


def _fetched_error(program: Program, packed: Packing, budget: Budget) -> CapacityError:
    needed = _least(program, packed)
    scratch, least, own = packed.nbytes, needed.nbytes, needed.constants
    split = "give this layer fewer inputs" if needed.is_piece else "split this layer into smaller ones"
    weights = "the smallest piece of the weights of this call" if needed.is_piece else "the weights of this call"
    if budget.weights is not None and budget.weights < least:
        advice = f", or give `--weights-budget {least}` or more"
        if scratch + least > budget.sram:
            advice += f" and `--sram-budget {scratch + least + budget.other_bytes}`"
        return _error(
            program,
            needed.call,
            f"{weights} need{'s' * needed.is_piece} {least:,} bytes of SRAM at once, `--weights-budget` allows "
            f"{budget.weights:,}; the largest are:",
            own,
            hint=f"{split}{advice}",
            needed=scratch + least + budget.other_bytes,
        )
    return _error(
        program,
        needed.call,
        f"{scratch + least + budget.other_bytes:,} bytes of SRAM are needed, {scratch:,} for intermediate results and "
        f"{least:,} for {weights}{_other_uses(budget)}; {_available(budget)}; the largest values are:",
        (*_peak(program)[1], *own),
        hint=f"{split}{_or_more(scratch + least, budget)}",
        needed=scratch + least + budget.other_bytes,
    )


def _other_uses(budget: Budget) -> str:
    """Describe the other contents of the same SRAM."""
    listed = " and ".join(f"{nbytes:,} for {what}" for nbytes, what in budget.other_uses)
    return f" besides {listed}" if listed else ""


def _available(budget: Budget) -> str:
    return f"{budget.sram + budget.other_bytes:,} are available"


def _or_more(needed: int, budget: Budget, otherwise: str = "it would not fit either") -> str:
    """Suggest the budget that is enough, if the target has that much."""
    needed += budget.other_bytes
    if budget.target is not None and needed > budget.target:
        return f"; with all {budget.target:,} bytes of the target {otherwise}"
    return f", or give `--sram-budget {needed}` or more"


def _error(
    program: Program, at: int, message: str, values: Iterable[_Value], *, hint: str, needed: int
) -> CapacityError:
    """Return the error at a call, with the largest of these values, one per line."""
    op = _op(program.calls[at])
    largest = sorted(values, key=lambda value: (-value.nbytes, value.text))[:LISTED]
    lines = {line: value.op for line, value in enumerate(largest, 1) if value.op is not None}
    return CapacityError(
        "\n  ".join((message, *map(str, largest))),
        where=f"kernel call {at}, `{program.calls[at].kernel.name}`{'' if op is None else f' of op {op}'}",
        hint=hint,
        operators=lines if op is None else {WHERE: op, **lines},
        needed=needed,
    )


@dataclass(frozen=True, slots=True)
class _Least:
    """The smallest prefetch area of a program, with the smallest possible weight tiles.

    Attributes:
        nbytes: size of the area.
        call: the call that determines it, after subtraction of free scratch.
        is_piece: whether this call was tiled.
        constants: constants of the call, or of its largest tile.
    """

    nbytes: int
    call: int
    is_piece: bool
    constants: tuple[_Value, ...]


def _least(program: Program, packed: Packing | None) -> _Least:
    pieces = tile(unshare_constants(program), 0)
    parts, scratch = chunks(pieces.program), tiled_scratch(pieces.program, packed)
    count = len(pieces.program.calls)
    needs, free = bytes_needed(parts, count), scratch.free(count)
    at = max((chunk.first for chunk in parts), key=lambda at: needs[at] - free[at])
    there = {name for chunk in parts if chunk.first <= at <= chunk.last for name in chunk.buffers}
    constants = tuple(value for name, value in _constants(pieces.program).items() if name in there)
    return _Least(min_area(parts, scratch), pieces.calls[at], pieces.calls.count(pieces.calls[at]) > 1, constants)


def _peak(program: Program) -> tuple[int, tuple[_Value, ...]]:
    """Return the call with the most live bytes of scratch, and its values; values that share a block count once."""
    blocks, live = lifetimes(program), live_ranges(program)
    in_use = [[block for block in blocks if block.live_bytes(at)] for at in range(len(program.calls))]
    at = max(range(len(in_use)), key=lambda i: sum(block.live_bytes(i) for block in in_use[i]))
    values: list[_Value] = []
    for block in in_use[at]:
        name = [name for name in block.buffers if live[name][0] <= at][-1]
        writer = program.calls[live[name][0]]
        values.append(_Value(block.live_bytes(at), f"`{name}` of `{writer.kernel.name}`", _op(writer)))
    return at, tuple(values)


def _constants(program: Program) -> dict[str, _Value]:
    """Return the constants that calls read, by name, each with the first call that reads it."""
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

"""Whether a program fits, and what to say when it does not."""

from deuteron.errors import CapacityError
from deuteron.kernels.limits import ALIGNMENT, round_up
from deuteron.kernels.program import Program
from deuteron.plan.budget import Budget, FetchPolicy
from deuteron.plan.chunks import chunks
from deuteron.plan.lifetimes import spans
from deuteron.plan.prefetch import least_area

LISTED = 5
"""Tensors that an error names."""


def area_for(program: Program, scratch: int, weights: int, budget: Budget) -> int | None:
    """Bytes of the prefetch area, or None when weights are not fetched.

    Raises:
        CapacityError: when scratch alone does not fit, or weights do not and may not be fetched.
    """
    if scratch > budget.sram:
        raise too_large(program, scratch, weights, budget)
    fits = scratch + weights <= budget.sram and (budget.weights is None or weights <= budget.weights)
    if budget.policy is FetchPolicy.NEVER or (budget.policy is FetchPolicy.AUTO and fits):
        if not fits:
            raise too_large(program, scratch, weights, budget)
        return None
    if not any(buffer.data is not None for buffer in program.buffers):
        return None
    left = (budget.sram - scratch) // ALIGNMENT * ALIGNMENT
    return min(left, weights, left if budget.weights is None else budget.weights)


def too_large(program: Program, scratch: int, weights: int, budget: Budget) -> CapacityError:
    """The error for a program that does not fit: bytes needed and there, when the peak is, and who makes it."""
    least = least_area(chunks(program), len(program.calls))
    available = f"{budget.sram:,} bytes of SRAM"
    if scratch > budget.sram:
        at, alive = _peak(program)
        names = "".join(f"\n  {nbytes:>12,}  {name}" for nbytes, name in alive[:LISTED])
        return CapacityError(
            f"intermediate results need {scratch:,} bytes, there are {available}; the peak is at kernel call {at}, "
            f"`{program.calls[at].kernel.name}`, where these are alive (bytes):{names}",
            hint="make the input or the widest layers smaller, or give more with `--sram-budget`",
        )
    limit = f" of which {budget.weights:,} are for weights" if budget.weights is not None else ""
    needed = f"{scratch:,} for intermediate results and {weights:,} for weights"
    if budget.policy is FetchPolicy.NEVER:
        return CapacityError(
            f"the program needs {scratch + weights:,} bytes, {needed}; there are {available}{limit}",
            hint=f"weights fetched from flash, with `--fetch-constants-to-sram auto`, {scratch + least:,} B do",
        )
    return CapacityError(
        f"the program needs at least {scratch + least:,} bytes, {scratch:,} for intermediate results and {least:,} for "
        f"the weights of its largest kernel call; there are {available}{limit}",
        hint="split the layer with the most weights, or give more with `--sram-budget` or `--weights-budget`",
    )


def _peak(program: Program) -> tuple[int, list[tuple[int, str]]]:
    """The call at which most scratch is alive, and what is, largest first."""
    sizes = {buffer.name: round_up(buffer.nbytes) for buffer in program.buffers}
    live = spans(program)
    alive = [
        sorted(((sizes[name], name) for name, (first, last) in live.items() if first <= at <= last), reverse=True)
        for at in range(len(program.calls))
    ]
    at = max(range(len(alive)), key=lambda i: sum(nbytes for nbytes, _ in alive[i]))
    return at, alive[at]

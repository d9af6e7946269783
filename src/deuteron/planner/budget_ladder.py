"""A fixed sequence of budgets, so that more memory never gives a slower plan.

The candidates for a budget depend on it: shares of it for weights, and tiles that fit into these. A larger budget can
therefore lead to a slower plan. Small programs are planned for a sequence of budgets that depends on the program alone.
The fastest of these plans that fits into the requested budget is taken; a larger budget admits the same plans and more.
"""

from collections.abc import Iterator

from deuteron.operators.limits import ALIGNMENT, round_up

FINE = 64
"""Each budget is smaller than the next by about one part in FINE."""


def ladder_budgets(most: int, sram: int) -> Iterator[int]:
    """Generate the budgets to plan for one of `sram` bytes: the next larger one, then all smaller ones, descending.

    The sequence depends on `most` alone, the bytes that the whole program takes, and starts at twice as much.
    """
    above, budget = 2 * round_up(most), round_up(most)
    while budget > max(sram, 0):
        above, budget = budget, _next_smaller(budget)
    yield above
    while budget > 0:
        yield budget
        budget = _next_smaller(budget)


def _next_smaller(budget: int) -> int:
    return budget - max(ALIGNMENT, budget // FINE // ALIGNMENT * ALIGNMENT)

"""The least that each call of a program takes, whatever the program is cut into.

Stripes leave out rows that nobody reads, those that a window steps over among them. So of each call only those rows
count that what the program leaves behind depends on. They are computed no faster in parts than at once; where all of
them are needed and no part reads less than its share, parts take no less of the SRAM port either.
"""

from collections.abc import Set as AbstractSet
from itertools import pairwise

from deuteron.arch.engine import Engine
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.npu.neutron.kernels.program import Program
from deuteron.npu.neutron.kernels.rules import operand_bytes
from deuteron.planner.stripes import Link, Rowed


def least_of_calls(program: Program, engine: Engine) -> tuple[int, ...]:
    """Cycles that each call, or the parts that it is cut into, takes at least."""
    rowed = Rowed(program)
    needs = _needs(rowed)
    whole = [engine.call_dispatch + cost(call.params, engine).cycles for call in program.calls]
    return tuple(
        cycles if link is None else _least(link, needs[link.at], engine)
        for cycles, link in zip(whole, rowed.links, strict=True)
    )


def _needs(rowed: Rowed) -> dict[int, AbstractSet[int]]:
    """Of each call that has rows those that are read, or left behind."""
    program = rowed.program
    whole = set(program.outputs)
    rows: dict[str, set[int]] = {}
    needs: dict[int, AbstractSet[int]] = {}
    for call, link in zip(reversed(program.calls), reversed(rowed.links), strict=True):
        by_rows: set[int] = set()
        if link is not None:
            wanted = rows.get(link.buffer, set())
            needed = (own for row in wanted for own in range(*link.own((row, row + 1))))
            own = needs[link.at] = set(range(link.rows.count) if link.buffer in whole else needed)
            for reading in link.readings:
                if reading.window.nbytes == rowed.nbytes.get(reading.buffer):
                    by_rows.add(reading.operand)
                    read = rows.setdefault(reading.buffer, set())
                    read.update(row for first in own for row in range(*reading.needs((first, first + 1))))
        reads = range(len(call.kernel.reads))
        whole.update(call.operands[at].buffer for at in reads if at not in by_rows)
    return needs


def _least(link: Link, needed: AbstractSet[int], engine: Engine) -> int:
    """Of a call of which these rows are needed."""
    if not needed:
        return 0
    least = cost(link.rows.narrowed(0, len(needed)), engine)
    is_shared = len(needed) == link.rows.count and _reads_its_share(link)
    return engine.call_dispatch + (least.cycles if is_shared else least.compute)


def _reads_its_share(link: Link) -> bool:
    """Whether parts of a call together read no less than the whole of it does."""
    count, narrowed = link.rows.count, link.rows.narrowed
    for reading in link.readings:
        rows = (reading.needs((at, at + 1)) for at in range(count))
        if any(above[1] < below[0] for above, below in pairwise(rows)):
            return False
    one, whole = operand_bytes(narrowed(count // 2, count // 2 + 1)), operand_bytes(narrowed(0, count))
    return all(one[reading.operand] * count >= whole[reading.operand] for reading in link.readings)

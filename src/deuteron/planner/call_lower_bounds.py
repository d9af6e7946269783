"""Lower bounds of the cycles of each call, for every way to cut the program into stripes.

Stripes skip rows that no call reads, such as rows that a strided window steps over. The bound of a call counts only
the rows that the outputs of the program depend on. Computing them in parts is no faster than at once. If all rows are
needed and no part reads less than its share, parts take no fewer cycles of the SRAM port either.
"""

from collections.abc import Set as AbstractSet
from itertools import pairwise

from deuteron.operators.program import Program
from deuteron.planner.processor_model import FetchingProcessor
from deuteron.planner.stripes import ChainCall, RowAnalysis


def min_call_cycles(program: Program, processor: FetchingProcessor) -> tuple[int, ...]:
    """Return a lower bound in cycles of each call, or of all parts that it is cut into."""
    analysis = RowAnalysis(program, processor)
    needs = _needs(analysis)
    whole = [processor.dispatch + processor.work(call.params) for call in program.calls]
    return tuple(
        cycles if link is None else _least(link, needs[link.at], processor)
        for cycles, link in zip(whole, analysis.chain_calls, strict=True)
    )


def _needs(analysis: RowAnalysis) -> dict[int, AbstractSet[int]]:
    """Return for each call that has rows the output rows that outputs of the program depend on."""
    program = analysis.program
    whole = set(program.outputs)
    rows: dict[str, set[int]] = {}
    needs: dict[int, AbstractSet[int]] = {}
    for call, link in zip(reversed(program.calls), reversed(analysis.chain_calls), strict=True):
        by_rows: set[int] = set()
        if link is not None:
            wanted = rows.get(link.buffer, set())
            needed = (own for row in wanted for own in range(*link.own((row, row + 1))))
            own = needs[link.at] = set(range(link.rows.count) if link.buffer in whole else needed)
            for row_read in link.row_reads:
                if row_read.window.nbytes == analysis.nbytes.get(row_read.buffer):
                    by_rows.add(row_read.operand)
                    read = rows.setdefault(row_read.buffer, set())
                    read.update(row for first in own for row in range(*row_read.needs((first, first + 1))))
        reads = range(len(call.kernel.reads))
        whole.update(call.operands[at].buffer for at in reads if at not in by_rows)
    return needs


def _least(link: ChainCall, needed: AbstractSet[int], processor: FetchingProcessor) -> int:
    """Return the lower bound of a call whose rows `needed` are needed."""
    if not needed:
        return 0
    least = link.rows.narrowed(0, len(needed))
    is_shared = len(needed) == link.rows.count and _reads_its_share(link, processor)
    return processor.dispatch + (processor.work(least) if is_shared else processor.compute(least))


def _reads_its_share(link: ChainCall, processor: FetchingProcessor) -> bool:
    """Return True if the parts of a call together read at least as many bytes as the whole call."""
    count, narrowed = link.rows.count, link.rows.narrowed
    for row_read in link.row_reads:
        rows = (row_read.needs((at, at + 1)) for at in range(count))
        if any(above[1] < below[0] for above, below in pairwise(rows)):
            return False
    one, whole = (processor.operand_bytes(narrowed(*rows)) for rows in ((count // 2, count // 2 + 1), (0, count)))
    return all(one[row_read.operand] * count >= whole[row_read.operand] for row_read in link.row_reads)

"""Tables of a bundle as the words that `dtn_executor_init` checks, with their two CRCs."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from deuteron.board.bundle import Bundle, Step
from deuteron.board.state import changes

CHANGE = 2
"""`DTN_STEP_CHANGE` of deuteron/bundle.h."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Rows of words, one per entry, in the order of the structs in bundle.h.

    Attributes:
        counts: the nine numbers of entries.
        values: rows of `dtn_value_t`.
        steps: rows of `dtn_step_t`.
        words: the words of each step.
        delegates: for each delegate the index of its first block, which follow the constants, and their number.
        counts_crc: CRC-32 of `counts`.
        crc: continues it over the tables, then over size and CRC of each constant and block, then over the delegates.
    """

    counts: tuple[int, ...]
    values: tuple[tuple[int, ...], ...]
    steps: tuple[tuple[int, ...], ...]
    words: tuple[tuple[int, ...], ...]
    delegates: tuple[tuple[int, int], ...]
    counts_crc: int
    crc: int

    @classmethod
    def of(cls, bundle: Bundle) -> Self:
        """Return the tables of a bundle."""
        words = tuple((*step.inputs, *step.outputs, *step.params) for step in bundle.steps)
        firsts = accumulate((len(row) for row in words), initial=0)
        values = tuple((int(v.memory), v.offset, v.bytes, int(v.type)) for v in bundle.values)
        begin, end = changes(bundle)
        steps = tuple(
            _row(step, first, bool(bundle.state) and begin <= at <= end)
            for at, (step, first) in enumerate(zip(bundle.steps, firsts, strict=False))
        )
        blocks = [block for delegate in bundle.delegates for block in delegate.partition.blocks]
        constants = [(len(content), zlib.crc32(content)) for content in bundle.constants]
        contents = (*constants, *((len(block.data), block.crc) for block in blocks))
        sizes = [len(delegate.partition.blocks) for delegate in bundle.delegates]
        delegates = tuple(zip(accumulate(sizes, initial=len(constants)), sizes, strict=False))
        counts = (
            len(values),
            len(steps),
            sum(len(row) for row in words),
            len(bundle.inputs),
            len(bundle.outputs),
            len(bundle.memories),
            len(bundle.operators),
            len(contents),
            len(bundle.delegates),
        )
        memory_bytes = tuple(memory.bytes for memory in bundle.memories)
        counts_crc = _crc(counts)
        crc = counts_crc
        tables = (*values, *steps, *words, bundle.inputs, bundle.outputs, memory_bytes)
        for row in (*tables, *contents, *delegates):
            crc = _crc(row, crc)
        return cls(counts, values, steps, words, delegates, counts_crc, crc)


def _row(step: Step, first: int, changes_state: bool) -> tuple[int, ...]:
    kind = CHANGE if changes_state else int(step.kind)
    return (kind, step.index, first, len(step.inputs), len(step.outputs), len(step.params))


def _crc(words: Sequence[int], before: int = 0) -> int:
    return zlib.crc32(struct.pack(f"<{len(words)}I", *words), before)

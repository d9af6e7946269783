"""The tables of a bundle as the words that `dtn_executor_init` checks, with their two CRCs."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from deuteron.board.bundle import Bundle, Step


@dataclass(frozen=True, slots=True)
class Tables:
    """Rows of words, one per entry, in the order of the structs in bundle.h.

    Attributes:
        counts: the nine numbers of entries.
        values: rows of `dtn_value_t`.
        steps: rows of `dtn_step_t`.
        words: the words of each step.
        counts_crc: CRC-32 of `counts`.
        crc: continues it over the tables, then over size and CRC of each constant and of each delegate's blocks.
    """

    counts: tuple[int, ...]
    values: tuple[tuple[int, ...], ...]
    steps: tuple[tuple[int, ...], ...]
    words: tuple[tuple[int, ...], ...]
    counts_crc: int
    crc: int

    @classmethod
    def of(cls, bundle: Bundle) -> Self:
        """The tables of a bundle."""
        words = tuple((*step.inputs, *step.outputs, *step.params) for step in bundle.steps)
        firsts = accumulate((len(row) for row in words), initial=0)
        values = tuple((int(v.memory), v.offset, v.bytes, int(v.type)) for v in bundle.values)
        steps = tuple(_row(step, first) for step, first in zip(bundle.steps, firsts, strict=False))
        counts = (
            len(values),
            len(steps),
            sum(len(row) for row in words),
            len(bundle.inputs),
            len(bundle.outputs),
            len(bundle.memories),
            len(bundle.operators),
            len(bundle.constants),
            len(bundle.delegates),
        )
        memory_bytes = tuple(memory.bytes for memory in bundle.memories)
        counts_crc = _crc(counts)
        crc = counts_crc
        for row in (*values, *steps, *words, bundle.inputs, bundle.outputs, memory_bytes, *_blocks(bundle)):
            crc = _crc(row, crc)
        return cls(counts, values, steps, words, counts_crc, crc)


def _row(step: Step, first: int) -> tuple[int, ...]:
    return (int(step.kind), step.index, first, len(step.inputs), len(step.outputs), len(step.params))


def _blocks(bundle: Bundle) -> Iterator[tuple[int, int]]:
    """`bytes` and `crc` of each `dtn_constant_t`; 0 as the CRC of a delegate's blocks, which carry their own."""
    for content in bundle.constants:
        yield len(content), zlib.crc32(content)
    for delegate in bundle.delegates:
        yield from ((len(block.data), 0) for block in delegate.partition.blocks)


def _crc(words: Sequence[int], before: int = 0) -> int:
    return zlib.crc32(struct.pack(f"<{len(words)}I", *words), before)

"""Provenance of a partition's program: which kernel calls compute which operators."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

PAYLOAD = "payload "
"""Prefix of `payload_mark`."""


def payload_mark(payload: bytes) -> str:
    """Return the key of a partition in the maps of ETRecords: a checksum of its payload."""
    return f"{PAYLOAD}{zlib.crc32(payload):08x}"


@dataclass(frozen=True, slots=True)
class Stripe:
    """The part of a depth-first chain that a call computes.

    Attributes:
        cascade: number of the chain in the program.
        index: number of the stripe in the chain.
        call: number of the call in the program before it was cut.
        first: first output row.
        last: the row after the last.
        kept: whether the call copies rows to or from the cache between stripes, instead of computing them.
    """

    cascade: int
    index: int
    call: int
    first: int
    last: int
    kept: bool = False

    def __str__(self) -> str:
        rows = f"row {self.first}" if self.last == self.first + 1 else f"rows {self.first}-{self.last - 1}"
        return f"{'kept ' if self.kept else ''}{rows} in stripe {self.index} of chain {self.cascade}"


@dataclass(frozen=True, slots=True)
class KernelOrigin:
    """Kernel call `index` of the program and the TFLite operators (indices) that it computes, in whole or in part.

    There are none only if the call copies an input or a constant to an output of the model. A call that computes some
    rows of an original call has a `stripe`.
    """

    index: int
    kernel: str
    ops: tuple[int, ...]
    stripe: Stripe | None = None


@dataclass(frozen=True, slots=True)
class Cascade:
    """A chain of calls that run depth first.

    Attributes:
        number: number of the chain.
        calls: number of the original calls.
        ops: the TFLite operators that it computes.
        stripes: number of stripes.
        height: largest number of output rows of a stripe.
        halo: largest number of rows of one call that two neighbouring stripes need.
        copies: number of calls that cache such rows instead of recomputing them.
        again: recomputed multiply-accumulates.
    """

    number: int
    calls: int
    ops: tuple[int, ...]
    stripes: int
    height: int
    halo: int
    copies: int
    again: int


def cascades(kernels: Sequence[KernelOrigin], macs: Sequence[int]) -> tuple[Cascade, ...]:
    """Return the chains of a program, given the multiply-accumulates of each call."""
    chains: dict[int, list[tuple[Stripe, KernelOrigin, int]]] = {}
    for kernel, count in zip(kernels, macs, strict=True):
        if kernel.stripe is not None:
            chains.setdefault(kernel.stripe.cascade, []).append((kernel.stripe, kernel, count))
    return tuple(_cascade(number, parts) for number, parts in chains.items())


def _cascade(number: int, parts: Sequence[tuple[Stripe, KernelOrigin, int]]) -> Cascade:
    ends: dict[int, int] = {}
    copies = again = halo = 0
    for stripe, _, count in parts:
        rows, known = stripe.last - stripe.first, ends.get(stripe.call, 0)
        overlap = min(max(0, known - stripe.first), rows)
        halo = max(halo, overlap)
        again += count * overlap // rows
        copies += stripe.kept
        ends[stripe.call] = max(known, stripe.last)
    last = max(stripe.call for stripe, _, _ in parts)
    return Cascade(
        number,
        len({stripe.call for stripe, _, _ in parts}),
        tuple(sorted({op for _, kernel, _ in parts for op in kernel.ops})),
        1 + max(stripe.index for stripe, _, _ in parts),
        max(stripe.last - stripe.first for stripe, _, _ in parts if stripe.call == last),
        halo,
        copies,
        again,
    )


class Fate(Enum):
    """Fate of a TFLite operator; the value is its name in reports."""

    KERNELS = "kernels"
    FOLDED = "folded"
    FREE = "free"
    UNUSED = "unused"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class OpFate:
    """TFLite operator `index`, its fate, and the kernel calls that name it.

    Kernel calls compute it. Or it was folded at compile time. Or it is free, because it changes no byte; the calls that
    compute its operands or read its result then name it. Or it is unused, because no output depends on it. Or it is at
    a float edge and stays an operator of the file, for the CPU.
    """

    index: int
    op: str
    fate: Fate
    kernels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Kernel calls and TFLite operators, in both directions; empty if the compiler does not record it."""

    kernels: tuple[KernelOrigin, ...] = ()
    ops: tuple[OpFate, ...] = ()

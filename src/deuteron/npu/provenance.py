"""Which calls of a partition's program stand for which of its operators: written by an NPU's compiler, read by all."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

PAYLOAD = "payload "
"""What `payload_mark` begins with."""


def payload_mark(payload: bytes) -> str:
    """What tells a partition from the same with other weights, or compiled otherwise: a key in ETRecords' maps."""
    return f"{PAYLOAD}{zlib.crc32(payload):08x}"


@dataclass(frozen=True, slots=True)
class Stripe:
    """Which part of a chain of calls that runs depth first a call is.

    Attributes:
        cascade: number of the chain in the program.
        index: number of the stripe in the chain.
        call: number of the call in the program before it was cut.
        first: of the rows of its output that it computes.
        last: the row after them.
        kept: they are copied aside for the next stripe, or back, instead.
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
    """Kernel call `index` of the program and the TFLite operators (indices) that it computes, or some of.

    There are none only where an output of the model is an input or a constant: the call copies it there. One that
    computes some rows of what a call computed before it was cut has a `stripe`.
    """

    index: int
    kernel: str
    ops: tuple[int, ...]
    stripe: Stripe | None = None


@dataclass(frozen=True, slots=True)
class Cascade:
    """A chain of calls that run depth first.

    Attributes:
        number: of the chain.
        calls: those that it was cut from.
        ops: the TFLite operators that it computes.
        stripes: their number.
        height: most rows of what the last call writes in a stripe.
        halo: most rows of one call that two neighbours among the stripes need.
        copies: calls that keep such rows instead of computing them again.
        again: multiply-accumulates that are done once more than without stripes.
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
    """The chains of a program, given the multiply-accumulates of each of its calls."""
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
    """What became of a TFLite operator; the value is its spelling in reports."""

    KERNELS = "kernels"
    FOLDED = "folded"
    FREE = "free"
    UNUSED = "unused"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class OpFate:
    """TFLite operator `index`, what became of it, and the kernel calls that name it.

    Kernel calls compute it; or it was folded at compile time; or it is free, because it changes no byte, and the calls
    that compute its operands, or read its result, stand for it; or it is unused, because no output depends on it; or it
    lies at a float edge and stays an operator of the file, for the CPU.
    """

    index: int
    op: str
    fate: Fate
    kernels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Which kernel calls stand for which TFLite operators, both ways; empty where a compiler does not tell."""

    kernels: tuple[KernelOrigin, ...] = ()
    ops: tuple[OpFate, ...] = ()

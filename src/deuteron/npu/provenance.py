"""Which calls of a partition's program stand for which of its operators: written by an NPU's compiler, read by all."""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class KernelOrigin:
    """Kernel call `index` of the program and the TFLite operators (indices) that it computes, or some of.

    There are none only where an output of the model is an input or a constant: the call copies it there.
    """

    index: int
    kernel: str
    ops: tuple[int, ...]


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

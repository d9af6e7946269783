"""The three blocks of a converted partition."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Container:
    """Microcode, weights and kernels in the layout of `spec/microcode.md` section 1.

    The bytes are not checked: `encode` makes valid containers, `decode` checks any.
    """

    microcode: bytes
    weights: bytes
    kernels: bytes

"""The three blocks of a converted partition."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Container:
    """Microcode, weights and kernels as `spec/microcode.md` section 1 lays them out.

    The class holds bytes and promises nothing about them: `encode` makes valid containers, `decode` checks any.
    """

    microcode: bytes
    weights: bytes
    kernels: bytes

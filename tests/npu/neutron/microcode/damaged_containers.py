"""Containers with chosen damage and checksums that hold all the same."""

import zlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.format import Header


def words_of(block: bytes) -> np.ndarray:
    """A writable copy of a block's words."""
    return np.frombuffer(block, "<u4").copy()


def sealed(container: Container) -> Container:
    """The container with right checksums of microcode and weights."""
    words = words_of(container.microcode)
    words[Header.WEIGHTS_CRC] = zlib.crc32(container.weights[: int(words[Header.WEIGHTS_BYTES])])
    words[Header.CRC] = 0
    size = min(int(words[Header.MICROCODE_BYTES]), len(container.microcode))
    words[Header.CRC] = zlib.crc32(words.tobytes()[:size])
    return replace(container, microcode=words.tobytes())


def with_words(container: Container, changes: Mapping[int, int], *, seal: bool = True) -> Container:
    """The container with some words of its microcode changed."""
    words = words_of(container.microcode)
    for index, value in changes.items():
        words[index] = value & 0xFFFFFFFF
    changed = replace(container, microcode=words.tobytes())
    return sealed(changed) if seal else changed


def randomly_damaged(container: Container, rng: np.random.Generator) -> Container:
    """One to three words changed to values that tend to pass first checks; checksums hold two times in three."""
    words = words_of(container.microcode)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(words)))
        old = int(words[at])
        small = int(rng.integers(-3, 4))
        words[at] = (
            old ^ 1 << int(rng.integers(32)),
            (old + small) & 0xFFFFFFFF,
            small & 0xFFFFFFFF,
            int(rng.integers(1 << 32)),
            int(words[int(rng.integers(len(words)))]),
        )[int(rng.integers(5))]
    changed = replace(container, microcode=words.tobytes())
    return sealed(changed) if rng.random() < 0.67 else changed

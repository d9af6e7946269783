"""What every byte of a memory holds, as those who check programs follow it.

Each byte is a pair: a value of the program and the byte of that value. What runs moves the pairs as it would move the
bytes.
"""

from collections.abc import Callable

import numpy as np

from deuteron.npu.neutron.kernels.access_footprint import Ints

NOTHING = -1
LEFTOVER = -2
"""Owners of a byte that is no value's: never written, or left by a kernel's workspace."""


class Contents:
    """One memory, byte by byte: whose value it holds, which byte of it, and the number of what put it there."""

    def __init__(self, nbytes: int) -> None:
        self.owner = np.full(nbytes, NOTHING, np.int32)
        self.byte = np.zeros(nbytes, np.uint32)
        self.writer = np.full(nbytes, -1, np.int32)

    def put(self, at: Ints | slice, owner: Ints | int, byte: Ints | int, writer: int) -> None:
        """Write bytes of values."""
        self.owner[at] = owner
        self.byte[at] = byte
        self.writer[at] = writer

    def wrong(self, at: Ints, owner: Ints | int, byte: Ints, name: Callable[[int], str], words: tuple[str, str]) -> str:
        """What the first byte should be that is something else, and what it is; empty where all are as they should be.

        Args:
            at: the bytes of the memory.
            owner: what values they should be of.
            byte: which bytes of these.
            name: of a value.
            words: what the memory is called, and what writes there.
        """
        wrong = np.flatnonzero((self.owner[at] != owner) | (self.byte[at] != byte))
        if not len(wrong):
            return ""
        first = wrong[0]
        here = int(at[first])
        wanted = int(np.broadcast_to(owner, at.shape)[first])
        needed = f"needs byte {int(byte[first])} of `{name(wanted)}` at byte {here} of {words[0]}"
        holder, writer = int(self.owner[here]), int(self.writer[here])
        if holder == NOTHING:
            return f"{needed}, which nothing has written"
        held = "leftovers of a workspace" if holder == LEFTOVER else f"byte {self.byte[here]} of `{name(holder)}`"
        return f"{needed}, which holds {held}{f', written by {words[1]} {writer}' if writer >= 0 else ''}"

"""Shadow memory: for each byte of a memory the value that it belongs to, for checks of programs.

The shadow of a byte is a pair: a value of the program and a byte of that value. The checked program moves the pairs as
it would move the bytes.
"""

from collections.abc import Callable

import numpy as np

from deuteron.operators.access_footprint import Ints

NOTHING = -1
LEFTOVER = -2
"""Owners of a byte that belongs to no value: never written, or written by a kernel as workspace."""


class Contents:
    """Shadow of one memory: for each byte its value, the byte of that value, and the number of the writer."""

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
        """Describe the first byte that differs from its expected value; empty if all are correct.

        Args:
            at: offsets in the memory.
            owner: the expected values.
            byte: the expected bytes of these values.
            name: returns the name of a value.
            words: the name of the memory, and of its writers.
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

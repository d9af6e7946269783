"""What the native libraries for Ethos-U are given and tell, as ctypes: memories, bytes that are aligned, events."""

import ctypes

WEIGHTS, SCRATCH, FAST_SCRATCH, REGIONS = 0, 1, 2, 8
"""Numbers of regions, and how many there may be."""
FAST_SCRATCH_BYTES = 4 << 20
"""Partitions do not say how much fast scratch memory they use: more than any memory mode of Vela has."""
SHRAM_BYTES = 48 << 10
"""No NPU has more memory of its own."""
_ALIGNMENT = 16


class Event(ctypes.Structure):
    """A `dtn_ethosu_event_t`: which command, and what is special about it."""

    _fields_ = (
        ("offset", ctypes.c_uint32),
        ("opcode", ctypes.c_uint16),
        ("param", ctypes.c_uint16),
        ("detail", ctypes.c_uint64),
    )


class Region(ctypes.Structure):
    """A `dtn_ethosu_region_t`."""

    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("is_read_only", ctypes.c_bool))


class Memories(ctypes.Structure):
    """A `dtn_ethosu_memory_t`."""

    _fields_ = (
        ("regions", Region * REGIONS),
        ("shram", ctypes.c_void_p),
        ("shram_bytes", ctypes.c_size_t),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
    )


class Memory:
    """Bytes of this process that start at a multiple of 16, as the NPU wants them.

    Args:
        size: how many; zeros.
        content: what stands in the first of them.
    """

    def __init__(self, size: int, content: bytes = b"") -> None:
        self._buffer = ctypes.create_string_buffer(size + _ALIGNMENT)
        start = ctypes.addressof(self._buffer)
        self.address = start + -start % _ALIGNMENT
        self.size = size
        self.write(0, content)

    def write(self, offset: int, content: bytes) -> None:
        """Write bytes there."""
        ctypes.memmove(self.address + offset, content, len(content))

    def read(self, offset: int, size: int) -> bytes:
        """The bytes there."""
        return ctypes.string_at(self.address + offset, size)

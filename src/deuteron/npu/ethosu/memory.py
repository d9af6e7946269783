"""ctypes of the native libraries for Ethos-U: memories, aligned bytes, events."""

import ctypes

WEIGHTS, SCRATCH, FAST_SCRATCH, REGIONS = 0, 1, 2, 8
"""Indices of regions, and their largest number."""
FAST_SCRATCH_BYTES = 4 << 20
"""Size of fast scratch, which partitions do not contain: more than any memory mode of Vela has."""
SHRAM_BYTES = 48 << 10
"""Largest internal memory of an NPU."""
_ALIGNMENT = 16


class MachineEvent(ctypes.Structure):
    """A `dtn_ethosu_event_t`: a command, and its event."""

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


class MachineMemory:
    """Bytes of this process at a multiple of 16, as the NPU requires.

    Args:
        size: number of bytes, initially 0.
        content: content of the first bytes.
    """

    def __init__(self, size: int, content: bytes = b"") -> None:
        self._buffer = ctypes.create_string_buffer(size + _ALIGNMENT)
        start = ctypes.addressof(self._buffer)
        self.address = start + -start % _ALIGNMENT
        self.size = size
        self.write(0, content)

    def write(self, offset: int, content: bytes) -> None:
        """Write bytes at an offset."""
        ctypes.memmove(self.address + offset, content, len(content))

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes at an offset."""
        return ctypes.string_at(self.address + offset, size)

"""Command streams executed from Python, on memory that the caller gives: no ExecuTorch, no copies."""

import ctypes
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from deuteron.native import library
from deuteron.npu.ethosu.isa import Config
from deuteron.npu.ethosu.memory import Memories, Region

Bytes = npt.NDArray[np.uint8]
_MACHINE_BYTES, _EVENT_BYTES = 1 << 15, 64


class RefusedError(Exception):
    """The stream cannot be executed: the number of the fault."""


def aligned(content: Bytes) -> Bytes:
    """A copy that begins at a multiple of 16."""
    block = np.zeros(len(content) + 16, np.uint8)
    start = -block.ctypes.data % 16
    block[start : start + len(content)] = content
    return block[start : start + len(content)]


def shram_bytes(config: Config) -> int:
    """The part of the NPU's internal memory that a core has."""
    if config.is_u85:
        return 2048
    return 1024 * (config.word >> 8 & 0xFF) // (2 if config.name == "ethos-u65-512" else 1)


class Machine:
    """A stream and its memory: region 0 is read only, the SHRAM as the caller made it; all aligned."""

    def __init__(self, config: Config, command_data: bytes, memories: Mapping[int, Bytes], shram: Bytes) -> None:
        self._library = ctypes.CDLL(str(library("ethosu_watch")))
        self._library.dtn_ethosu_config.restype = ctypes.c_void_p
        self._config = ctypes.c_void_p(self._library.dtn_ethosu_config(config.name.encode()))
        self._kept = memories, shram
        self._commands = aligned(np.frombuffer(command_data, np.uint8))
        self._machine, self._event = (
            aligned(np.zeros(_MACHINE_BYTES, np.uint8)),
            aligned(np.zeros(_EVENT_BYTES, np.uint8)),
        )
        self._memory = Memories()
        for number, content in memories.items():
            address = content.ctypes.data if len(content) else None
            self._memory.regions[number] = Region(address, len(content), number == 0)
        self._memory.shram, self._memory.shram_bytes = shram.ctypes.data, len(shram)
        self._judge(self._call("dtn_ethosu_check", self._event))
        self._workspace = aligned(np.zeros(self._memory.workspace_bytes, np.uint8))
        self._memory.workspace = self._workspace.ctypes.data

    def run(self) -> None:
        """Executes the stream once; RefusedError at a fault."""
        self._judge(self._call("dtn_ethosu_start"))
        self._judge(self._library.dtn_ethosu_run(_pointer(self._machine), _pointer(self._event)))

    def _call(self, name: str, *more: Bytes) -> int:
        size = ctypes.c_size_t(len(self._commands))
        given = _pointer(self._machine), self._config, _pointer(self._commands), size, ctypes.byref(self._memory)
        return getattr(self._library, name)(*given, *map(_pointer, more))

    @staticmethod
    def _judge(fault: int) -> None:
        if fault:
            raise RefusedError(fault)


def _pointer(block: Bytes) -> ctypes.c_void_p:
    return ctypes.c_void_p(block.ctypes.data)

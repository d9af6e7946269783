"""A command stream executed operation by operation, and what of the scratch memory each operation changes."""

import ctypes as c
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from deuteron.native import library
from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.memory import FAST_SCRATCH, SCRATCH, WEIGHTS, MachineEvent, Memories, Region

_MACHINE_BYTES, _SHRAM_BYTES, _FAST_BYTES = 1 << 15, 96 << 10, 384 << 10
_STOP, _DMA = 0x000, 0x010

Bytes = npt.NDArray[np.uint8]


def results(blob: Blob, seed: int = 0) -> Iterator[tuple[int, Bytes, Bytes]]:
    """For each operation that is no copy, in order: its offset, both scratch memories before it, and behind it.

    Inputs are random; all other memory begins as zeros.
    """
    lib = c.CDLL(str(library("ethosu")))
    lib.dtn_ethosu_config_of.restype = c.c_void_p
    commands, weights = _aligned(blob.command_data), _aligned(blob.weights)
    both, machine = _aligned(bytes(blob.scratch_bytes + _FAST_BYTES)), _aligned(bytes(_MACHINE_BYTES))
    fast, scratch = both[:_FAST_BYTES], both[_FAST_BYTES:]
    rng = np.random.default_rng(seed)
    for tensor in blob.inputs:
        scratch[tensor.offset : tensor.offset + tensor.nbytes] = rng.integers(0, 256, tensor.nbytes, np.uint8)
    memory, event = Memories(), MachineEvent()
    memory.regions[WEIGHTS] = Region(weights.ctypes.data, len(weights), True)
    memory.regions[SCRATCH] = Region(scratch.ctypes.data, len(scratch), False)
    memory.regions[FAST_SCRATCH] = Region(fast.ctypes.data, len(fast), False)
    config = c.c_void_p(lib.dtn_ethosu_config_of(c.c_void_p(commands.ctypes.data), c.c_size_t(len(commands))))
    stream = (c.c_void_p(machine.ctypes.data), config, c.c_void_p(commands.ctypes.data), c.c_size_t(len(commands)))
    assert lib.dtn_ethosu_check(*stream, c.byref(memory), c.byref(event)) == 0
    shram, workspace = _aligned(bytes(_SHRAM_BYTES)), _aligned(bytes(memory.workspace_bytes))
    memory.shram, memory.shram_bytes, memory.workspace = shram.ctypes.data, len(shram), workspace.ctypes.data
    assert lib.dtn_ethosu_start(*stream, c.byref(memory)) == 0
    while True:
        before = both.copy()
        assert lib.dtn_ethosu_step(stream[0], c.byref(event)) == 0
        if event.opcode == _STOP:
            return
        if event.opcode != _DMA:
            yield event.offset, before, both.copy()


def _aligned(data: bytes) -> Bytes:
    """The bytes, at an address that the machine takes."""
    room = np.zeros(len(data) + 16, np.uint8)
    start = -room.ctypes.data % 16
    room[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return room[start : start + len(data)]

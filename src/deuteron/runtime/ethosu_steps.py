"""Runs Ethos-U partitions on this machine operation by operation, and reads their memory in between."""

import ctypes
from collections.abc import Iterator, Sequence
from functools import cache

from deuteron.errors import FormatError
from deuteron.native import load as load_native
from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.memory import (
    FAST_SCRATCH,
    FAST_SCRATCH_BYTES,
    SCRATCH,
    SHRAM_BYTES,
    WEIGHTS,
    MachineEvent,
    MachineMemory,
    Memories,
    Region,
)
from deuteron.npu.ethosu.stream import Span, config_of, decode, memory_name

_STOP = 0


class Steps:
    """A partition that is ready to run.

    Args:
        blob: its commands, constants, inputs and outputs.
        where: name of the partition in errors.

    Raises:
        FormatError: its commands are invalid.
    """

    def __init__(self, blob: Blob, where: str) -> None:
        self._library = _load()
        self._blob = blob
        self._where = where
        operations = decode(blob.command_data, where).operations
        self._numbers = {operation.offset: number for number, operation in enumerate(operations)}
        config = self._library.dtn_ethosu_config(config_of(blob.command_data, where).name.encode())
        self._commands = MachineMemory(len(blob.command_data), blob.command_data)
        self._machine = MachineMemory(self._library.dtn_ethosu_machine_bytes())
        self._stream = self._machine.address, config, self._commands.address, self._commands.size
        self._regions = {
            WEIGHTS: MachineMemory(len(blob.weights), blob.weights),
            SCRATCH: MachineMemory(blob.scratch_bytes),
            FAST_SCRATCH: MachineMemory(FAST_SCRATCH_BYTES),
        }
        self._memories = Memories()
        for number, region in self._regions.items():
            self._memories.regions[number] = Region(region.address, region.size, number == WEIGHTS)
        self._event = MachineEvent()
        self._check(
            self._library.dtn_ethosu_check(*self._stream, ctypes.byref(self._memories), ctypes.byref(self._event))
        )
        self._own = MachineMemory(SHRAM_BYTES), MachineMemory(self._memories.workspace_bytes)
        self._memories.shram, self._memories.shram_bytes = self._own[0].address, self._own[0].size
        self._memories.workspace = self._own[1].address

    def run(self, inputs: Sequence[bytes]) -> Iterator[int]:
        """Run on the bytes of each input and yield the number of each finished operation or copy of the stream.

        Backward branches repeat numbers.
        """
        for tensor, data in zip(self._blob.inputs, inputs, strict=True):
            self._regions[SCRATCH].write(tensor.offset, data)
        self._check(self._library.dtn_ethosu_start(*self._stream, ctypes.byref(self._memories)))
        while True:
            self._check(self._library.dtn_ethosu_step(self._machine.address, ctypes.byref(self._event)))
            if self._event.opcode == _STOP:
                return
            yield self._numbers[self._event.offset]

    def read(self, place: Span) -> bytes:
        """Return the current bytes of a span."""
        region = next(memory for number, memory in self._regions.items() if memory_name(number) == place.memory)
        return region.read(place.offset, place.nbytes)

    def _check(self, fault: int) -> None:
        if fault:
            sentence = bytes(self._library.dtn_ethosu_message(fault)).decode()
            message = f"the command at byte 0x{self._event.offset:x} is invalid: {sentence}"
            raise FormatError(message, where=self._where, hint="lower the model again")


@cache
def _load() -> ctypes.CDLL:
    loaded = load_native("ethosu_watch")
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    stream = pointer, pointer, pointer, size, pointer
    for name, result, arguments in (
        ("dtn_ethosu_config", pointer, (ctypes.c_char_p,)),
        ("dtn_ethosu_machine_bytes", size, ()),
        ("dtn_ethosu_message", ctypes.c_char_p, (ctypes.c_int,)),
        ("dtn_ethosu_check", ctypes.c_int, (*stream, pointer)),
        ("dtn_ethosu_start", ctypes.c_int, stream),
        ("dtn_ethosu_step", ctypes.c_int, (pointer, pointer)),
    ):
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded

"""Partitions of an Ethos-U on this machine without ExecuTorch: through Arm's driver API (`ethosu_driver.h`)."""

import ctypes
from collections.abc import Sequence
from functools import cache

from deuteron.errors import FormatError, InternalError
from deuteron.native import library
from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.memory import FAST_SCRATCH, FAST_SCRATCH_BYTES, SCRATCH, Event, Memory

_SHRAM_BYTES = 48 << 10
_NO_REGION = 10
"""DTN_ETHOSU_REGION, whose detail is the region."""
_HINT = "lower the model again"


class _Device(ctypes.Structure):
    """What stands first in a `struct ethosu_device`."""

    _fields_ = (
        ("config", ctypes.c_void_p),
        ("shram", ctypes.c_void_p),
        ("shram_bytes", ctypes.c_size_t),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
        ("fault", ctypes.c_int),
        ("event", Event),
        ("workspace_needed", ctypes.c_size_t),
    )


class Partition:
    """A partition that is ready to run.

    Args:
        blob: its commands, constants, inputs and outputs.
        where: what errors call it.

    Raises:
        FormatError: its commands are refused.
    """

    def __init__(self, blob: Blob, where: str) -> None:
        self._library = _load()
        self._blob = blob
        self._where = where
        self._commands = Memory(len(blob.command_data), blob.command_data)
        self._place = Memory(self._library.dtn_ethosu_device_bytes())
        self._device = _Device.from_address(self._place.address)
        shram = Memory(_SHRAM_BYTES)
        self._device.shram, self._device.shram_bytes = shram.address, shram.size
        sizes = [len(blob.weights), blob.scratch_bytes, 0]
        if self._check(sizes) == _NO_REGION and self._device.event.detail == FAST_SCRATCH:
            sizes[FAST_SCRATCH] = FAST_SCRATCH_BYTES
            self._check(sizes)
        if self._device.fault:
            raise FormatError(f"the commands are refused: {self._fault()}", where=where, hint=_HINT)
        self._regions = [Memory(sizes[0], blob.weights), *map(Memory, sizes[1:])]
        workspace = Memory(self._device.workspace_needed)
        self._device.workspace, self._device.workspace_bytes = workspace.address, workspace.size
        self._own = shram, workspace  # the device has only their addresses

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        """The outputs for the bytes of each input."""
        scratch = self._regions[SCRATCH]
        for tensor, data in zip(self._blob.inputs, inputs, strict=True):
            if len(data) != tensor.nbytes:
                raise InternalError(f"an input has {len(data)} bytes, not {tensor.nbytes}", where=self._where)
            scratch.write(tensor.offset, data)
        driver = Memory(self._library.dtn_ethosu_driver_bytes())
        bases = (ctypes.c_uint64 * len(self._regions))(*(region.address for region in self._regions))
        sizes = (ctypes.c_size_t * len(self._regions))(*(region.size for region in self._regions))
        self._library.ethosu_init(driver.address, self._place.address, None, 0, 0, 0)
        failed = self._library.ethosu_invoke_v3(
            driver.address, self._commands.address, self._commands.size, bases, sizes, len(self._regions), None
        )
        self._library.ethosu_deinit(driver.address)
        if failed:
            raise FormatError(f"the run failed: {self._fault()}", where=self._where, hint=_HINT)
        return [scratch.read(tensor.offset, tensor.nbytes) for tensor in self._blob.outputs]

    def _check(self, sizes: Sequence[int]) -> int:
        """The fault of the commands with regions of these sizes."""
        counts = (ctypes.c_size_t * len(sizes))(*sizes)
        return int(
            self._library.dtn_ethosu_device_check(
                self._place.address, self._commands.address, self._commands.size, counts, len(sizes)
            )
        )

    def _fault(self) -> str:
        event = self._device.event
        sentence = bytes(self._library.dtn_ethosu_message(self._device.fault)).decode()
        return (
            f"{sentence} (command at byte 0x{event.offset:x}, opcode 0x{event.opcode:03x}, detail 0x{event.detail:x})"
        )


@cache
def _load() -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(library("ethosu_driver")))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
        ("dtn_ethosu_device_bytes", size, ()),
        ("dtn_ethosu_driver_bytes", size, ()),
        ("dtn_ethosu_device_check", ctypes.c_int, (pointer, pointer, size, pointer, size)),
        ("dtn_ethosu_message", ctypes.c_char_p, (ctypes.c_int,)),
        ("ethosu_init", ctypes.c_int, (pointer, pointer, pointer, size, ctypes.c_uint32, ctypes.c_uint32)),
        ("ethosu_deinit", None, (pointer,)),
        ("ethosu_invoke_v3", ctypes.c_int, (pointer, pointer, ctypes.c_int, pointer, pointer, ctypes.c_int, pointer)),
    ):
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded

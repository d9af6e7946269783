"""An Ethos-U simulated on this computer: `firmware/include/deuteron/ethosu_device.h` through ctypes."""

import ctypes
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache

from deuteron.errors import FormatError
from deuteron.native import load as load_native
from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.memory import FAST_SCRATCH, FAST_SCRATCH_BYTES, SHRAM_BYTES, MachineEvent, MachineMemory

HINT = "lower the model again"
_NO_REGION = 10
"""The fault DTN_ETHOSU_REGION; its detail is the region."""
_ALIGNMENT = 16


class _State(ctypes.Structure):
    """The first fields of a `struct ethosu_device`."""

    _fields_ = (
        ("config", ctypes.c_void_p),
        ("shram", ctypes.c_void_p),
        ("shram_bytes", ctypes.c_size_t),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
        ("fault", ctypes.c_int),
        ("event", MachineEvent),
        ("workspace_needed", ctypes.c_size_t),
    )


class Device:
    """A simulated NPU with the checked commands of one partition.

    Args:
        blob: the partition.
        where: its name in errors.

    Raises:
        FormatError: its commands are invalid.

    Attributes:
        commands: a copy of them in memory.
        region_bytes: sizes of weights, scratch and fast scratch; the last is 0 if no command uses it, otherwise more
            than any needs.
    """

    def __init__(self, blob: Blob, where: str) -> None:
        self._library = load()
        self._place = MachineMemory(self._library.dtn_ethosu_device_bytes())
        self._state = _State.from_address(self._place.address)
        shram = MachineMemory(SHRAM_BYTES)
        self._state.shram, self._state.shram_bytes = shram.address, shram.size
        self._own = [shram]  # the device has only the address
        self.commands = MachineMemory(len(blob.command_data), blob.command_data)
        self.region_bytes = [len(blob.weights), blob.scratch_bytes, 0]
        if self._check(self.region_bytes) == _NO_REGION and self._state.event.detail == FAST_SCRATCH:
            self.region_bytes[FAST_SCRATCH] = FAST_SCRATCH_BYTES
            self._check(self.region_bytes)
        if self._state.fault:
            raise FormatError(f"the commands are refused: {self.fault}", where=where, hint=HINT)

    @property
    def address(self) -> int:
        """Address for `ethosu_init` in place of the NPU's registers."""
        return self._place.address

    @property
    def fault(self) -> str:
        """The fault, and its place."""
        event = self._state.event
        sentence = bytes(self._library.dtn_ethosu_message(self._state.fault)).decode()
        return (
            f"{sentence} (command at byte 0x{event.offset:x}, opcode 0x{event.opcode:03x}, detail 0x{event.detail:x})"
        )

    def add_workspace(self) -> None:
        """Allocate the workspace of the simulator."""
        workspace = MachineMemory(self._state.workspace_needed)
        self._state.workspace, self._state.workspace_bytes = workspace.address, workspace.size
        self._own.append(workspace)

    def fast_scratch_bytes(self) -> int:
        """Return the bytes of fast scratch that the commands use, a multiple of 16."""
        *others, most = self.region_bytes
        sizes = range(0, most + 1, _ALIGNMENT)
        return sizes[bisect_left(sizes, True, key=lambda size: self._check((*others, size)) == 0)]

    def _check(self, region_bytes: Sequence[int]) -> int:
        """Return the fault of the commands with regions of these sizes."""
        counts = (ctypes.c_size_t * len(region_bytes))(*region_bytes)
        return int(
            self._library.dtn_ethosu_device_check(
                self.address, self.commands.address, self.commands.size, counts, len(region_bytes)
            )
        )


@cache
def load() -> ctypes.CDLL:
    """Load the library and declare its functions."""
    loaded = load_native("ethosu_driver")
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

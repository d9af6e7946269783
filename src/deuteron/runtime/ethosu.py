"""Runs Ethos-U partitions on this machine without ExecuTorch, through Arm's driver API (`ethosu_driver.h`)."""

import ctypes
from collections.abc import Sequence

from deuteron.errors import FormatError, InternalError
from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.device import HINT, Device, load
from deuteron.npu.ethosu.memory import SCRATCH, MachineMemory


class Partition:
    """A partition that is ready to run.

    Args:
        blob: its commands, constants, inputs and outputs.
        where: name of the partition in errors.

    Raises:
        FormatError: its commands are invalid.
    """

    def __init__(self, blob: Blob, where: str) -> None:
        self._library = load()
        self._blob = blob
        self._where = where
        self._device = Device(blob, where)
        self._device.add_workspace()
        weights, *others = self._device.region_bytes
        self._regions = [MachineMemory(weights, blob.weights), *map(MachineMemory, others)]

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        """Return the outputs for the bytes of each input."""
        scratch, commands = self._regions[SCRATCH], self._device.commands
        for tensor, data in zip(self._blob.inputs, inputs, strict=True):
            if len(data) != tensor.nbytes:
                raise InternalError(f"an input has {len(data)} bytes, not {tensor.nbytes}", where=self._where)
            scratch.write(tensor.offset, data)
        driver = MachineMemory(self._library.dtn_ethosu_driver_bytes())
        bases = (ctypes.c_uint64 * len(self._regions))(*(region.address for region in self._regions))
        sizes = (ctypes.c_size_t * len(self._regions))(*(region.size for region in self._regions))
        self._library.ethosu_init(driver.address, self._device.address, None, 0, 0, 0)
        failed = self._library.ethosu_invoke_v3(
            driver.address, commands.address, commands.size, bases, sizes, len(self._regions), None
        )
        self._library.ethosu_deinit(driver.address)
        if failed:
            raise FormatError(f"the run failed: {self._device.fault}", where=self._where, hint=HINT)
        return [scratch.read(tensor.offset, tensor.nbytes) for tensor in self._blob.outputs]

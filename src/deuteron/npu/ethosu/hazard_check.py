"""Checks command streams for hazards: accesses that are correct only if the NPU ran its commands one after the other.

`firmware/include/deuteron/ethosu_watch.h` defines the commands that may overlap. Its library finds hazards; this module
describes them.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from deuteron.errors import InternalError
from deuteron.native import load as load_native
from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.memory import (
    FAST_SCRATCH,
    FAST_SCRATCH_BYTES,
    REGIONS,
    SCRATCH,
    WEIGHTS,
    MachineEvent,
    MachineMemory,
    Memories,
    Region,
)
from deuteron.npu.ethosu.stream import SHRAM, Operation, Stream, memory_name
from deuteron.npu.timeline import Hazard

_MOST_HAZARDS, _READS = 8, 6


class Kind(IntEnum):
    """Kinds of hazards, with the numbers of the library."""

    FAULT = 1
    UNWRITTEN = 2
    TAKEN = 3
    COPY_RUNS = 4
    KERNEL_RUNS = 5
    BLOCKS = 6
    BUFFERS = 7
    BRANCH = 8


_PARTS = ("input", "second input", "weights", "scales", "table", "source", "output", "target", "buffers")
"""Accesses of a command to memory; reads come first."""


class _Hazard(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("part", ctypes.c_uint32),
        ("fault", ctypes.c_uint32),
        ("region", ctypes.c_uint32),
        ("other", ctypes.c_uint32),
        ("other_writes", ctypes.c_uint32),
        ("at", ctypes.c_uint64),
    )


class _Seen(ctypes.Structure):
    _fields_ = (
        ("event", MachineEvent),
        ("count", ctypes.c_uint32),
        ("hazards", _Hazard * _MOST_HAZARDS),
        ("values", ctypes.c_uint64 * _READS),
    )


@dataclass(frozen=True, slots=True)
class Values:
    """Values that a stream reads: for each operation and copy a number per part, and one for each output.

    Streams with equal numbers read the same bytes of the same values, at any addresses.
    """

    operations: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Watched:
    """Result for a stream: hazards in the order of its commands, and the values that it reads."""

    hazards: tuple[Hazard, ...]
    values: Values


def watch(blob: Blob, stream: Stream, expected: Values | None = None) -> Watched:
    """Check a partition; with `expected`, other values than these are hazards, too.

    Commands with branches are all checked in their order. The check does not show that the path that the NPU takes
    writes every output.
    """
    watcher = _Watcher(blob, stream)
    hazards = list(watcher.steps())
    values = Values(tuple(watcher.values), tuple(watcher.outputs))
    if expected is not None and not watcher.is_refused:
        hazards.extend(_changes(stream, values, expected))
    return Watched(tuple(sorted(hazards, key=lambda hazard: hazard.command)), values)


class _Watcher:
    """State of the check of one stream."""

    def __init__(self, blob: Blob, stream: Stream) -> None:
        self._library = _load()
        self._blob = blob
        self._names = {operation.offset: _called(operation) for operation in stream.operations}
        memory = Memories()
        memory.regions[WEIGHTS] = Region(None, len(blob.weights), True)
        memory.regions[SCRATCH] = Region(None, blob.scratch_bytes, False)
        memory.regions[FAST_SCRATCH] = Region(None, FAST_SCRATCH_BYTES if _is_fast(stream) else 0, False)
        config = self._library.dtn_ethosu_config(stream.config.name.encode())
        self._commands = MachineMemory(len(blob.command_data), blob.command_data)
        size = int(self._library.dtn_ethosu_watch_bytes(config, ctypes.byref(memory)))
        self._place = MachineMemory(size)
        fault = self._library.dtn_ethosu_watch_start(
            self._place.address, size, config, self._commands.address, len(blob.command_data), ctypes.byref(memory)
        )
        if fault:
            raise InternalError(f"a stream that was decoded is refused: {self._sentence(fault)}")
        self.values: list[tuple[int, ...]] = []
        self.outputs: list[int] = []
        self.is_refused = False
        for tensor in blob.inputs:
            self._library.dtn_ethosu_watch_input(self._place.address, SCRATCH, tensor.offset, tensor.nbytes)

    def steps(self) -> Iterator[Hazard]:
        """Yield the hazards of every command, and of the outputs at the end."""
        seen = _Seen()
        while True:
            self.is_refused = bool(self._library.dtn_ethosu_watch_step(self._place.address, ctypes.byref(seen)))
            for i in range(seen.count):
                yield Hazard(len(self.values), self._text(seen.event.offset, seen.hazards[i]))
            if self.is_refused or seen.event.opcode == 0:
                break
            self.values.append(tuple(seen.values))
        if not self.is_refused:
            yield from self._ends()

    def _ends(self) -> Iterator[Hazard]:
        for i, tensor in enumerate(self._blob.outputs):
            at, value = ctypes.c_uint64(), ctypes.c_uint64()
            is_whole = self._library.dtn_ethosu_watch_output(
                self._place.address, SCRATCH, tensor.offset, tensor.nbytes, ctypes.byref(at), ctypes.byref(value)
            )
            self.outputs.append(value.value)
            if not is_whole:
                message = f"output {i} has byte 0x{at.value:x} of {memory_name(SCRATCH)}, which nothing has written"
                yield Hazard(len(self.values), message)

    def _text(self, offset: int, hazard: _Hazard) -> str:
        name = self._name(offset)
        if hazard.kind == Kind.FAULT:
            return f"{name} is refused: {self._sentence(hazard.fault)} (0x{hazard.at:x})"
        if hazard.kind == Kind.BUFFERS:
            return f"the buffers of {name} would have to end at byte 0x{hazard.at:x} of {SHRAM}, which is not theirs"
        if hazard.kind == Kind.BRANCH:
            return f"the branch at 0x{hazard.at:05x} does not wait for {self._name(hazard.other)}"
        number = int(hazard.part)
        part, does = _PARTS[number], "reads" if number < _READS else "writes"
        memory = SHRAM if hazard.region == REGIONS else memory_name(hazard.region)
        other, touches = self._name(hazard.other), "writes" if hazard.other_writes else "reads"
        match hazard.kind:
            case Kind.UNWRITTEN:
                reason = "nothing has written"
            case Kind.TAKEN:
                reason = f"the buffers of {other} have overwritten"
            case Kind.COPY_RUNS:
                reason = f"{other} still {touches}: no DMA_WAIT is between"
            case Kind.KERNEL_RUNS:
                reason = f"{other} still {touches}: no KERNEL_WAIT is between"
            case _:
                reason = f"{other} still {touches} with its last blocks: BLOCKDEP is too large"
        return f"{name} {does} byte 0x{hazard.at:x} of {memory} as its {part}, which {reason}"

    def _name(self, offset: int) -> str:
        return self._names.get(offset, f"the command at 0x{offset:05x}")

    def _sentence(self, fault: int) -> str:
        return bytes(self._library.dtn_ethosu_message(fault)).decode()


def _changes(stream: Stream, values: Values, expected: Values) -> Iterator[Hazard]:
    """Yield hazards where a stream reads other values than expected."""
    if len(values.operations) != len(expected.operations):
        counts = f"{len(values.operations)} operations and copies, not {len(expected.operations)}"
        yield Hazard(len(values.operations), f"the commands are {counts}")
        return
    pairs = zip(stream.operations, values.operations, expected.operations, strict=True)
    for i, (operation, is_, was) in enumerate(pairs):
        for part, a, b in zip(_PARTS, is_, was, strict=False):
            if a != b:
                yield Hazard(i, f"{_called(operation)} reads other values as its {part} than when it was built")
    for i, (is_, was) in enumerate(zip(values.outputs, expected.outputs, strict=True)):
        if is_ != was:
            yield Hazard(len(values.operations), f"output {i} has other values than when it was built")


def _called(operation: Operation) -> str:
    return f"`{operation.kind}` at 0x{operation.offset:05x}"


def _is_fast(stream: Stream) -> bool:
    """Return True if the stream uses fast scratch."""
    fast = memory_name(FAST_SCRATCH)
    for o in stream.operations:
        places = (*o.inputs, o.output, *o.constants, o.source, o.target)
        if any(place is not None and place.memory == fast for place in places):
            return True
    return False


@cache
def _load() -> ctypes.CDLL:
    loaded = load_native("ethosu_watch")
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
    for name, result, arguments in (
        ("dtn_ethosu_config", pointer, (ctypes.c_char_p,)),
        ("dtn_ethosu_message", ctypes.c_char_p, (ctypes.c_int,)),
        ("dtn_ethosu_watch_bytes", size, (pointer, pointer)),
        ("dtn_ethosu_watch_start", ctypes.c_int, (pointer, size, pointer, pointer, size, pointer)),
        ("dtn_ethosu_watch_input", ctypes.c_bool, (pointer, ctypes.c_uint32, number, number)),
        ("dtn_ethosu_watch_step", ctypes.c_int, (pointer, pointer)),
        ("dtn_ethosu_watch_output", ctypes.c_bool, (pointer, ctypes.c_uint32, number, number, pointer, pointer)),
    ):
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded

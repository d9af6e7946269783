"""A board with the harness in this process, and a line to it that loses, doubles, changes and delays bytes."""

import ctypes
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.board.host import FIRMWARE, HERE, HostFirmware

from deuteron.board.bundle import Bundle
from deuteron.board.harness.client import Client
from deuteron.board.harness.line import Line
from deuteron.board.harness.program import BoardProgram, Expected
from deuteron.board.tables import Tables

NEVER = 0xFFFFFFFE
"""A step that does not exist."""
HASH = bytes(range(32))
SOURCES = (
    HERE / "harness_device.c",
    *(FIRMWARE / name for name in ("harness/frame.c", "harness/harness.c", "runner/run.c")),
)
_CAPACITY = 1 << 16


class Device:
    """The board, whose line takes at most `space` bytes at a time and loses the others."""

    def __init__(self, firmware: HostFirmware, bundle: Bundle, folder: Path, program: bytes = HASH) -> None:
        firmware.load(bundle, folder, extra=SOURCES)
        self._library = ctypes.CDLL(str(folder / "bundle.so"))
        self._program = ctypes.create_string_buffer(program, len(program))
        self._reply = ctypes.create_string_buffer(_CAPACITY)
        self.space = _CAPACITY
        self.sends = _CAPACITY
        self.start()

    def start(self) -> None:
        """Power on."""
        self._library.device_start(self._program)

    def restart_at(self, step: int) -> None:
        """Restart when this step starts."""
        self._library.device_restart_at(step)

    def damage_at(self, step: int, value: int) -> None:
        """Change a value whenever this step starts."""
        self._library.device_damage_at(step, value)

    def restart_after(self, count: int) -> None:
        """Restart before the byte of either direction that follows so many."""
        self._library.device_restart_after(count)

    def late(self, step: int, value: int, requests: int) -> None:
        """Let a step's result arrive before the request that follows so many, and not at the end of the step."""
        self._library.device_late(step, value, requests)

    def edges(self) -> list[int]:
        """Return the levels that the step pin was set to since the last call."""
        levels = ctypes.create_string_buffer(256)
        count = self._library.device_edges(levels)
        return list(levels.raw[:count])

    def forget_clean(self, forget: bool) -> None:
        """Leave out the clean of the data cache before an NPU reads, with the port `harness_cache.c`."""
        self._library.device_forget_clean(forget)

    def fault(self, count: int = 32) -> bytes:
        """The report of a fault with so many bytes about it, as the handler sends it."""
        sent = self._library.device_fault(count, self._reply, self.sends)
        return self._reply.raw[:sent]

    @property
    def runs(self) -> int:
        """The number of runs, or continuations of runs."""
        return self._library.device_runs()

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that the device sends after it has received `data`."""
        data = data[: self.space]
        sent = self._library.device_feed(data, len(data), self._reply, self.sends)
        return self._reply.raw[:sent]


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities: of a lost, doubled or changed byte, of bytes that are late, and of a frame that comes twice."""

    lost: float = 0
    doubled: float = 0
    flipped: float = 0
    late: float = 0
    repeated: float = 0


class FaultyLine(Line):
    """A line to a device in this process."""

    name = "test line"
    bytes_per_second = 1e7

    def __init__(self, device: Device, faults: Faults = Faults(), seed: int = 0) -> None:
        self.device = device
        self.sent = 0
        self._faults = faults
        self._random = random.Random(seed)
        self._up = bytearray()
        self._down = bytearray()
        self._late = bytearray()

    def send(self, data: bytes) -> None:
        self.sent += 1
        self._up += self._spoiled(data)
        if self._random.random() < self._faults.repeated:
            self._late += data

    def receive(self, seconds: float) -> bytes:
        if self._late and self._random.random() < 0.1:
            self._up += self._late
            self._late.clear()
        self._down += self._spoiled(self.device.feed(self._arrived(self._up)))
        return self._arrived(self._down)

    def close(self) -> None:
        """Do nothing."""

    def _arrived(self, queue: bytearray) -> bytes:
        """Take the bytes of a queue, or the first of them."""
        count = len(queue)
        if count and self._random.random() < self._faults.late:
            count = self._random.randrange(count)
        data = bytes(queue[:count])
        del queue[:count]
        return data

    def _spoiled(self, data: bytes) -> bytes:
        faults, chance = self._faults, self._random.random
        if not (faults.lost or faults.doubled or faults.flipped):
            return data
        spoiled = bytearray()
        for byte in data:
            if chance() < faults.lost:
                continue
            spoiled.append(byte ^ 1 << self._random.randrange(8) if chance() < faults.flipped else byte)
            if chance() < faults.doubled:
                spoiled.append(spoiled[-1])
        return bytes(spoiled)


def expected(bundle: Bundle, program: bytes = HASH) -> Expected:
    """Return the identity of a device that runs this bundle, as the host expects it."""
    return Expected(
        program.hex(),
        tuple(bundle.values[i] for i in bundle.inputs),
        tuple(bundle.values[i] for i in bundle.outputs),
        tuple(step.title for step in bundle.steps),
        Tables.of(bundle).crc,
    )


def program(bundle: Bundle, line: Line, **options: float) -> BoardProgram:
    """The board behind a line, not connected yet; what is lost is sent again after a millisecond."""
    limits = {"first_wait": 1e-3, "seconds": 2.0, "run_seconds": 2.0, **options}
    client = Client(line, **{"start_seconds": limits["seconds"], **limits})
    return BoardProgram(client, expected(bundle))


def as_bytes(outputs: Sequence[Sequence[object]]) -> list[list[bytes]]:
    """The bytes of outputs, which must be equal as they are."""
    return [[output.tobytes() for output in each] for each in outputs]  # type: ignore[attr-defined]

"""A family of NPUs that negate int8 values: the whole interface of a family, in a separate package."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from deuteron.arch.engine import Engine
from deuteron.errors import FormatError
from deuteron.npu.families import Family
from deuteron.npu.firmware import Firmware, FirmwareBlock, FirmwarePartition, FirmwarePort
from deuteron.npu.program import Command, KernelCall, NpuProgram
from deuteron.npu.timeline import Activity, Cost, Event, Timeline, Track

MAGIC = b"TOY1"
ID = "ToyBackend"
HERE = Path(__file__).parent


class ToyProgram(NpuProgram):
    """The negation of `count` values."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.inputs = self.outputs = (count,)
        self.commands = (Command(KernelCall("negate", op=0, results=(1,))),)

    def lines(self, name: str, origins: Sequence[str]) -> Iterator[str]:
        yield f"{name}: negates {self.count} B  ; {', '.join(origins) or 'not told of what'}"

    def to_json(self, name: str, origins: Sequence[str]) -> dict[str, object]:
        return {"name": name, "count": self.count, "origins": list(origins)}

    def timeline(self, engine: Engine, *, keep_resident: bool = True) -> Timeline:
        cost = Cost(macs=0, compute=self.count, sram_bytes=2 * self.count, sram=0)
        return Timeline(engine, (Event(Track.NPU, Activity.KERNEL, 0, 0, self.count, "negate", cost),), self.count)


def payload_of(count: int) -> bytes:
    """The bytes of a partition in a program."""
    return MAGIC + count.to_bytes(4, "little") + bytes(8)


def program_of(payload: bytes, where: str) -> ToyProgram:
    """The partition that `payload_of` made."""
    if len(payload) != 16 or not payload.startswith(MAGIC):
        raise FormatError("this is no negation", where=where)
    return ToyProgram(int.from_bytes(payload[4:8], "little"))


def firmware_of(payload: bytes, name: str) -> FirmwarePartition:
    """The partition in firmware: one block, no working memory."""
    count = program_of(payload, name).count
    ports = [
        FirmwarePort(f"{side} 0 of {name}", argument, count, False) for argument, side in enumerate(("input", "output"))
    ]
    blocks = (FirmwareBlock("negation", payload),)
    return FirmwarePartition(name, "1 negation", 2, (ports[0],), (ports[1],), blocks, working_bytes=0)


FAMILY = Family(
    delegate_id=ID,
    program=program_of,
    firmware=Firmware("npu_toy", partition=firmware_of, sources=(HERE / "npu_toy.c",)),
    host=lambda: HERE / "libtoy_backend.so",
)

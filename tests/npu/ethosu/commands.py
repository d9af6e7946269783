"""Command streams as tests change them: read into commands, written back as a driver gets them."""

import struct
from dataclasses import dataclass

from deuteron.npu.ethosu.isa import Long, Op, Short

HEADER_WORDS = 8
OPERATIONS = frozenset((Op.CONV, Op.DEPTHWISE, Op.POOL, Op.ELEMENTWISE, Op.RESIZE, Op.DMA_START))


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its opcode, its parameter, and the payload of those that have one."""

    opcode: int
    param: int
    payload: int | None = None

    @property
    def code(self) -> Op | Short | Long:
        """The number of the command."""
        return Long(self.opcode) if self.payload is not None else (Op if self.opcode < 0x100 else Short)(self.opcode)

    @property
    def is_operation(self) -> bool:
        """Return whether it starts an operation or a copy."""
        return self.code in OPERATIONS and isinstance(self.code, Op)


Commands = tuple[Command, ...]


def read(data: bytes) -> Commands:
    """The commands of what a driver gets."""
    words = struct.unpack(f"<{len(data) // 4}I", data)
    start = next(i for i, word in enumerate(words) if word & 0xFF == 2 and word >> 16 and i > 3) + 1
    commands: list[Command] = []
    at = start
    while at < len(words):
        word, has_payload = words[at], words[at] >> 14 & 1
        commands.append(Command(word & 0x3FF, word >> 16, words[at + 1] if has_payload else None))
        at += 1 + has_payload
    return tuple(commands)


def written(commands: Commands, config: int) -> bytes:
    """Return the words for a driver, for a configuration by its word."""
    words: list[int] = []
    for command in commands:
        has_payload = command.payload is not None
        words.append(command.opcode | has_payload << 14 | command.param << 16)
        words += [command.payload] if command.payload is not None else []
    header = (0x31504F43, 1, config, 0, 5, 5, 5, 2 | (len(words) & 0xFFFF) << 16 | len(words) >> 16 << 8)
    return struct.pack(f"<{HEADER_WORDS + len(words)}I", *header, *words)

"""Reads and writes ETDump files, ExecuTorch's form of events, without ExecuTorch.

Slot numbers follow its `etdump_schema_flatcc.fbs`; a file is a size-prefixed flatbuffer.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers

from deuteron.errors import FormatError
from deuteron.flatbuffer import Buffer, Table

IDENTIFIER = b"ED00"
EXECUTE = "Method::execute"
OPERATOR_CALL = "OPERATOR_CALL"
DELEGATE_CALL = "DELEGATE_CALL"

_PREFIX = struct.calcsize("<I")
_NONE = -1
_AGAIN = "run the program again, and copy the whole file"


@dataclass(frozen=True, slots=True)
class Span:
    """One event of ExecuTorch.

    Attributes:
        name: the runtime's name; empty for events of delegates.
        instruction: instruction of the program.
        start: in the runtime's ticks, as is `stop`.
        id: a delegate's number for it, -1 for none.
        text: a delegate's name for it, empty for none.
        metadata: additional bytes of the delegate.
        chain: the list of instructions, -1 for events of the whole program.
    """

    name: str
    instruction: int
    start: int
    stop: int
    id: int = _NONE
    text: str = ""
    metadata: str = ""
    chain: int = 0


@dataclass(frozen=True, slots=True)
class EventBlock:
    """Events of one run, or of loading."""

    name: str
    spans: tuple[Span, ...]


def is_etdump(data: bytes) -> bool:
    """Return true for bytes with the identifier of an ETDump."""
    return data[_PREFIX + 4 : _PREFIX + 8] == IDENTIFIER


def read(data: bytes, where: str) -> tuple[EventBlock, ...]:
    """Read the events of a file, block by block; FormatError, placed at `where`, if it is damaged."""
    if not is_etdump(data):
        raise FormatError(
            "this is not an ETDump", where=where, hint="give a file that ExecuTorch's runtime has written"
        )
    size = struct.unpack_from("<I", data)[0]
    if size > len(data) - _PREFIX:
        raise FormatError(
            f"the ETDump is truncated: it says {_PREFIX + size:,} bytes, there are {len(data):,}",
            where=where,
            hint=_AGAIN,
        )
    root = Buffer(data[_PREFIX:], where, _AGAIN).root()
    return tuple(EventBlock(run.string(0), tuple(_spans(run))) for run in root.tables(1))


def _spans(run: Table) -> list[Span]:
    events = (event.table(0) for event in run.tables(3))
    return [_span(event) for event in events if event is not None]


def _span(event: Table) -> Span:
    return Span(
        name=event.string(0),
        chain=event.scalar(1, "i"),
        instruction=event.scalar(2, "i", _NONE),
        id=event.scalar(3, "i", _NONE),
        text=event.string(4),
        metadata=(event.blob(5) or b"").decode(errors="replace"),
        start=event.scalar(6, "Q"),
        stop=event.scalar(7, "Q"),
    )


def write(blocks: Sequence[EventBlock]) -> bytes:
    """Return the bytes of a file with these events."""
    builder: Any = flatbuffers.Builder()  # its package has no types
    written = [_write_block(builder, block) for block in blocks]
    runs = _vector(builder, written)
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(1, runs, 0)
    builder.FinishSizePrefixed(builder.EndObject(), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _vector(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _write_block(builder: Any, block: EventBlock) -> int:
    spans = [_write_span(builder, span) for span in block.spans]
    events: list[int] = []
    for span in spans:
        builder.StartObject(3)
        builder.PrependUOffsetTRelativeSlot(0, span, 0)
        events.append(int(builder.EndObject()))
    name, vector = builder.CreateString(block.name), _vector(builder, events)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependUOffsetTRelativeSlot(3, vector, 0)
    return int(builder.EndObject())


def _write_span(builder: Any, span: Span) -> int:
    name = builder.CreateSharedString(span.name) if span.name else 0
    text = builder.CreateSharedString(span.text) if span.text else 0
    metadata = builder.CreateByteVector(span.metadata.encode()) if span.metadata else 0
    builder.StartObject(8)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependInt32Slot(1, span.chain, 0)
    builder.PrependInt32Slot(2, span.instruction, _NONE)
    builder.PrependInt32Slot(3, span.id, _NONE)
    builder.PrependUOffsetTRelativeSlot(4, text, 0)
    builder.PrependUOffsetTRelativeSlot(5, metadata, 0)
    builder.PrependUint64Slot(6, span.start, 0)
    builder.PrependUint64Slot(7, span.stop, 0)
    return int(builder.EndObject())

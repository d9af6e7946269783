"""Reads flatbuffers from untrusted bytes: every offset is checked before use."""

import struct
from collections.abc import Iterator

from deuteron.errors import FormatError

_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")
_F64 = struct.Struct("<d")


_READS_PER_BYTE = 8
"""Limit of bytes that are read, as a multiple of the file's size. Valid files need up to 2, as vtables and strings can
be shared. Without a limit, a vector of references to one large table makes the work quadratic in the file's size."""


class Buffer:
    """The bytes of one flatbuffer, and its name and hint in errors."""

    __slots__ = ("_left", "again", "data", "where")

    def __init__(self, data: bytes, where: str, again: str = "build it again") -> None:
        self.data = data
        self.where = where
        self.again = again
        self._left = _READS_PER_BYTE * len(data)

    def need(self, at: int, size: int) -> int:
        """Check that `size` bytes from `at` on are inside the buffer, count them as read, and return `at`."""
        if at < 0 or at + size > len(self.data):
            raise self.error(f"an offset leads to bytes {at} to {at + size} of {len(self.data)}")
        self._left -= size
        if self._left < 0:
            raise self.error(f"its tables overlap: they would take more than {_READS_PER_BYTE} times its bytes")
        return at

    def error(self, message: str) -> FormatError:
        """Return the error for a damaged file."""
        return FormatError(message, where=self.where, hint=f"the file is damaged or truncated: {self.again}")

    def u32(self, at: int) -> int:
        """The unsigned word at `at`."""
        return int(_U32.unpack_from(self.data, self.need(at, 4))[0])

    def follow(self, at: int) -> int:
        """Return the target of the offset stored at `at`."""
        return at + self.u32(at)

    def vector(self, at: int, item_bytes: int) -> tuple[int, int]:
        """Return start and length of the vector at `at`, with `item_bytes` per item."""
        count = self.u32(at)
        return self.need(at + 4, count * item_bytes), count

    def root(self) -> "Table":
        """The root table."""
        return Table(self, self.follow(0))


class Table:
    """One table: fields by slot number, in the order of the schema; a union takes two slots."""

    __slots__ = ("_at", "_buffer", "_slots", "_vtable")

    def __init__(self, buffer: Buffer, at: int) -> None:
        self._buffer = buffer
        self._at = buffer.need(at, 4)
        self._vtable = buffer.need(at - int(_I32.unpack_from(buffer.data, at)[0]), 4)
        size = int(_U16.unpack_from(buffer.data, self._vtable)[0])
        buffer.need(self._vtable, size)
        self._slots = max(0, size - 4) // 2

    def place(self, slot: int) -> int | None:
        """Return the position of a field, None if the table lacks it."""
        if slot >= self._slots:
            return None
        offset = int(_U16.unpack_from(self._buffer.data, self._vtable + 4 + 2 * slot)[0])
        return self._at + offset if offset else None

    def scalar(self, slot: int, code: str, default: int = 0) -> int:
        """An integer field; `code` is its `struct` format character."""
        at = self.place(slot)
        if at is None:
            return default
        self._buffer.need(at, struct.calcsize("<" + code))
        return int(struct.unpack_from("<" + code, self._buffer.data, at)[0])

    def scalars(self, slot: int, code: str) -> tuple[int, ...]:
        """A vector of integers, empty if missing."""
        at = self.place(slot)
        if at is None:
            return ()
        start, count = self._buffer.vector(self._buffer.follow(at), struct.calcsize("<" + code))
        return struct.unpack_from(f"<{count}{code}", self._buffer.data, start)

    def double(self, slot: int) -> float:
        """A field of type double, 0 if missing."""
        at = self.place(slot)
        return 0.0 if at is None else float(_F64.unpack_from(self._buffer.data, self._buffer.need(at, 8))[0])

    def doubles(self, slot: int) -> tuple[float, ...]:
        """A vector of doubles, empty if missing."""
        at = self.place(slot)
        if at is None:
            return ()
        start, count = self._buffer.vector(self._buffer.follow(at), 8)
        return struct.unpack_from(f"<{count}d", self._buffer.data, start)

    def blob(self, slot: int) -> bytes | None:
        """A vector of bytes."""
        at = self.place(slot)
        if at is None:
            return None
        start, count = self._buffer.vector(self._buffer.follow(at), 1)
        return self._buffer.data[start : start + count]

    def string(self, slot: int) -> str:
        """A string, empty if missing."""
        at = self.place(slot)
        return "" if at is None else self._text(at)

    def strings(self, slot: int) -> tuple[str, ...]:
        """A vector of strings, empty if missing."""
        at = self.place(slot)
        if at is None:
            return ()
        start, count = self._buffer.vector(self._buffer.follow(at), 4)
        return tuple(self._text(start + 4 * i) for i in range(count))

    def _text(self, at: int) -> str:
        """Return the string at the offset stored at `at`."""
        start, count = self._buffer.vector(self._buffer.follow(at), 1)
        end = self._buffer.need(start + count, 1)
        raw = self._buffer.data[start:end]
        if self._buffer.data[end]:
            raise self._buffer.error(f"a string does not end with a zero byte: {raw[:40]!r}")
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self._buffer.error(f"a string is not UTF-8: {raw[:40]!r}") from error

    def table(self, slot: int) -> "Table | None":
        """A table, or the member of a union."""
        at = self.place(slot)
        return None if at is None else Table(self._buffer, self._buffer.follow(at))

    def tables(self, slot: int) -> "tuple[Table, ...]":
        """A vector of tables, empty if missing."""
        return tuple(self._tables(slot))

    def _tables(self, slot: int) -> "Iterator[Table]":
        at = self.place(slot)
        if at is None:
            return
        start, count = self._buffer.vector(self._buffer.follow(at), 4)
        for i in range(count):
            yield Table(self._buffer, self._buffer.follow(start + 4 * i))

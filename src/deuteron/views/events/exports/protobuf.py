"""Messages of Protocol Buffers, written without their library."""

_VARINT, _LENGTH = 0, 2
"""How a field's value is stored: as a number of any size, or as a length and so many bytes."""

Value = int | str | bytes


def message(*fields: tuple[int, Value]) -> bytes:
    """A message with these fields, each its number and what it holds: a number from 0 on, a text, or a message."""
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: Value) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _LENGTH) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that others follow."""
    taken = bytearray()
    while value > 0x7F:
        taken.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*taken, value))

"""Records of directories: frozen dataclasses as JSON files that list the other files."""

import dataclasses
import hashlib
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from types import UnionType
from typing import Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

from deuteron.errors import FormatError, InputError

DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    LookupError,
    ArithmeticError,
    TypeError,
    ValueError,
    AttributeError,
    RuntimeError,
)
"""Exceptions of reading an untrusted archive; RuntimeError for entries that are encrypted, nested too deep or in an
unknown compression."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of the directory: its SHA-256 in hexadecimal and its size."""

    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the user's model, and the dotted path of its submodule (empty for the model itself).

    If the model itself is a module of PyTorch, such as an `nn.Sequential`, no line is known: `line` is 0, `file` empty
    and `code` the class of the submodule.
    """

    file: str
    line: int
    code: str
    module: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self._layer

    @property
    def short(self) -> str:
        """The file without its folders, and the line; the submodule if no line is known."""
        return f"{PurePath(self.file).name}:{self.line}" if self.line else self._layer

    @property
    def short_with_code(self) -> str:
        """The same with the code of the line."""
        return f"{self.short}: {self.code}" if self.line else self.short

    @property
    def _layer(self) -> str:
        return f"[{self.module}] {self.code}" if self.module else self.code


def entry_of(data: bytes) -> FileEntry:
    """Return the entry for a file with these bytes."""
    return FileEntry(hashlib.sha256(data).hexdigest(), len(data))


class Partial:
    """Base of dataclasses with optional entries: None is not written, and a missing entry has its default."""

    __slots__ = ()


class Record(Protocol):
    """A record of a directory, which lists its other files.

    Records are dataclasses of strings, numbers, truth values, enums, dataclasses, and tuples and mappings of such.
    """

    @property
    def files(self) -> Mapping[str, FileEntry]:
        """The other files of the directory."""
        ...


_T = TypeVar("_T")
_R = TypeVar("_R", bound=Record)


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A kind of record.

    Attributes:
        name: name of the file.
        schema: version of its schema.
        writer: the command that writes such directories.
        again: hint for a damaged directory.
    """

    name: str
    schema: int
    writer: str
    again: str

    def to_json(self, record: object) -> str:
        """Return the text of the file."""
        return json.dumps({"schema": self.schema} | plain(record), indent=2) + "\n"

    def from_json(self, text: str, kind: type[_T]) -> _T:
        """Parse the result of `to_json`.

        Raises:
            FormatError: naming the entry that is missing, unknown or of the wrong type.
        """
        data = _load(text, self.name)
        table = cast("dict[str, object]", data) if isinstance(data, dict) else {}
        schema = table.pop("schema", None)
        if schema != self.schema:
            raise FormatError(
                f"`{self.name}` has schema {schema!r}, this version of Deuteron reads schema {self.schema}",
                hint=self.again,
            )
        return cast("_T", _Reader(self.name, self.again).fields(table, kind, ""))

    def read(self, directory: Path, kind: type[_R], optional: Collection[str] = ()) -> _R:
        """Read the record of a directory, and check that its files are unaltered, and present unless optional.

        Raises:
            InputError: when the directory has no such record.
            FormatError: when the record or a file is damaged.
        """
        path = directory / self.name
        hint = f"give a directory that `{self.writer}` has written"
        if not directory.exists():
            raise InputError(f"`{directory}` does not exist", hint=hint)
        if not directory.is_dir():
            raise InputError(f"`{directory}` is not a directory", hint=hint)
        if not path.is_file():
            raise InputError(f"`{directory}` has no `{self.name}`", hint=hint)
        try:
            record = self.from_json(path.read_text(encoding="utf-8"), kind)
        except UnicodeDecodeError as e:
            raise FormatError(f"`{self.name}` is not UTF-8 text", where=str(path)) from e
        except FormatError as e:
            raise FormatError(e.message, where=str(path), hint=e.hint) from e
        for name, entry in record.files.items():
            if name not in optional or (directory / name).exists():
                self._check_file(directory / name, entry)
        return record

    def _check_file(self, path: Path, entry: FileEntry) -> None:
        if not path.is_file():
            raise FormatError(f"`{path.name}` is missing though `{self.name}` lists it", where=str(path.parent))
        actual = entry_of(path.read_bytes())
        if actual != entry:
            raise FormatError(
                f"`{path.name}` is not the file that `{self.name}` describes: {actual.bytes} bytes with SHA-256 "
                f"{actual.sha256[:12]}, expected {entry.bytes} bytes with {entry.sha256[:12]}",
                where=str(path.parent),
                hint=self.again,
            )


def plain(record: object) -> dict[str, object]:
    """Return the JSON values of a record or of a part of one; `parse` reads their text."""
    fields = dataclasses.fields(record)  # pyright: ignore[reportArgumentType] - a dataclass of any type
    values = {field.name: getattr(record, field.name) for field in fields}
    is_partial = isinstance(record, Partial)
    return {name: _plain(value) for name, value in values.items() if not (is_partial and value is None)}


def parse(text: str | bytes, kind: type[_T], name: str, again: str) -> _T:
    """Parse the JSON text of a record or of a part of one; the inverse of `plain`.

    Args:
        text: JSON.
        kind: the dataclass.
        name: name of the text in errors.
        again: hint if it is damaged.

    Raises:
        FormatError: naming the entry that is missing, unknown or of the wrong type.
    """
    return cast("_T", _Reader(name, again).value(_load(text, name), kind, ""))


def _load(text: str | bytes, name: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise FormatError(f"`{name}` is not JSON: {e}") from e


@dataclass(frozen=True, slots=True)
class _Reader:
    """Converts JSON values to dataclasses; `name` and `again` are for errors."""

    name: str
    again: str

    def value(self, data: object, kind: object, at: str) -> object:
        """Convert `data` to the type `kind`."""
        if kind is str and isinstance(data, str):  # paths with bytes that are no text
            return data.encode(errors="replace").decode()
        is_number_of_64_bits = type(data) is not int or -(1 << 63) <= data < 1 << 64
        if is_number_of_64_bits and any(kind is plain and type(data) is plain for plain in (int, float, bool)):
            return data
        if kind is float and type(data) is int:
            return data
        origin, args = get_origin(kind), get_args(kind)
        if origin is UnionType:  # only with None
            return None if data is None else self.value(data, args[0], at)
        if isinstance(data, list) and origin is tuple:
            return tuple(self.value(item, args[0], f"{at}[{i}]") for i, item in enumerate(cast("list[object]", data)))
        if isinstance(kind, type) and issubclass(kind, Enum) and data in [member.value for member in kind]:
            return kind(data)
        if isinstance(data, dict):
            table = cast("dict[str, object]", data)
            if origin is Mapping:
                return {key: self.value(item, args[1], f"{at}.{key}") for key, item in table.items()}
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                return self.fields(table, kind, at)
        raise FormatError(f"`{self.name}` cannot have {data!r:.60} at `{at.lstrip('.')}`", hint=self.again)

    def fields(self, table: Mapping[str, object], kind: type[object], at: str) -> object:
        """`table` as an object of the dataclass `kind`, with exactly its fields; a Partial may lack some."""
        hints = _hints(kind)
        wrong = table.keys() - hints.keys() if issubclass(kind, Partial) else table.keys() ^ hints.keys()
        if wrong:
            odd = min(wrong)
            what = "has an unknown entry" if odd in table else "lacks the entry"
            raise FormatError(f"`{self.name}` {what} `{f'{at}.{odd}'.lstrip('.')}`", hint=self.again)
        return kind(
            **{name: self.value(table[name], hint, f"{at}.{name}") for name, hint in hints.items() if name in table}
        )


@cache
def _hints(kind: type[object]) -> Mapping[str, object]:
    """Return the types of a dataclass's fields by name; cached, because records have thousands of parts."""
    return get_type_hints(kind)


def _plain(value: object) -> object:
    match value:
        case Enum():
            return value.value
        case tuple():
            return [_plain(item) for item in cast("tuple[object, ...]", value)]
        case Mapping():
            return {key: _plain(item) for key, item in cast("Mapping[str, object]", value).items()}
        case _:
            return plain(value) if dataclasses.is_dataclass(value) else value

"""`build.json`: what a build directory holds and where every part of it came from; free of PyTorch."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, cast, get_args, get_origin, get_type_hints

from deuteron.errors import FormatError, InputError
from deuteron.frontend.options import BuildOptions

SCHEMA = 1
NAME = "build.json"
PROGRAM = "model.pte"
REFERENCE = "reference.pt2"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of the directory: its SHA-256 in hexadecimal and its size."""

    sha256: str
    bytes: int


def entry_of(data: bytes) -> FileEntry:
    """The entry for a file of these bytes."""
    return FileEntry(hashlib.sha256(data).hexdigest(), len(data))


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output: `dtype` in numpy's spelling; `name` where it has one."""

    shape: tuple[int, ...]
    dtype: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the user's model, and the path of the submodule that it runs in."""

    file: str
    line: int
    code: str
    module: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class PartitionOp:
    """One operator of a partition's TFLite file, with the edge nodes and source lines that it stands for."""

    index: int
    op: str
    outputs: tuple[str, ...]
    nodes: tuple[str, ...]
    source: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class PartitionKernel:
    """One kernel call and the TFLite operators (indices) that it computes."""

    index: int
    kernel: str
    ops: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """One delegate call of the program: sizes in bytes, and what is in it."""

    payload_sha256: str
    microcode_bytes: int
    weights_bytes: int
    kernels_bytes: int
    scratch_bytes: int
    prefetch_bytes: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    ops: tuple[PartitionOp, ...]
    kernels: tuple[PartitionKernel, ...]


@dataclass(frozen=True, slots=True)
class CpuOp:
    """One operator that stays on the CPU."""

    op: str
    node: str
    source: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model by the name it was built from."""

    name: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of `build.json`."""

    deuteron: str
    executorch: str
    torch: str
    target: str
    converter: str
    options: BuildOptions
    model: ModelInfo
    files: Mapping[str, FileEntry]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    partitions: tuple[Partition, ...]
    cpu_ops: tuple[CpuOp, ...]
    warnings: tuple[str, ...] = ()
    schema: int = field(default=SCHEMA)

    def to_json(self) -> str:
        """The text of `build.json`."""
        data = dataclasses.asdict(self) | {"options": self.options.to_json()}
        first = {"schema": data.pop("schema")}
        return json.dumps(first | data, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The manifest that `to_json` wrote.

        Raises:
            FormatError: naming the entry that is missing, unknown or of the wrong type.
        """
        try:
            data: object = json.loads(text)
        except ValueError as e:
            raise FormatError(f"`{NAME}` is not JSON: {e}") from e
        table = cast("dict[str, object]", data) if isinstance(data, dict) else {}
        if table.get("schema") != SCHEMA:
            raise FormatError(
                f"`{NAME}` has schema {table.get('schema')!r}, this version of Deuteron reads schema {SCHEMA}",
                hint="build the model again",
            )
        return cast("Self", _decode(table, cls, ""))


def read(directory: Path) -> Manifest:
    """The manifest of a build directory, with every file that it lists present and unaltered.

    Raises:
        InputError: when this is no build directory.
        FormatError: when the manifest or a file is damaged.
    """
    if not directory.is_dir():
        raise InputError(f"`{directory}` is not a directory" if directory.exists() else f"`{directory}` does not exist")
    path = directory / NAME
    if not path.is_file():
        raise InputError(
            f"`{directory}` holds no `{NAME}`",
            hint="give a directory that `deuteron build MODEL -o DIR` has written",
        )
    try:
        manifest = Manifest.from_json(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as e:
        raise FormatError(f"`{NAME}` is not UTF-8 text", where=str(path)) from e
    for name, entry in manifest.files.items():
        _check_file(directory / name, entry)
    return manifest


def _check_file(path: Path, entry: FileEntry) -> None:
    if not path.is_file():
        raise FormatError(f"`{path.name}` is missing though `{NAME}` lists it", where=str(path.parent))
    found = entry_of(path.read_bytes())
    if found != entry:
        raise FormatError(
            f"`{path.name}` is not the file that `{NAME}` describes: {found.bytes} bytes with SHA-256 "
            f"{found.sha256[:12]}, expected {entry.bytes} bytes with {entry.sha256[:12]}",
            where=str(path.parent),
            hint="build the model again",
        )


def _decode(data: object, kind: object, at: str) -> object:
    """`data` as a value of the type `kind`: a string, an integer, a dataclass, or a tuple or mapping of such."""
    if (kind is str and isinstance(data, str)) or (kind is int and type(data) is int):
        return data
    origin, args = get_origin(kind), get_args(kind)
    if isinstance(data, list) and origin is tuple:
        return tuple(_decode(item, args[0], f"{at}[{i}]") for i, item in enumerate(cast("list[object]", data)))
    if isinstance(data, dict):
        table = cast("dict[str, object]", data)
        if kind is BuildOptions:
            return BuildOptions.from_json(table)
        if origin is Mapping:
            return {key: _decode(item, args[1], f"{at}.{key}") for key, item in table.items()}
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            return _decode_fields(table, kind, at)
    raise FormatError(f"`{NAME}` cannot have {data!r:.60} at `{at.lstrip('.')}`", hint="build the model again")


def _decode_fields(table: Mapping[str, object], kind: type[object], at: str) -> object:
    """`table` as an object of the dataclass `kind`, with exactly its fields."""
    hints = get_type_hints(kind)
    if table.keys() != hints.keys():
        odd = min(table.keys() ^ hints.keys())
        what = "has an unknown entry" if odd in table else "lacks the entry"
        raise FormatError(f"`{NAME}` {what} `{f'{at}.{odd}'.lstrip('.')}`", hint="build the model again")
    return kind(**{name: _decode(table[name], hint, f"{at}.{name}") for name, hint in hints.items()})

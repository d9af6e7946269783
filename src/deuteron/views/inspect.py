"""Shows the content of a build directory or a file; the content determines the kind of a file."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Manifest, Partition
from deuteron.errors import DeuteronError, FormatError, InputError, UnsupportedError, absent, unreadable
from deuteron.npu import families
from deuteron.npu.ethosu.program import program_in as ethosu_program
from deuteron.npu.neutron import payload as payloads
from deuteron.npu.neutron.ir.printer import format_name, format_op, format_type
from deuteron.npu.neutron.ir.types import TensorType
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.format import MAGIC
from deuteron.npu.neutron.program import program_in
from deuteron.npu.neutron.tflite import neutron_graph, reader
from deuteron.npu.program import NpuProgram
from deuteron.operators.limits import round_up
from deuteron.runtime import pte, vela
from deuteron.runtime.partitions import partitions_of
from deuteron.tflite.decode import decode as decode_tflite
from deuteron.tflite.flat_model import FlatModel

SCHEMA = 1
MAGIC_BYTES = MAGIC.to_bytes(4, "little")


class FileKind(Enum):
    """Kind of the inspected object; the value is its name in reports."""

    BUILD = "build directory"
    PROGRAM = "ExecuTorch program"
    PAYLOAD = "delegate payload"
    MICROCODE = "microcode"
    CONVERTED = "converted TFLite file"
    VELA = "TFLite file that Vela compiled"
    TFLITE = "TFLite file"


@dataclass(frozen=True, slots=True)
class Listing:
    """One partition: its program, and the origin of each kernel call, if a manifest has it."""

    name: str
    program: NpuProgram
    origins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """Result of `inspect`.

    Attributes:
        path: the inspected path.
        kind: its kind.
        nbytes: size of the file, or of a build's program.
        target: the target, if a manifest names it.
        partitions: its NPU partitions.
        others: delegates of other backends, as (id, bytes).
        cpu_operators: operators that the program runs on the CPU.
        graph: lines of the listing of a plain TFLite file.
    """

    path: str
    kind: FileKind
    nbytes: int
    target: str | None = None
    partitions: tuple[Listing, ...] = ()
    others: tuple[tuple[str, int], ...] = ()
    cpu_operators: tuple[str, ...] = ()
    graph: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield f"{self.path}: {self.kind.value}{f' for {self.target}' if self.target else ''}, {self.nbytes:,} B"
        for partition in self.partitions:
            yield ""
            yield from partition.program.lines(partition.name, partition.origins)
        for name, nbytes in self.others:
            yield f"\ndelegate of `{name}`: {nbytes:,} B, not shown"
        if self.kind in (FileKind.BUILD, FileKind.PROGRAM, FileKind.VELA) or self.cpu_operators:
            yield f"\ncpu operators: {', '.join(self.cpu_operators) or 'none'}"
        yield from self.graph

    def to_json(self) -> dict[str, object]:
        """Return the report as plain values."""
        return {
            "schema": SCHEMA,
            "path": self.path,
            "kind": self.kind.value,
            "bytes": self.nbytes,
            "target": self.target,
            "partitions": [p.program.to_json(p.name, p.origins) for p in self.partitions],
            "other_delegates": [{"id": name, "bytes": nbytes} for name, nbytes in self.others],
            "cpu_operators": list(self.cpu_operators),
            "graph": list(self.graph),
        }


def inspect(path: Path) -> Inspection:
    """Inspect `path`, a build directory or one of the files that a build reads or writes.

    Raises:
        InputError: the path does not exist, or cannot be inspected.
        FormatError: it is damaged.
    """
    if path.is_dir():
        manifest = manifests.read(path)
        return _content(path, FileKind.BUILD, (path / manifests.PROGRAM).read_bytes(), manifest)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise absent(path) from None
    except OSError as e:
        raise unreadable(path, e) from e
    return _content(path, None, data, _manifest_next_to(path))


def _content(path: Path, kind: FileKind | None, data: bytes, manifest: Manifest | None) -> Inspection:
    """Inspect bytes of a given or detected kind; errors name the file."""
    try:
        kind = kind or _kind(data)
        match kind:
            case FileKind.BUILD | FileKind.PROGRAM:
                return _program(str(path), kind, data, manifest)
            case FileKind.PAYLOAD:
                return _one(path, kind, data, payloads.parse(data).container, _entry(manifest, data))
            case FileKind.MICROCODE:
                container = Container(data, _sibling(path, "weights"), _sibling(path, "kernels"))
                return _one(path, kind, data, container, _entry_of_file(manifest, path.name, data))
            case FileKind.CONVERTED:
                if neutron_graph.is_mixed(model := decode_tflite(data, partial=True)):
                    return _mixed(str(path), data, model)
                container = neutron_graph.unwrap(data)[0]
                return _one(path, kind, data, container, _entry_of_file(manifest, path.name, data))
            case FileKind.VELA:
                return _compiled(str(path), data)
            case FileKind.TFLITE:
                return Inspection(str(path), kind, len(data), graph=tuple(_graph(data)))
            case None:
                start = f"it starts with {data[:8].hex(' ')}" if data else "it is empty"
                raise InputError(
                    f"the file cannot be inspected: {start}",
                    hint="give a build directory, a `.pte`, a `.microcode` file or a TFLite file",
                )
    except DeuteronError as e:
        raise type(e)(e.message, hint=e.hint, where=f"{path}, {e.where}" if e.where else str(path)) from e


def _kind(data: bytes) -> FileKind | None:
    """Return the kind of the bytes by their magic number, at each format's offset."""
    if data[4:8] == b"ET12":
        return FileKind.PROGRAM
    if data[4:8] == b"TFL3":
        model = decode_tflite(data, partial=True)
        if neutron_graph.is_converted(model):
            return FileKind.CONVERTED
        return FileKind.VELA if vela.is_compiled(model) else FileKind.TFLITE
    if data[:4] == MAGIC_BYTES:
        return FileKind.MICROCODE
    if len(data) >= 2:
        start = round_up(4 + 2 * (data[0] + data[1]))
        if data[start : start + 4] == MAGIC_BYTES:
            return FileKind.PAYLOAD
    return None


def _manifest_next_to(path: Path) -> Manifest | None:
    """Return the manifest in the file's folder; it only adds origins, so that an unreadable one is ignored."""
    try:
        return Manifest.from_json((path.parent / manifests.NAME).read_text("utf-8"))
    except (OSError, ValueError, FormatError):
        return None


def _sibling(path: Path, block: str) -> bytes:
    """Return the other block of a container that `--intermediates` wrote in three files."""
    other = path.with_suffix(f".{block}")
    if not other.is_file():
        raise InputError(
            f"its {block} `{other.name}` are not next to it",
            hint="keep the files of `--intermediates` in one folder",
        )
    return other.read_bytes()


def _entry_of_file(manifest: Manifest | None, name: str, data: bytes) -> Partition | None:
    """Return the manifest's entry for the partition of an intermediate file."""
    number = re.match(r"npu_(\d+)\.", name)
    listed = manifest.files.get(name) if manifest else None
    if manifest is None or number is None or listed is None or listed.sha256 != hashlib.sha256(data).hexdigest():
        return None
    return manifest.partitions[int(number[1])]


def _entry(manifest: Manifest | None, payload: bytes) -> Partition | None:
    """Return the manifest's entry for the partition with this payload."""
    digest = hashlib.sha256(payload).hexdigest()
    return next((e for e in (manifest.partitions if manifest else ()) if e.payload_sha256 == digest), None)


def _program(path: str, kind: FileKind, data: bytes, manifest: Manifest | None) -> Inspection:
    methods = pte.read(data).methods
    ours = [partition for method in methods for partition in partitions_of(method)]
    entries = [_entry(manifest, partition.payload) for partition in ours]
    others = [
        (delegate.id, len(delegate.payload))
        for method in methods
        for delegate in method.delegates
        if families.family_of(delegate.id) is None
    ]
    return Inspection(
        path,
        kind,
        len(data),
        target=manifest.target if manifest and (kind is FileKind.BUILD or any(entries)) else None,
        partitions=tuple(
            _listing(f"npu {i}", partition.program(), entry)
            for i, (partition, entry) in enumerate(zip(ours, entries, strict=True))
        ),
        others=tuple(others),
        cpu_operators=tuple(op for method in methods for op in method.operators),
    )


def _compiled(path: str, data: bytes) -> Inspection:
    program = vela.program_of(decode_tflite(data))
    partitions = tuple(
        Listing(f"npu {i}", ethosu_program(partition.blob, f"npu {i}"), ())
        for i, partition in enumerate(program.partitions)
    )
    return Inspection(path, FileKind.VELA, len(data), partitions=partitions, cpu_operators=program.cpu_operators)


def _mixed(path: str, data: bytes, model: FlatModel) -> Inspection:
    """Inspect a converted file with TFLite operators outside the NPU."""
    containers = [neutron_graph.container_of(model, op) for op in model.operators if neutron_graph.is_partition(op)]
    listings = tuple(Listing(f"npu {i}", program_in(container), ()) for i, container in enumerate(containers))
    others = tuple(op.title for op in model.operators if not neutron_graph.is_partition(op))
    return Inspection(path, FileKind.CONVERTED, len(data), partitions=listings, cpu_operators=others)


def _one(path: Path, kind: FileKind, data: bytes, container: Container, entry: Partition | None) -> Inspection:
    return Inspection(str(path), kind, len(data), partitions=(_listing("npu", program_in(container), entry),))


def _listing(name: str, program: NpuProgram, entry: Partition | None) -> Listing:
    return (
        Listing(name, program.scheduled(entry.schedule), _origins(program, entry))
        if entry
        else Listing(name, program, ())
    )


def _origins(program: NpuProgram, entry: Partition) -> tuple[str, ...]:
    """Return for each kernel call its TFLite operators and source lines, and its rows, if not all."""
    ops = {op.index: op for op in entry.ops}
    texts: list[str] = []
    for index, call in enumerate(program.calls):
        kernel = entry.kernels[index] if index < len(entry.kernels) else None
        origin = kernel.ops if kernel else (call.op,)
        sources = dict.fromkeys(
            (f"{source.short} `{source.code}`" if source.line else source.short)
            for i in origin
            if i in ops
            for source in ops[i].source
        )
        names = ", ".join(f"{program.operators} {i} {ops[i].op}" for i in origin if i in ops)
        rows = [str(kernel.stripe)] if kernel and kernel.stripe else []
        texts.append("; ".join([names or f"no {program.operators}", *sources, *rows]))
    return tuple(texts)


def _graph(data: bytes) -> Iterator[str]:
    """Yield a plain TFLite file as IR; constants by type only, as their values would fill pages."""
    try:
        graph = reader.read(data)
    except UnsupportedError:
        yield from _operators(decode_tflite(data, partial=True))
        return
    yield f"graph {graph.name}"
    for tensor in graph.tensors:
        if tensor.name in graph.inputs or tensor.is_const:
            what = "const" if tensor.is_const else "input"
            yield f"  {what} {format_name(tensor.name)}: {_type(tensor.type)}"
    yield from (f"  {format_op(op, graph)}" for op in graph.ops)
    yield from (f"  output {format_name(name)}" for name in graph.outputs)


def _operators(model: FlatModel) -> Iterator[str]:
    """Yield a file that IR cannot represent: its operators and tensors by their names in the file."""
    names = [format_name(tensor.name) for tensor in model.tensors]
    types = [f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]" for tensor in model.tensors]
    yield f"graph {model.name}"
    for index, tensor in enumerate(model.tensors):
        if index in model.inputs or tensor.data is not None:
            yield f"  {'input' if index in model.inputs else 'const'} {names[index]}: {types[index]}"
    for op in model.operators:
        outputs = ", ".join(f"{names[i]}: {types[i]}" for i in op.outputs)
        operands = ", ".join(names[i] if i >= 0 else "none" for i in op.inputs)
        yield f"  {outputs}{' = ' if outputs else ''}{op.title}({operands})"
    yield from (f"  output {names[i]}" for i in model.outputs)


def _type(kind: TensorType) -> str:
    """Return the type with the number of its channel scales instead of the scales, which would fill pages."""
    if kind.quant is None or kind.quant.axis is None:
        return format_type(kind)
    return f"{format_type(replace(kind, quant=None))} q({len(kind.quant.scales)} channels; axis {kind.quant.axis})"

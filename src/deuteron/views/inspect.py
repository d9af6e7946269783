"""What a build directory or a file contains; the kind of a file is told by its content."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path

from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Manifest
from deuteron.builds.manifest import Partition as Entry
from deuteron.errors import DeuteronError, FormatError, InputError
from deuteron.npu.neutron import payload as payloads
from deuteron.npu.neutron.ir.printer import format_name, format_op, format_type
from deuteron.npu.neutron.ir.types import TensorType
from deuteron.npu.neutron.kernels.limits import round_up
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import Call, Decoded, Place, decode
from deuteron.npu.neutron.microcode.disassemble import as_json, disassemble
from deuteron.npu.neutron.microcode.format import MAGIC, Region
from deuteron.npu.neutron.tflite import neutron, reader
from deuteron.npu.neutron.tflite.decode import decode as decode_tflite
from deuteron.runtime import pte

SCHEMA = 1
MAGIC_BYTES = MAGIC.to_bytes(4, "little")


class Kind(Enum):
    """What was found; the value is its name in reports."""

    BUILD = "build directory"
    PROGRAM = "ExecuTorch program"
    PAYLOAD = "delegate payload"
    MICROCODE = "microcode"
    CONVERTED = "converted TFLite file"
    TFLITE = "TFLite file"


@dataclass(frozen=True, slots=True)
class Block:
    """A range of the weights or scratch region: what it is for, and the commands from its first to its last use."""

    offset: int
    nbytes: int
    label: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Partition:
    """One microcode: its commands, what each call stands for, and the maps of weights and scratch."""

    name: str
    decoded: Decoded
    origins: tuple[str, ...]
    weights: tuple[Block, ...]
    scratch: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What `inspect` found.

    Attributes:
        path: what was looked at.
        kind: what it is.
        nbytes: size of the file; of a build, of its program.
        target: the chip, where a manifest tells it.
        partitions: each microcode in it.
        others: delegates of other backends, as (id, bytes).
        cpu_operators: operators that the program runs on the CPU.
        graph: lines of the listing of a plain TFLite file.
    """

    path: str
    kind: Kind
    nbytes: int
    target: str | None = None
    partitions: tuple[Partition, ...] = ()
    others: tuple[tuple[str, int], ...] = ()
    cpu_operators: tuple[str, ...] = ()
    graph: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield f"{self.path}: {self.kind.value}{f' for {self.target}' if self.target else ''}, {self.nbytes:,} B"
        for partition in self.partitions:
            yield ""
            yield from _partition_lines(partition)
        for name, nbytes in self.others:
            yield f"\ndelegate of `{name}`: {nbytes:,} B, not shown"
        if self.kind in (Kind.BUILD, Kind.PROGRAM):
            yield f"\ncpu operators: {', '.join(self.cpu_operators) or 'none'}"
        yield from self.graph

    def to_json(self) -> dict[str, object]:
        """The report as plain values."""
        return {
            "schema": SCHEMA,
            "path": self.path,
            "kind": self.kind.value,
            "bytes": self.nbytes,
            "target": self.target,
            "partitions": [_partition_json(partition) for partition in self.partitions],
            "other_delegates": [{"id": name, "bytes": nbytes} for name, nbytes in self.others],
            "cpu_operators": list(self.cpu_operators),
            "graph": list(self.graph),
        }


def inspect(path: Path) -> Inspection:
    """What is at `path`, a build directory or one of the files that a build reads or writes.

    Raises:
        InputError: there is nothing there, or nothing that can be inspected.
        FormatError: it is damaged.
    """
    if path.is_dir():
        manifest = manifests.read(path)
        return _content(path, Kind.BUILD, (path / manifests.PROGRAM).read_bytes(), manifest)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"`{path}` does not exist") from None
    except OSError as e:
        raise InputError(f"`{path}` cannot be read: {e.strerror or e}") from e
    return _content(path, None, data, _manifest_beside(path))


def _content(path: Path, kind: Kind | None, data: bytes, manifest: Manifest | None) -> Inspection:
    """What the bytes hold, of a kind that is given or told by them; errors name the file."""
    try:
        kind = kind or _kind(data)
        match kind:
            case Kind.BUILD | Kind.PROGRAM:
                return _program(str(path), kind, data, manifest)
            case Kind.PAYLOAD:
                return _one(path, kind, data, payloads.parse(data).container, _entry(manifest, data))
            case Kind.MICROCODE:
                container = Container(data, _sibling(path, "weights"), _sibling(path, "kernels"))
                return _one(path, kind, data, container, _entry_of_file(manifest, path.name, data))
            case Kind.CONVERTED:
                container = neutron.unwrap(data)[0]
                return _one(path, kind, data, container, _entry_of_file(manifest, path.name, data))
            case Kind.TFLITE:
                return Inspection(str(path), kind, len(data), graph=tuple(_listing(data)))
            case None:
                start = f"it starts with {data[:8].hex(' ')}" if data else "it is empty"
                raise InputError(
                    f"nothing that can be inspected: {start}",
                    hint="give a build directory, a `.pte`, a `.microcode` file or a TFLite file",
                )
    except DeuteronError as e:
        raise type(e)(e.message, hint=e.hint, where=f"{path}, {e.where}" if e.where else str(path)) from e


def _kind(data: bytes) -> Kind | None:
    """What the bytes are by their marks, wherever those stand in each format."""
    if data[4:8] == b"ET12":
        return Kind.PROGRAM
    if data[4:8] == b"TFL3":
        return Kind.CONVERTED if neutron.is_converted(decode_tflite(data)) else Kind.TFLITE
    if data[:4] == MAGIC_BYTES:
        return Kind.MICROCODE
    if len(data) >= 2:
        start = round_up(4 + 2 * (data[0] + data[1]))
        if data[start : start + 4] == MAGIC_BYTES:
            return Kind.PAYLOAD
    return None


def _manifest_beside(path: Path) -> Manifest | None:
    """The manifest in the file's folder; it only adds origins, so one that cannot be read is as good as none."""
    try:
        return Manifest.from_json((path.parent / manifests.NAME).read_text("utf-8"))
    except (OSError, ValueError, FormatError):
        return None


def _sibling(path: Path, block: str) -> bytes:
    """The other block of a container that `--intermediates` wrote in three files."""
    other = path.with_suffix(f".{block}")
    if not other.is_file():
        raise InputError(
            f"its {block} `{other.name}` are not beside it",
            hint="keep the files that `--intermediates` writes together",
        )
    return other.read_bytes()


def _entry_of_file(manifest: Manifest | None, name: str, data: bytes) -> Entry | None:
    """What the manifest says of the partition that an intermediate file of it belongs to."""
    number = re.match(r"npu_(\d+)\.", name)
    listed = manifest.files.get(name) if manifest else None
    if manifest is None or number is None or listed is None or listed.sha256 != hashlib.sha256(data).hexdigest():
        return None
    return manifest.partitions[int(number[1])]


def _entry(manifest: Manifest | None, payload: bytes) -> Entry | None:
    """What the manifest says of the partition with this payload."""
    digest = hashlib.sha256(payload).hexdigest()
    return next((e for e in (manifest.partitions if manifest else ()) if e.payload_sha256 == digest), None)


def _program(path: str, kind: Kind, data: bytes, manifest: Manifest | None) -> Inspection:
    methods = pte.read(data).methods
    delegates = [delegate for method in methods for delegate in method.delegates]
    ours = [d.payload for d in delegates if d.id == payloads.BACKEND_ID]
    entries = [_entry(manifest, payload) for payload in ours]
    return Inspection(
        path,
        kind,
        len(data),
        target=manifest.target if manifest and (kind is Kind.BUILD or any(entries)) else None,
        partitions=tuple(
            _partition(f"npu {i}", payloads.parse(payload, f"delegate {i}").container, entry)
            for i, (payload, entry) in enumerate(zip(ours, entries, strict=True))
        ),
        others=tuple((d.id, len(d.payload)) for d in delegates if d.id != payloads.BACKEND_ID),
        cpu_operators=tuple(op for method in methods for op in method.operators),
    )


def _one(path: Path, kind: Kind, data: bytes, container: Container, entry: Entry | None) -> Inspection:
    return Inspection(str(path), kind, len(data), partitions=(_partition("npu", container, entry),))


def _partition(name: str, container: Container, entry: Entry | None) -> Partition:
    decoded = decode(container)
    return Partition(
        name,
        decoded,
        _origins(decoded, entry) if entry else (),
        _weights_map(decoded),
        _scratch_map(decoded),
    )


def _origins(decoded: Decoded, entry: Entry) -> tuple[str, ...]:
    """For each kernel call the TFLite operators and the source lines that it comes from."""
    ops = {op.index: op for op in entry.ops}
    texts: list[str] = []
    for index, call in enumerate(decoded.calls):
        # Microcode itself names the first operator only.
        origin = entry.kernels[index].ops if index < len(entry.kernels) else (call.origin,)
        sources = dict.fromkeys(
            f"{Path(source.file).name}:{source.line} `{source.code}`"
            for i in origin
            if i in ops
            for source in ops[i].source
        )
        names = ", ".join(f"tflite op {i} {ops[i].op}" for i in origin if i in ops)
        texts.append("; ".join([names or "no tflite op", *sources]))
    return tuple(texts)


def _uses(decoded: Decoded, region: Region) -> Iterator[tuple[int, Call, str, Place]]:
    """(command, call, operand name, operand) for every operand in a region."""
    for index, command in enumerate(decoded.commands):
        if isinstance(command, Call):
            for name, operand in zip(command.kernel.operands, command.operands, strict=True):
                if operand.region is region:
                    yield index, command, name, operand


def _weights_map(decoded: Decoded) -> tuple[Block, ...]:
    """The constants by offset; one that several calls read stands once."""
    blocks: dict[tuple[int, int], Block] = {}
    for index, call, name, operand in _uses(decoded, Region.WEIGHTS):
        key = operand.offset, operand.nbytes
        first = blocks[key].first if key in blocks else index
        blocks[key] = Block(*key, f"{call.kernel.name} {name}", first, index)
    return tuple(blocks[key] for key in sorted(blocks))


def _scratch_map(decoded: Decoded) -> tuple[Block, ...]:
    """The values in scratch, each from the call that writes it to the last that reads it, by first use."""
    blocks: list[Block] = []
    for index, call, name, operand in _uses(decoded, Region.SCRATCH):
        if name in call.kernel.reads:
            at = next((i for i in reversed(range(len(blocks))) if _covers(blocks[i], operand)), None)
            if at is not None:
                blocks[at] = Block(*_place(blocks[at]), blocks[at].label, blocks[at].first, index)
        else:
            blocks.append(Block(operand.offset, operand.nbytes, f"{call.kernel.name} {name}", index, index))
    return tuple(blocks)


def _covers(block: Block, operand: Place) -> bool:
    return block.offset <= operand.offset and operand.offset + operand.nbytes <= block.offset + block.nbytes


def _place(block: Block) -> tuple[int, int]:
    return block.offset, block.nbytes


def _partition_lines(partition: Partition) -> Iterator[str]:
    header, calls = partition.decoded.header, len(partition.decoded.calls)
    profiling = f", profile {header.profile_bytes:,} B" if header.profiling else ""
    yield (
        f"{partition.name}: {calls} kernel call{'' if calls == 1 else 's'}; microcode {header.microcode_bytes:,} B, "
        f"weights {header.weights_bytes:,} B, scratch {header.scratch_bytes:,} B, "
        f"prefetch {header.prefetch_bytes:,} B{profiling}"
    )
    for what, sizes in (("in", partition.decoded.input_bytes), ("out", partition.decoded.output_bytes)):
        yield from (f"  {what}{i}: {nbytes:,} B" for i, nbytes in enumerate(sizes))
    yield from (f"  {line}" for line in disassemble(partition.decoded, partition.origins))
    yield from _map_lines("weights", partition.weights)
    yield from _map_lines("scratch", partition.scratch)


def _map_lines(name: str, blocks: Sequence[Block]) -> Iterator[str]:
    if blocks:
        yield f"  {name} map{'offset':>14} {'bytes':>10}  commands  content"
    for block in blocks:
        span = str(block.first) if block.first == block.last else f"{block.first}-{block.last}"
        yield f"  {'':<{len(name) + 4}}{block.offset:>#14x} {block.nbytes:>10,}  {span:<8}  {block.label}"


def _partition_json(partition: Partition) -> dict[str, object]:
    return {
        "name": partition.name,
        **as_json(partition.decoded),
        "origins": list(partition.origins),
        "weights_map": [asdict(block) for block in partition.weights],
        "scratch_map": [asdict(block) for block in partition.scratch],
    }


def _listing(data: bytes) -> Iterator[str]:
    """A plain TFLite file as IR; constants by type only, for their values fill pages."""
    graph = reader.read(data)
    yield f"graph {graph.name}"
    for tensor in graph.tensors:
        if tensor.name in graph.inputs or tensor.is_const:
            what = "const" if tensor.is_const else "input"
            yield f"  {what} {format_name(tensor.name)}: {_type(tensor.type)}"
    yield from (f"  {format_op(op, graph)}" for op in graph.ops)
    yield from (f"  output {format_name(name)}" for name in graph.outputs)


def _type(kind: TensorType) -> str:
    """The type with the number of its channel scales in place of the scales, which fill pages too."""
    if kind.quant is None or kind.quant.axis is None:
        return format_type(kind)
    return f"{format_type(replace(kind, quant=None))} q({len(kind.quant.scales)} channels; axis {kind.quant.axis})"

"""Writes a cut TFLite model with what its source has besides operators and values, or says what the file lacks."""

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO

from deuteron.errors import DeuteronError, FormatError, UnsupportedError, counted
from deuteron.runtime.vela import PLAN
from deuteron.tflite.decode import DAMAGE, HINT, Decoder, decode
from deuteron.tflite.encode import Encoder
from deuteron.tflite.flat_model import Buffer, FlatModel, FlatTensor

_PADDING = 64
"""More bytes than exporters add to a flatbuffer for alignment."""


def written(model: FlatModel, source: FlatModel, data: Buffer) -> tuple[bytes, tuple[str, ...]]:
    """Return the bytes of a cut model, and a sentence for each thing of its source that they lack.

    Signatures, descriptions, metadata, quantization of tensors that stay, and bytes behind the flatbuffer are kept.

    Args:
        model: the cut model, with the source's own tensors where these stay.
        source: the file, decoded.
        data: the file.

    Raises:
        FormatError: a part of the file is damaged.
        UnsupportedError: it has several signatures.
    """
    data = bytes(data)
    kept = {name: value for name, value in model.metadata.items() if name != PLAN}
    try:
        extras = _Extras.of(data, source)
    except DAMAGE as error:
        raise FormatError("the TFLite flatbuffer is damaged or truncated", hint=HINT) from error
    plan = (f"metadata `{PLAN}`, which places the tensors of the given file",) if PLAN in model.metadata else ()
    file = BytesIO()
    file.write(_Encoder(replace(model, metadata=kept), extras).finish())
    _append(data, source, file)
    return file.getvalue(), (*extras.dropped, *plan)


@dataclass(frozen=True, slots=True)
class _Signature:
    """The signature of a file: its key, and the names and positions of its inputs and outputs."""

    key: str
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _TensorFields:
    """Fields of a tensor as the file has them.

    Attributes:
        quantization: vectors of its quantization by their names of the schema; None without the table.
        dimension: of the channels.
        signature: sizes that it may be resized to; empty where some are open.
        has_rank: that flag of the schema.
    """

    quantization: Mapping[str, Sequence[float]] | None
    dimension: int
    signature: tuple[int, ...]
    has_rank: bool


@dataclass(frozen=True, slots=True)
class _Extras:
    """Parts of a file besides operators and values.

    Attributes:
        description: of the file.
        signature: of the file.
        tensors: fields of tensors, by the `id` of the decoded ones.
        dropped: what is not kept.
    """

    description: str
    signature: _Signature | None
    tensors: Mapping[int, _TensorFields]
    dropped: tuple[str, ...]

    @classmethod
    def of(cls, data: bytes, model: FlatModel) -> "_Extras":
        """Read a file."""
        decoder = Decoder(data, partial=True)
        graph = decoder.root.children("Subgraphs")[0]
        tables = graph.children("Tensors")
        fields = {
            id(tensor): _TensorFields(
                quantization=None
                if (quant := table.child("Quantization")) is None
                else {name: quant.floats(name) for name in ("Min", "Max", "Scale", "ZeroPoint")},
                dimension=quant.integer("QuantizedDimension") if quant else 0,
                signature=() if -1 in (sizes := table.integers("ShapeSignature")) else sizes,
                has_rank=bool(table.integer("HasRank")),
            )
            for tensor, table in zip(model.tensors, tables, strict=True)
        }
        dropped = tuple(_dropped(decoder, model))
        return cls(decoder.root.text("Description"), _signature(decoder, model), fields, dropped)


def _dropped(decoder: Decoder, model: FlatModel) -> Iterator[str]:
    """Yield what no written file has."""
    root = decoder.root
    graph = root.children("Subgraphs")[0]
    tables = graph.children("Tensors")
    for index in model.inputs:
        if -1 in tables[index].integers("ShapeSignature"):
            yield f"the open sizes of input `{model.tensors[index].name}`: stripes have constant sizes"
    if count := sum(table.child("Sparsity") is not None for table in tables):
        yield f"the sparse storage of {counted(count, 'constant')}: they are dense"
    entries = root.children("Metadata")
    if len(model.metadata) < len(entries):
        yield "metadata with the name of other metadata"
    named = {each.integer("Buffer") for each in (*tables, *entries)}
    places = [op.integer("DebugMetadataIndex") >= 0 for op in (graph, *graph.children("Operators"))]
    if any(places):
        yield "the places of operators in the debug metadata"
    if root.vector("MetadataBuffer") is not None:
        yield "the list of metadata buffers, which is deprecated"
    others = [i for i in range(len(decoder.buffers)) if i not in named and decoder.content(i)]
    if others:
        yield f"{counted(len(others), 'buffer')} that no tensor and no metadata names"


def _signature(decoder: Decoder, model: FlatModel) -> _Signature | None:
    """Return the signature of a file, None without one."""
    found: list[_Signature] = []
    for table in decoder.root.children("SignatureDefs"):
        inputs, outputs = (
            tuple((one.text("Name"), _position(ends, one.integer("TensorIndex"), kind)) for one in table.children(side))
            for side, ends, kind in (("Inputs", model.inputs, "input"), ("Outputs", model.outputs, "output"))
        )
        found.append(_Signature(table.text("SignatureKey"), inputs, outputs))
    if len(found) > 1:
        raise UnsupportedError(
            "the file has several signatures; one is allowed", hint="export the model with one signature"
        )
    return next(iter(found), None)


def _position(ends: Sequence[int], tensor: int, kind: str) -> int:
    if tensor not in ends:
        raise FormatError(f"the signature names tensor {tensor} as an {kind}, which the model does not have", hint=HINT)
    return ends.index(tensor)


class _Encoder(Encoder):
    """Writes a model with the extras of its source."""

    def __init__(self, model: FlatModel, extras: _Extras) -> None:
        super().__init__(model)
        self.description = extras.description
        self._signature, self._tensors = extras.signature, extras.tensors

    def signature_defs(self, name: str) -> list[int]:
        """Offsets of the signatures."""
        if self._signature is None:
            return []
        maps: dict[str, int] = {}
        for side, given, ends in (
            ("Inputs", self._signature.inputs, self.model.inputs),
            ("Outputs", self._signature.outputs, self.model.outputs),
        ):
            named = [(self.text(text), ends[at]) for text, at in given]
            maps[side] = self.offsets([self.table("TensorMap", Name=text, TensorIndex=i) for text, i in named])
        key = self.text(self._signature.key)
        return [self.table("SignatureDef", SignatureKey=key, SubgraphIndex=0, **maps)]

    def tensor_fields(self, tensor: FlatTensor) -> dict[str, int]:
        """Further fields of a tensor: those of the file for one that it has."""
        given = self._tensors.get(id(tensor))
        if given is None:
            return super().tensor_fields(tensor)
        fields: dict[str, int] = {"HasRank": True} if given.has_rank else {}
        if given.signature:
            fields["ShapeSignature"] = self.integers(given.signature)
        if given.quantization is not None:
            vectors = {
                name: self.integers([int(value) for value in values], "<i8")
                if name == "ZeroPoint"
                else self.floats(values)
                for name, values in given.quantization.items()
                if values
            }
            fields["Quantization"] = self.table("QuantizationParameters", **vectors, QuantizedDimension=given.dimension)
        return fields


def _append(data: bytes, model: FlatModel, file: BytesIO) -> None:
    """Write the bytes behind the flatbuffer: those of any format, and files in a zip archive, such as labels."""
    if not zipfile.is_zipfile(BytesIO(data)):
        file.write(data[_end(data, len(data), model) :])
        return
    try:
        with zipfile.ZipFile(BytesIO(data)) as packed:
            files = packed.infolist()
            start = min((each.header_offset for each in files), default=packed.start_dir)
            file.write(data[_end(data, start, model) : start])
            with zipfile.ZipFile(file, "a") as behind:
                behind.comment = packed.comment
                for each in files:
                    behind.writestr(each, packed.read(each))
    except (*DAMAGE, EOFError, NotImplementedError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise FormatError("the files behind the model, such as labels, are damaged", hint=HINT) from error


def _end(data: bytes, stop: int, model: FlatModel) -> int:
    """Return where the bytes begin that follow a flatbuffer; `stop` without any.

    A flatbuffer does not say its size. So the least number of bytes is searched from which the same is read.
    """

    def read(part: bytes, decoded: FlatModel) -> tuple[object, ...]:
        extras = _Extras.of(part, decoded)
        return decoded, extras.description, extras.signature, [*extras.tensors.values()], extras.dropped

    def is_whole(count: int) -> bool:
        try:
            return read(data[:count], decode(data[:count])) == whole
        except (DeuteronError, *DAMAGE):
            return False

    whole = read(data, model)
    padded = max(0, stop - _PADDING)
    low, high = (0, padded) if is_whole(padded) else (padded, stop)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_whole(middle) else (middle, high)
    return stop if stop - high < _PADDING and not any(data[high:stop]) else high

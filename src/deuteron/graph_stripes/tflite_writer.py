"""Writes stripes as TFLite operators: slices, layers with explicit pads, and concatenations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deuteron.graph_stripes.emit import Emitter, Work, work_of
from deuteron.graph_stripes.rows import OperatorRows, RowGraph, RowOperator, Segment, StripesError
from deuteron.graph_stripes.tflite_rows import SAME, Site, graph_of, padding, pads, row_slice, spans
from deuteron.operators.row_dependencies import Rows
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor

_VALID = 1
_LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D")


@dataclass(frozen=True, slots=True)
class Cut:
    """One segment of a graph and its stripes.

    Attributes:
        first: the first operator.
        last: the operator after the last.
        height: rows of a stripe in the output with the fewest rows.
        kept: operators of which a stripe keeps rows for the next one.
    """

    first: int
    last: int
    height: int
    kept: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class CutModel:
    """A model whose segments are cut.

    Attributes:
        model: the model.
        origins: for each operator the index of that in the uncut model which it comes from.
        stripes: number of stripes of each cut.
        work: of each cut.
    """

    model: FlatModel
    origins: tuple[int, ...]
    stripes: tuple[int, ...]
    work: tuple[Work, ...]


def cut(model: FlatModel, cuts: Sequence[Cut], *, graph: RowGraph | None = None) -> CutModel:
    """Return a model with these segments in stripes; inputs, outputs and all values stay the same.

    Args:
        model: whose operators are in execution order.
        cuts: disjoint segments in order.
        graph: the model by rows, if it is known.

    Raises:
        StripesError: a segment cannot be cut in this way.
    """
    graph = graph or graph_of(model)
    writer = TfliteWriter(model)
    at, numbers, works = 0, list[int](), list[Work]()
    for each in cuts:
        segment = graph.segment(each.first, each.last)
        if segment is None:
            raise StripesError(f"operators {each.first} to {each.last - 1} cannot be cut together")
        writer.whole(range(at, each.first))
        number, work = writer.segment(segment, each)
        numbers.append(number)
        works.append(work)
        at = each.last
    writer.whole(range(at, len(model.operators)))
    made = without_unused(replace(model, tensors=tuple(writer.tensors), operators=tuple(writer.operators)))
    return CutModel(made, tuple(writer.origins), tuple(numbers), tuple(works))


def trial(
    model: FlatModel, graph: RowGraph, segment: Segment, each: Cut, writer_of: "type[TfliteWriter]"
) -> tuple[FlatModel, Work]:
    """Return a cut segment alone, as operators over the model's tensors, for estimates.

    Raises:
        StripesError: the segment cannot be cut in this way.
    """
    writer = writer_of(model)
    _, work = writer.segment(segment, each)
    before = {*graph.inputs, *(tensor for writes in graph.writes[: each.first] for tensor in writes)}
    later = {*graph.outputs, *(tensor for reads in graph.reads[each.last :] for tensor in reads)}
    inside = {tensor for reads in graph.reads[each.first : each.last] for tensor in reads}
    inputs, outputs = tuple(before & (later | inside)), tuple((before & later) | {*segment.outputs})
    return FlatModel("", tuple(writer.tensors), inputs, outputs, tuple(writer.operators)), work


class TfliteWriter:
    """Adds operators and tensors to those of a model; a value is the index of a tensor."""

    def __init__(self, model: FlatModel) -> None:
        self.model = model
        self.tensors = list(model.tensors)
        self.operators: list[FlatOperator] = []
        self.origins: list[int] = []
        self._constants: dict[tuple[bytes, tuple[int, ...]], int] = {}
        self._source: dict[int, int] = {}
        self._names = {tensor.name for tensor in model.tensors}
        self._writers = {i: at for at, op in enumerate(model.operators) for i in op.outputs}

    def segment(self, segment: Segment, each: Cut) -> tuple[int, Work]:
        """Add a segment in stripes, and return their number and work."""
        stripes = segment.stripes(each.height, each.kept)
        emitter = Emitter(segment, stripes, each.kept, self)
        emitter.run()
        return len(stripes), work_of(segment, stripes, emitter.copied)

    def whole(self, operators: range) -> None:
        """Add operators as they are."""
        self.operators += self.model.operators[operators.start : operators.stop]
        self.origins += operators

    def sliced(self, value: int, rows: Rows) -> int:
        """Return rows of a tensor."""
        tensor = self.tensors[value]
        if rows == (0, tensor.shape[1]):
            return value
        if tensor.data is not None:
            array = np.frombuffer(tensor.data, np.uint8).reshape(tensor.shape[1], -1)[rows[0] : rows[1]]
            return self._tensor(tensor, value, rows[1] - rows[0], array.tobytes())
        result = self._tensor(tensor, value, rows[1] - rows[0])
        begin, end = self._integers((0, rows[0], 0, 0)), self._integers((1, rows[1], *tensor.shape[2:]))
        names = ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask")
        options = dict.fromkeys(names, 0) | {"Offset": False}
        inputs = (value, begin, end, self._integers((1, 1, 1, 1)))
        self._add("STRIDED_SLICE", inputs, (result,), "StridedSliceOptions", options, value)
        return result

    def joined(self, values: Sequence[int], tensor: int, result: int | None = None) -> int:
        """Return tensors one below the other."""
        if result is None:
            result = self._tensor(self.tensors[tensor], tensor, sum(self.tensors[i].shape[1] for i in values))
        options = {"Axis": 1, "FusedActivationFunction": 0}
        self._add("CONCATENATION", values, (result,), "ConcatenationOptions", options, tensor)
        return result

    def computed(self, op: RowOperator, rows: OperatorRows, operands: Sequence[int]) -> tuple[int, ...]:
        """Add an operator for some of its rows."""
        site = Site(op.at, self.model.operators[op.at], self.model.tensors)
        first, last = rows.computed
        inputs, options = list(site.op.inputs), dict(site.op.options)
        for read, value in zip(op.reads, operands, strict=True):
            inputs[read.operand] = value
        outputs = tuple(self._tensor(self.tensors[i], i, last - first) for i in op.outputs)
        shape = self.tensors[outputs[0]].shape
        if site.op.name in _LAYERS:
            options["Padding"] = self._padded_layer(op, rows, site, inputs)
        elif site.op.name in _POOLS and op.lattice is None:
            options["Padding"] = _VALID
        elif site.op.name == "TRANSPOSE_CONV":
            inputs[0] = self._integers(shape)
        elif site.op.name.startswith("RESIZE_"):
            inputs[1] = self._integers(shape[1:3])
        elif site.op.name in ("PAD", "PADV2"):
            inputs[1] = self._pads(op, rows, site)
        elif site.op.name in ("SLICE", "STRIDED_SLICE"):
            self._slice(rows, site, inputs, options)
        own = site.op
        self._add(own.name, inputs, outputs, own.kind, options, op.outputs[0], own)
        return outputs

    def _padded_layer(self, op: RowOperator, rows: OperatorRows, site: Site, inputs: list[int]) -> int:
        """Return the padding of a convolution; adds a PAD before it for pads that neither SAME nor VALID gives."""
        (low, high), (first, last), (top, bottom) = rows.reads[0], rows.computed, op.window_pads(rows)
        kernel, stride = spans(site), (site.option("StrideH"), site.option("StrideW"))
        sides = padding(site, 2, kernel[1], stride[1])
        wanted = ((top, bottom), sides)
        if not any((top, bottom, *sides)):
            return _VALID
        sizes = high - low, self.tensors[inputs[0]].shape[2]
        outs = last - first, site.out.shape[2]
        if all(
            _same(*each) == pair and -(-each[0] // each[3]) == each[1]
            for each, pair in zip(zip(sizes, outs, kernel, stride, strict=True), wanted, strict=True)
        ):
            return SAME
        inputs[0] = self._pad(inputs[0], ((0, 0), (top, bottom), sides, (0, 0)))
        return _VALID

    def _pad(self, value: int, sizes: Sequence[tuple[int, int]]) -> int:
        """Return a tensor with its zero point around it."""
        tensor = self.tensors[value]
        shape = tuple(size + sum(pair) for size, pair in zip(tensor.shape, sizes, strict=True))
        result = self._tensor(tensor, value, shape[1], columns=shape[2])
        inputs = (value, self._integers([each for pair in sizes for each in pair], (len(sizes), 2)))
        self._add("PAD", inputs, (result,), "PadOptions", {}, value)
        return result

    def _pads(self, op: RowOperator, rows: OperatorRows, site: Site) -> int:
        """Return the pads of a PAD for some of its rows."""
        sizes = pads(site) or []
        sizes = [sizes[0], op.own_pads(rows), *sizes[2:]]
        return self._integers([each for pair in sizes for each in pair], (len(sizes), 2))

    def _slice(self, rows: OperatorRows, site: Site, inputs: list[int], options: dict[str, object]) -> None:
        """Change the operands of a slice so that it gives some of its rows."""
        found, (first, last) = row_slice(site), rows.computed
        begin, end = site.integers(1), site.integers(2)
        if found is None or begin is None or end is None:
            raise StripesError("a slice has no constant operands")
        begin[1] = found[0] + first * found[1] - rows.reads[0][0]
        if site.op.name == "SLICE":
            end[1] = last - first
        else:
            end[1] = begin[1] + (last - first - 1) * found[1] + 1
            options |= {name: site.option(name) & ~2 for name in ("BeginMask", "EndMask")}
        inputs[1:3] = self._integers(begin), self._integers(end)

    def _tensor(
        self, like: FlatTensor, source: int, rows: int, data: bytes | None = None, columns: int | None = None
    ) -> int:
        """Add a tensor with another number of rows; `source` is the tensor whose values it has."""
        shape = (like.shape[0], rows, like.shape[2] if columns is None else columns, like.shape[3])
        number = len(self.tensors)
        source = self._source.get(source, source)
        name = f"{self.model.tensors[source].name}/rows_{number}"
        while name in self._names:
            name += "'"
        self.tensors.append(FlatTensor(name, shape, like.dtype, like.quant, data))
        self._source[number] = source
        return number

    def _integers(self, values: Sequence[int], shape: tuple[int, ...] = ()) -> int:
        """Return a constant of int32."""
        array = np.array(values, np.int32).reshape(shape or -1)
        key = array.tobytes(), array.shape
        if key not in self._constants:
            self._constants[key] = len(self.tensors)
            self.tensors.append(FlatTensor(f"stripes/constant_{len(self.tensors)}", array.shape, "INT32", None, key[0]))
        return self._constants[key]

    def _add(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: tuple[int, ...],
        kind: str,
        options: Mapping[str, object],
        tensor: int,
        like: FlatOperator | None = None,
    ) -> None:
        """Add an operator that comes from the one that writes a tensor; from none for an input."""
        source = self._writers.get(self._source.get(tensor, tensor), -1)
        origin = self.model.operators[source].number(source) if source >= 0 else ""
        version = like.version if like else 1
        is_unsigned = like.is_unsigned if like else False
        made = FlatOperator(
            name, tuple(inputs), outputs, kind, options, version=version, is_unsigned=is_unsigned, origin=origin
        )
        self.operators.append(made)
        self.origins.append(source)


class PlanWriter(TfliteWriter):
    """Adds operators without the parameters of their rows, for estimates of live bytes."""

    def computed(self, op: RowOperator, rows: OperatorRows, operands: Sequence[int]) -> tuple[int, ...]:
        """Add an operator for some of its rows."""
        own, (first, last) = self.model.operators[op.at], rows.computed
        inputs = list(own.inputs)
        for read, value in zip(op.reads, operands, strict=True):
            inputs[read.operand] = value
        outputs = tuple(self._tensor(self.tensors[i], i, last - first) for i in op.outputs)
        self._add(own.name, inputs, outputs, own.kind, own.options, op.outputs[0], own)
        return outputs


def _same(size: int, out: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the pads of SAME."""
    total = max(0, (out - 1) * stride + kernel - size)
    return total // 2, total - total // 2


def without_unused(model: FlatModel) -> FlatModel:
    """Return a model without the tensors that nothing names."""
    named = {*model.inputs, *model.outputs}
    for op in model.operators:
        named |= {i for i in (*op.inputs, *op.outputs, *op.intermediates) if i >= 0}
    places = {-1: -1} | {old: new for new, old in enumerate(sorted(named))}

    def moved(indices: Sequence[int]) -> tuple[int, ...]:
        return tuple(places[i] for i in indices)

    operators = tuple(
        replace(op, inputs=moved(op.inputs), outputs=moved(op.outputs), intermediates=moved(op.intermediates))
        for op in model.operators
    )
    tensors = tuple(model.tensors[i] for i in sorted(named))
    ends = {"inputs": moved(model.inputs), "outputs": moved(model.outputs)}
    return replace(model, tensors=tensors, operators=operators, **ends)

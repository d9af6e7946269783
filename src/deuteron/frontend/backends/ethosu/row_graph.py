"""Operators of a partition in TOSA by rows: dimension 1 of maps [1, rows, columns, channels].

An operator and the RESCALEs around it, between which values are wider than in memory, are one operator here, as they
are for Vela.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.backends.ethosu.vela_workarounds import kind_of
from deuteron.frontend.nodes import computing
from deuteron.graph_stripes.rows import RowGraph, RowOperator, RowRead
from deuteron.operators.row_dependencies import Window
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor

_RANK, _CHANNELS = 4, 3
_POWERS_OF_TWO = (2, 4, 8, 16)
"""Factors of a resize whose arithmetic is the same for a part of the rows."""

_DTYPES = {torch.bool: "BOOL", torch.int8: "INT8", torch.int16: "INT16"}
"""Types of tensors that exist in memory; Vela fuses operators on others with their rescaling."""

_RESCALE = "RESCALE"
_LAYERS = ("CONV2D", "DEPTHWISE_CONV2D")
_UNARY = ("ABS", "CAST", "CLAMP", "IDENTITY", "NEGATE", _RESCALE, "SIGMOID", "TABLE", "TANH")
_BINARY = ("ADD", "MAXIMUM", "MINIMUM", "MUL", "SUB")

_TFLITE = {
    "AVG_POOL2D": "AVERAGE_POOL_2D",
    "CONCAT": "CONCATENATION",
    "CONV2D": "CONV_2D",
    "DEPTHWISE_CONV2D": "DEPTHWISE_CONV_2D",
    "MAX_POOL2D": "MAX_POOL_2D",
    "SLICE": "STRIDED_SLICE",
}
"""Names in estimates, which are those of TFLite."""


@dataclass(frozen=True, slots=True)
class Rescaled:
    """An operator with its RESCALEs.

    Attributes:
        node: the operator.
        before: RESCALEs that only it reads.
        after: the only reader of its result, a RESCALE.
    """

    node: fx.Node
    before: tuple[fx.Node, ...] = ()
    after: tuple[fx.Node, ...] = ()

    @property
    def nodes(self) -> tuple[fx.Node, ...]:
        """All nodes, in their order."""
        return (*self.before, self.node, *self.after)

    @property
    def result(self) -> fx.Node:
        """The node that others read."""
        return self.nodes[-1]

    @property
    def inputs(self) -> list[fx.Node]:
        """The nodes of others that it reads."""
        found = (s.all_input_nodes[0] if s in self.before else s for s in self.node.all_input_nodes)
        return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class TosaRows:
    """A partition by rows.

    Attributes:
        model: the operators and tensors, for estimates of live bytes.
        graph: the operators by rows.
        operators: each operator.
        tensors: the node that gives each tensor.
    """

    model: FlatModel
    graph: RowGraph
    operators: tuple[Rescaled, ...]
    tensors: tuple[fx.Node, ...]


def integers(node: fx.Node) -> list[int]:
    """Return the values of a constant shape."""
    return [int(value) for value in cast("Sequence[int]", node.args[0])]


def rows_of(module: fx.GraphModule, inputs: Sequence[str]) -> TosaRows:
    """Return a partition by rows.

    Args:
        module: the partition in TOSA operators.
        inputs: names of its inputs; other placeholders are constants.
    """
    operators = _operators(module)
    placed = [node for node in module.graph.nodes if node.op == "placeholder"]
    tensors = (*placed, *(op.result for op in operators))
    numbers = {node: number for number, node in enumerate(tensors)}
    words = "INT16" if any(node.meta["val"].dtype is torch.int16 for node in tensors) else "INT8"
    made: list[FlatTensor] = []
    for node in tensors:
        value = node.meta["val"]
        is_constant = node.op == "placeholder" and node.name not in inputs
        dtype = _DTYPES.get(value.dtype, words)
        made.append(FlatTensor(node.name, (*map(int, value.shape),), dtype, data=b"" if is_constant else None))
    flat = tuple(
        FlatOperator(
            _TFLITE.get(kind_of(op.node), kind_of(op.node)),
            tuple(numbers[source] for source in op.inputs if source in numbers),
            (numbers[op.result],),
        )
        for op in operators
    )
    ends = cast("Sequence[fx.Node]", module.graph.output_node().args[0])
    model = FlatModel(
        "",
        tuple(made),
        tuple(numbers[node] for node in placed if node.name in inputs),
        tuple(numbers[node] for node in ends if node in numbers),
        flat,
    )
    graph = RowGraph(
        operators=tuple(_row_operator(at, op, numbers, model) for at, op in enumerate(operators)),
        reads=tuple(tuple(i for i in op.inputs if made[i].data is None) for op in flat),
        writes=tuple(op.outputs for op in flat),
        row_bytes={i: _row_bytes(tensor) for i, tensor in enumerate(made) if _is_map(tensor)},
        inputs=model.inputs,
        outputs=model.outputs,
    )
    return TosaRows(model, graph, operators, tensors)


def _operators(module: fx.GraphModule) -> tuple[Rescaled, ...]:
    """Return the operators in their order."""
    nodes = [node for node in computing(module.graph) if kind_of(node) != "CONST_SHAPE"]
    before: dict[fx.Node, list[fx.Node]] = {}
    after: dict[fx.Node, fx.Node] = {}
    for node in nodes:
        if kind_of(node) != _RESCALE or not node.users:
            continue
        source, (reader, *others) = node.all_input_nodes[0], node.users
        if _is_wide(source) and kind_of(source) not in ("", _RESCALE) and len(source.users) == 1:
            after[source] = node
        elif _is_wide(node) and not others and kind_of(reader) not in ("", _RESCALE):
            before.setdefault(reader, []).append(node)
    for source, node in after.items():
        source.append(node)
    for reader, rescales in before.items():
        for node in rescales:
            reader.prepend(node)  # new nodes for its results stand behind what it reads
    inside = {*after.values(), *(node for each in before.values() for node in each)}
    return tuple(
        Rescaled(node, tuple(before.get(node, ())), (after[node],) if node in after else ())
        for node in nodes
        if node not in inside
    )


def _is_wide(node: fx.Node) -> bool:
    return node.meta["val"].dtype not in _DTYPES


def _is_map(tensor: FlatTensor) -> bool:
    return len(tensor.shape) == _RANK and tensor.shape[0] == 1 and 0 not in tensor.shape


def _row_bytes(tensor: FlatTensor) -> int:
    return math.prod(tensor.shape[2:]) * (2 if tensor.dtype == "INT16" else 1)


@dataclass(frozen=True, slots=True)
class _Site:
    """An operator of a graph."""

    at: int
    op: Rescaled
    numbers: Mapping[fx.Node, int]
    model: FlatModel

    @property
    def node(self) -> fx.Node:
        """The operator without its RESCALEs."""
        return self.op.node

    @property
    def inputs(self) -> list[fx.Node]:
        """The tensors that it reads."""
        return [node for node in self.op.inputs if node in self.numbers]

    @property
    def out(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self.shape(self.op.result)

    def shape(self, node: fx.Node) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.tensor(node).shape

    def tensor(self, node: fx.Node) -> FlatTensor:
        """Return the tensor that a node gives."""
        return self.model.tensors[self.numbers[node]]

    def is_cut(self, node: fx.Node) -> bool:
        """Return True for a map that is computed."""
        tensor = self.tensor(node)
        return _is_map(tensor) and tensor.data is None

    def read(self, operand: int, start: int = 0, step: int = 1, length: int = 1, unit: int = 1) -> RowRead:
        """Return a tensor that is read by rows."""
        node = self.inputs[operand]
        window = Window(_row_bytes(self.tensor(node)), self.shape(node)[1], start, step, length, unit)
        return RowRead(operand, self.numbers[node], window)

    def operator(self, *reads: RowRead, lattice: tuple[int, int] | None = None, macs: int = 0) -> RowOperator:
        """Return the operator by rows."""
        return RowOperator(self.at, (self.numbers[self.op.result],), reads, self.out[1], lattice, macs)


def _row_operator(at: int, op: Rescaled, numbers: Mapping[fx.Node, int], model: FlatModel) -> RowOperator | None:
    """Return an operator by rows, None for one whose rows cannot be computed separately."""
    site, describe = _Site(at, op, numbers, model), _DESCRIBE.get(kind_of(op.node))
    if describe is None or not _is_map(site.tensor(op.result)) or not any(map(site.is_cut, site.inputs)):
        return None
    return describe(site)


def window_of(node: fx.Node) -> tuple[int, int, Sequence[int]]:
    """Return the rows that the window of a layer or pool reaches over, its stride, and the pads on the four sides."""
    lists = [cast("Sequence[int]", arg) for arg in node.args if isinstance(arg, Sequence)]
    if kind_of(node) not in _LAYERS:
        size, stride, pads = lists
        return size[0], stride[0], pads
    stride, pads, dilation = lists
    weights = cast(Any, node.args[1]).meta["val"].shape
    size = weights[1] if kind_of(node) == "CONV2D" else weights[0]
    return (size - 1) * dilation[0] + 1, stride[0], pads


def _window(site: _Site) -> RowOperator | None:
    """A convolution or pool with constant weights."""
    if any(site.tensor(node).data is None for node in site.inputs[1:]):
        return None
    length, stride, pads = window_of(site.node)
    macs = 0
    if kind_of(site.node) in _LAYERS:
        weights = site.shape(site.inputs[1])
        each = math.prod(weights[:2]) if kind_of(site.node) == "DEPTHWISE_CONV2D" else math.prod(weights[1:])
        macs = math.prod(site.out) * each
    return site.operator(site.read(0, -pads[0], stride, length), macs=macs)


def _transposed(site: _Site) -> RowOperator | None:
    """A transposed convolution whose windows do not overlap."""
    pads, stride = (cast("Sequence[int]", arg) for arg in site.node.args[3:5])
    weights = site.shape(site.inputs[1])
    if any(pads) or weights[1] != stride[0] or any(site.tensor(node).data is None for node in site.inputs[1:]):
        return None
    macs = math.prod(site.shape(site.inputs[0])) * math.prod(weights[:3])
    return site.operator(site.read(0, unit=stride[0]), lattice=(1, stride[0]), macs=macs)


def _resize(site: _Site) -> RowOperator | None:
    """A resize by a power of two."""
    times, rest = divmod(site.out[1], site.shape(site.inputs[0])[1])
    scale = integers(cast(fx.Node, site.node.args[1]))
    if rest or times not in _POWERS_OF_TWO or scale[0] != times * scale[1]:
        return None
    if site.node.kwargs["resize_mode"] == "nearest":
        return site.operator(site.read(0, unit=times), lattice=(1, times))
    return site.operator(site.read(0, -(times // 2), 1, times + 1, times), lattice=(1, times))


def _unary(site: _Site) -> RowOperator | None:
    same = site.is_cut(site.inputs[0]) and site.shape(site.inputs[0]) == site.out
    return site.operator(site.read(0)) if same else None


def _binary(site: _Site) -> RowOperator | None:
    """An elementwise operator; operands with one row are read whole."""
    reads: list[RowRead] = []
    for operand, node in enumerate(site.inputs):
        shape = site.shape(node)
        rows = shape[-_CHANNELS] if len(shape) >= _CHANNELS else 1
        if rows > 1 and (not site.is_cut(node) or rows != site.out[1]):
            return None
        if rows > 1 or (site.out[1] == 1 and site.is_cut(node)):
            reads.append(site.read(operand))
    return site.operator(*reads) if reads else None


def _concatenation(site: _Site) -> RowOperator | None:
    if cast(int, site.node.kwargs["axis"]) < 2 or not all(map(site.is_cut, site.inputs)):
        return None
    return site.operator(*map(site.read, range(len(site.inputs))))


def _reduction(site: _Site) -> RowOperator | None:
    return None if cast(int, site.node.kwargs["axis"]) < 2 else site.operator(site.read(0))


def _pad(site: _Site) -> RowOperator | None:
    sizes = integers(cast(fx.Node, site.node.args[1]))
    return None if any(sizes[:2]) else site.operator(site.read(0, -sizes[2]))


def _slice(site: _Site) -> RowOperator:
    return site.operator(site.read(0, integers(cast(fx.Node, site.node.args[1]))[1]))


_DESCRIBE: Mapping[str, Callable[[_Site], RowOperator | None]] = MappingProxyType(
    dict.fromkeys(_UNARY, _unary)
    | dict.fromkeys(_BINARY, _binary)
    | dict.fromkeys((*_LAYERS, "AVG_POOL2D", "MAX_POOL2D"), _window)
    | dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN", "REDUCE_SUM"), _reduction)
    | {
        "CONCAT": _concatenation,
        "PAD": _pad,
        "RESIZE": _resize,
        "SLICE": _slice,
        "TRANSPOSE_CONV2D": _transposed,
    }
)
"""The operators that are cut."""

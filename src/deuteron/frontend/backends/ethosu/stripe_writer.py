"""Writes stripes of a partition as TOSA operators: slices, layers with the pads of their rows, and concatenations."""

from collections.abc import Sequence
from typing import Any, cast

from torch import fx

from deuteron.frontend.backends.ethosu.row_graph import TosaRows, integers, window_of
from deuteron.frontend.backends.ethosu.vela_workarounds import constant_shape, kind_of, tosa
from deuteron.graph_stripes.emit import Emitter, Work, work_of
from deuteron.graph_stripes.rows import OperatorRows, RowOperator, StripesError
from deuteron.graph_stripes.tflite_writer import Cut
from deuteron.operators.row_dependencies import Rows

_ROWS = 1
"""The dimension of rows."""


def copied(module: fx.GraphModule) -> fx.GraphModule:
    """Return a module with a copy of the graph."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    graph.output_node().meta = dict(module.graph.output_node().meta)
    return fx.GraphModule(module, graph)


def cut(module: fx.GraphModule, rows: TosaRows, cuts: Sequence[Cut]) -> tuple[tuple[int, ...], tuple[Work, ...]]:
    """Put segments of a partition into stripes; inputs, outputs and all values stay the same.

    Args:
        module: the partition, which changes.
        rows: the partition by rows.
        cuts: disjoint segments in order.

    Returns:
        The number of stripes of each segment, and its work.

    Raises:
        StripesError: a segment cannot be cut in this way.
    """
    writer = _Writer(rows)
    numbers, works = list[int](), list[Work]()
    for each in cuts:
        segment = rows.graph.segment(each.first, each.last)
        if segment is None:
            raise StripesError(f"operators {each.first} to {each.last - 1} cannot be cut together")
        stripes = segment.stripes(each.height, each.kept)
        writer.begin(each)
        emitter = Emitter(segment, stripes, each.kept, writer)
        emitter.run()
        writer.finish()
        numbers.append(len(stripes))
        works.append(work_of(segment, stripes, emitter.copied))
    module.graph.lint()
    module.recompile()
    return tuple(numbers), tuple(works)


class _Writer:
    """Adds nodes behind segments; a value is the number of a tensor, or that of a new node."""

    def __init__(self, rows: TosaRows) -> None:
        self._rows = rows
        self._graph: fx.Graph = rows.tensors[0].graph
        self._values = list(rows.tensors)
        self._results: dict[int, int] = {}
        self._old: list[fx.Node] = []
        self._next = rows.tensors[0]

    def begin(self, each: Cut) -> None:
        """Add the next nodes behind this segment."""
        old = {node for op in self._rows.operators[each.first : each.last] for node in op.nodes}
        self._old = [node for node in self._graph.nodes if node in old]
        self._next = self._old[-1].next

    def sliced(self, value: int, rows: Rows) -> int:
        """Return rows of a tensor."""
        source = self._values[value]
        shape = list(source.meta["val"].shape)
        if rows == (0, shape[_ROWS]):
            return value
        starts = [0, rows[0], 0, 0]
        shape[_ROWS] = rows[1] - rows[0]
        with self._graph.inserting_before(self._next):
            ends = constant_shape(source, starts), constant_shape(source, shape)
            return self._add(tosa().SLICE.default, (source, *ends), {}, source, shape[_ROWS])

    def joined(self, values: Sequence[int], tensor: int, result: int | None = None) -> int:
        """Return tensors one below the other."""
        parts = [self._values[value] for value in values]
        count = sum(part.meta["val"].shape[_ROWS] for part in parts)
        with self._graph.inserting_before(self._next):
            made = self._add(tosa().CONCAT.default, (parts,), {"axis": _ROWS}, self._rows.tensors[tensor], count)
        if result is not None:
            self._results[result] = made
        return made

    def computed(self, op: RowOperator, rows: OperatorRows, operands: Sequence[int]) -> tuple[int, ...]:
        """Add an operator for some of its rows."""
        taken = {self._values[read.tensor]: self._values[value] for read, value in zip(op.reads, operands, strict=True)}
        own, count, result = self._rows.operators[op.at], rows.computed[1] - rows.computed[0], -1
        with self._graph.inserting_before(self._next):
            for node in own.nodes:
                args: Any = fx.map_arg(node.args, lambda source: taken.get(source, source))
                if node is own.node:
                    args = (*args[:1], *self._parameters(node, op, rows, list(args[1:])))
                source = node.all_input_nodes[0]
                height = taken.get(source, source).meta["val"].shape[_ROWS] if node in own.before else count
                result = self._add(cast(Any, node.target), args, node.kwargs, node, height)
                taken[node] = self._values[result]
        return (result,)

    def finish(self) -> None:
        """Give the results of the segment to their readers, and remove the old nodes."""
        for tensor, made in self._results.items():
            self._values[tensor].replace_all_uses_with(self._values[made])
            self._values[tensor] = self._values[made]
        self._results.clear()
        for node in reversed(self._old):
            shapes = [source for source in node.all_input_nodes if kind_of(source) == "CONST_SHAPE"]
            self._graph.erase_node(node)
            for shape in shapes:
                if not shape.users:
                    self._graph.erase_node(shape)

    def _parameters(self, node: fx.Node, op: RowOperator, rows: OperatorRows, args: list[Any]) -> list[Any]:
        """Return the arguments behind the first tensor, with the pads and sizes of these rows."""
        match kind_of(node):
            case "CONV2D" | "DEPTHWISE_CONV2D" | "AVG_POOL2D" | "MAX_POOL2D":
                at = [i for i, arg in enumerate(node.args) if isinstance(arg, Sequence)]
                place = at[1] if kind_of(node).endswith("CONV2D") else at[2]
                args[place - 1] = [*op.window_pads(rows), *window_of(node)[2][2:]]
            case "PAD":
                sizes = integers(cast(fx.Node, node.args[1]))
                args[0] = constant_shape(node, [0, 0, *op.own_pads(rows), *sizes[4:]])
            case "SLICE":
                starts, sizes = (integers(cast(fx.Node, arg)) for arg in node.args[1:3])
                first, last = rows.computed
                starts[_ROWS] += first - rows.reads[0][0]
                sizes[_ROWS] = last - first
                args[:2] = constant_shape(node, starts), constant_shape(node, sizes)
            case _:
                pass
        return args

    def _add(self, target: Any, args: tuple[Any, ...], kwargs: Any, like: fx.Node, rows: int) -> int:
        """Add a node that gives a tensor like another one, with another number of rows."""
        made = self._graph.call_function(target, args, dict(kwargs))
        value = like.meta["val"]
        shape = list(value.shape)
        shape[_ROWS] = rows
        made.meta = like.meta | {"val": value.new_empty(shape)}
        self._values.append(made)
        return len(self._values) - 1

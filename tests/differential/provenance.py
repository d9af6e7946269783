"""Invariants of the provenance of a conversion, checked without the code that made it."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from deuteron.npu.neutron.convert import Conversion, Fate
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op

Values = Mapping[str, npt.NDArray[np.generic]]


def problems(source: Graph, conversion: Conversion, values: Values) -> Iterator[str]:
    """Yield one sentence per fault; `values` are all tensors of one run of the source graph."""
    if conversion.container is None:
        return  # computes nothing: no kernel, and nothing that one could stand for
    kernels, fates = conversion.provenance.kernels, conversion.provenance.ops
    if [k.ops for k in kernels] != [call.origin for call in conversion.program.calls]:
        yield "the provenance and the program name different operators"
    nameless = [kernel.index for kernel in kernels if not kernel.ops]
    produced = source.producers()
    copies = [name for name in source.outputs if name not in produced]
    if len(nameless) != len(copies):
        yield f"calls {nameless} come from no operator; outputs that are copies of inputs or constants: {copies}"
    known = {index for op in source.ops for index in op.origin}
    for kernel in kernels:
        name = f"call {kernel.index} ({kernel.kernel})"
        if not known.issuperset(kernel.ops):
            yield f"{name} names an operator that is not there: {kernel.ops}"
        elif kernel.ops and not _connected(source, kernel.ops):
            yield f"{name} names operators that do not depend on each other: {kernel.ops}"
    walk = _Walk(source, frozenset(fate.index for fate in fates if fate.fate is Fate.KERNELS))
    folded = {index for op in source.ops if not walk.reads_an_input(op) for index in op.origin}
    live = {index for op in source.ops if walk.is_read(op) for index in op.origin}
    for fate in fates:
        named = tuple(kernel.index for kernel in kernels if fate.index in kernel.ops)
        if named != fate.kernels:
            yield f"op {fate.index} ({fate.op}) says kernels {fate.kernels}, those that name it are {named}"
        if (fate.fate is Fate.FOLDED) != (fate.index in folded and not named):
            yield f"op {fate.index} ({fate.op}) is {fate.fate.value}, but its operands say otherwise"
        if not named and fate.index in live - folded:
            yield f"op {fate.index} ({fate.op}) is named by no kernel call"
        if fate.fate is not Fate.FREE:
            continue
        if not _moves_only(source, fate.index, values):
            yield f"op {fate.index} ({fate.op}) computes something, but no kernel of its own does"
        elif named != (beside := tuple(k.index for k in kernels if walk.beside(fate.index).intersection(k.ops))):
            yield f"op {fate.index} ({fate.op}) is named by calls {named}, those that compute beside it are {beside}"


class _Walk:
    """Walks from operator to operator, afresh for each question.

    Attributes:
        computed: TFLite operators that kernel calls compute.
    """

    def __init__(self, graph: Graph, computed: frozenset[int]) -> None:
        self.computed = computed
        self._graph = graph

    def reads_an_input(self, op: Op) -> bool:
        """Return whether a path back from an operator ends at an input of the graph."""
        return any(
            name in self._graph.inputs or any(map(self.reads_an_input, self._writers(name))) for name in op.inputs
        )

    def is_read(self, op: Op) -> bool:
        """Return whether a path forward from an operator ends at an output of the graph."""
        return any(name in self._graph.outputs or any(map(self.is_read, self._readers(name))) for name in op.outputs)

    def beside(self, index: int) -> set[int]:
        """The next computed operators on all ways back from an operator; where there are none, those on all ways on."""
        ops = [op for op in self._graph.ops if index in op.origin]
        before = {i for op in ops for i in self._next(op, back=True)}
        return before or {i for op in ops for i in self._next(op, back=False)}

    def _next(self, op: Op, *, back: bool) -> Iterator[int]:
        names = op.inputs if back else op.outputs
        for neighbour in (n for name in names for n in (self._writers(name) if back else self._readers(name))):
            if own := self.computed.intersection(neighbour.origin):
                yield from own
            else:
                yield from self._next(neighbour, back=back)

    def _writers(self, name: str) -> list[Op]:
        return [op for op in self._graph.ops if name in op.outputs]

    def _readers(self, name: str) -> list[Op]:
        return [op for op in self._graph.ops if name in op.inputs]


def _connected(graph: Graph, indices: tuple[int, ...]) -> bool:
    """True when each operator depends on another one or the other way round, and all hang together by that.

    They need not be neighbours: a transpose moves through others to the one that then does its work.
    """
    sources: dict[str, set[int]] = {}
    related = {index: {index} for index in indices}
    for op in graph.ops:
        before = set[int]().union(*(sources.get(name, ()) for name in op.inputs)).intersection(indices)
        for index in set(op.origin).intersection(indices):
            for other in before:
                related[index].add(other)
                related[other].add(index)
        sources[op.outputs[0]] = before.union(op.origin)
    reached = {indices[0]}
    while (grown := reached.union(*(related[index] for index in reached))) != reached:
        reached = grown
    return reached == set(indices)


def _moves_only(graph: Graph, index: int, values: Values) -> bool:
    """True when the operator's result holds nothing but stored values of what it reads."""
    ops = [op for op in graph.ops if index in op.origin]
    read = np.concatenate([values[name].ravel() for op in ops for name in op.inputs])
    written = np.concatenate([values[name].ravel() for op in ops for name in op.outputs])
    return bool(np.isin(written, read).all())

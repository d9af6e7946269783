"""Makes a failing graph small: fewer operators, fewer outputs, smaller dimensions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from deuteron.errors import VerifyError
from deuteron.npu.neutron.ir import interpret, shapes
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op
from deuteron.npu.neutron.ir.types import Tensor

Array = npt.NDArray[np.generic]
Case = tuple[Graph, tuple[Array, ...]]
Fails = Callable[[Graph, Sequence[Array]], bool]


def shrink(graph: Graph, inputs: Sequence[Array], fails: Fails) -> Case:
    """The smallest case found that still fails; the graph must fail and the interpreter be able to run it."""
    case = (graph, tuple(inputs))
    while True:
        smaller = _fewer_dims(_fewer_outputs(_fewer_ops(case, fails), fails), fails)
        if smaller == case or _size(smaller) == _size(case):
            return smaller
        case = smaller


def _size(case: Case) -> tuple[int, int, int]:
    graph = case[0]
    return len(graph.ops), len(graph.outputs), sum(tensor.type.numel for tensor in graph.tensors)


def _fewer_ops(case: Case, fails: Fails) -> Case:
    """The case without runs of operators that the failure does not need, long runs first."""
    length = max(1, len(case[0].ops) // 2)
    while length:
        at = 0
        while at < len(case[0].ops):
            graph = case[0]
            kept = (*graph.ops[:at], *graph.ops[at + length :])
            if kept and fails(*(smaller := _cut_out(case, kept))):
                case = smaller
            else:
                at += length
        length //= 2
    return case


def _cut_out(case: Case, kept: tuple[Op, ...]) -> Case:
    """A case of these operators only: what others computed becomes an input, or a constant where it was one."""
    graph, inputs = case
    values = interpret.run(graph, inputs)
    constant = _constants(graph)
    made = {name for op in kept for name in op.outputs}
    read = dict.fromkeys(name for op in kept for name in op.inputs)
    fed = tuple(name for name in read if name not in made and name not in constant)
    outputs = tuple(name for op in kept for name in op.outputs if name in graph.outputs or name not in read)
    tensors: list[Tensor] = []
    for name in dict.fromkeys((*fed, *read, *made)):
        tensor = graph.tensor(name)
        known = name in constant and name not in made
        tensors.append(replace(tensor, data=values[name].tobytes()) if known else tensor)
    renumbered = tuple(replace(op, origin=(index,)) for index, op in enumerate(kept))
    return Graph(graph.name, tuple(tensors), fed, outputs, renumbered), tuple(values[name] for name in fed)


def _constants(graph: Graph) -> set[str]:
    """Tensors that depend on no input."""
    known = {tensor.name for tensor in graph.tensors if tensor.is_const}
    for op in graph.ops:
        if known.issuperset(op.inputs):
            known.update(op.outputs)
    return known


def _fewer_outputs(case: Case, fails: Fails) -> Case:
    """The case without outputs that other operators read anyway."""
    for name in case[0].outputs:
        graph = case[0]
        read = any(name in op.inputs for op in graph.ops)
        rest = tuple(other for other in graph.outputs if other != name)
        if read and rest and fails(smaller := replace(graph, outputs=rest), case[1]):
            case = smaller, case[1]
    return case


def _fewer_dims(case: Case, fails: Fails) -> Case:
    """The case with inputs cut off as far as it still fails."""
    for index, name in enumerate(case[0].inputs):
        for axis in range(len(case[0].type(name).shape)):
            for size in _sizes(case[0].type(name).shape[axis]):
                smaller = _narrowed(case, index, axis, size)
                if smaller is not None and fails(*smaller):
                    case = smaller
                    break
    return case


def _sizes(size: int) -> Iterator[int]:
    yield from sorted({1, 2, 3, size // 2, size - 1} & set(range(1, size)))


def _narrowed(case: Case, index: int, axis: int, size: int) -> Case | None:
    """The case with input `index` cut to `size` along an axis, None where an operator cannot follow."""
    graph, inputs = case
    known = {tensor.name: tensor.type.shape for tensor in graph.tensors}
    before = known[graph.inputs[index]]
    known[graph.inputs[index]] = (*before[:axis], size, *before[axis + 1 :])
    for op in graph.ops:
        (name,) = op.outputs
        declared = known[name]
        at = [i for i, dim in enumerate(declared) if dim == before[axis]]
        followed = [tuple(size if i == one else dim for i, dim in enumerate(declared)) for one in at]
        found = _first_valid(op, tuple(known[source] for source in op.inputs), [*followed, declared])
        if found is None:
            return None
        known[name] = found
    tensors = tuple(replace(tensor, type=replace(tensor.type, shape=known[tensor.name])) for tensor in graph.tensors)
    values = list(inputs)
    values[index] = np.ascontiguousarray(np.take(inputs[index], range(size), axis))
    return replace(graph, tensors=tensors), tuple(values)


def _first_valid(op: Op, sources: tuple[shapes.Shape, ...], declared: list[shapes.Shape]) -> shapes.Shape | None:
    """The op's output shape for the first declaration that it takes."""
    for candidate in declared:
        try:
            return shapes.output_shape(op, sources, candidate)
        except VerifyError:
            continue
    return None

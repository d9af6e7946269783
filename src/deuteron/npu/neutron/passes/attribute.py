"""Attributes operators without a kernel call to the calls that represent them."""

from collections.abc import Mapping
from dataclasses import replace

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op
from deuteron.operators.program import Program


def attribute(source: Graph, program: Program) -> Program:
    """Return the program whose calls name all TFLite operators that outputs of `source` depend on, except folded ones.

    An operator without a call moves no byte: it was a reshape, a cancelled transpose, an activation that the
    quantization implies, or memory that others read or write in parts. The calls that compute its operands also name
    it; at a graph input, the calls that read its result.
    """
    named = {index for call in program.calls for index in call.origin}
    done = named | constant_ops(source)
    writers, readers = _writers(source, named), _readers(source, named)
    stood_for: dict[int, set[int]] = {}
    for op in source.without_dead_ops().ops:
        if not done.isdisjoint(op.origin):
            continue
        (output,) = op.outputs
        for index in writers.get(output) or readers.get(output, ()):
            stood_for.setdefault(index, set()).update(op.origin)
    calls = tuple(
        replace(call, origin=tuple(sorted({*call.origin, *(i for at in call.origin for i in stood_for.get(at, ()))})))
        for call in program.calls
    )
    return replace(program, calls=calls)


def constant_ops(graph: Graph) -> set[int]:
    """Return the TFLite operators whose results depend on constants only."""
    known = {tensor.name for tensor in graph.tensors if tensor.is_const}
    constant: set[int] = set()
    for op in graph.ops:
        if known.issuperset(op.inputs):
            known.update(op.outputs)
            constant.update(op.origin)
    return constant


def _writers(graph: Graph, named: set[int]) -> Mapping[str, set[int]]:
    """Return for each tensor the named operators that compute it, across unnamed ones; constants have none."""
    writers: dict[str, set[int]] = {}
    for op in graph.ops:
        through = (writers.get(name, set[int]()) for name in op.inputs)
        writers[op.outputs[0]] = _own(op, named) or set[int]().union(*through)
    return writers


def _readers(graph: Graph, named: set[int]) -> Mapping[str, set[int]]:
    """Return for each tensor the named operators that read it, across unnamed ones."""
    readers: dict[str, set[int]] = {}
    for op in reversed(graph.ops):
        beyond = _own(op, named) or readers.get(op.outputs[0], set[int]())
        for name in op.inputs:
            readers.setdefault(name, set()).update(beyond)
    return readers


def _own(op: Op, named: set[int]) -> set[int]:
    return named.intersection(op.origin)

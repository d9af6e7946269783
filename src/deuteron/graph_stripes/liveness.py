"""Bytes of a TFLite model's tensors that are live at the same time, in the order of its operators."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deuteron.graph_stripes.tflite_rows import macs, nbytes
from deuteron.tflite.flat_model import FlatModel

_ALIGNMENT = 16
MOVES = frozenset(("CONCATENATION", "PAD", "PADV2", "SLICE", "STRIDED_SLICE"))
"""Operators that only move bytes."""

_VIEWS = frozenset(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"))
"""Operators whose result a runtime may leave in the memory of the input."""


@dataclass(frozen=True, slots=True)
class Arena:
    """The needs of a runtime that runs the operators one by one.

    Attributes:
        nbytes: largest number of bytes of tensors that are live at the same time, each a multiple of 16.
        macs: multiply-accumulates.
        copied: bytes that slices, pads and concatenations write.
        operators: number of operators.
    """

    nbytes: int
    macs: int
    copied: int
    operators: int


def arena_of(model: FlatModel) -> Arena:
    """Return the arena of a model by liveness: a lower bound of any address planner's result."""
    live = live_bytes(model, {})
    copied = sum(nbytes(model.tensors[op.outputs[0]]) for op in model.operators if op.name in MOVES)
    work = sum(macs(model, at) for at in range(len(model.operators)))
    return Arena(max(live, default=0), work, copied, len(model.operators))


def live_bytes(model: FlatModel, roots: Mapping[int, int]) -> Sequence[int]:
    """Return the live bytes at each operator; a tensor is in the memory of its root."""
    count = len(model.operators)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    size: dict[int, int] = {}
    for tensor, at in _uses(model):
        root = tensor
        while root in roots:
            root = roots[root]
        first[root], last[root] = min(at, first.get(root, at)), max(at, last.get(root, at))
        size[root] = -(-nbytes(model.tensors[root]) // _ALIGNMENT) * _ALIGNMENT
    change = [0] * (count + 1)
    for tensor, begin in first.items():
        change[begin] += size[tensor]
        change[min(last[tensor], count - 1) + 1] -= size[tensor]
    live, total = list[int](), 0
    for each in change[:-1]:
        total += each
        live.append(total)
    return live


def _uses(model: FlatModel) -> Iterator[tuple[int, int]]:
    """Yield tensors and the operators that write or read them; the caller writes inputs and reads outputs."""
    yield from ((tensor, 0) for tensor in model.inputs)
    alias = views_of(model)
    for at, op in enumerate(model.operators):
        for tensor in (*op.inputs, *op.outputs):
            if tensor >= 0 and not model.tensors[tensor].has_values:
                yield alias.get(tensor, tensor), at
    yield from ((alias.get(tensor, tensor), len(model.operators)) for tensor in model.outputs)


def views_of(model: FlatModel) -> Mapping[int, int]:
    """Return the tensor whose memory a view has."""
    views: dict[int, int] = {}
    for op in model.operators:
        if op.name in _VIEWS and op.inputs[0] >= 0 and not model.tensors[op.inputs[0]].has_values:
            views[op.outputs[0]] = views.get(op.inputs[0], op.inputs[0])
    return views


def roots_of(model: FlatModel) -> Mapping[int, int]:
    """Return the tensor whose memory has another: a slice is in its source, a part in its concatenation."""
    roots: dict[int, int] = {}
    readers: dict[int, int] = {}
    for op in model.operators:
        for tensor in {*op.inputs}:
            readers[tensor] = readers.get(tensor, 0) + 1
    for op in model.operators:
        if op.name in ("SLICE", "STRIDED_SLICE", "PAD"):
            roots[op.outputs[0]] = op.inputs[0]
        elif op.name == "CONCATENATION":
            for tensor in op.inputs:
                if readers[tensor] == 1 and tensor not in roots and math.prod(model.tensors[tensor].shape):
                    roots[tensor] = op.outputs[0]
    return roots

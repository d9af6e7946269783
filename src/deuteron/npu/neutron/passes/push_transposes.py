"""Moves transposes towards the outputs, where they cancel with others."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

import numpy as np

from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op, Transpose
from deuteron.npu.neutron.ir.types import Tensor, TensorType
from deuteron.npu.neutron.passes.base import merge_origins, new_name

Perm = tuple[int, ...]
T = TypeVar("T")

PADS = ops.Pad | ops.MirrorPad


@dataclass(frozen=True, slots=True)
class PushTransposes:
    """Moves an op before the transposes of its inputs, if it computes the same in another order of dimensions.

    All inputs must have the same permutation (constants are transposed at compile time) without other readers. The
    result must not be larger. Padding stays before an op that it can be fused into, unless the transpose may cancel.
    """

    name: ClassVar[str] = "push-transposes"

    def apply(self, graph: Graph) -> Graph:
        """Return the graph with transposes as late as useful."""
        work = _Work(graph, graph.producers(), graph.consumers(), {tensor.name for tensor in graph.tensors})
        moved: list[Op] = []
        for op in graph.ops:
            moved += work.pushed(op)
            work.producers[op.outputs[0]] = moved[-1]
        if tuple(moved) == graph.ops:
            return graph
        return graph.with_ops(tuple(moved), tuple(work.tensors)).without_dead_ops()


@dataclass(slots=True)
class _Work:
    graph: Graph
    producers: dict[str, Op]
    """State of the moves: a transpose that was moved after one op is moved after the next."""
    consumers: Mapping[str, tuple[Op, ...]]
    taken: set[str]
    tensors: list[Tensor] = field(default_factory=list[Tensor])

    def pushed(self, op: Op) -> tuple[Op, ...]:
        """Return the op before its transposes, then the transpose of its result; or the op unchanged."""
        transposes = self.transposes_before(op)
        if not transposes:
            return (op,)
        perm = transposes[0].perm
        twin, result = _before(op, perm, self.graph)
        if twin is None or not self.gains(op, transposes, result):
            return (op,)
        sources = {t.outputs[0]: t.inputs[0] for t in transposes}
        inputs = tuple(sources.get(name) or self.constant_before(op, name, perm) for name in op.inputs)
        if result == tuple(range(len(result))):
            return (replace(twin, inputs=inputs, origin=merge_origins(op, *transposes)),)
        # One op with merged transposes.
        origin = merge_origins(*transposes) if len(transposes) == 1 else merge_origins(op, *transposes)
        middle = self.tensor(f"{op.outputs[0]}/untransposed", self.type_before(op, result))
        return replace(twin, inputs=inputs, outputs=(middle,)), Transpose(
            inputs=(middle,), outputs=op.outputs, perm=result, origin=origin
        )

    def transposes_before(self, op: Op) -> tuple[Transpose, ...]:
        """Return the input transposes, if they share a permutation without other readers, and the rest is constant."""
        transposes: list[Transpose] = []
        for name in dict.fromkeys(op.inputs):
            before = self.producers.get(name)
            if isinstance(before, Transpose) and name not in self.graph.outputs and self.consumers[name] == (op,):
                transposes.append(before)
            elif not (isinstance(op, ops.BinaryOp) and self.graph.tensor(name).is_const):
                return ()
        return tuple(transposes) if len({t.perm for t in transposes}) == 1 else ()

    def gains(self, op: Op, transposes: tuple[Transpose, ...], result: Perm) -> bool:
        """Return True if the transpose vanishes, may cancel, or moves at most as many bytes as the removed ones."""
        (output,) = op.outputs
        if result == tuple(range(len(result))):
            return True
        readers = self.consumers.get(output, ())
        if output not in self.graph.outputs and readers and all(isinstance(r, Transpose) for r in readers):
            return True
        before = sum(self.graph.type(t.outputs[0]).numel for t in transposes)
        return not isinstance(op, PADS) and self.graph.type(output).numel <= before

    def constant_before(self, op: Op, name: str, perm: Perm) -> str:
        """Return a constant operand before the transpose, with all dimensions."""
        tensor = self.graph.tensor(name)
        values = tensor.array().reshape((1,) * (len(perm) - len(tensor.type.shape)) + tensor.type.shape)
        turned = np.ascontiguousarray(values.transpose(_inverse(perm)))
        return self.tensor(f"{op.outputs[0]}/{name}", replace(tensor.type, shape=turned.shape), turned.tobytes())

    def type_before(self, op: Op, result: Perm) -> TensorType:
        """Return the type of the op's result before the transpose."""
        kind = self.graph.type(op.outputs[0])
        return replace(kind, shape=tuple(kind.shape[i] for i in _inverse(result)))

    def tensor(self, wanted: str, kind: TensorType, data: bytes | None = None) -> str:
        """Add a tensor and return its name."""
        name = new_name(wanted, self.taken)
        self.tensors.append(Tensor(name, kind, data))
        return name


def _before(op: Op, perm: Perm, graph: Graph) -> tuple[Op | None, Perm]:
    """Return the op on untransposed inputs, and the permutation of its result."""
    match op:
        case ops.Unary() | ops.LeakyRelu() | ops.Lookup() | ops.Quantize():
            return op, perm
        case ops.Add() | ops.Sub() | ops.Mul() | ops.Maximum() | ops.Minimum():
            return (op if _keep_rank(op, graph, len(perm)) else None), perm
        case ops.Softmax() if perm[-1] == len(perm) - 1:
            return op, perm
        case ops.Concat():
            return replace(op, axis=perm[op.axis]), perm
        case ops.Slice():
            return replace(op, begin=_scattered(op.begin, perm)), perm
        case ops.Pad() | ops.MirrorPad():
            return replace(op, paddings=_scattered(op.paddings, perm)), perm
        case ops.ReductionOp():
            axes = tuple(sorted(perm[axis] for axis in op.axes))
            return replace(op, axes=axes), _kept(op, perm, graph)
        case _:
            return None, perm


def _keep_rank(op: Op, graph: Graph, rank: int) -> bool:
    """Return True if the transposed inputs have the result's rank, without added dimensions."""
    names = [name for name in op.inputs if not graph.tensor(name).is_const]
    return all(len(graph.type(name).shape) == rank for name in (*names, *op.outputs))


def _kept(op: ops.ReductionOp, perm: Perm, graph: Graph) -> Perm:
    """Return the permutation of the dimensions that a reduction keeps."""
    if len(graph.type(op.outputs[0]).shape) == len(perm):
        return perm
    left = [perm[axis] for axis in range(len(perm)) if axis not in op.axes]
    return tuple(sorted(left).index(axis) for axis in left)


def _scattered(values: tuple[T, ...], perm: Perm) -> tuple[T, ...]:
    """Return values per dimension before a transpose, from those after it."""
    before = [values[0]] * len(perm)
    for axis, value in zip(perm, values, strict=True):
        before[axis] = value
    return tuple(before)


def _inverse(perm: Perm) -> Perm:
    return tuple(perm.index(axis) for axis in range(len(perm)))

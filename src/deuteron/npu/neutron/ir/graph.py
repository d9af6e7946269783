"""A graph: named tensors and the operators between them, in execution order."""

from dataclasses import dataclass, field, replace
from typing import Self

from deuteron.errors import VerifyError
from deuteron.npu.neutron.ir.ops import Op
from deuteron.npu.neutron.ir.types import Tensor, TensorType


@dataclass(frozen=True, slots=True)
class Graph:
    """Single-assignment graph: each tensor is an input, a constant or the output of exactly one op.

    `ops` is a valid execution order. `inputs` and `outputs` are tensor names in the order of the caller's arguments.
    The order of `tensors` means nothing: two graphs that differ only in it are equal.
    """

    name: str
    tensors: tuple[Tensor, ...] = field(compare=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ops: tuple[Op, ...]
    _by_name: dict[str, Tensor] = field(init=False, repr=False, hash=False)

    def __post_init__(self) -> None:
        by_name = {tensor.name: tensor for tensor in self.tensors}
        if len(by_name) != len(self.tensors):
            raise VerifyError(f"graph `{self.name}` has two tensors with one name")
        object.__setattr__(self, "_by_name", by_name)

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name."""
        try:
            return self._by_name[name]
        except KeyError:
            raise VerifyError(f"graph `{self.name}` has no tensor `{name}`") from None

    def type(self, name: str) -> TensorType:
        """Shape, dtype and quantization of the tensor of that name."""
        return self.tensor(name).type

    def producers(self) -> dict[str, Op]:
        """Tensor name -> the op that computes it."""
        return {name: op for op in self.ops for name in op.outputs}

    def consumers(self) -> dict[str, tuple[Op, ...]]:
        """Tensor name -> the ops that read it, in execution order, each once."""
        users: dict[str, list[Op]] = {}
        for op in self.ops:
            for name in dict.fromkeys(op.inputs):
                users.setdefault(name, []).append(op)
        return {name: tuple(ops) for name, ops in users.items()}

    def without_dead_ops(self) -> Self:
        """The graph without ops that contribute to no output."""
        needed = set(self.outputs)
        kept: list[Op] = []
        for op in reversed(self.ops):
            if needed.intersection(op.outputs):
                needed.update(op.inputs)
                kept.append(op)
        return self.with_ops(tuple(reversed(kept)))

    def with_ops(self, ops: tuple[Op, ...], new_tensors: tuple[Tensor, ...] = ()) -> Self:
        """The graph with other ops; tensors that nothing names any more are dropped, `new_tensors` are added."""
        if ops == self.ops and not new_tensors:
            return self
        used = {*self.inputs, *self.outputs, *(n for op in ops for n in (*op.inputs, *op.outputs))}
        tensors = tuple(t for t in (*self.tensors, *new_tensors) if t.name in used)
        return replace(self, ops=ops, tensors=tensors)

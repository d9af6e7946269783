"""Builder of a program: buffers, storage of tensors, calls."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from deuteron.errors import WHERE, UnsupportedError
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op
from deuteron.npu.neutron.ir.types import TensorType
from deuteron.npu.neutron.passes.base import new_name
from deuteron.npu.neutron.passes.lowering.buffer_aliasing import Alias
from deuteron.operators.kernel_params import KernelParams
from deuteron.operators.limits import ALIGNMENT
from deuteron.operators.program import Buffer, Kernel, KernelCall, Program, Ref
from deuteron.operators.rules import limit_problem


class Builder:
    """Collects calls in execution order and their buffers.

    Args:
        graph: the graph being lowered.
        aliases: places of tensors that share storage with others, by name.
    """

    def __init__(self, graph: Graph, aliases: Mapping[str, Alias]) -> None:
        self.graph = graph
        self._aliases = aliases
        self._buffers: dict[str, Buffer] = {}
        self._storage: dict[str, Ref] = {}
        self._constants: dict[bytes, str] = {}
        self._calls: list[KernelCall] = []
        self._taken = {tensor.name for tensor in graph.tensors if not tensor.is_const}
        self._of_caller = {*graph.inputs, *graph.outputs}
        for name in graph.inputs:
            self._storage[name] = Ref(self._buffer(name, graph.type(name).nbytes), 0, graph.type(name).nbytes)

    def type(self, name: str) -> TensorType:
        """Shape, dtype and quantization of a tensor."""
        return self.graph.type(name)

    def tensor(self, name: str) -> Ref:
        """Return a whole tensor; a constant goes to the weights, other tensors get a buffer at first use."""
        tensor = self.graph.tensor(name)
        if tensor.data is not None:
            return self.constant(name, tensor.data)
        if name not in self._storage:
            alias = self._aliases.get(name, Alias(name))
            self._buffer(alias.buffer, self.graph.type(alias.buffer).nbytes)
            nbytes = tensor.type.nbytes
            if alias.pitch is not None:
                channels = tensor.type.shape[-1]
                nbytes = (nbytes // channels - 1) * alias.pitch + channels
            self._storage[name] = Ref(alias.buffer, alias.offset, nbytes)
        return self._storage[name]

    def pitch(self, name: str) -> int:
        """Return the stride in bytes between neighbouring pixels (NHWC)."""
        alias = self._aliases.get(name)
        return self.type(name).shape[-1] if alias is None or alias.pitch is None else alias.pitch

    def alias(self, name: str, source: str, offset: int = 0) -> bool:
        """Place tensor `name` at byte `offset` of `source`.

        False if it has another alias, or kernels could not read it there.
        """
        stored = self.tensor(source)
        place = Alias(stored.buffer, stored.offset + offset)
        if self._aliases.get(name, place) != place:
            return False
        if place.offset % ALIGNMENT and stored.buffer not in self._of_caller:
            return False
        self._storage[name] = Ref(place.buffer, place.offset, self.type(name).nbytes)
        return True

    def constant(self, name: str, data: bytes) -> Ref:
        """Return a constant with these bytes; equal ones are shared."""
        if data not in self._constants:
            self._constants[data] = self._buffer(new_name(name, self._taken), len(data), data)
        return Ref(self._constants[data], 0, len(data))

    def array(self, name: str, values: npt.NDArray[np.generic]) -> Ref:
        """A constant with the bytes of an array."""
        return self.constant(name, values.tobytes())

    def scratch(self, name: str, nbytes: int) -> Ref:
        """A new scratch buffer."""
        return Ref(self._buffer(new_name(name, self._taken), nbytes), 0, nbytes)

    def call(self, op: Op, kernel: Kernel, operands: tuple[Ref, ...], params: KernelParams) -> None:
        """Append one kernel call that computes (part of) `op`."""
        if problem := limit_problem(params):
            raise self.unsupported(op, f"kernel {kernel.name} cannot take it: {problem}")
        self._calls.append(KernelCall(kernel, operands, params, op.origin))

    def unsupported(self, op: Op, problem: str, hint: str | None = None) -> UnsupportedError:
        """Return the error for `op`, with its place and the reason."""
        index = f"op {op.origin[0]} " if op.origin else ""
        where = f"{index}{type(op).__name__}, output `{op.outputs[0]}`"
        return UnsupportedError(
            problem,
            hint=hint or "change the model, or keep this operator on the CPU with `--operators-not-to-delegate`",
            where=where,
            operators={WHERE: op.origin[0]} if op.origin else None,
        )

    def program(self) -> Program:
        """The finished program."""
        return Program(tuple(self._buffers.values()), self.graph.inputs, self.graph.outputs, tuple(self._calls))

    def _buffer(self, name: str, nbytes: int, data: bytes | None = None) -> str:
        self._buffers.setdefault(name, Buffer(name, nbytes, data))
        return name

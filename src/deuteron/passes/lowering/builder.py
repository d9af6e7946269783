"""The program under construction: buffers, storage of tensors, calls."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from deuteron.errors import UnsupportedError
from deuteron.ir.graph import Graph
from deuteron.ir.ops import Op
from deuteron.ir.types import TensorType
from deuteron.kernels.catalogue import Kernel
from deuteron.kernels.params import KernelParams
from deuteron.kernels.program import Buffer, KernelCall, Program, Ref
from deuteron.kernels.rules import limit_problem


class Builder:
    """Collects calls in execution order and the buffers that they name.

    Args:
        graph: the graph being lowered.
        homes: tensor name -> buffer that must hold it, for tensors that share storage with a graph output.
    """

    def __init__(self, graph: Graph, homes: Mapping[str, str]) -> None:
        self.graph = graph
        self._homes = homes
        self._buffers: dict[str, Buffer] = {}
        self._storage: dict[str, str] = {}
        self._constants: dict[bytes, str] = {}
        self._calls: list[KernelCall] = []
        self._reserved = {tensor.name for tensor in graph.tensors if not tensor.is_const} | set(homes.values())
        for name in graph.inputs:
            self._storage[name] = self._buffer(name, graph.type(name).nbytes)

    def type(self, name: str) -> TensorType:
        """Shape, dtype and quantisation of a tensor."""
        return self.graph.type(name)

    def tensor(self, name: str) -> Ref:
        """The whole of a tensor; a constant goes to the weights, any other gets its buffer when first named."""
        tensor = self.graph.tensor(name)
        if tensor.data is not None:
            return self.constant(name, tensor.data)
        if name not in self._storage:
            self._storage[name] = self._buffer(self._homes.get(name, name), tensor.type.nbytes)
        return Ref(self._storage[name], 0, tensor.type.nbytes)

    def alias(self, name: str, source: str) -> bool:
        """Lets tensor `name` share the storage of `source`; False when both have a home of their own."""
        stored = self.tensor(source).buffer
        if self._homes.get(name, stored) != stored:
            return False
        self._storage[name] = stored
        return True

    def constant(self, name: str, data: bytes) -> Ref:
        """A constant with these bytes; equal ones are shared, whatever their names."""
        if data not in self._constants:
            self._constants[data] = self._buffer(self._free(name), len(data), data)
        return Ref(self._constants[data], 0, len(data))

    def array(self, name: str, values: npt.NDArray[np.generic]) -> Ref:
        """A constant with the bytes of an array."""
        return self.constant(name, values.tobytes())

    def scratch(self, name: str, nbytes: int) -> Ref:
        """A new scratch buffer."""
        return Ref(self._buffer(self._free(name), nbytes), 0, nbytes)

    def output(self, name: str, nbytes: int) -> Ref:
        """A buffer of the caller that no tensor of the graph lives in."""
        return Ref(self._buffer(name, nbytes), 0, nbytes)

    def call(self, op: Op, kernel: Kernel, operands: tuple[Ref, ...], params: KernelParams) -> None:
        """Appends one kernel call that stands for (part of) `op`."""
        if problem := limit_problem(params):
            raise self.unsupported(op, f"kernel {kernel.name} cannot take it: {problem}")
        self._calls.append(KernelCall(kernel, operands, params, op.origin))

    def unsupported(self, op: Op, problem: str, hint: str | None = None) -> UnsupportedError:
        """The error that refuses `op`: where it is and what is wrong with it."""
        index = f"op {op.origin[0]} " if op.origin else ""
        where = f"{index}{type(op).__name__}, output `{op.outputs[0]}`"
        return UnsupportedError(
            problem,
            hint=hint or "change the model, or keep this operator on the CPU with `--operators-not-to-delegate`",
            where=where,
        )

    def program(self, outputs: tuple[str, ...]) -> Program:
        """The finished program, whose outputs are these buffers."""
        inputs = tuple(self._storage[name] for name in self.graph.inputs)
        return Program(tuple(self._buffers.values()), inputs, outputs, tuple(self._calls))

    def _buffer(self, name: str, nbytes: int, data: bytes | None = None) -> str:
        self._buffers.setdefault(name, Buffer(name, nbytes, data))
        return name

    def _free(self, name: str) -> str:
        """`name`, or the first numbered form of it that no buffer or tensor with storage of its own has."""
        candidate, number = name, 1
        while candidate in self._buffers or candidate in self._reserved:
            candidate, number = f"{name}#{number}", number + 1
        return candidate

"""Makes TFLite files with resource variables: a main subgraph, and one that CALL_ONCE runs."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

Array = npt.NDArray[np.generic]

QUANT = Quant((0.5,), (-3,))
"""Quantization of all int8 tensors."""


class StatefulNet:
    """The operators of a file so far; tensors are named by their index."""

    def __init__(self) -> None:
        self.tensors: list[FlatTensor] = []
        self.operators: list[FlatOperator] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self._initial: dict[str, Array] = {}

    def tensor(self, shape: tuple[int, ...], dtype: str = "INT8", data: Array | None = None) -> int:
        """A new tensor."""
        index = len(self.tensors)
        quant = QUANT if dtype == "INT8" else None
        content = None if data is None else data.tobytes()
        self.tensors.append(FlatTensor(f"t{index}", shape, dtype, quant, content))
        return index

    def input(self, shape: tuple[int, ...], dtype: str = "INT8") -> int:
        """A new input."""
        self.inputs.append(self.tensor(shape, dtype))
        return self.inputs[-1]

    def variable(self, name: str, initial: Array | None) -> int:
        """The handle of a variable, without a value before the first run where that is None."""
        if initial is not None:
            self._initial[name] = initial
        handle = self.tensor((), "RESOURCE")
        self.operators.append(_handle(name, handle))
        return handle

    def read(self, handle: int, shape: tuple[int, ...], dtype: str = "INT8") -> int:
        """The value of a variable."""
        return self.add("READ_VARIABLE", [handle], shape, dtype)

    def assign(self, handle: int, value: int) -> None:
        """Give a variable a value."""
        self.operators.append(FlatOperator("ASSIGN_VARIABLE", (handle, value), ()))

    def add(
        self, name: str, inputs: list[int], shape: tuple[int, ...], dtype: str = "INT8", kind: str = "",
        options: Mapping[str, int | tuple[int, ...]] | None = None,
    ) -> int:  # fmt: skip
        """The result of an operator."""
        out = self.tensor(shape, dtype)
        self.operators.append(FlatOperator(name, tuple(inputs), (out,), kind, dict(options or {})))
        return out

    def file(self) -> bytes:
        """The bytes of the file; CALL_ONCE comes first, where a variable has an initial value."""
        once = FlatOperator("CALL_ONCE", (), (), "CallOnceOptions", {"InitSubgraphIndex": 1})
        operators = (once, *self.operators) if self._initial else tuple(self.operators)
        main = FlatModel("main", tuple(self.tensors), tuple(self.inputs), tuple(self.outputs), operators)
        return encode(main, others=[self._first()] if self._initial else [])

    def _first(self) -> FlatModel:
        tensors: list[FlatTensor] = []
        operators: list[FlatOperator] = []
        for name, initial in self._initial.items():
            at = len(tensors)
            dtype = initial.dtype.name.upper()
            tensors.append(FlatTensor(f"handle {name}", (), "RESOURCE"))
            quant = QUANT if dtype == "INT8" else None
            tensors.append(FlatTensor(f"initial {name}", initial.shape, dtype, quant, initial.tobytes()))
            operators += [_handle(name, at), FlatOperator("ASSIGN_VARIABLE", (at, at + 1), ())]
        return FlatModel("once", tuple(tensors), (), (), tuple(operators))


def _handle(name: str, tensor: int) -> FlatOperator:
    options = {"Container": b"", "SharedName": name.encode()}
    return FlatOperator("VAR_HANDLE", (), (tensor,), "VarHandleOptions", options)

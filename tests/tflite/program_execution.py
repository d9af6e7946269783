"""Runs programs that are made from TFLite files, call by call on the planned memory, by the C operators."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tests.cortex_m.operator_library import OperatorLibrary

from deuteron.operators import catalogue
from deuteron.runtime import pte
from deuteron.runtime.program import KernelCall, TensorList, TensorValue

Array = npt.NDArray[np.generic]


class PlannedProgram:
    """A program with its memory, which is filled with other bytes but for the initial states."""

    def __init__(self, c_operators: OperatorLibrary, program: bytes) -> None:
        self._operators = c_operators
        (self._method,) = pte.read(program, "the program").methods
        self._memory = np.full(sum(self._method.arenas), 0xA5, np.uint8)
        self.reset()

    def reset(self) -> None:
        """Give states their initial values."""
        for value in self._method.values:
            if isinstance(value, TensorValue) and value.place and value.constant:
                self._bytes(value)[:] = np.frombuffer(value.constant.data, np.uint8)

    @property
    def states(self) -> list[Array]:
        """The states as they are now."""
        values = [v for v in self._method.values if isinstance(v, TensorValue) and v.place and v.constant]
        return [self._array(value).copy() for value in values]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs of one run."""
        for index, array in zip(self._method.inputs, inputs, strict=True):
            value = self._tensor(index)
            self._bytes(value)[:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        for instruction in self._method.chains[0]:
            assert isinstance(instruction, KernelCall)
            operator = catalogue.named(self._method.operators[instruction.operator])
            assert operator is not None
            reads, words, writes, _ = (self._method.values[arg] for arg in instruction.args)
            assert isinstance(reads, TensorList)
            assert isinstance(writes, TensorList)
            assert isinstance(words, tuple)
            given = [self._array(self._tensor(index)) for index in reads.items]
            targets = [self._tensor(index) for index in writes.items]
            numbers = [int(word) for word in words]
            results = self._operators.call_all(
                operator.symbol, numbers, given, [], [self._array(each) for each in targets]
            )
            for target, result in zip(targets, results, strict=True):
                self._bytes(target)[:] = np.frombuffer(result.tobytes(), np.uint8)
        return [self._array(self._tensor(index)).copy() for index in self._method.outputs]

    def _tensor(self, index: int | None) -> TensorValue:
        assert index is not None
        value = self._method.values[index]
        assert isinstance(value, TensorValue)
        return value

    def _array(self, value: TensorValue) -> Array:
        constant = value.constant.data if value.constant else b""
        data = self._bytes(value).tobytes() if value.place else constant
        return np.frombuffer(data, value.spec.dtype).reshape(value.spec.shape)

    def _bytes(self, value: TensorValue) -> npt.NDArray[np.uint8]:
        assert value.place is not None
        return self._memory[value.place.offset : value.place.offset + value.bytes]

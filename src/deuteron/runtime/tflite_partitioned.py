"""Runs a converted TFLite file with operators for the CPU: LiteRT runs these, the driver the partitions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import numpy.typing as npt

from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.tflite import neutron_graph
from deuteron.runtime.driver import Driver
from deuteron.runtime.litert import Litert
from deuteron.tflite.decode import decode
from deuteron.tflite.execution_order import check_order
from deuteron.tflite.flat_model import Buffer, FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.rewrite import rewrite

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class _Step:
    """A partition, or operators that follow each other and are LiteRT's, with the tensors of the file by index."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    run: Container | Litert


class MixedProgram:
    """Runs a converted file with operators for the CPU and partitions for the NPU."""

    def __init__(self, converted: Buffer) -> None:
        self._data = converted
        self.model = decode(converted, partial=True)
        check_order(self.model)
        _check_state(self.model)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for one array per input of the file."""
        values = self.values(inputs)
        return [values[index] for index in self.model.outputs]

    def values(self, inputs: Sequence[Array]) -> Mapping[int, Array]:
        """The same with all that partitions read and write, by the index of the tensor in the converted file."""
        values = dict(zip(self.model.inputs, inputs, strict=True))
        values |= {i: _constant(t) for i in self.model.outputs if (t := self.model.tensors[i]).data is not None}
        for step in self._steps:
            arguments = [values[index] for index in step.inputs]
            if isinstance(step.run, Litert):
                results = step.run.run(arguments)
            else:
                outputs = Driver().run(step.run, [value.tobytes() for value in arguments])
                results = [
                    np.frombuffer(result, np.int8).reshape(self.model.tensors[index].shape)
                    for result, index in zip(outputs, step.outputs, strict=True)
                ]
            values |= zip(step.outputs, results, strict=True)
        return values

    @property
    def partitions(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """The tensors that each partition reads and writes."""
        return tuple((step.inputs, step.outputs) for step in self._steps if isinstance(step.run, Container))

    @cached_property
    def _steps(self) -> tuple[_Step, ...]:
        return tuple(self._read_steps())

    def _read_steps(self) -> Iterator[_Step]:
        model = self.model
        for is_npu, numbers in groupby(
            range(len(model.operators)), lambda i: neutron_graph.is_partition(model.operators[i])
        ):
            group = tuple(numbers)
            for index in group if is_npu else ():
                op = model.operators[index]
                container = neutron_graph.container_of(model, op)
                inputs = tuple(i for i in op.inputs if model.tensors[i].data is None)
                outputs = tuple(i for i in op.outputs if model.tensors[i].dtype == "INT8")
                yield _Step(inputs, outputs, container)
            if not is_npu:
                yield self._rest(model, group)

    def _rest(self, model: FlatModel, group: tuple[int, ...]) -> _Step:
        """Operators that LiteRT runs, as a file of their own."""
        inside = [model.operators[i] for i in group]
        written = {i for op in inside for i in op.outputs}
        read = dict.fromkeys(i for op in inside for i in op.inputs if i >= 0)
        later = {i for op in model.operators[group[-1] + 1 :] for i in op.inputs} | {*model.outputs}
        inputs = tuple(i for i in read if i not in written and not model.tensors[i].has_values)
        outputs = tuple(sorted(written & later))
        return _Step(inputs, outputs, Litert(rewrite(self._data, group, inputs=inputs, outputs=outputs)))


def _check_state(model: FlatModel) -> None:
    """Check that operators which share resources or make them are run by one interpreter of LiteRT, not by several."""
    runs = groupby(enumerate(model.operators), lambda pair: neutron_graph.is_partition(pair[1]))
    groups = [[*group] for is_npu, group in runs if not is_npu]
    keeping = [[(i, op) for i, op in group if _keeps_state(model, op)] for group in groups]
    if len(firsts := [group[0] for group in keeping if group]) > 1:
        titles = " and ".join(f"op {i} {op.title}" for i, op in firsts[:2])
        raise UnsupportedError(
            f"{titles} keep state, and the NPU runs between them; LiteRT would part them",
            hint="keep what reads and what writes a variable or a table on one side of the NPU's operators, or make "
            "state an input and an output of the model",
        )


def _keeps_state(model: FlatModel, op: FlatOperator) -> bool:
    """Return True if an operator makes, reads or writes variables or tables, which are no tensors."""
    tensors = (model.tensors[i] for i in (*op.inputs, *op.outputs) if i >= 0)
    return op.name == "CALL_ONCE" or any(tensor.dtype in ("RESOURCE", "VARIANT") for tensor in tensors)


def _constant(tensor: FlatTensor) -> Array:
    return np.frombuffer(tensor.data or b"", tensor.dtype.lower()).reshape(tensor.shape)

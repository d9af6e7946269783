"""Puts a TFLite file together as a program: calls of C operators, partitions, and operators that need neither."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from deuteron.errors import FormatError, UnsupportedError, all_refused
from deuteron.operators import catalogue
from deuteron.operators.cortex_m import BY_OPERATOR, CpuOperator, whole_copies
from deuteron.operators.kernel_params import KernelParams
from deuteron.runtime.program import TensorSpec
from deuteron.runtime.pte_writer import CODES, Call, Contents, Delegated, Ref, refs
from deuteron.tflite.cortex_m.call import Constant, CpuCall, FileTensor, Operand, Temporary
from deuteron.tflite.flat_model import HINT_MALFORMED, FlatModel, FlatOperator, FlatTensor, State
from deuteron.tflite.variables import initial_of

VIEWS = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
"""Operators whose output has the bytes of their first input, under another shape."""

Lower = Callable[[FlatModel, int], Sequence[CpuCall]]
"""Gives the calls of an operator of a file; UnsupportedError for one that it cannot."""

Step = int | tuple[bytes, tuple[int, ...], tuple[int, ...]]
"""An operator of the file by its index, or a partition: a payload with the tensors that it reads and writes."""


@dataclass(frozen=True, slots=True)
class Executed:
    """One call of the program on the CPU, for reports.

    Attributes:
        operator: its C operator.
        params: the record.
        elements: of its last output.
        instruction: its number in the program.
        tensor: of the file, that it writes last; None for one that a later call of the operator reads.
    """

    operator: CpuOperator
    params: KernelParams
    elements: int
    instruction: int
    tensor: int | None


@dataclass(slots=True)
class TfliteProgram:
    """A program of a file being put together.

    Attributes:
        model: the file.
        steps: of the program so far.
        executed: of each operator of the file that the CPU runs, its calls; none where a view is another name.
    """

    model: FlatModel
    lower: Lower
    steps: list[Call | Delegated] = field(default_factory=list[Call | Delegated])
    executed: dict[int, tuple[Executed, ...]] = field(default_factory=dict[int, tuple[Executed, ...]])
    _roots: dict[int, int] = field(default_factory=dict[int, int])
    _specs: dict[int, TensorSpec] = field(default_factory=dict[int, TensorSpec])
    _constants: dict[int, bytes] = field(default_factory=dict[int, bytes])
    _known: dict[tuple[TensorSpec, bytes], int] = field(default_factory=dict[tuple[TensorSpec, bytes], int])

    def add(self, order: Iterable[Step]) -> None:
        """Add operators and partitions.

        Raises:
            UnsupportedError: naming every operator that has no call.
            FormatError: an operator contradicts itself.
        """
        order = list(order)
        operators = [index for index in order if isinstance(index, int)]
        self._join_views(operators)
        refused: list[UnsupportedError] = []
        for step in order:
            if not isinstance(step, int):
                payload, inputs, outputs = step
                self.steps.append(Delegated(payload, tuple(map(self.root, (*inputs, *outputs)))))
                continue
            try:
                self.executed[step] = tuple(self._operator(step))
            except UnsupportedError as error:
                refused.append(error)
        if refused:
            raise all_refused(refused)
        for before, after in self.model.state_ends:
            if self.root(before) != self.root(after):
                self._write_back(before, after)

    def root(self, tensor: int) -> int:
        """Return the number of the program's tensor that holds a tensor of the file."""
        while tensor in self._roots:
            tensor = self._roots[tensor]
        return tensor

    def contents(self) -> Contents:
        """Return the program: the steps with the tensors that they name, the file's inputs and outputs, and states."""
        inputs, outputs = self.model.own_inputs, self.model.own_outputs
        named = {i for step in self.steps for i in (step.args if isinstance(step, Delegated) else refs(step.args))}
        states = {before: state for (before, _), state in zip(self.model.state_ends, self.model.states, strict=True)}
        for i in named:
            tensor = self.model.tensors[i] if i < len(self.model.tensors) else None
            if tensor is not None and tensor.is_variable:
                states[i] = State(tensor.name, initial_of(tensor))
        used = sorted(named | {*inputs, *outputs, *states})
        constants = {i: data for i in used if (data := self._content(i)) is not None}
        return Contents({i: self._spec(i) for i in used}, constants, inputs, outputs, self.steps, states)

    def _join_views(self, operators: Sequence[int]) -> None:
        """Give the output of each view the memory of its input, where one tensor can stand for both.

        The tensor that stands for all must be the program's input or output where one of them is; two such tensors,
        or a constant that is an output, need a copy.
        """
        ends = {*self.model.inputs, *self.model.outputs}
        for index in operators:
            op = self.model.operators[index]
            if not _is_view(op):
                continue
            source, view = self.root(op.inputs[0]), self.root(op.outputs[0])
            if view not in ends:
                self._roots[view] = source
            elif source not in ends and self.model.tensors[source].data is None:
                self._roots[source] = view

    def _is_alike(self, one: int, other: int) -> bool:
        """Return true if two tensors have the same type and number of elements."""
        a, b = self.model.tensors[one], self.model.tensors[other]
        return a.dtype == b.dtype and math.prod(a.shape) == math.prod(b.shape)

    def _write_back(self, before: int, after: int) -> None:
        """Copy the next value of a state over the present one."""
        if not self._is_alike(before, after):
            a, b = self.model.tensors[before], self.model.tensors[after]
            raise FormatError(
                f"the state is {a.dtype} {list(a.shape)}, its next value {b.dtype} {list(b.shape)}",
                where=f"tensor `{b.name}`",
                hint=HINT_MALFORMED,
            )
        ends = (Ref(self.root(after)),), (Ref(before),)
        for call in _copied(after, before, _nbytes(self.model.tensors[after])):
            self.steps.append(Call(catalogue.name_of(call.operator), (ends[0], call.params.words(), ends[1], ends[1])))

    def _operator(self, index: int) -> Iterable[Executed]:
        op = self.model.operators[index]
        if _is_view(op):
            self._check_view(index)
            source, view = self.root(op.inputs[0]), self.root(op.outputs[0])
            if source == view:
                return
            calls: Sequence[CpuCall] = _copied(op.inputs[0], op.outputs[0], _nbytes(self.model.tensors[op.inputs[0]]))
        else:
            calls = self.lower(self.model, index)
        numbers: dict[int, int] = {}
        for call in calls:
            needed = catalogue.scratch(call.operator, call.params)
            scratch = [self._new(TensorSpec((count,), dtype, (0,))) for count, dtype in needed]
            inputs = tuple(Ref(self._operand(operand, numbers)) for operand in call.inputs)
            outputs = (*map(Ref, scratch), *(Ref(self._operand(operand, numbers)) for operand in call.outputs))
            elements = math.prod(self._spec(outputs[-1].tensor).shape)
            last = call.outputs[-1]
            tensor = last.index if isinstance(last, FileTensor) else None
            yield Executed(call.operator, call.params, elements, len(self.steps), tensor)
            words = tuple(map(int, call.params.words()))
            self.steps.append(Call(catalogue.name_of(call.operator), (inputs, words, outputs, outputs)))

    def _check_view(self, index: int) -> None:
        op = self.model.operators[index]
        x, y = self.model.tensors[op.inputs[0]], self.model.tensors[op.outputs[0]]
        if math.prod(x.shape) != math.prod(y.shape) or x.dtype != y.dtype:
            raise FormatError(
                f"tensor `{x.name}` is {x.dtype} {list(x.shape)}, the output {y.dtype} {list(y.shape)}",
                where=f"op {op.number(index)} {op.title}, output `{y.name}`",
                hint=HINT_MALFORMED,
            )

    def _operand(self, operand: Operand, numbers: dict[int, int]) -> int:
        match operand:
            case FileTensor(index):
                return self.root(index)
            case Constant(array):
                spec = TensorSpec(array.shape, array.dtype.name, tuple(range(array.ndim)))
                key = spec, np.ascontiguousarray(array).tobytes()
                if key not in self._known:
                    self._known[key] = self._new(spec)
                    self._constants[self._known[key]] = key[1]
                return self._known[key]
            case Temporary(shape, dtype):
                if id(operand) not in numbers:
                    numbers[id(operand)] = self._new(TensorSpec(shape, dtype, tuple(range(len(shape)))))
                return numbers[id(operand)]

    def _new(self, spec: TensorSpec) -> int:
        number = len(self.model.tensors) + len(self._specs)
        self._specs[number] = spec
        return number

    def _spec(self, number: int) -> TensorSpec:
        return self._specs[number] if number in self._specs else _spec_of(self.model.tensors[number])

    def _content(self, number: int) -> bytes | None:
        if number in self._specs:
            return self._constants.get(number)
        return self.model.tensors[number].data


def _is_view(op: FlatOperator) -> bool:
    return op.name in VIEWS and bool(op.inputs) and op.inputs[0] >= 0 and len(op.outputs) == 1


def _copied(source: int, target: int, nbytes: int) -> tuple[CpuCall, ...]:
    """The calls that copy a tensor."""
    ends = (FileTensor(source),), (FileTensor(target),)
    return tuple(CpuCall(BY_OPERATOR["copy"], *ends, params) for params in whole_copies(nbytes))


def _spec_of(tensor: FlatTensor) -> TensorSpec:
    """The tensor as a program has it; UnsupportedError for what no program holds."""
    dtype = tensor.dtype.lower()
    if tensor.problem or dtype not in CODES:
        raise UnsupportedError(
            tensor.problem or f"tensor `{tensor.name}` is {tensor.dtype}, which no program holds",
            hint="`deuteron run` leaves such operators to LiteRT; other commands need a model without them",
        )
    return TensorSpec(tensor.shape, dtype, tuple(range(len(tensor.shape))))


def _nbytes(tensor: FlatTensor) -> int:
    return math.prod(tensor.shape) * np.dtype(tensor.dtype.lower()).itemsize

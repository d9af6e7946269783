"""Turns the variables of a TFLite file into states: inputs and outputs of the model that carry over between runs.

A *resource* variable (VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE) is followed through the operators in their order, as
compilers put memory into SSA form. Its first READ_VARIABLE becomes an input of the model, and the last value that is
assigned becomes an output. No operator on variables is left. CALL_ONCE gives the bytes before the first run.

A *variable tensor* (SVDF, UNIDIRECTIONAL_SEQUENCE_LSTM) stays an operand that its operator reads and writes. That of a
CIRCULAR_BUFFER becomes a state, too (`tflite.circular_buffers`).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from deuteron.errors import FormatError, InternalError, UnsupportedError
from deuteron.tflite.circular_buffers import with_circular_buffers
from deuteron.tflite.constants import DTYPES
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import HINT_MALFORMED, Buffer, FlatModel, FlatOperator, FlatTensor, State
from deuteron.tflite.normalize import normalized
from deuteron.tflite.signal_library import STATES, with_states

LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"

STATE_OPERANDS: Mapping[str, tuple[int, ...]] = {"SVDF": (4,), LSTM: (18, 19), **dict.fromkeys(STATES, (1, 2))}
"""Inputs of operators that keep a state in them."""

_HANDLE, _READ, _ASSIGN, _ONCE = "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"

_Key = tuple[bytes, bytes]
"""The name of a resource: its container, and its name there."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A model whose variables are states, and sentences about what was found."""

    model: FlatModel
    notes: tuple[str, ...] = ()


def resolved(source: Buffer, model: FlatModel) -> Resolved:
    """Return the model with states in the place of variables.

    Args:
        source: the file's bytes, which have the subgraphs that CALL_ONCE runs.
        model: what `decode(source, partial=True)` gave.

    Raises:
        FormatError: the operators contradict each other.
        UnsupportedError: a variable is used in a way that has no fixed meaning, or its first value is computed.
    """
    found = Resolved(with_variable_tensors(model))
    if any(op.name in (_HANDLE, _READ, _ASSIGN, _ONCE) for op in model.operators):
        found = _Resources(source, found.model).run()
    made, notes = with_circular_buffers(found.model, frozenset(STATE_OPERANDS))
    return Resolved(made, (*found.notes, *notes))


def with_variable_tensors(model: FlatModel) -> FlatModel:
    """Return the model with the variable tensors of operators that keep state in them as tensors without a problem.

    Raises:
        UnsupportedError: two operands share such a tensor.
    """
    model = with_states(model)
    uses = Counter(i for op in model.operators for i in (*op.inputs, *op.outputs) if i >= 0)
    uses.update((*model.inputs, *model.outputs))
    tensors = list(model.tensors)
    for number, op in enumerate(model.operators):
        for position in STATE_OPERANDS.get(op.title, ()):
            index = op.inputs[position] if position < len(op.inputs) else -1
            if index < 0 or not tensors[index].is_variable:
                continue
            if uses[index] > 1:
                raise UnsupportedError(
                    f"tensor `{tensors[index].name}` is the state of {op.title} and an operand of another operator",
                    where=f"operator {op.number(number)} ({op.title})",
                    hint="give each operator a state of its own",
                )
            tensors[index] = replace(tensors[index], problem="", data=None)
    return replace(model, tensors=tuple(tensors)) if tensors != [*model.tensors] else model


def with_states_of(model: FlatModel, source: FlatModel) -> FlatModel:
    """Return a model that a compiler made of another, with the other's states and variable tensors."""
    model = with_variable_tensors(model)
    ends: list[tuple[int, ...]] = []
    for given, wanted in ((model.inputs, source.inputs), (model.outputs, source.outputs)):
        places = {model.tensors[i].name: i for i in given}
        names = [source.tensors[i].name for i in wanted]
        if source.states and {*places} != {*names}:
            raise InternalError(f"the compiled file has the ends {', '.join(places)} for {', '.join(names)}")
        ends.append(tuple(places[name] for name in names) if source.states else given)
    return replace(model, inputs=ends[0], outputs=ends[1], states=source.states)


def initial_of(tensor: FlatTensor) -> bytes:
    """Return the bytes of a variable tensor before the first run: int8 zeros in the scale of the tensor, else 0."""
    zero = tensor.quant.zero_points[0] if tensor.dtype == "INT8" and tensor.quant else 0
    return np.full(math.prod(tensor.shape), zero, DTYPES[tensor.dtype]).tobytes()


@dataclass(slots=True)
class _Resources:
    """Follows the resource variables of a model.

    Attributes:
        tensors: the tensors of the model so far.
        keys: names of resources, by the tensor that holds the handle.
        initial: constants that CALL_ONCE assigns to variables.
        first: the tensor that each variable is first read into.
        now: the tensor that has the present value of each variable.
    """

    source: Buffer
    model: FlatModel
    tensors: list[FlatTensor] = field(default_factory=list[FlatTensor])
    keys: dict[int, _Key] = field(default_factory=dict[int, _Key])
    initial: dict[_Key, FlatTensor] = field(default_factory=dict[_Key, FlatTensor])
    first: dict[_Key, int] = field(default_factory=dict[_Key, int])
    now: dict[_Key, int] = field(default_factory=dict[_Key, int])
    notes: list[str] = field(default_factory=list[str])

    def run(self) -> Resolved:
        """The model with states."""
        self.tensors = [*self.model.tensors]
        operators = [left for i, op in enumerate(self.model.operators) if (left := self._operator(i, op)) is not None]
        states = {key: State(_name(key), self._initial(key, index)) for key, index in self.first.items()}
        for key, index in self.first.items():
            if self.now[key] == index:  # nothing assigns another value
                self.tensors[index] = replace(self.tensors[index], data=states.pop(key).initial)
        outputs, copies = self._outputs({self.first[key] for key in states})
        operators += [*copies, *self._copies([*states])]
        model = replace(
            self.model,
            tensors=tuple(self.tensors),
            operators=tuple(operators),
            inputs=(*self.model.inputs, *(self.first[key] for key in states)),
            outputs=(*outputs, *(self.now[key] for key in states)),
            states=tuple(states.values()),
            is_file=False,
        )
        return Resolved(model, tuple(self.notes))

    def _operator(self, index: int, op: FlatOperator) -> FlatOperator | None:
        """Return the operator in its new form; None for one that is not needed any more."""
        where = f"operator {op.number(index)} ({op.title})"
        match op.name:
            case "VAR_HANDLE":
                self.keys[op.outputs[0]] = _key_of(op)
                return None
            case "CALL_ONCE":
                if self.now:
                    raise UnsupportedError(
                        "CALL_ONCE runs after variables are used, so that its first run differs from others",
                        where=where,
                        hint="initialise variables before all other operators; of a file that Vela compiled, give the "
                        "one that it was made from",
                    )
                self.initial |= _assigned(self.source, int(op.options.get("InitSubgraphIndex", 0)), where)
                return None
            case "READ_VARIABLE":
                return self._read(self._key(op, where), op, where)
            case "ASSIGN_VARIABLE":
                self.now[self._key(op, where)] = op.inputs[1]
                return None
            case _:
                for i in (*op.inputs, *op.outputs):
                    if i in self.keys:
                        raise UnsupportedError(
                            f"it takes the variable `{_name(self.keys[i])}` itself",
                            where=where,
                            hint="only READ_VARIABLE and ASSIGN_VARIABLE of the main subgraph are allowed",
                        )
                return op

    def _key(self, op: FlatOperator, where: str) -> _Key:
        if op.inputs[0] not in self.keys:
            raise FormatError("its first operand is no handle of a variable", where=where, hint=HINT_MALFORMED)
        return self.keys[op.inputs[0]]

    def _read(self, key: _Key, op: FlatOperator, where: str) -> FlatOperator | None:
        """The first READ is the input itself; a later one is another name of the present value."""
        (out,) = op.outputs
        if key not in self.now:
            self.first[key] = self.now[key] = out
            return None
        value, read = self.tensors[self.now[key]], self.tensors[out]
        if _form(value) != _form(read):
            raise _other_form(f"tensor `{read.name}`", read, "the variable has", value, where)
        return _view(self.now[key], out, read.shape)

    def _outputs(self, states: set[int]) -> tuple[list[int], list[FlatOperator]]:
        """The outputs, and copies for those that are the value of a variable before the run."""
        outputs, copies = list[int](), list[FlatOperator]()
        for index in self.model.outputs:
            outputs.append(index)
            if index in states:
                outputs[-1] = self._new(index, "output")
                copies.append(_view(index, outputs[-1], self.tensors[index].shape))
        return outputs, copies

    def _new(self, source: int, suffix: str) -> int:
        """A tensor like another one, without content."""
        tensor = self.tensors[source]
        self.tensors.append(replace(tensor, name=f"{tensor.name}/{suffix}", data=None))
        return len(self.tensors) - 1

    def _copies(self, keys: list[_Key]) -> Iterator[FlatOperator]:
        """Copies of next values that are an input, an output, a constant or that of two variables.

        A copy of the present value of a variable precedes the one that makes its next value, where that is possible.
        """
        taken = {*self.model.inputs, *self.model.outputs, *(self.first[key] for key in keys)}
        copied: dict[_Key, int] = {}
        for key in keys:
            if self.now[key] in taken or self.tensors[self.now[key]].data is not None:
                copied[key] = self.now[key]
            taken.add(self.now[key])
        while copied:
            read = [*copied.values()]
            key = next((key for key in copied if read.count(self.first[key]) == 0), next(iter(copied)))
            source = copied.pop(key)
            self.now[key] = self._new(source, _name(key))
            yield _view(source, self.now[key], self.tensors[source].shape)

    def _initial(self, key: _Key, index: int) -> bytes:
        """The bytes of a variable before the first run."""
        tensor, initial = self.tensors[index], self.initial.get(key)
        for end in (tensor, self.tensors[self.now[key]]):
            if _form(end) != _form(tensor):
                raise _other_form(f"variable `{_name(key)}`", tensor, "it is assigned", end, f"tensor `{end.name}`")
        if initial is None:
            self.notes.append(f"nothing initialises the variable `{_name(key)}`; it starts with zeros")
            return bytes(math.prod(tensor.shape) * DTYPES[tensor.dtype].itemsize)
        if _form(initial) != _form(tensor) or initial.data is None:
            raise _other_form(
                f"variable `{_name(key)}`", tensor, "CALL_ONCE assigns", initial, f"tensor `{tensor.name}`"
            )
        return initial.data


def _assigned(source: Buffer, subgraph: int, where: str) -> dict[_Key, FlatTensor]:
    """The constants that a subgraph assigns to variables."""
    model = decode(source, partial=True, subgraph=subgraph)
    model = normalized(source, model).model
    keys = {op.outputs[0]: _key_of(op) for op in model.operators if op.name == _HANDLE}
    values: dict[_Key, FlatTensor] = {}
    for op in model.operators:
        if op.name == _HANDLE:
            continue
        if op.name != _ASSIGN or op.inputs[0] not in keys or model.tensors[op.inputs[1]].data is None:
            raise UnsupportedError(
                f"its subgraph {subgraph} runs {op.title}; assignments of constants to variables are allowed",
                where=where,
                hint="export the model with constant initial values",
            )
        values[keys[op.inputs[0]]] = model.tensors[op.inputs[1]]
    return values


def _view(source: int, target: int, shape: tuple[int, ...]) -> FlatOperator:
    """The operator that gives a tensor the bytes of another."""
    return FlatOperator("RESHAPE", (source,), (target,), "ReshapeOptions", {"NewShape": shape})


def _key_of(handle: FlatOperator) -> _Key:
    container, name = (handle.options.get(field) or b"" for field in ("Container", "SharedName"))
    return container, name


def _name(key: _Key) -> str:
    return key[1].decode("utf-8", errors="replace")


def _form(tensor: FlatTensor) -> tuple[str, tuple[int, ...]]:
    return tensor.dtype, tensor.shape


def _other_form(what: str, one: FlatTensor, link: str, other: FlatTensor, where: str) -> FormatError:
    return FormatError(
        f"{what} is {one.dtype} {list(one.shape)}, {link} {other.dtype} {list(other.shape)}",
        where=where,
        hint=HINT_MALFORMED,
    )

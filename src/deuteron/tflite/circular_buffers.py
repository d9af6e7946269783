"""Turns TFLite Micro's CIRCULAR_BUFFER into states and operators that all targets have.

The operator appends its input, one slot, to the slots of the runs before, and drops the oldest. With `cycles_max` N,
TFLite Micro ends a run there, except each Nth: what follows runs in each Nth run only. A program computes what follows
in each run; only later buffers keep their slots until an Nth run, so that the result of each Nth run is the same.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from deuteron.errors import FormatError, UnsupportedError
from deuteron.tflite.constants import DTYPES
from deuteron.tflite.custom_options import CIRCULAR_BUFFER, options_of
from deuteron.tflite.flat_model import HINT_MALFORMED, FlatModel, FlatOperator, FlatTensor, State
from deuteron.tflite.tensor_checks import check_tensor

_MOST_RUNS = (1 << 31) - 1
_SLOTS = 1
"""The axis of the slots, [1, slots, height, channels]."""


def with_circular_buffers(model: FlatModel, keeps_state: frozenset[str]) -> tuple[FlatModel, tuple[str, ...]]:
    """Return the model with states in the place of circular buffers, and sentences about what was found.

    Args:
        model: the model; its resource variables are states by now.
        keeps_state: names of operators that keep a state in their operands.

    Raises:
        FormatError: operands of a buffer contradict each other.
        UnsupportedError: a buffer has no number of cycles, or another state changes only in some runs.
    """
    if all(op.title != CIRCULAR_BUFFER for op in model.operators):
        return model, ()
    return _Buffers(model, keeps_state).run()


@dataclass(slots=True)
class _Buffers:
    """The model so far.

    Attributes:
        period: runs until what follows runs in TFLite Micro.
        due: the tensor that says whether a run is one of these, by the period.
        states: inputs, outputs and first values of new states.
    """

    model: FlatModel
    keeps_state: frozenset[str]
    tensors: list[FlatTensor] = field(default_factory=list[FlatTensor])
    operators: list[FlatOperator] = field(default_factory=list[FlatOperator])
    states: list[tuple[int, int, State]] = field(default_factory=list[tuple[int, int, State]])
    due: dict[int, int] = field(default_factory=dict[int, int])
    period: int = 1
    where: str = ""
    origin: str = ""

    def run(self) -> tuple[FlatModel, tuple[str, ...]]:
        """The model with states."""
        self.tensors = [*self.model.tensors]
        for index, op in enumerate(self.model.operators):
            self.where, self.origin = f"operator {op.number(index)} ({op.title})", op.origin
            if op.title == CIRCULAR_BUFFER:
                self._buffer(op)
                continue
            if self.period > 1 and op.name in self.keeps_state:
                raise self._changes_rarely("it keeps a state")
            self.operators.append(op)
        if self.period > 1 and self.model.states:
            raise self._changes_rarely(f"the variable `{self.model.states[0].name}` is a state")
        inputs, outputs, states = zip(*self.states, strict=True)
        model = replace(
            self.model,
            tensors=tuple(self.tensors),
            operators=tuple(self.operators),
            inputs=(*self.model.inputs, *inputs),
            outputs=(*self.model.outputs, *outputs),
            states=(*self.model.states, *states),
            is_file=False,
        )
        note = f"behind a CIRCULAR_BUFFER, TFLite Micro gives a result in every {self.period} runs; the program in each"
        return model, ((note,) if self.period > 1 else ())

    def _changes_rarely(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"{what}, and a CIRCULAR_BUFFER before it runs it once in {self.period} runs",
            hint="give the buffers cycles_max 1, or keep the state in a CIRCULAR_BUFFER, too",
            where=self.where,
        )

    def _buffer(self, op: FlatOperator) -> None:
        if len(op.inputs) != 1 or len(op.outputs) != 1 or min(*op.inputs, *op.outputs) < 0:
            raise FormatError("it has not one input and one output", where=self.where, hint=HINT_MALFORMED)
        (x,), (out,) = op.inputs, op.outputs
        given, result = self.tensors[x], self.tensors[out]
        fits = len(given.shape) == len(result.shape) == 4 and min(result.shape) > 0
        if not fits or (given.shape[:2], given.shape[2:], result.shape[0]) != ((1, 1), result.shape[2:], 1):
            raise FormatError(
                f"its input is {list(given.shape)} and its output {list(result.shape)}; [1, 1, height, channels] and "
                "[1, slots, height, channels] are allowed",
                where=self.where,
                hint=HINT_MALFORMED,
            )
        check_tensor(result)
        if (given.dtype, given.quant) != (result.dtype, result.quant) or given.dtype not in DTYPES:
            raise UnsupportedError(
                f"tensors `{given.name}` and `{result.name}` differ in type, scale or zero point; one is allowed",
                where=self.where,
                hint="put a QUANTIZE before the operator",
            )
        cycles = (options_of(op.custom_options) or {}).get("cycles_max")
        most = _MOST_RUNS // self.period
        if not isinstance(cycles, int) or not 1 <= cycles <= most:
            raise UnsupportedError(
                f"its option cycles_max is {cycles}; 1 to {most} are allowed, others TFLite Micro guesses from shapes",
                where=self.where,
                hint="write cycles_max into the options: 1 if what follows runs in each run",
            )
        self.tensors[out] = replace(result, problem="", is_variable=False)
        state = self._new(replace(self.tensors[out], name=f"{result.name}/state"))
        zero = result.quant.zero_points[0] if result.dtype == "INT8" and result.quant else 0
        initial = np.full(result.shape, zero, DTYPES[result.dtype]).tobytes()
        if self.period == 1:
            self._append(state, x, out)
        else:
            due, shifted = self._due(), self._new(replace(self.tensors[out], name=f"{result.name}/next"))
            self._append(state, x, shifted)
            self._add("SELECT_V2", (due, shifted, state), out, "SelectV2Options")
        after = out
        if out in self.model.outputs:
            after = self._new(replace(self.tensors[out], name=f"{result.name}/kept"))
            self._add("RESHAPE", (out,), after, "ReshapeOptions", NewShape=result.shape)
        self.states.append((state, after, State(result.name, initial)))
        self.period *= cycles

    def _append(self, state: int, x: int, out: int) -> None:
        """All slots but the first, and the input."""
        like = self.tensors[state]
        _, slots, *rest = like.shape
        if slots == 1:
            self._add("RESHAPE", (x,), out, "ReshapeOptions", NewShape=like.shape)
            return
        kept = self._new(replace(like, name=f"{like.name}/kept", shape=(1, slots - 1, *rest)))
        begin, size = self._constant((0, 1, 0, 0)), self._constant((1, slots - 1, *rest))
        self._add("SLICE", (state, begin, size), kept, "SliceOptions")
        self._add("CONCATENATION", (kept, x), out, "ConcatenationOptions", Axis=_SLOTS, FusedActivationFunction=0)

    def _due(self) -> int:
        """The tensor that says whether this run is one of those in which later buffers change: a counter of runs."""
        if self.period not in self.due:
            name = f"runs/{self.period}"
            before, now, after = (
                self._new(FlatTensor(f"{name}/{part}", (1,), "INT32")) for part in ("before", "now", "after")
            )
            self.due[self.period] = due = self._new(FlatTensor(f"{name}/due", (1,), "BOOL"))
            self._add("ADD", (before, self._constant((1,))), now, "AddOptions", FusedActivationFunction=0)
            self._add("EQUAL", (now, self._constant((self.period,))), due, "EqualOptions")
            self._add("SELECT_V2", (due, self._constant((0,)), now), after, "SelectV2Options")
            self.states.append((before, after, State(name, bytes(4))))
        return self.due[self.period]

    def _constant(self, values: tuple[int, ...]) -> int:
        return self._new(
            FlatTensor(f"constant/{values}", (len(values),), "INT32", None, np.array(values, "<i4").tobytes())
        )

    def _new(self, tensor: FlatTensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def _add(self, name: str, inputs: tuple[int, ...], out: int, kind: str, **options: int | tuple[int, ...]) -> None:
        self.operators.append(FlatOperator(name, inputs, (out,), kind, options, origin=self.origin))

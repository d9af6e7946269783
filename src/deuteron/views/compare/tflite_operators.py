"""Compares firmware's results for a TFLite file with LiteRT's reference kernels: by operator, and from end to end.

LiteRT runs each operator of the CPU on our own values, so that a difference belongs to the operator that makes it. The
bytes must be the same; float functions such as TANH may be a few steps of float32 apart. An NPU rounds differently
(spec/rounding.md): each of its operators is also compiled by itself, and may be one step from LiteRT. Chained, these
operators must give the bytes of the whole program. So the outputs, of which differing values are counted, differ by
the steps of single operators alone.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from deuteron.builds.manifest import Manifest
from deuteron.errors import UnsupportedError, counted
from deuteron.npu.neutron.tflite.operator_view import Names
from deuteron.runtime.litert import Litert
from deuteron.runtime.tflite_ethosu import NPU_STEPS
from deuteron.runtime.tflite_model import prepare
from deuteron.runtime.tflite_program import VIEWS
from deuteron.tflite.constants import DTYPES
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import Buffer, FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.rewrite import rewrite
from deuteron.tflite.weight_decoding import with_decoded_weights
from deuteron.views.compare.litert_values import (
    adds_in_other_order,
    float_bound,
    float_steps,
    has_biases_without_type,
    is_float_function,
    smallest_steps_of,
)
from deuteron.views.compare.result_counts import Array, BestScores, BoundedComparison, Progress

Values = Mapping[str, Array]


class Run(Protocol):
    """Gives the outputs of one sample, and the values of the file's tensors by name."""

    def __call__(self, sample: Sequence[Array], *, is_reset: bool) -> tuple[Sequence[Array], Values]:
        """Run the sample, from the initial state if `is_reset`."""
        ...


Program = Callable[[Sequence[Array]], Sequence[Array]]
"""Runs one sample of a program."""


@dataclass(slots=True)
class TensorResult:
    """A tensor compared with LiteRT's.

    Attributes:
        op: the operator that writes it; empty for an output of the file.
        name: the tensor's name.
        bound: true if the bytes must be the same, or at most `steps` apart.
        is_float: `largest` and `steps` count steps of float32.
        elements: values that were compared.
        mismatches: how many of them differ.
        largest: the largest difference of finite values.
        first: sample and index of the first that differs.
        steps: largest difference that is allowed.
        than: values that these differ from.
        infinite: mismatches that are NaN or infinite on either side; none is allowed.
        best: best scores of an output without a bound.
    """

    op: str
    name: str
    bound: bool = True
    elements: int = 0
    mismatches: int = 0
    largest: float = 0
    first: tuple[int, ...] = ()
    steps: int = 0
    than: str = "LiteRT's"
    is_float: bool = False
    infinite: int = 0
    best: BestScores = field(default_factory=BestScores)

    @property
    def is_broken(self) -> bool:
        """Return true if the bound does not hold."""
        is_far = self.steps == 0 or self.largest > self.steps or self.infinite > 0
        return self.bound and self.mismatches > 0 and is_far

    def add(self, sample: int, ours: Array, theirs: Array, least: Array | None = None) -> None:
        """Count the values of one sample; NaN equals NaN.

        Args:
            sample: its number.
            ours: the values.
            theirs: those that they are compared with.
            least: for each value the smallest magnitude whose steps count.
        """
        theirs = theirs.reshape(ours.shape)
        differs = (ours != theirs) & ~((ours != ours) & (theirs != theirs))
        self.elements += ours.size
        if not self.bound:
            self.best.add(ours, theirs)
        if not differs.any():
            return
        self.mismatches += int(np.count_nonzero(differs))
        if not self.first:
            self.first = sample, *map(int, np.argwhere(differs)[0])
        is_finite = differs & np.isfinite(ours) & np.isfinite(theirs)
        self.infinite += int(np.count_nonzero(differs & ~is_finite))
        one, other = ours[is_finite], theirs[is_finite]
        if self.is_float:
            apart = float_steps(one, other, 0.0 if least is None else least.reshape(ours.shape)[is_finite])
        else:
            apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
        self.largest = max(self.largest, float(apart.max(initial=0)))

    @property
    def sentence(self) -> str:
        """A sentence on the differences."""
        sample, *place = self.first
        what = f"{self.op}, output `{self.name}`" if self.op else f"output `{self.name}`"
        unit = " steps of float32" if self.is_float else ""
        unlike = f", {self.infinite:,} where one is NaN or infinite" if self.infinite else ""
        return (
            f"{what}: {self.mismatches:,} of {self.elements:,} values differ from {self.than}, by up to "
            f"{self.largest:g}{unit}{unlike}; the first in sample {sample} at {place}{self.best.text}"
        )


@dataclass(frozen=True, slots=True)
class OperatorComparison(BoundedComparison):
    """The result; `passed` tells whether all bytes are LiteRT's that must be."""

    samples: int
    operators: tuple[TensorResult, ...]
    outputs: tuple[TensorResult, ...]
    npu: tuple[TensorResult, ...] = ()
    chained: tuple[TensorResult, ...] = ()
    not_compared: int = 0

    def failures(self) -> tuple[str, ...]:
        """One sentence for each tensor that differs and must not."""
        results = (*self.operators, *self.npu, *self.chained, *self.outputs)
        return tuple(each.sentence for each in results if each.is_broken)

    def text(self) -> str:
        """The result as lines for a terminal."""
        count = sum(each.elements for each in self.operators)
        differing = sum(each.mismatches > 0 for each in self.operators)
        lines = [f"compared with LiteRT's reference kernels on {counted(self.samples, 'sample')}"]
        lines += [
            f"operator by operator: {differing} of {counted(len(self.operators), 'tensor')} differ ({count:,} values)"
            if self.operators
            else "operator by operator: all operators are in partitions of the NPU",
            *(f"  {each.sentence}" for each in self.operators if each.mismatches),
            *self._npu_lines(),
            "end to end" + ("" if all(each.bound for each in self.outputs) else ", which has no bound: steps add up"),
        ]
        lines += [
            f"  {each.sentence}"
            if each.mismatches
            else f"  output `{each.name}`: all of {each.elements:,} values equal"
            for each in self.outputs
        ]
        return "\n".join([*lines, *self.verdict()])

    def _npu_lines(self) -> Iterator[str]:
        if self.npu:
            values, differing = (sum(getattr(r, name) for r in self.npu) for name in ("elements", "mismatches"))
            yield (
                f"operators of the NPU, each by itself: {differing:,} of {values:,} values of {len(self.npu)} tensors "
                f"differ by up to {max(each.largest for each in self.npu):g}; {NPU_STEPS} step is allowed"
            )
        if self.chained:
            differing = sum(each.mismatches for each in self.chained)
            yield f"chained, they differ from the whole program in {differing:,} values; none may"
        if self.not_compared:
            yield f"operators of the NPU that cannot be compiled by themselves, not compared: {self.not_compared}"


@dataclass(frozen=True)
class _Alone:
    """An operator of a file by itself, in LiteRT.

    Attributes:
        source: the file.
        model: the same, decoded.
        index: of the operator.
        inputs: tensors that it reads and that are not constant.
    """

    source: Buffer
    model: FlatModel
    index: int
    inputs: tuple[int, ...]

    @property
    def keeps_state(self) -> bool:
        """Return true if it has a variable tensor."""
        return any(i >= 0 and self.model.tensors[i].is_variable for i in self.model.operators[self.index].inputs)

    @property
    def outputs(self) -> tuple[int, ...]:
        """Tensors that it writes."""
        return self.model.operators[self.index].outputs

    @cached_property
    def file(self) -> bytes:
        """A file of the operator."""
        return rewrite(self.source, (self.index,), inputs=self.inputs, outputs=self.outputs)

    @cached_property
    def litert(self) -> Litert:
        """The interpreter."""
        return Litert(self.file)


def compare(
    source: Buffer,
    manifest: Manifest,
    run: Run,
    samples: Sequence[Sequence[Array]],
    progress: Progress | None = None,
    compiled: Callable[[bytes], Program] | None = None,
    *,
    is_reset: Callable[[int], bool],
) -> OperatorComparison:
    """Compare a build with LiteRT on the file that it was made from.

    Args:
        source: the file.
        manifest: the build's manifest.
        run: runs the build.
        samples: inputs.
        progress: called with the number of finished samples and of all.
        compiled: compiles a file for the build's target; without it, an NPU's operators are not compared.
        is_reset: says which samples start from the initial state.

    Raises:
        MissingToolError: LiteRT is not installed.
        InputError: LiteRT does not take the file.
    """
    options = manifest.options.tflite
    prepared = prepare(source, options)
    normal = prepared.portable
    model = decode(normal, partial=True)
    if len(model.inputs) == len(prepared.model.inputs):
        model = replace(model, states=prepared.model.states)
    keeps_state = bool(prepared.model.states) or any(tensor.is_variable for tensor in model.tensors)
    names = Names(model).of
    plain = with_decoded_weights(decode(source, partial=True))
    is_other = options.shapes or options.signature is not None or not plain.is_file
    whole = Litert(prepared.source if is_other and not prepared.model.states else source)
    on_cpu = {op.node for op in manifest.cpu_ops}
    alone = [
        _Alone(normal, model, index, _computed(model, op))
        for index, op in enumerate(model.operators)
        if op.name not in VIEWS and op.outputs and names[op.outputs[0]] in on_cpu and not adds_in_other_order(model, op)
    ]
    results = {(each.index, i): _result(model, each.index, names[i]) for each in alone for i in each.outputs}
    is_bound = (
        not manifest.partitions
        and whole.is_reference
        and not any(is_float_function(model, op) or adds_in_other_order(model, op) for op in model.operators)
        and not has_biases_without_type(source)
    )
    outputs = [TensorResult("", info.name, is_bound) for info in manifest.outputs]
    chain = _Chain(normal, model, names, {each.index for each in alone}, compiled) if manifest.partitions else None
    states: dict[str, Array] = {}
    for number, sample in enumerate(samples):
        ours, values = run(sample, is_reset=is_reset(number))
        if keeps_state and is_reset(number):
            states = _initial(model, names)
            for litert in (whole, *(each.litert for each in alone if each.keeps_state)):
                litert.reset()
        wanted = whole.run(sample)
        for result, y, theirs in zip(outputs, ours, wanted, strict=True):
            result.add(number, y, theirs)
        known = _with_views(model, names, {**values, **states}, sample)
        states = {names[before]: known[names[after]] for before, after in model.state_ends if names[after] in known}
        for each in alone:
            if not all(_has(known, names[i], model.tensors[i]) for i in each.inputs):
                continue  # an NPU's compiler has given it other operands, or it has fewer channels
            inputs = [_as_stored(known[names[i]], model.tensors[i]) for i in each.inputs]
            theirs = each.litert.run(inputs)
            for i, y in zip(each.outputs, theirs, strict=True):
                if _has(known, names[i], model.tensors[i]):
                    result = results[each.index, i]
                    least = smallest_steps_of(model.operators[each.index], inputs[0]) if result.is_float else None
                    result.add(number, _as_stored(known[names[i]], model.tensors[i]), y, least)
        if chain is not None:
            chain.add(number, known)
        if progress is not None:
            progress(number + 1, len(samples))
    compared = (result for result in results.values() if result.elements)
    result = OperatorComparison(len(samples), tuple(compared), tuple(outputs))
    if chain is None:
        return result
    return replace(result, npu=chain.results, chained=chain.joints, not_compared=chain.not_compared)


def _result(model: FlatModel, index: int, name: str) -> TensorResult:
    """The result of an operator of the CPU."""
    op = model.operators[index]
    is_float = is_float_function(model, op)
    return TensorResult(f"op {index} {op.title}", name, steps=float_bound(op) if is_float else 0, is_float=is_float)


def _initial(model: FlatModel, names: Sequence[str]) -> dict[str, Array]:
    """The states before the first run, by the names of the inputs that they are."""
    tensors = [(names[before], model.tensors[before]) for before, _ in model.state_ends]
    return {
        name: np.frombuffer(state.initial, DTYPES[tensor.dtype]).reshape(tensor.shape)
        for (name, tensor), state in zip(tensors, model.states, strict=True)
    }


def _has(known: Values, name: str, tensor: FlatTensor) -> bool:
    """Return True if the values of a tensor of the file are known."""
    return name in known and known[name].size == math.prod(tensor.shape)


def _as_stored(values: Array, tensor: FlatTensor) -> Array:
    """Return values in the shape and type of the file: int8 values become uint8 values, which are 128 larger."""
    if tensor.dtype == "UINT8" and values.dtype == np.int8:
        values = (values.astype(np.int16) + 128).astype(np.uint8)
    return values.reshape(tensor.shape)


def _computed(model: FlatModel, op: FlatOperator) -> tuple[int, ...]:
    """The inputs of an operator that are no constants."""
    return tuple(dict.fromkeys(i for i in op.inputs if i >= 0 and not model.tensors[i].has_values))


def _with_views(
    model: FlatModel, names: Sequence[str], values: dict[str, Array], inputs: Sequence[Array]
) -> dict[str, Array]:
    """The values with the file's inputs, and with what operators give that only rename bytes."""
    values |= {names[i]: x for i, x in zip(model.own_inputs, inputs, strict=True)}
    for op in model.operators:
        if op.name in VIEWS and op.inputs and op.outputs:
            values |= _viewed(names, values, op)
    return values


def _viewed(names: Sequence[str], values: Values, op: FlatOperator) -> dict[str, Array]:
    source, view = names[op.inputs[0]], names[op.outputs[0]]
    return {view: values[source]} if source in values and view not in values else {}


class _Chain:
    """The operators of an NPU, each compiled by itself, one after the other.

    Attributes:
        joints: tensors that the whole program gives, too.
        not_compared: operators that cannot be compiled by themselves.
    """

    def __init__(
        self,
        source: Buffer,
        model: FlatModel,
        names: Sequence[str],
        on_cpu: AbstractSet[int],
        compiled: Callable[[bytes], Program] | None,
    ) -> None:
        self._model, self._names, self._on_cpu = model, names, on_cpu
        self._programs: dict[int, tuple[_Alone, Program]] = {}
        self._results: dict[int, TensorResult] = {}
        self._joints: dict[int, TensorResult] = {}
        self.not_compared = 0
        for index, op in enumerate(model.operators):
            if compiled is None or index in on_cpu or op.name in VIEWS or not op.outputs:
                continue
            each = _Alone(source, model, index, _computed(model, op))
            if each.keeps_state:
                self.not_compared += 1
                continue
            try:
                self._programs[index] = each, compiled(each.file)
            except UnsupportedError:
                self.not_compared += 1

    @property
    def results(self) -> tuple[TensorResult, ...]:
        """Results of the operators by themselves."""
        return tuple(self._results.values())

    @property
    def joints(self) -> tuple[TensorResult, ...]:
        """Results of the chain where the whole program gives them, too."""
        return tuple(self._joints.values())

    def add(self, number: int, known: Values) -> None:
        """Run one sample; `known` are its inputs, states, and values of the whole program."""
        model, names = self._model, self._names
        values = {i: _as_stored(known[names[i]], model.tensors[i]) for i in model.inputs if names[i] in known}
        for index, op in enumerate(model.operators):
            if op.name in VIEWS and op.outputs and op.inputs[0] in values:
                values[op.outputs[0]] = _as_stored(values[op.inputs[0]], model.tensors[op.outputs[0]])
            elif index in self._programs:
                self._run(number, index, values)
            for i in op.outputs:
                if not _has(known, names[i], model.tensors[i]):
                    continue
                whole = _as_stored(known[names[i]], model.tensors[i])
                if i in values and index in self._programs:
                    joint = TensorResult("whole program", names[i], than="its operators'")
                    self._joints.setdefault(i, joint).add(number, whole, values[i])
                values[i] = whole

    def _run(self, number: int, index: int, values: dict[int, Array]) -> None:
        each, program = self._programs[index]
        if not all(i in values for i in each.inputs):
            return
        inputs = [values[i] for i in each.inputs]
        op = self._model.operators[index]
        for i, ours, theirs in zip(op.outputs, program(inputs), each.litert.run(inputs), strict=True):
            values[i] = _as_stored(ours, self._model.tensors[i])
            result = TensorResult(f"op {index} {op.title}", self._names[i], steps=NPU_STEPS)
            self._results.setdefault(i, result).add(number, values[i], theirs)

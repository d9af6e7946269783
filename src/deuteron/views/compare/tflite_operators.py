"""A TFLite file as firmware runs it beside LiteRT's reference kernels: operator by operator, and from end to end.

Each operator that the CPU runs gets our own values in LiteRT, so that a difference stays with the operator that makes
it. The bytes must be the same. Partitions of an NPU round otherwise (spec/rounding.md): where there are any, outputs
are counted and not bounded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from deuteron.builds.manifest import Manifest
from deuteron.errors import counted
from deuteron.npu.neutron.tflite.operator_view import Names
from deuteron.runtime.litert import Litert
from deuteron.runtime.tflite_model import prepare
from deuteron.runtime.tflite_program import VIEWS
from deuteron.tflite.constants import DTYPES
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import Buffer, FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.rewrite import rewrite
from deuteron.views.compare.result_counts import Array, BoundedComparison, Progress

Values = Mapping[str, Array]


class Run(Protocol):
    """Gives the outputs of one sample, and the values of the file's tensors by name."""

    def __call__(self, sample: Sequence[Array], *, is_reset: bool) -> tuple[Sequence[Array], Values]:
        """Run the sample, from the initial state if `is_reset`."""
        ...


@dataclass(slots=True)
class TensorResult:
    """A tensor beside LiteRT's.

    Attributes:
        op: the operator that writes it, empty for an output of the file.
        name: of the tensor.
        bound: whether the bytes must be the same.
        elements: values that were compared.
        mismatches: how many of them differ.
        largest: by how much they differ at most, of what is finite.
        first: sample and index of the first that differs.
    """

    op: str
    name: str
    bound: bool = True
    elements: int = 0
    mismatches: int = 0
    largest: float = 0
    first: tuple[int, ...] = ()

    def add(self, sample: int, ours: Array, theirs: Array) -> None:
        """Count the values of one sample; NaN is what NaN is."""
        theirs = theirs.reshape(ours.shape)
        differs = (ours != theirs) & ~((ours != ours) & (theirs != theirs))
        self.elements += ours.size
        if not differs.any():
            return
        self.mismatches += int(np.count_nonzero(differs))
        if not self.first:
            self.first = sample, *map(int, np.argwhere(differs)[0])
        apart = np.abs(ours[differs].astype(np.float64) - theirs[differs].astype(np.float64))
        self.largest = max(self.largest, float(apart[np.isfinite(apart)].max(initial=0)))

    @property
    def sentence(self) -> str:
        """What differs."""
        sample, *place = self.first
        what = f"{self.op}, output `{self.name}`" if self.op else f"output `{self.name}`"
        return (
            f"{what}: {self.mismatches:,} of {self.elements:,} values differ from LiteRT's, by up to {self.largest:g}; "
            f"the first in sample {sample} at {place}"
        )


@dataclass(frozen=True, slots=True)
class OperatorComparison(BoundedComparison):
    """The result; `passed` tells whether all bytes are LiteRT's that must be."""

    samples: int
    operators: tuple[TensorResult, ...]
    outputs: tuple[TensorResult, ...]

    def failures(self) -> tuple[str, ...]:
        """One sentence for each tensor that differs and must not."""
        return tuple(each.sentence for each in (*self.operators, *self.outputs) if each.bound and each.mismatches)

    def text(self) -> str:
        """The result as lines for a terminal."""
        count = sum(each.elements for each in self.operators)
        differing = sum(each.mismatches > 0 for each in self.operators)
        lines = [f"compared with LiteRT's reference kernels on {counted(self.samples, 'sample')}"]
        lines += [
            f"operator by operator: {differing} of {counted(len(self.operators), 'tensor')} differ ({count:,} values)",
            *(f"  {each.sentence}" for each in self.operators if each.mismatches),
            "end to end",
        ]
        lines += [
            f"  {each.sentence}"
            if each.mismatches
            else f"  output `{each.name}`: all of {each.elements:,} values equal"
            for each in self.outputs
        ]
        return "\n".join([*lines, *self.verdict()])


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
        """Whether it has a variable tensor."""
        return any(i >= 0 and self.model.tensors[i].is_variable for i in self.model.operators[self.index].inputs)

    @cached_property
    def litert(self) -> Litert:
        """The interpreter."""
        outputs = self.model.operators[self.index].outputs
        return Litert(rewrite(self.source, (self.index,), inputs=self.inputs, outputs=outputs))


def compare(
    source: Buffer,
    manifest: Manifest,
    run: Run,
    samples: Sequence[Sequence[Array]],
    progress: Progress | None = None,
    *,
    is_reset: Callable[[int], bool],
) -> OperatorComparison:
    """Compare a build with LiteRT on the file that it was made from.

    Args:
        source: the file.
        manifest: of the build.
        run: runs the build.
        samples: inputs.
        progress: told how far it is.
        is_reset: says which samples start from the initial state.

    Raises:
        MissingToolError: LiteRT is not installed.
        InputError: LiteRT does not take the file.
    """
    prepared = prepare(source)
    normal = prepared.source
    model = decode(normal, partial=True)
    if len(model.inputs) == len(prepared.model.inputs):
        model = replace(model, states=prepared.model.states)
    keeps_state = bool(prepared.model.states) or any(tensor.is_variable for tensor in model.tensors)
    names, whole = Names(model).of, Litert(source)
    on_cpu = {op.node for op in manifest.cpu_ops}
    alone = [
        _Alone(normal, model, index, _computed(model, op))
        for index, op in enumerate(model.operators)
        if op.name not in VIEWS and op.outputs and names[op.outputs[0]] in on_cpu
    ]
    results = {
        (each.index, i): TensorResult(f"op {each.index} {model.operators[each.index].title}", names[i])
        for each in alone
        for i in model.operators[each.index].outputs
    }
    outputs = [TensorResult("", info.name, not manifest.partitions) for info in manifest.outputs]
    states: dict[str, Array] = {}
    for number, sample in enumerate(samples):
        ours, values = run(sample, is_reset=is_reset(number))
        if keeps_state and is_reset(number):
            states = _initial(model, names)
            for litert in (whole, *(each.litert for each in alone if each.keeps_state)):
                litert.reset()
        for result, y, theirs in zip(outputs, ours, whole.run(sample), strict=True):
            result.add(number, y, theirs)
        known = _with_views(model, names, {**values, **states}, sample)
        states = {names[before]: known[names[after]] for before, after in model.state_ends if names[after] in known}
        for each in alone:
            if any(names[i] not in known for i in each.inputs):
                continue  # an NPU's compiler has given it other operands
            theirs = each.litert.run([_as_stored(known[names[i]], model.tensors[i]) for i in each.inputs])
            for i, y in zip(model.operators[each.index].outputs, theirs, strict=True):
                if names[i] in known:
                    results[each.index, i].add(number, _as_stored(known[names[i]], model.tensors[i]), y)
        if progress is not None:
            progress(number + 1, len(samples))
    compared = (result for result in results.values() if result.elements)
    return OperatorComparison(len(samples), tuple(compared), tuple(outputs))


def _initial(model: FlatModel, names: Sequence[str]) -> dict[str, Array]:
    """The states before the first run, by the names of the inputs that they are."""
    tensors = [(names[before], model.tensors[before]) for before, _ in model.state_ends]
    return {
        name: np.frombuffer(state.initial, DTYPES[tensor.dtype]).reshape(tensor.shape)
        for (name, tensor), state in zip(tensors, model.states, strict=True)
    }


def _as_stored(values: Array, tensor: FlatTensor) -> Array:
    """Values in the file's own shape, and as it stores them: what is uint8 there, we have as int8 of 128 less."""
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

"""Checks programs that Vela makes of TFLite files, and keeps from the NPU what Vela compiles wrongly.

Vela merges operators with their neighbours, and some merges compute other values. So each program runs random samples
next to C operators, which compute LiteRT's bytes. An NPU rounds otherwise (spec/rounding.md), and later operators may
multiply such differences. If the values are not the same, the model is compiled once more with each operator in
a separate partition. There each operator may be one step from LiteRT's, and the program must give the same bytes as
these operators do one after the other. The CPU computes what is wrong. A model for which that does not help is refused.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from deuteron.board.bundle import Bundle
from deuteron.board.host_executor import HostExecutor
from deuteron.board.step_values import StepValues
from deuteron.board.tensor_bytes import Array
from deuteron.board.translate import translate
from deuteron.builds.manifest import TensorInfo
from deuteron.errors import FormatError, UnsupportedError, counted
from deuteron.runtime import pte
from deuteron.runtime.inputs import Sample, seeded_inputs
from deuteron.runtime.tflite_build import VelaBuild, VelaBuilder
from deuteron.runtime.tflite_ethosu import NPU_STEPS
from deuteron.runtime.tflite_model import infos
from deuteron.runtime.tflite_nodes import LAYERS
from deuteron.runtime.tflite_program import VIEWS
from deuteron.runtime.vela_merges import SLICES
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.normalize import RESIZES

SAMPLES = 2
"""Random samples over all of the inputs' range, and as many near zero."""

_SMALLER = 8
"""The factor between these values."""

_FEW = 8
"""Most tensors that are tried one by one."""

_MOVES = frozenset((*SLICES, *RESIZES, "CONCATENATION", "MIRROR_PAD", "PACK", "PAD", "PADV2", "TRANSPOSE"))
"""Operators that Vela merges with their neighbours."""

Values = Mapping[str, Array]


def checked(builder: VelaBuilder) -> tuple[VelaBuilder, VelaBuild]:
    """Return a builder that leaves to the CPU what Vela compiles wrongly, and its program.

    Raises:
        UnsupportedError: Vela does not compile the file, or the program computes other values in any case.
    """
    check = _Check(builder.prepared.model)
    while True:
        try:
            build = builder.built()
            values = check.values(build)
        except (FormatError, UnsupportedError):  # Vela stops, or its commands are refused
            left = (each - builder.on_cpu for each in (check.moves, check.neighbours, check.functions))
            if not (wrong := next(filter(None, left), None)):
                raise
        else:
            if (wrong := check.wrong_operators(builder, build, values)) is None:
                return check.with_fewer(builder, build)
            if wrong <= builder.on_cpu:
                raise UnsupportedError(
                    "Vela's commands compute other values than the file",
                    where=check.where,
                    hint="build for the CPU alone, such as `--target cortex-m55`",
                )
        builder = replace(builder, on_cpu=builder.on_cpu | wrong)


def notes_on(builder: VelaBuilder) -> tuple[str, ...]:
    """Return a sentence on what the CPU computes because Vela's commands are wrong."""
    many = counted(len(builder.on_cpu), "tensor")
    return (f"the CPU computes {many}, for which Vela's commands are wrong",) if builder.on_cpu else ()


class _Check:
    """Runs programs of one model with the same samples."""

    def __init__(self, model: FlatModel) -> None:
        self._model = model
        self._tensors = {tensor.name: tensor for tensor in model.tensors}
        self._writers = {model.tensors[i].name: op for op in model.operators for i in op.outputs}
        self.where = ""

    @cached_property
    def _samples(self) -> Sequence[Sample]:
        model = self._model
        samples = samples_of(model, SAMPLES)
        tensors = [model.tensors[i] for i in model.own_inputs]
        return [*samples, *(tuple(map(_smaller, sample, tensors)) for sample in samples)]

    @cached_property
    def moves(self) -> frozenset[str]:
        """The tensors that operators which move data write."""
        return frozenset(name for name, op in self._writers.items() if op.name in _MOVES)

    @cached_property
    def neighbours(self) -> frozenset[str]:
        """The tensors that the operators before and after these write."""
        model, near = self._model, set[str]()
        for op in model.operators:
            given, made = ([model.tensors[i].name for i in side if i >= 0] for side in (op.inputs, op.outputs))
            if self.moves.intersection(given):
                near.update(made)
            if self.moves.intersection(made):
                near.update(name for name in given if name in self._writers)
        return frozenset(near)

    @cached_property
    def functions(self) -> frozenset[str]:
        """The tensors that operators other than layers write."""
        return frozenset(name for name, op in self._writers.items() if op.name not in LAYERS)

    def wrong_operators(self, builder: VelaBuilder, build: VelaBuild, ours: Sequence[Values]) -> frozenset[str] | None:
        """Return names of tensors whose operators the CPU has to compute; None for a program that is right."""
        if not build.made.partitions:
            return None
        if (cpu := self._on_cpu(builder)) is not None and all(map(self._is_near, ours, cpu)):
            return None
        model, copies = separated(self._model)
        try:
            single = replace(builder, on_cpu=builder.on_cpu | copies).built(given=model)
            chained = self.values(single)
        except (FormatError, UnsupportedError) as error:
            self.where = f"operators by themselves, of which {error.message}"
            return (self.moves - builder.on_cpu) or self.functions
        if wrong := self._wrong_by_themselves(builder, single, chained):
            return wrong
        for one, other in zip(ours, chained, strict=True):
            # Steps inside of an operator have other names, and write tensors in part.
            for name in one.keys() & other.keys() & self._tensors.keys():
                if one[name].tobytes() != other[name].tobytes():
                    self.where = f"tensor `{name}`"
                    return self._suspects(builder, build, name)
        return None

    def with_fewer(self, builder: VelaBuilder, build: VelaBuild) -> tuple[VelaBuilder, VelaBuild]:
        """Return a right program with fewer operators on the CPU: without each kind, then without each one of a few."""
        kinds: dict[str, set[str]] = {}
        for name in sorted(builder.on_cpu):
            kinds.setdefault(self._writers[name].name, set()).add(name)
        for names in kinds.values() if len(kinds) > 1 else ():
            builder, build = self._without(names, builder, build)
        for name in sorted(builder.on_cpu) if 1 < len(builder.on_cpu) <= _FEW else ():
            builder, build = self._without({name}, builder, build)
        return builder, build

    def _without(
        self, names: AbstractSet[str], builder: VelaBuilder, build: VelaBuild
    ) -> tuple[VelaBuilder, VelaBuild]:
        """Return the program without these on the CPU if that is right, else the program."""
        one = replace(builder, on_cpu=builder.on_cpu - names)
        with suppress(FormatError, UnsupportedError):
            made = one.built()
            if self.wrong_operators(one, made, self.values(made)) is None:
                return one, made
        return builder, build

    def values(self, build: VelaBuild) -> list[Values]:
        """Return the values that steps write, and the outputs, for each sample; FormatError for refused commands."""
        made = build.made
        steps = StepValues(bundle_of(build), made.partitions, made.cpu_ops)
        names = [self._model.tensors[i].name for i in self._model.own_outputs]
        return [steps.of(sample) | dict(zip(names, steps.outputs(), strict=True)) for sample in self._samples]

    def _on_cpu(self, builder: VelaBuilder) -> list[Values] | None:
        """Return the values that C operators compute; None if an operator has none."""
        try:
            return self.values(builder.built_for_cpu(self._model))
        except UnsupportedError:
            return None

    def _is_near(self, ours: Values, theirs: Values) -> bool:
        return all(self._is_within(name, ours[name], theirs[name]) for name in ours.keys() & theirs.keys())

    def _is_within(self, name: str, ours: Array, theirs: Array) -> bool:
        tensor = self._tensors.get(name)
        if tensor is None or tensor.dtype == "FLOAT32":
            return True  # float operators run on the CPU in both
        steps = NPU_STEPS if tensor.quant else 0
        difference = np.abs(ours.reshape(-1).astype(np.int64) - theirs.reshape(-1).astype(np.int64))
        return int(difference.max(initial=0)) <= steps

    def _suspects(self, builder: VelaBuilder, build: VelaBuild, name: str) -> frozenset[str]:
        """Return what moves data in the partition that writes a tensor; if nothing is left, all that it writes."""
        model = self._model
        for part, numbers in zip(build.made.partitions, build.inside, strict=True):
            if name in [info.name for info in part.outputs]:
                inside = [model.operators[number] for number in numbers]
                every = frozenset(model.tensors[i].name for op in inside for i in op.outputs)
                return (every & self.moves) - builder.on_cpu or every
        return self.moves

    def _wrong_by_themselves(self, builder: VelaBuilder, single: VelaBuild, values: Sequence[Values]) -> frozenset[str]:
        """Return the tensors of operators that differ from C operators by more than rounding for the same inputs."""
        on_npu = {info.name for part in single.made.partitions for info in part.outputs}
        known = [self._with_views(sample, each) for sample, each in zip(self._samples, values, strict=True)]
        wrong: set[str] = set()
        for op in self._model.operators:
            names = [self._model.tensors[i].name for i in op.outputs]
            inputs = tuple(dict.fromkeys(i for i in op.inputs if i >= 0 and not self._model.tensors[i].has_values))
            given = [self._model.tensors[i].name for i in inputs]
            if not on_npu.intersection(names) or not all(name in known[0] for name in (*given, *names)):
                continue
            try:
                program = HostExecutor(bundle_of(builder.built_for_cpu(_single(self._model, op, inputs))))
            except UnsupportedError:
                continue
            for each in known:
                results = program.run([each[name] for name in given])
                if not all(self._is_within(name, each[name], y) for name, y in zip(names, results, strict=True)):
                    self.where = f"{op.title}, tensor `{names[0]}`"
                    wrong.update(names)
        return frozenset(wrong)

    def _with_views(self, sample: Sequence[Array], values: Values) -> Values:
        """Return the values with the model's inputs, and with what operators give that only rename bytes."""
        model = self._model
        known = {model.tensors[i].name: x for i, x in zip(model.own_inputs, sample, strict=True)} | {**values}
        for op in model.operators:
            if op.name in VIEWS and op.inputs and op.outputs:
                source, view = (model.tensors[i] for i in (op.inputs[0], op.outputs[0]))
                if source.name in known and view.name not in known:
                    known[view.name] = known[source.name].reshape(view.shape)
        return known


def separated(model: FlatModel) -> tuple[FlatModel, frozenset[str]]:
    """Return the model with a copy of each tensor that an operator writes, for its readers; and the copies' names."""
    tensors, operators = [*model.tensors], list[FlatOperator]()
    copies: dict[int, int] = {}
    for op in model.operators:
        operators.append(replace(op, inputs=tuple(copies.get(i, i) for i in op.inputs)))
        for i in op.outputs:
            copies[i] = len(tensors)
            tensors.append(replace(tensors[i], name=f"{tensors[i].name}/separate_{len(tensors)}"))
            operators.append(FlatOperator("RESHAPE", (i,), (copies[i],)))
    names = frozenset(tensors[copy].name for copy in copies.values())
    return replace(model, tensors=tuple(tensors), operators=tuple(operators)), names


def _single(model: FlatModel, op: FlatOperator, inputs: tuple[int, ...]) -> FlatModel:
    """Return a model of one operator."""
    return replace(model, inputs=inputs, outputs=op.outputs, operators=(op,), states=())


def _smaller(array: Array, tensor: FlatTensor) -> Array:
    """Return values nearer to zero."""
    if array.dtype.kind == "f":
        return (array.astype(np.float64) / _SMALLER).astype(array.dtype)
    if tensor.quant is None or array.dtype.kind not in "iu":
        return array
    zero = tensor.quant.zero_points[0] if len(tensor.quant.zero_points) else 0
    return ((array.astype(np.int64) - zero) // _SMALLER + zero).astype(array.dtype)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The inputs of a program."""

    inputs: Sequence[TensorInfo]


def samples_of(model: FlatModel, count: int) -> list[Sample]:
    """Return random inputs of a model."""
    return seeded_inputs(_Inputs(infos(model, model.own_inputs)), count)


def bundle_of(build: VelaBuild) -> Bundle:
    """Return the program as tables, in which each step computes whole tensors."""
    return translate(pte.read(build.program), name="model")

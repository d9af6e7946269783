"""Hides from Vela operators that it cannot place on an NPU: some stop it, such as comparisons and float functions.

For others its commands compute other values, or values that are not public.

Vela leaves a custom operator as it is. So each of these operators goes through Vela as one, named by its number. Vela
adds operators to tensors of bool, which it cannot place either; they go through Vela as uint8.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from deuteron.errors import UnsupportedError
from deuteron.runtime import vela_merges
from deuteron.runtime.tflite_program import VIEWS
from deuteron.runtime.vela import PLAN
from deuteron.runtime.vela_merges import SLICES
from deuteron.tflite.cortex_m.operator_table import VELA
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import CUSTOM, NO_TENSOR, FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.normalize import RESIZES, has_two_quants
from deuteron.tflite.variables import STATE_OPERANDS

_CODE = "DeuteronHidden"

_STORED = ("INT8", "UINT8", "INT16")
"""Types of activations that an Ethos-U takes."""

_RESULTS = (*_STORED, "INT32")
"""Those of its results, such as indices."""

_NARROW = ("PRELU", "RESIZE_NEAREST_NEIGHBOR")
"""Operators of which Vela takes some forms in int16, and stops at others."""

_WRONG = ("REDUCE_MAX", "REDUCE_MIN")
"""Operators whose commands reduce other elements where dimensions stand before the reduced one."""

_SINGLE: Mapping[str, int] = dict.fromkeys(("StrideW", "StrideH", "FilterWidth", "FilterHeight", "Padding"), 1)
"""Options of a pool over single values, without pads."""

_ODD = ("BOOL", "INT64")
"""Types that it stores in another form: true is -1 on an Ethos-U85. NEG there ignores the input's zero point."""


def check_names(source: FlatModel) -> None:
    """Raise UnsupportedError for a custom operator with the name of a hidden one."""
    for number, op in enumerate(source.operators):
        if op.custom_code.startswith(_CODE):
            raise UnsupportedError(
                f"the custom operator `{op.custom_code}` has a name that builds for an Ethos-U use themselves",
                where=f"operator {op.number(number)} ({op.title})",
                hint=f"give it a name that does not start with {_CODE}",
            )


def hidden(source: FlatModel, lost: Collection[int] = (), on_cpu: Collection[str] = ()) -> bytes | None:
    """Return the model as a file with operators hidden; None where there is none, or the model is no whole file.

    Args:
        source: the model.
        lost: tensors that Vela would lose; what writes or reads them is hidden too.
        on_cpu: names of tensors; what writes them is hidden too.
    """
    operators = tuple(_hidden(source, number, lost, on_cpu) for number in range(len(source.operators)))
    if operators == source.operators or not source.is_complete:
        return None
    metadata = {name: data for name, data in source.metadata.items() if name != PLAN}
    return encode(apart(replace(source, tensors=tensors_of(source), operators=operators, metadata=metadata)))


def apart(model: FlatModel) -> FlatModel:
    """Return a model whose transposed convolutions read no slice: a pool over single values stands between them.

    Vela 5.1 and 5.2 pad a transposed convolution that reads a slice at the wrong side.
    """
    sliced = {i for op in model.operators if op.name in SLICES for i in op.outputs}
    tensors, operators = [*model.tensors], list[FlatOperator]()
    for op in model.operators:
        if op.name in VIEWS and op.inputs[0] in sliced:
            sliced.add(op.outputs[0])
        if op.name == "TRANSPOSE_CONV" and op.inputs[2] in sliced:
            source = tensors[op.inputs[2]]
            tensors.append(replace(source, name=f"{source.name}/apart_{len(tensors)}"))
            operators.append(
                FlatOperator("MAX_POOL_2D", (op.inputs[2],), (len(tensors) - 1,), "Pool2DOptions", _SINGLE)
            )
            op = replace(op, inputs=(*op.inputs[:2], len(tensors) - 1, *op.inputs[3:]))  # noqa: PLW2901
        operators.append(op)
    return (
        replace(model, tensors=tuple(tensors), operators=tuple(operators))
        if len(tensors) > len(model.tensors)
        else model
    )


def tensors_of(source: FlatModel) -> tuple[FlatTensor, ...]:
    """Return the tensors as Vela may see them: those of bool as uint8."""
    return tuple(replace(t, dtype="UINT8") if t.dtype == "BOOL" else t for t in source.tensors)


def kept(source: FlatModel, number: int, on_cpu: Collection[str] = ()) -> FlatOperator:
    """Return an operator as Vela may see it in any case.

    Operators whose commands are wrong or unknown, and those that write tensors with the names `on_cpu`, become custom
    ones. Operators that keep a state become custom ones without the state and without the inputs that they lack. Vela's
    own LSTMs keep no state, and Vela would reserve memory for a state in the scratch of every partition.
    """
    op = source.operators[number]
    if op.title in STATE_OPERANDS:
        return _custom(replace(op, inputs=tuple(i for _, i in _given(op))), number)
    ends = (source.tensors[i] for i in (*op.inputs, *op.outputs) if i >= 0)
    is_odd = op.name == "NEG" or any(t.dtype in _ODD and t.data is None for t in ends)
    given = (source.tensors[i] for i in op.inputs if i >= 0)
    is_odd |= op.name in _WRONG or any(t.dtype == "INT32" and t.data is None for t in given)
    is_odd |= vela_merges.is_wrong(source, op) or any(source.tensors[i].name in on_cpu for i in op.outputs)
    is_odd |= _repeats_matrices(source, op) or _has_groups_with_zero_points(source, op)
    is_odd |= _is_built_in(source, op) or _is_mirrored_wrongly(source, op) or _makes_batches_of_a_slice(source, op)
    return _custom(op, number) if is_odd or _ignores_quants(source, op) else op


def lost(source: FlatModel, model: FlatModel) -> tuple[int, ...]:
    """Return the inputs and outputs of the source that Vela's model lacks, if it has no others or in another order.

    Tensors have names of their own. Vela leaves out an output that another operator reads in another shape, or keeps it
    and writes it nowhere.
    """
    ends = zip((source.inputs, source.outputs), (model.inputs, model.outputs), strict=True)
    gone: list[int] = []
    for wanted, made in ends:
        names = [model.tensors[i].name for i in made]
        left = [i for i in wanted if source.tensors[i].name in names]
        if [source.tensors[i].name for i in left] != names:
            return wanted
        gone += (i for i in wanted if i not in left)
    results = {model.tensors[i].name for op in model.operators for i in op.outputs}
    known = results | {model.tensors[i].name for i in model.inputs}
    gone += (
        i
        for i in source.outputs
        if source.tensors[i].data is None and source.tensors[i].name not in known and i not in gone
    )
    return tuple(gone)


def shown(source: FlatModel, model: FlatModel) -> FlatModel:
    """Return what Vela made of a file, with the operators that were hidden, and with shapes and constants that it lost.

    Vela leaves out the values of a constant that is an output, and gives tensors the shapes of what reads them.
    """
    before = {t.name: t for t in source.tensors}
    tensors = [_with_values(t, before.get(t.name), is_output=i in model.outputs) for i, t in enumerate(model.tensors)]
    operators = tuple(_shown(source, tensors, op) for op in model.operators)
    return replace(model, tensors=tuple(tensors), operators=operators)


def _with_values(tensor: FlatTensor, before: FlatTensor | None, *, is_output: bool) -> FlatTensor:
    is_lost = is_output and tensor.data is None and before is not None and before.data is not None
    if before is not None and math.prod(before.shape) == math.prod(tensor.shape):
        tensor = replace(tensor, shape=before.shape)
    if before is None or not (before.dtype == "BOOL" or is_lost):
        return tensor
    return replace(tensor, dtype=before.dtype, quant=before.quant, data=before.data)


def _hidden(source: FlatModel, number: int, lost: Collection[int], on_cpu: Collection[str]) -> FlatOperator:
    op = kept(source, number, on_cpu)
    if op is not source.operators[number]:
        return op
    given = [source.tensors[i] for i in op.inputs if i >= 0 and source.tensors[i].data is None]
    results = [source.tensors[i] for i in op.outputs]
    if (
        op.name in VELA
        and not (op.name in _NARROW and any(t.dtype == "INT16" for t in given))
        and all(t.dtype in _STORED and t.quant for t in given)
        and all(t.dtype in _RESULTS for t in results)
        and not any(i in lost for i in (*op.inputs, *op.outputs))
    ):
        return op
    return _custom(op, number)


def _custom(op: FlatOperator, number: int) -> FlatOperator:
    return FlatOperator(CUSTOM, op.inputs, op.outputs, custom_code=f"{_CODE}{number}")


def _is_built_in(source: FlatModel, op: FlatOperator) -> bool:
    """Return True for functions of int16 whose commands have values that are not public.

    An NPU computes LOGISTIC and TANH itself, and not by a table. SOFTMAX has operations that no document names.
    """
    return op.name in ("LOGISTIC", "SOFTMAX", "TANH") and source.tensors[op.inputs[0]].dtype == "INT16"


def _ignores_quants(source: FlatModel, op: FlatOperator) -> bool:
    """Return True for stored values that LiteRT moves as they are into another quantization.

    Vela scales them, or refuses the file.
    """
    return op.name in (*VIEWS, *RESIZES) and has_two_quants(op, source.tensors)


def _repeats_matrices(source: FlatModel, op: FlatOperator) -> bool:
    """Return True for a product in which matrices of an operand repeat: Vela's commands read others."""
    if op.name != "BATCH_MATMUL" or len(op.inputs) != 2:
        return False
    first, second = (list(source.tensors[i].shape[:-2]) for i in op.inputs)
    rank = max(len(first), len(second))
    return [1] * (rank - len(first)) + first != [1] * (rank - len(second)) + second


def _has_groups_with_zero_points(source: FlatModel, op: FlatOperator) -> bool:
    """Return True for a convolution in groups by weights with a zero point, which Vela's commands ignore."""
    if op.name != "CONV_2D" or len(op.inputs) < 2:
        return False
    x, weights = (source.tensors[i] for i in op.inputs[:2])
    return x.shape[-1] != weights.shape[-1] and weights.quant is not None and any(weights.quant.zero_points)


def _is_mirrored_wrongly(source: FlatModel, op: FlatOperator) -> bool:
    """Return True for a mirror pad of batches or channels: Vela's commands reverse rows and columns alone."""
    if op.name != "MIRROR_PAD":
        return False
    pads = source.tensors[op.inputs[1]]
    if pads.data is None:
        return True
    sizes = np.frombuffer(pads.data, np.int64 if pads.dtype == "INT64" else np.int32).reshape(-1, 2)
    return bool(sizes[-1].any() or sizes[:-3].any())


def _makes_batches_of_a_slice(source: FlatModel, op: FlatOperator) -> bool:
    """Return True for a view of a slice with several batches: Vela applies the slice's offset to the wrong dimension.

    Functions by a table, such as LOGISTIC, then read other elements.
    """
    if op.name not in VIEWS or math.prod(source.tensors[op.outputs[0]].shape[:-3]) == 1:
        return False
    return any(one.name in SLICES and op.inputs[0] in one.outputs for one in source.operators)


def _given(op: FlatOperator) -> Iterator[tuple[int, int]]:
    """Yield the inputs of an operator with a state that Vela gets: their positions and tensors."""
    yield from ((at, i) for at, i in enumerate(op.inputs) if i >= 0 and at not in STATE_OPERANDS[op.title])


def _shown(source: FlatModel, tensors: list[FlatTensor], op: FlatOperator) -> FlatOperator:
    """Return an operator as it was before Vela, and add its tensors that Vela did not get."""
    if not op.custom_code.startswith(_CODE):
        return op
    before = source.operators[int(op.custom_code.removeprefix(_CODE))]
    if before.title not in STATE_OPERANDS:
        return replace(before, inputs=op.inputs, outputs=op.outputs)

    def added(index: int) -> int:
        tensors.append(source.tensors[index])
        return len(tensors) - 1

    given = {at: i for (at, _), i in zip(_given(before), op.inputs, strict=True)}
    inputs = (given[at] if at in given else NO_TENSOR if i < 0 else added(i) for at, i in enumerate(before.inputs))
    return replace(
        before, inputs=tuple(inputs), outputs=op.outputs, intermediates=tuple(map(added, before.intermediates))
    )

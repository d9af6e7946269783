"""Runs the calls of lowered operators on this machine, and compares them with LiteRT's reference kernels."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from tests.cortex_m.operator_library import OperatorLibrary

from deuteron.operators import catalogue
from deuteron.runtime.litert import Litert
from deuteron.tflite.cortex_m import Constant, FileTensor, Operand, Temporary, lower
from deuteron.tflite.cortex_m.operator_view import NUMPY
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel
from deuteron.tflite.unsigned import signed
from deuteron.tflite.variables import initial_of, with_variable_tensors

Array = npt.NDArray[np.generic]


def run(
    c_operators: OperatorLibrary, model: FlatModel, inputs: Sequence[Array], states: dict[int, Array] | None = None
) -> list[Array]:
    """The outputs of a model whose operators stand in order of execution.

    Args:
        c_operators: what runs operators.
        model: the model.
        inputs: one array per input.
        states: variable tensors before the run, first none, and then behind it.
    """
    values: dict[object, Array] = {}
    for index, tensor in enumerate(model.tensors):
        if tensor.is_variable:
            initial = np.frombuffer(initial_of(tensor), NUMPY[tensor.dtype]).reshape(tensor.shape)
            values[index] = (states or {}).get(index, initial)
        elif tensor.data is not None:
            values[index] = np.frombuffer(tensor.data, NUMPY[tensor.dtype]).reshape(tensor.shape)
        elif tensor.dtype in NUMPY:
            values[index] = np.zeros(tensor.shape, NUMPY[tensor.dtype])
    values |= dict(zip(model.inputs, inputs, strict=True))
    for index in range(len(model.operators)):
        _run_operator(c_operators, model, index, values)
    if states is not None:
        states.update((i, values[i]) for i, tensor in enumerate(model.tensors) if tensor.is_variable)
    return [values[index] for index in model.outputs]


def _run_operator(c_operators: OperatorLibrary, model: FlatModel, index: int, values: dict[object, Array]) -> None:
    for call in lower(model, index):
        operands = [_value(operand, values) for operand in call.inputs]
        scratch = [np.zeros(count, dtype) for count, dtype in catalogue.scratch(call.operator, call.params)]
        targets = [_value(target, values) for target in call.outputs]
        results = c_operators.call_all(call.operator.symbol, call.params.words(), operands, scratch, targets)
        values |= zip(map(_key, call.outputs), results, strict=True)


def _key(operand: Operand) -> object:
    return operand.index if isinstance(operand, FileTensor) else operand


def _value(operand: Operand, values: Mapping[object, Array]) -> Array:
    match operand:
        case Constant(array):
            return np.ascontiguousarray(array)
        case Temporary(shape, dtype) if operand not in values:
            return np.zeros(shape, dtype)
        case _:
            return values[_key(operand)]


def random_inputs(model: FlatModel, rng: np.random.Generator) -> list[Array]:
    """Stored values of the whole range of each input, the ends among them; numbers about 0 in float32."""
    arrays: list[Array] = []
    for index in model.inputs:
        tensor = model.tensors[index]
        if tensor.dtype == "FLOAT32":
            arrays.append((rng.standard_normal(tensor.shape) * 3).astype(np.float32))
            continue
        if tensor.dtype == "BOOL":
            arrays.append(rng.integers(0, 2, tensor.shape).astype(np.bool_))
            continue
        limits = np.iinfo(NUMPY[tensor.dtype])
        low, high = (max(limits.min, -(1 << 20)), min(limits.max, 1 << 20))
        array = rng.integers(low, high + 1, tensor.shape).astype(NUMPY[tensor.dtype])
        if array.size > 1:
            array.flat[0], array.flat[-1] = low, high
        arrays.append(array)
    return arrays


def compare(
    c_operators: OperatorLibrary,
    model: FlatModel,
    rng: np.random.Generator,
    runs: int = 2,
    steps: int = 0,
    absolute: float = 0.0,
) -> None:
    """Compare a model with LiteRT, on random inputs; float32 may be so many steps apart, or so much."""
    data = encode(model)
    reference, decoded = Litert(data), signed(decode(data))
    for _ in range(runs):
        inputs = random_inputs(decoded, rng)
        wanted = reference.run(inputs)
        for found, expected in zip(run(c_operators, decoded, inputs), wanted, strict=True):
            if absolute and expected.dtype == np.float32:
                np.testing.assert_allclose(found, expected, rtol=0, atol=absolute)
            elif steps and expected.dtype == np.float32:
                np.testing.assert_array_max_ulp(found, expected, steps)
            else:
                np.testing.assert_array_equal(found, expected, str(decoded.operators))


def compare_stream(c_operators: OperatorLibrary, model: FlatModel, rng: np.random.Generator, steps: int) -> None:
    """Compare a model that keeps state with LiteRT, over so many runs, and once again from the initial state."""
    data = encode(model)
    reference, decoded = Litert(data), with_variable_tensors(decode(data, partial=True))
    stream = [random_inputs(decoded, rng) for _ in range(steps)]
    for part in (stream, stream[:2]):
        reference.reset()
        states: dict[int, Array] = {}
        for step, inputs in enumerate(part):
            wanted = reference.run(inputs)
            for found, expected in zip(run(c_operators, decoded, inputs, states), wanted, strict=True):
                np.testing.assert_array_equal(found, expected, f"step {step} of {decoded.operators}")

"""Operators that keep a state give the bytes of LiteRT's reference kernels, step by step."""

import os
import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests import full
from tests.cortex_m.operator_library import OperatorLibrary, RefusedError
from tests.tflite.cortex_m.recurrent_models import MODELS
from tests.tflite.cortex_m.running import compare_stream

from deuteron.arch.cores import InnerWork
from deuteron.errors import UnsupportedError
from deuteron.operators import catalogue
from deuteron.operators.recurrent import LstmParams
from deuteron.operators.tflite import SvdfParams
from deuteron.tflite.cortex_m import Constant, FileTensor, Operand, lower
from deuteron.tflite.cortex_m.operator_view import NUMPY
from deuteron.tflite.flat_model import FlatModel
from deuteron.tflite.quantization import Quant

CASES = int(os.environ.get("DEUTERON_TFLITE_CASES", "4"))
"""Random models per operator; a long run asks for hundreds."""


@pytest.fixture(scope="module", params=full.first([InnerWork.PORTABLE, InnerWork.DSP], 1))
def c_operators(request: pytest.FixtureRequest) -> OperatorLibrary:
    """The C operators with each kind of inner loops that this machine compiles."""
    return OperatorLibrary(request.param)


@pytest.mark.parametrize("name", MODELS)
def test_streams_equal_litert(c_operators: OperatorLibrary, name: str) -> None:
    for case in range(CASES):
        rng = np.random.default_rng([zlib.crc32(name.encode()), case])
        compare_stream(c_operators, MODELS[name](rng), rng, steps=60)


def made(name: str) -> FlatModel:
    return MODELS[name](np.random.default_rng(0))


def changed(model: FlatModel, operand: int, **fields: object) -> FlatModel:
    """The model with another tensor for an operand."""
    index = model.operators[0].inputs[operand]
    tensors = [*model.tensors]
    tensors[index] = replace(tensors[index], **fields)
    return replace(model, tensors=tuple(tensors))


def with_operand(model: FlatModel, operand: int, other: int) -> FlatModel:
    """The model with the tensor of another operand for one."""
    (op,) = model.operators
    inputs = [*op.inputs]
    inputs[operand] = -1 if other < 0 else op.inputs[other]
    return replace(model, operators=(replace(op, inputs=tuple(inputs)),))


def with_option(model: FlatModel, name: str, value: int) -> FlatModel:
    (op,) = model.operators
    return replace(model, operators=(replace(op, options={**op.options, name: value}),))


STANDARD = "use a standard LSTM, as Keras has it"
DEFECT = "make the file again; its converter has a defect"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("lstm", lambda m: with_operand(m, 9, 1), f"it has peephole weights; none is allowed\n\nhint: {STANDARD}"),
        ("lstm", lambda m: with_operand(m, 16, 1), f"it has a projection; none is allowed\n\nhint: {STANDARD}"),
        (
            "lstm",
            lambda m: with_operand(m, 1, -1),
            f"its input gate is one minus the forget gate; a gate of its own is needed\n\nhint: {STANDARD}",
        ),
        (
            "lstm",
            lambda m: with_option(m, "FusedActivationFunction", 1),
            f"its activation function is not TANH\n\nhint: {STANDARD}",
        ),
        (
            "lstm",
            lambda m: replace(m, operators=(replace(m.operators[0], intermediates=()),)),
            f"the scale of its hidden state is missing among its intermediate tensors\n\nhint: {DEFECT}",
        ),
        (
            "lstm",
            lambda m: changed(m, 19, quant=Quant((3 / 4096,), (0,))),
            "the cell state `cell` has the scale 0.000732422; powers of two from 2^-15 to 2^-9 are allowed\n\n"
            f"hint: {DEFECT}",
        ),
        (
            "svdf",
            lambda m: changed(m, 4, is_variable=False),
            f"tensor `state` is no variable; the operator keeps its state in it\n\nhint: {DEFECT}",
        ),
        (
            "svdf",
            lambda m: with_option(m, "FusedActivationFunction", 3),
            "its fused activation function is not RELU or NONE\n\nhint: write the activation as an operator of its own",
        ),
    ],
)
def test_refusals(name: str, change: Callable[[FlatModel], FlatModel], message: str) -> None:
    model = change(made(name))
    with pytest.raises(UnsupportedError) as caught:
        lower(model, 0)
    assert str(caught.value) == f"operator 0 ({model.operators[0].title}): {message}"


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("svdf", "units", 0),
        ("svdf", "rank", 1 << 30),
        ("svdf", "in_zp", 200),
        ("svdf", "state_zp", 1),
        ("svdf", "out_shift", 31),
        ("svdf", "steps", 0),
        ("svdf", "has_bias", 2),
        ("lstm", "units", 0),
        ("lstm", "steps", 1 << 20),
        ("lstm", "hidden_zp", -129),
        ("lstm", "cell_bits", 7),
        ("lstm", "cell_clip", 40000),
        ("lstm", "time_major", 2),
        ("lstm", "input_shifts", (31, 0, 0, 0)),
    ],
)
def test_the_c_functions_check_their_records(
    c_operators: OperatorLibrary, name: str, field: str, value: object
) -> None:
    model = made(name)
    (call,) = lower(model, 0)
    params = call.params
    assert isinstance(params, SvdfParams | LstmParams)
    with pytest.raises(RefusedError):
        run_call(c_operators, model, replace(params, **{field: value}).words())


def run_call(c_operators: OperatorLibrary, model: FlatModel, words: tuple[int, ...]) -> None:
    """Run the operator's call with other words."""
    (call,) = lower(model, 0)
    inputs = [operand_of(model, each) for each in call.inputs]
    needed = catalogue.scratch(call.operator, call.params)
    scratch = [np.zeros(count, dtype) for count, dtype in needed]
    c_operators.call_all(
        call.operator.symbol, words, inputs, scratch, [operand_of(model, each) for each in call.outputs]
    )


def operand_of(model: FlatModel, operand: Operand) -> np.ndarray:
    """The value of an operand, zeros for what is computed."""
    if isinstance(operand, Constant):
        return np.ascontiguousarray(operand.array)
    assert isinstance(operand, FileTensor)
    tensor = model.tensors[operand.index]
    if tensor.data is None:
        return np.zeros(tensor.shape, NUMPY[tensor.dtype])
    return np.frombuffer(tensor.data, NUMPY[tensor.dtype]).reshape(tensor.shape)

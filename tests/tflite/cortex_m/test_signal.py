"""Operators of TFLite Micro's signal library give the numbers of their definitions, call by call."""

import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tests.cortex_m.operator_library import OperatorLibrary, RefusedError
from tests.tflite.cortex_m import signal_models
from tests.tflite.cortex_m.models import constant, model, tensor
from tests.tflite.cortex_m.running import run
from tests.tflite.cortex_m.signal_definitions import DEFINITIONS
from tests.tflite.cortex_m.signal_models import MODELS, Array, stream
from tests.tflite.cortex_m.test_recurrent import operand_of
from tests.tflite.cortex_m.test_refusals import random_words

from deuteron import api
from deuteron.errors import DeuteronError
from deuteron.runtime import tflite_model
from deuteron.tflite.cortex_m import lower
from deuteron.tflite.custom_options import options_of
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel
from deuteron.tflite.variables import with_variable_tensors

CASES = int(os.environ.get("DEUTERON_TFLITE_CASES", "6"))
CALLS = 8


def defined(source: FlatModel, inputs: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The outputs of each call by the definitions."""
    constants = {i: each.data for i, each in enumerate(source.tensors) if each.data is not None}
    calls = [
        DEFINITIONS[op.title](
            options_of(op.custom_options) or {},
            [np.frombuffer(constants[i], source.tensors[i].dtype.lower()) for i in op.inputs if i in constants],
        )
        if op.custom_code
        else lambda x: [x]
        for op in source.operators
    ]
    outputs: list[list[Array]] = []
    for given in inputs:
        values = dict(zip(source.inputs, given, strict=True))
        for op, call in zip(source.operators, calls, strict=True):
            results = call(*(values[i] for i in op.inputs if i not in constants))
            for i, result in zip(op.outputs, results, strict=True):
                values[i] = result.astype(source.tensors[i].dtype.lower()).reshape(source.tensors[i].shape)
        outputs.append([values[i] for i in source.outputs])
    return outputs


@pytest.mark.parametrize("name", MODELS)
def test_equals_its_definition(c_operators: OperatorLibrary, name: str) -> None:
    for case in range(CASES):
        rng = np.random.default_rng([zlib.crc32(name.encode()), case])
        source = MODELS[name](rng)
        inputs, model = stream(source, rng, CALLS), with_variable_tensors(decode(encode(source), partial=True))
        states: dict[int, Array] = {}
        for step, (given, wanted) in enumerate(zip(inputs, defined(source, inputs), strict=True)):
            for found, expected in zip(run(c_operators, model, given, states), wanted, strict=True):
                np.testing.assert_array_equal(found, expected, f"case {case}, call {step}")


def test_a_front_end_streams_in_a_program(tmp_path: Path) -> None:
    """From loud noise to quiet, with a frame of silence; each frame changes the estimate of the noise."""
    rng = np.random.default_rng(1)
    source, path = signal_models.front_end(rng), tmp_path / "front_end.tflite"
    path.write_bytes(encode(source))
    loudness = [32767 / 2**call * (call != 3) for call in range(12)]
    samples = [[np.round(rng.uniform(-most, most, (1, 30))).astype(np.int16)] for most in loudness]
    subject = api.subject(path, target="cortex-m55")
    subject.resets = (0,)
    for found, expected in zip(subject.run(samples), defined(source, samples), strict=True):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def built(source: FlatModel) -> None:
    lower(tflite_model.prepare(encode(source)).model, 0)


def with_options(source: FlatModel, **changed: int | None) -> FlatModel:
    (op,) = source.operators
    options = {**(options_of(op.custom_options) or {}), **changed}
    data = flexbuffers.Dumps({name: value for name, value in options.items() if value is not None})
    return replace(source, operators=(replace(op, custom_options=bytes(data)),))


DEFECT = "\n\nhint: make the file again; its exporter has a defect"
MALFORMED = "\n\nhint: make the file again; it is damaged or its exporter has a defect"


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("window", {"shift": 32}, f"(SignalWindow): its option `shift` is 32; 0 to 31 are allowed{DEFECT}"),
        ("window", {"shift": None}, f"(SignalWindow): its options have no number `shift`{DEFECT}"),
        ("SignalRfft INT16", {"fft_length": 96}, "its option `fft_length` is 96; powers of two are allowed\n\n"
         "hint: make the graph with an FFT length that is a power of two, such as 512"),
        ("energy", {"end_index": 99}, "its option `end_index` is 99; 0 to 17 are allowed"),
        ("filter_bank", {"num_channels": 9}, "tensor `f` has the shape [5]; 10 elements are needed"),
        ("pcan", {"snr_shift": -1}, "its option `snr_shift` is -1; 0 to 63 are allowed"),
        ("delay", {"delay_length": -1}, f"output `y`: a delay of -1 samples; 0 or more is allowed{MALFORMED}"),
        ("framer", {"frame_step": 5}, "frames of 5 start every 5 of 6 samples; a divisor up to 5 is allowed"),
        ("stacker", {"stacker_step": 99}, "with a step of 99; 1 up to the first is allowed"),
        ("overlap_add", {"frame_step": 0}, "samples with a step of 0; 1 to "),
    ],
)  # fmt: skip
def test_refusals(name: str, changed: dict[str, int | None], message: str) -> None:
    with pytest.raises(DeuteronError) as caught:
        built(with_options(MODELS[name](np.random.default_rng(0)), **changed))
    assert message in str(caught.value)


COMBINED = ("delay", "framer", "overlap_add", "overlap_add_f32", "SignalIrfft FLOAT32", "stacker")
"""Models of several calls, of other operators."""


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("front_end", *COMBINED)])
def test_a_damaged_record_is_refused_or_harmless(c_operators: OperatorLibrary, name: str) -> None:
    rng = np.random.default_rng(7)
    source = with_variable_tensors(MODELS[name](rng))
    (call,) = lower(source, 0)
    words = call.params.words()
    inputs, outputs = ([operand_of(source, each) for each in side] for side in (call.inputs, call.outputs))
    with pytest.raises(RefusedError):
        c_operators.call_all(call.operator.symbol, words[:-1], inputs, [], outputs)
    for _ in range(60):
        try:
            c_operators.call_all(call.operator.symbol, random_words(rng, words), inputs, [], outputs)
        except RefusedError:
            continue


@pytest.mark.parametrize("dtype", ["UINT32", "UINT64"])
def test_numbers_of_its_types_are_filled(c_operators: OperatorLibrary, dtype: str) -> None:
    value = constant("value", 0x01020304, dtype)
    filled = model("FILL", [constant("dims", (5,)), value], [tensor("y", (5,), dtype)], "FillOptions")
    (y,) = run(c_operators, filled, [])
    np.testing.assert_array_equal(y, np.full(5, 0x01020304, dtype.lower()))

"""TFLite files as programs: with float edges and without, converted before or now, compared with LiteRT."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.npu.neutron.tflite.cases import CASES
from tests.npu.neutron.tflite.files import OutsideEncoder, outside_bytes, with_float_edges

from deuteron.errors import FormatError, InputError, UnsupportedError
from deuteron.npu.neutron.convert import convert, to_tflite
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.runtime import tflite_model
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.views.compare import litert

TARGET = "imxrt700"
Save = Callable[[bytes], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes a file and tells its path."""

    def write(data: bytes) -> Path:
        path = tmp_path / "model.tflite"
        path.write_bytes(data)
        return path

    return write


def graph(name: str, seed: int = 3) -> Graph:
    return CASES[name](np.random.default_rng(seed))


@pytest.mark.parametrize("name", ["CONV_2D", "SUB", "SUM", "RESHAPE"])
def test_float_edges_are_quantized_as_litert_does(save: Save, name: str):
    source = with_float_edges(emit(graph(name)))
    model = tflite_model.load(save(source), TARGET)
    assert {info.dtype for info in (*model.inputs, *model.outputs)} == {"float32"}
    rng = np.random.default_rng(0)
    sample = [rng.uniform(-4, 4, info.shape).astype(np.float32) for info in model.inputs]
    (found,), (wanted,) = model.run(sample), litert.run(source, sample)
    step = graph(name).type("y").q.scale
    assert found.dtype == np.float32
    assert np.abs(found - wanted).max() <= step * 1.001


def test_halves_at_the_edge_go_away_from_zero(save: Save):
    source = with_float_edges(emit(graph("RESHAPE")))
    model = tflite_model.load(save(source), TARGET)
    quant = graph("RESHAPE").type("x").q
    x = np.resize((np.array([0.5, -0.5, 1.5, -1.5, 2.5]) * quant.scale).astype(np.float32), model.inputs[0].shape)
    (found,), (wanted,) = model.run([x]), litert.run(source, [x])
    np.testing.assert_array_equal(found, wanted)


def test_a_converted_file_runs_as_the_one_it_was_made_from(save: Save):
    for source in (emit(graph("CONV_2D")), with_float_edges(emit(graph("CONV_2D")))):
        converted = to_tflite(source, convert(source, TARGET))
        path = save(source)
        now = tflite_model.load(path, TARGET)
        before = tflite_model.load(save(converted), TARGET)
        assert (before.inputs, before.outputs) == (now.inputs, now.outputs)
        assert before.conversion is None
        rng = np.random.default_rng(0)
        sample = [rng.integers(-3, 4, info.shape).astype(info.dtype) for info in now.inputs]
        np.testing.assert_array_equal(before.run(sample)[0], now.run(sample)[0])


def test_nan_cannot_be_quantized(save: Save):
    model = tflite_model.load(save(with_float_edges(emit(graph("RESHAPE")))), TARGET)
    with pytest.raises(InputError, match=r"^input `x_float` holds NaN or infinite values; they cannot be quantized$"):
        model.run([np.full(model.inputs[0].shape, np.nan, np.float32)])


def test_every_operator_that_is_not_taken_is_named(save: Save):
    model = decode(emit(graph("LOG")))
    wrong = tuple(replace(op, name=name, kind="") for op, name in zip(model.operators, ("GELU", "CUMSUM"), strict=True))
    path = save(encode(replace(model, operators=wrong)))
    with pytest.raises(UnsupportedError) as caught:
        tflite_model.load(path, TARGET)
    assert str(caught.value) == (
        f"`{path}`: 2 operators cannot be compiled:\n"
        "  op 0 GELU, output `p`: the compiler for the Neutron does not support this operator\n"
        "  op 1 CUMSUM, output `y`: the compiler for the Neutron does not support this operator\n\n"
        "hint: keep it on the CPU, or express it through the operators that `deuteron ops` lists"
    )


def test_a_comparison_counts_and_passes(save: Save):
    model = tflite_model.load(save(with_float_edges(emit(graph("CONV_2D")))), TARGET)
    rng = np.random.default_rng(0)
    samples = [[rng.uniform(-4, 4, i.shape).astype(np.float32) for i in model.inputs] for _ in range(3)]
    found = litert.compare(model, samples)
    assert found.passed
    (op,), (out,) = found.operators, found.outputs
    assert (op.op, op.index, op.bound) == ("CONV_2D", 1, 1)
    assert op.elements == out.elements == 3 * graph("CONV_2D").type("y").numel
    assert out.npu_mismatches == 0


def test_a_file_with_its_data_behind_the_flatbuffer_is_compiled_and_compared(save: Save):
    source = emit(graph("CONV_2D"))
    outside = outside_bytes(decode(source))
    assert to_tflite(outside, convert(outside, TARGET)) == to_tflite(source, convert(source, TARGET))
    model = tflite_model.load(save(outside), TARGET)
    rng = np.random.default_rng(0)
    found = litert.compare(model, [[rng.integers(-128, 128, i.shape).astype(np.int8) for i in model.inputs]])
    assert found.passed
    assert found.outputs[0].elements == graph("CONV_2D").type("y").numel


@pytest.mark.parametrize(
    "op",
    [
        "%y: i8[1,600] q(0.00390625:-128) = softmax(%x) beta=1",  # LiteRT would end this process
        "%y: i8[1,600] q(0.5:0) = unary(%x) function=logistic",
        "%y: i8[1,600] q(0.0000001:0) = unary(%x) function=hard_swish",
    ],
)
def test_what_litert_does_not_compute_is_said_not_compared(save: Save, op: str):
    source = parse_graph(f"graph g {{\n input %x: i8[1,600] q(0.001:0)\n {op} @[0]\n output %y\n}}")
    model = tflite_model.load(save(emit(source)), TARGET)
    found = litert.compare(model, [[np.full((1, 600), 5, np.int8)]])
    assert found.passed
    assert (found.operators[0].bound, found.operators[0].elements) == (None, 0)
    assert (found.outputs[0].npu_mismatches, found.outputs[0].elements, found.outputs[0].mismatches) == (0, 600, None)
    lines = found.text().splitlines()
    assert lines[4].endswith("not compared: LiteRT does not compute this")
    assert lines[-4].endswith("differ from the interpreter; LiteRT does not run the whole model")
    assert lines[-1] == "not compared with LiteRT: 1 of 1 operators"


@pytest.mark.parametrize("function", ["log", "rsqrt"])
def test_functions_are_compared_where_they_have_a_value(save: Save, function: str):
    text = f"%y: i8[256] q(0.0625:0) = unary(%x) function={function} @[0]"
    source = parse_graph(f"graph g {{\n input %x: i8[256] q(0.03125:-7)\n {text}\n output %y\n}}")
    model = tflite_model.load(save(emit(source)), TARGET)
    found = litert.compare(model, [[np.arange(-128, 128).astype(np.int8)]])
    assert found.failures() == ()
    assert (found.operators[0].elements, found.operators[0].bound) == (127 + 7, 1)


def test_a_model_that_computes_nothing_is_said_not_to_run(save: Save):
    source = parse_graph("graph g {\n input %x: i8[4] q(0.5:0)\n %y: i8[4] q(0.5:0) = reshape(%x) @[0]\n output %y\n}")
    model = tflite_model.load(save(emit(source)), TARGET)
    sample = np.array([1, 2, 3, 4], np.int8)
    assert model.run([sample])[0].tolist() == [1, 2, 3, 4]
    found = litert.compare(model, [[sample]])
    assert (found.passed, found.outputs[0].npu_mismatches) == (True, None)
    assert "  output `y`: an input under another name, nothing runs on the NPU, 0 of 4 from LiteRT" in found.text()


def test_operators_on_which_no_output_depends_are_not_compared(save: Save):
    lines = (
        "input %x: i8[4] q(0.5:0)",
        "%k: i8[4] q(2.220446049250313e-16:0) = add(%x, %x) @[0]",  # beyond the NPU, and the interpreter
        "%y: i8[4] q(0.5:0) = unary(%x) function=abs @[1]",
        "output %y",
    )
    model = tflite_model.load(save(emit(parse_graph("graph g {\n" + "\n".join(lines) + "\n}"))), TARGET)
    found = litert.compare(model, [[np.array([1, -2, 3, -4], np.int8)]])
    assert found.passed
    assert [(op.index, op.op) for op in found.operators] == [(1, "ABS")]


def test_a_comparison_finds_a_wrong_kernel(save: Save, monkeypatch: pytest.MonkeyPatch):
    model = tflite_model.load(save(emit(graph("RESHAPE"))), TARGET)
    right = tflite_model.TfliteModel.run_stored
    monkeypatch.setattr(tflite_model.TfliteModel, "run_stored", lambda self, x: [y ^ 1 for y in right(self, x)])
    found = litert.compare(model, [[np.zeros(model.inputs[0].shape, np.int8)]])
    size = model.outputs[0].shape
    count = int(np.prod(size))
    assert found.failures() == (f"output `y`: {count} of {count} results differ from the interpreter's",)


def test_a_comparison_finds_what_litert_rounds_otherwise(save: Save, monkeypatch: pytest.MonkeyPatch):
    model = tflite_model.load(save(emit(graph("CONV_2D"))), TARGET)
    right = litert.run_op
    monkeypatch.setattr(litert, "run_op", lambda *args: right(*args) // 2)
    found = litert.compare(model, [[np.full(model.inputs[0].shape, 100, np.int8)]])
    assert not found.passed
    assert found.failures()[0].startswith("op 0 CONV_2D: up to ")
    assert found.failures()[0].endswith(" steps from LiteRT, at most 1 are allowed")
    assert "bounds broken:" in found.text()


def test_a_converted_file_cannot_be_compared(save: Save):
    source = emit(graph("CONV_2D"))
    model = tflite_model.load(save(to_tflite(source, convert(source, TARGET))), TARGET)
    with pytest.raises(FormatError, match=r"^LiteRT does not run the NPU operators of a converted file"):
        litert.compare(model, [])


def test_what_litert_does_not_take_is_its_own_error():
    with pytest.raises(InputError, match=r"^LiteRT does not run the model: "):
        litert.run(emit(graph("CONV_2D")), [np.zeros((1,), np.float32)])


def test_a_file_of_more_than_2_gb_is_read_where_it_is_needed(save: Save):
    source = decode(emit(graph("CONV_2D")))
    start = (1 << 31) + 48
    encoder = OutsideEncoder(source, 1, start)
    path = save(encoder.finish())
    with path.open("r+b") as file:
        file.seek(start)
        file.write(encoder.outside)
    assert path.stat().st_size > 1 << 31
    model = tflite_model.load(path, TARGET)
    x = np.random.default_rng(2).integers(-128, 128, model.inputs[0].shape, np.int8)
    (found,), (wanted,) = model.run([x]), tflite_model.load(save(emit(graph("CONV_2D"))), TARGET).run([x])
    np.testing.assert_array_equal(found, wanted)

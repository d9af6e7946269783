"""Float TFLite files, quantized by Google's package from calibration data."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.tflite.test_normalize import Net

from deuteron.builds.options import Activations, BuildOptions
from deuteron.errors import InputError, MissingOperatorError, MissingToolError, OptionError, UnsupportedError
from deuteron.runtime import tflite_build, tflite_quantize
from deuteron.runtime.litert import Litert
from deuteron.runtime.tflite_quantize import has_float_layers, quantized
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import Encoder, encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(3, 6)).astype(np.float32)
SAMPLES = RNG.normal(size=(8, 1, 6)).astype(np.float32)


def dense(weights: str = "FLOAT32", dtype: str = "FLOAT32") -> FlatModel:
    """A fully connected layer with float32, float16 or int8 weights."""
    net = Net()
    x, y = net.tensor((1, 6), dtype), net.tensor((1, 3), dtype)
    if weights == "FLOAT16":
        half = net.constant(WEIGHTS, "FLOAT16")
        w = net.op("DEQUANTIZE", [half], [net.tensor((3, 6), "FLOAT32")], "DequantizeOptions")
    elif weights == "INT8":
        scales = np.abs(WEIGHTS).max(axis=1) / np.float32(127)
        stored = np.rint(WEIGHTS / scales[:, None]).astype(np.int8)
        w = net.tensor((3, 6), "INT8", Quant(tuple(map(float, scales)), (0, 0, 0), 0), stored.tobytes())
    else:
        w = net.tensor((3, 6), "FLOAT32", None, WEIGHTS.tobytes())
    return net.model([x], [net.op("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions")])


@pytest.mark.parametrize("activations", list(Activations))
@pytest.mark.parametrize("weights", ["FLOAT32", "FLOAT16", "INT8"])
def test_float_and_dynamic_range_files_become_quantized_ones(weights: str, activations: Activations) -> None:
    pytest.importorskip("ai_edge_quantizer")
    data, note = quantized(encode(dense(weights)), SAMPLES, BuildOptions(activations=activations))
    model = decode(data)
    assert [op.name for op in model.operators] == ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE"]
    x, w, *_ = (model.tensors[i] for i in model.operators[1].inputs)
    assert (x.dtype, w.dtype) == (activations.value.upper(), "INT8")
    assert note == "quantized by ai-edge-quantizer with 8 samples"
    (y,) = Litert(data).run([SAMPLES[0]])
    assert np.abs(y - SAMPLES[0] @ WEIGHTS.T).max() < 0.05


def test_the_application_may_quantize_inputs_and_outputs_itself() -> None:
    pytest.importorskip("ai_edge_quantizer")
    model = decode(quantized(encode(dense()), SAMPLES, BuildOptions(remove_quant_io_ops=True))[0])
    assert [op.name for op in model.operators] == ["FULLY_CONNECTED"]
    assert [model.tensors[i].dtype for i in (*model.inputs, *model.outputs)] == ["INT8", "INT8"]


def test_a_build_without_the_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deuteron.extras.is_installed", lambda _: False)
    with pytest.raises(MissingToolError) as caught:
        quantized(encode(dense()), SAMPLES, BuildOptions())
    assert str(caught.value) == (
        "a build of a float TFLite file with `--calibration` needs the Python package `ai_edge_quantizer`, which is "
        "not installed\n\nhint: install Deuteron with its extra: `pip install 'deuteron[quantize]'`"
    )


def test_quantized_files_are_told_from_float_ones() -> None:
    assert [has_float_layers(encode(dense(kind))) for kind in ("FLOAT32", "FLOAT16", "INT8")] == [True, True, True]
    stored = encode(dense("INT8", "INT8"))
    assert not has_float_layers(stored)
    with pytest.raises(OptionError, match="is for float files, and this one is quantized"):
        quantized(stored, SAMPLES, BuildOptions())


def test_a_float_file_that_a_target_refuses_has_the_way_out(tmp_path: Path) -> None:
    net = Net()
    x, y = net.tensor((1, 4, 4, 1), "FLOAT32"), net.tensor((1, 4, 4, 2), "FLOAT32")
    w = net.tensor((2, 1, 1, 1), "INT8", Quant((0.5,), (0,)), bytes(2))
    b = net.tensor((2,), "FLOAT32", None, np.ones(2, np.float32).tobytes())
    options = {"Padding": 1, "StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    net.op("CONV_2D", [x, w, b], [y], "Conv2DOptions", **options)
    path = tmp_path / "net.tflite"
    path.write_bytes(encode(net.model([x], [y])))
    with pytest.raises(UnsupportedError, match="dynamic range") as caught:
        tflite_build.build_of(path, "cortex-m55")
    assert caught.value.hint == tflite_quantize.HINT


def test_quantization_is_no_way_out_where_an_operator_is_missing(tmp_path: Path) -> None:
    layer = dense()
    y, number = layer.outputs[0], len(layer.tensors)
    tensors = (*layer.tensors, *(replace(layer.tensors[y], name=name, data=None) for name in ("p", "q")))
    powers = (FlatOperator("POW", (y, y), (number,)), FlatOperator("POW", (number, y), (number + 1,)))
    path = tmp_path / "net.tflite"
    path.write_bytes(
        encode(replace(layer, tensors=tensors, operators=(*layer.operators, *powers), outputs=(number + 1,)))
    )
    with pytest.raises(MissingOperatorError, match="2 operators cannot be compiled") as caught:
        tflite_build.build_of(path, "cortex-m55")
    assert caught.value.hint == "instead of POW: MUL for whole exponents, SQRT or RSQRT for halves"


def test_weights_with_a_scale_for_each_block_are_refused(tmp_path: Path) -> None:
    """They have no scales themselves, so nothing may take them for weights without quantization."""

    class Blocks(Encoder):
        def tensor_fields(self, tensor: FlatTensor) -> dict[str, int]:
            if tensor.dtype != "INT8":
                return super().tensor_fields(tensor)
            fields = {"DetailsType": 2, "Details": self.table("CustomQuantization")}
            return {"Quantization": self.table("QuantizationParameters", **fields)}

    source = Blocks(dense("INT8")).finish()
    path = tmp_path / "net.tflite"
    path.write_bytes(source)
    message = "has blockwise quantization; scales and zero points are allowed"
    with pytest.raises(UnsupportedError, match=message):
        tflite_build.build_of(path, "cortex-m55")
    pytest.importorskip("ai_edge_quantizer")
    with pytest.raises(UnsupportedError, match=message) as caught:
        quantized(source, SAMPLES, BuildOptions())
    assert caught.value.hint == "export the model with plain int8 tensors"


def read(named: object, model: FlatModel) -> list[dict[str, np.ndarray]]:
    """The samples that the quantizer gets."""
    return [dict(sample) for sample in tflite_quantize.samples_of(named, model)]


def test_samples_of_files_and_functions(tmp_path: Path) -> None:
    model = dense()
    for name, arrays in {"named": {"t0": SAMPLES}, "ordered": {"x": SAMPLES}, "flat": {"x": SAMPLES[:, 0]}}.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
        found = read(str(tmp_path / f"{name}.npz"), model)
        np.testing.assert_array_equal([sample["inputs_0"] for sample in found], SAMPLES)
    code = "import numpy as np\n\ndef samples():\n    yield np.ones((1, 6))\n\ndef fails():\n    raise KeyError('x')\n"
    (tmp_path / "data.py").write_text(code)
    (sample,) = read(f"{tmp_path}/data.py:samples", model)
    assert sample["inputs_0"].dtype == np.float32


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("DIR/data.py:nothing", "`DIR/data.py` has no function `nothing`"),
        ("DIR/data.py:fails", "`DIR/data.py:fails` raises KeyError: 'x'"),
        ("DIR/other.py:samples", "`DIR/other.py` does not exist"),
        ("DIR/none.npz", "`DIR/none.npz` cannot be read: No such file or directory"),
        ("DIR/data.py", "`DIR/data.py` is no .npz file of arrays"),
        ("DIR/two.npz", "`DIR/two.npz` has 2 arrays for 1 input"),
        ([], "the calibration data have no samples"),
        (3, "calibration data are no sequence of samples"),
        ([(SAMPLES[0], SAMPLES[0])], "sample 0 of the calibration data has 2 arrays, the model has 1 input"),
        (
            [np.ones((1, 7))],
            "sample 0 of the calibration data has the shape [1, 7] for input `t0`, [1, 6] is allowed",
        ),
        (
            [np.ones((1, 6), np.uint8)],
            "sample 0 of the calibration data has the dtype uint8 for input `t0`, finite float32 is allowed",
        ),
        (
            [np.ones((1, 6)), np.array([[0, 1, np.nan, 3, 4, np.inf]])],
            "sample 1 of the calibration data has 2 of 6 values that are NaN or infinite for input `t0`, finite "
            "float32 is allowed",
        ),
    ],
)
def test_calibration_data_that_do_not_fit_are_named(given: object, message: str, tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text("def fails():\n    raise KeyError('x')\n")
    np.savez(tmp_path / "two.npz", x=SAMPLES, y=SAMPLES)
    with pytest.raises(InputError) as caught:
        read(given.replace("DIR", str(tmp_path)) if isinstance(given, str) else given, dense())
    assert caught.value.message.replace(str(tmp_path), "DIR") == message


def test_layers_that_the_quantizer_leaves_in_float_have_another_way_out() -> None:
    layer = dense()
    recurrent = replace(layer, operators=(replace(layer.operators[0], name="UNIDIRECTIONAL_SEQUENCE_LSTM", kind=""),))
    assert tflite_quantize.hint(encode(layer)) == tflite_quantize.HINT
    assert "leaves UNIDIRECTIONAL_SEQUENCE_LSTM in float" in (tflite_quantize.hint(encode(recurrent)) or "")
    assert tflite_quantize.hint(encode(dense("INT8", "INT8"))) is None

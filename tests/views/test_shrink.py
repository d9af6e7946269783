"""`deuteron shrink`: TFLite files in stripes, verified, with all that belongs to the file; or refused with a line."""

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from tests.graph_stripes.networks import Network
from tests.tflite.stateful import StatefulNet

from deuteron.cli import main
from deuteron.errors import CapacityError, DeuteronError, FormatError, InternalError, UnsupportedError
from deuteron.runtime.litert import Litert
from deuteron.runtime.vela import PLAN
from deuteron.tflite.encode import Encoder, encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant
from deuteron.views import shrink as shrinking

LIMIT = 20_000


def _model() -> FlatModel:
    """Two layers of a large map and a small one: 36,864 bytes of tensors, uncut."""
    net = Network((1, 24, 24, 8))
    x = net.layer(net.input, 32)
    return net.model(net.layer(net.pool(net.layer(x, 32)), 4))


class _Signed(Encoder):
    """Writes a signature with own names, and the ranges of quantized tensors."""

    index = -1

    def signature_defs(self, name: str) -> list[int]:
        ends = {}
        for side, tensors in (("Inputs", self.model.inputs), ("Outputs", self.model.outputs)):
            at = tensors[0] if self.index < 0 else self.index
            text = self.text(f"my_{side.lower()}")
            ends[side] = self.offsets([self.table("TensorMap", Name=text, TensorIndex=at)])
        return [self.table("SignatureDef", SignatureKey=self.text(name), SubgraphIndex=0, **ends)]

    def quantization(self, quant: Quant, **more: int) -> int:
        low, high = (int(self.builder.CreateNumpyVector(np.array([each], "<f4"))) for each in (-3, 4))
        return super().quantization(quant, Min=low, Max=high, **more)


def _shrunk(file: bytes, directory: Path, limit: int = LIMIT) -> shrinking.Shrinking:
    path = directory / "net.tflite"
    path.write_bytes(file)
    return shrinking.shrink(path, limit)


def _root(file: bytes) -> Any:
    model: Any = tflite.Model
    return model.GetRootAs(file, 0)


@pytest.fixture(scope="module")
def file() -> bytes:
    return encode(_model(), "serving_default")


def test_a_file_that_litert_refuses_after_the_cut_is_an_error(file: bytes):
    model = _model()
    first, *others = model.operators
    newer = encode(replace(model, operators=(replace(first, version=99), *others)))
    with pytest.raises(InternalError, match="LiteRT runs the given file and refuses the one in stripes"):
        shrinking.verified(file, newer)


def test_a_wrong_next_state_is_an_error():
    def stateful(step: int) -> bytes:
        quant = Quant((0.5,), (0,))
        tensors = [
            FlatTensor("x", (1, 1), "INT8", quant),
            FlatTensor("handle", (), "RESOURCE"),
            FlatTensor("step", (1, 1), "INT8", quant, bytes([step])),
            *(FlatTensor(name, (1, 1), "INT8", quant) for name in ("before", "y", "next")),
        ]
        names = {"Container": b"", "SharedName": b"state"}
        fused = {"FusedActivationFunction": 0}
        operators = [
            FlatOperator("VAR_HANDLE", (), (1,), "VarHandleOptions", names),
            FlatOperator("READ_VARIABLE", (1,), (3,)),
            FlatOperator("ADD", (0, 3), (4,), "AddOptions", fused),
            FlatOperator("ADD", (0, 2), (5,), "AddOptions", fused),
            FlatOperator("ASSIGN_VARIABLE", (1, 5), ()),
        ]
        return encode(FlatModel("main", tuple(tensors), (0,), (4,), tuple(operators)))

    assert shrinking.verified(stateful(1), stateful(1))
    with pytest.raises(InternalError, match="computes other outputs"):
        shrinking.verified(stateful(1), stateful(9))


class _Described(_Signed):
    """Writes what other exporters write: descriptions, ranges of tensors without scales, sizes that may change."""

    description = "made by hand"
    sizes: tuple[int, ...] = (1, 24, 24, 8)

    def tensor_fields(self, tensor: FlatTensor) -> dict[str, int]:
        fields = super().tensor_fields(tensor) | {"HasRank": True}
        if tensor.quant is None:
            fields["Quantization"] = self.table("QuantizationParameters", Min=self.floats([-1]), Max=self.floats([2]))
        if tensor.name == "t0":
            fields["ShapeSignature"] = self.integers(self.sizes)
        return fields


@pytest.mark.parametrize("tail", ["labels.txt", "bytes", "both"])
@pytest.mark.parametrize("key", ["serving_default", ""])
def test_what_belongs_to_the_file_is_kept(tail: str, key: str, tmp_path: Path):
    packed = io.BytesIO(b"" if tail == "labels.txt" else b"signed by me")
    packed.seek(0, io.SEEK_END)
    if tail != "bytes":
        with zipfile.ZipFile(packed, "a") as archive:
            archive.writestr("labels.txt", "cat\ndog\n")
            archive.comment = b"mine"
    net = _model()
    without = {i for i, tensor in enumerate(net.tensors) if tensor.dtype == "INT32"}
    tensors = tuple(replace(t, quant=None) if i in without else t for i, t in enumerate(net.tensors))
    model = replace(net, metadata={"min_runtime_version": b"1.14.0"}, tensors=tensors)
    done = _shrunk(_Described(model).finish(key) + packed.getvalue(), tmp_path)
    assert done.segments
    assert (done.verified_by, done.dropped) == ("LiteRT", ())
    root = _root(done.file)
    assert root.Description() == b"made by hand"
    signature = root.SignatureDefs(0)
    assert (signature.SignatureKey(), signature.Inputs(0).Name()) == (key.encode(), b"my_inputs")
    assert signature.Outputs(0).TensorIndex() == root.Subgraphs(0).Outputs(0)
    given = root.Subgraphs(0).Tensors(root.Subgraphs(0).Inputs(0))
    assert (given.Quantization().Min(0), given.Quantization().Max(0)) == (-3, 4)
    assert (given.ShapeSignatureAsNumpy().tolist(), given.HasRank()) == ([1, 24, 24, 8], True)
    named = {(t := root.Subgraphs(0).Tensors(i)).Name().decode(): t for i in range(root.Subgraphs(0).TensorsLength())}
    for index in without:
        quant = named[model.tensors[index].name].Quantization()
        assert (quant.Min(0), quant.Max(0), quant.ScaleLength()) == (-1, 2, 0)
    assert root.Metadata(0).Name() == b"min_runtime_version"
    if tail == "bytes":
        assert done.file.endswith(b"signed by me")
        return
    assert (b"signed by me" in done.file) == (tail == "both")
    with zipfile.ZipFile(io.BytesIO(done.file)) as archive:
        assert (archive.read("labels.txt"), archive.comment) == (b"cat\ndog\n", b"mine")


def test_a_file_without_more_has_nothing_behind_it(tmp_path: Path):
    for zeros in range(5):
        done = _shrunk(encode(_model()) + bytes(zeros), tmp_path)
        assert done.file == _shrunk(encode(_model()), tmp_path).file


def test_what_the_new_file_lacks_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    class Open(_Described):
        sizes = (-1, 24, 24, 8)

    source, output = tmp_path / "net.tflite", tmp_path / "small.tflite"
    model = replace(_model(), metadata={PLAN: bytes(16)})
    encoder = Open(model)
    encoder.buffer(b"nobody names these")
    source.write_bytes(encoder.finish("serving_default"))
    assert _run(source, "-o", output, "--arena", LIMIT) == 0
    lost = [line for line in capsys.readouterr().err.splitlines() if "not in the new file" in line]
    assert lost == [
        "not in the new file: the open sizes of input `t0`: stripes have constant sizes",
        "not in the new file: 1 buffer that no tensor and no metadata names",
        f"not in the new file: metadata `{PLAN}`, which places the tensors of the given file",
    ]
    assert b"nobody" not in output.read_bytes()


def test_a_signature_of_other_tensors_is_refused(tmp_path: Path):
    class Wrong(_Signed):
        index = 99

    with pytest.raises(FormatError, match="signature names tensor 99 as an input"):
        _shrunk(Wrong(_model()).finish("k"), tmp_path)


def test_layers_with_float_inputs_and_int8_weights_are_not_cut(tmp_path: Path):
    def as_float(tensor: FlatTensor) -> FlatTensor:
        if tensor.dtype == "INT32" and tensor.data is not None and tensor.quant:
            values = np.frombuffer(tensor.data, np.int32).astype(np.float32)
            return replace(tensor, dtype="FLOAT32", quant=None, data=values.tobytes())
        return replace(tensor, dtype="FLOAT32", quant=None) if tensor.data is None else tensor

    net = Network((1, 24, 24, 3))
    model = net.model(net.layer(net.layer(net.input, 8), 8))
    hybrid = encode(replace(model, tensors=tuple(map(as_float, model.tensors))))
    with pytest.raises(CapacityError, match="no segment in stripes"):
        _shrunk(hybrid, tmp_path, 30_000)


def _with_inputs(name: str, inputs: Callable[[tuple[int, ...]], tuple[int, ...]]) -> FlatModel:
    net = Network((1, 24, 24, 8))
    x = net.pool(net.pads(net.layer(net.input, 8), 1, 1, 1), 2, 1)
    x = net.resize(net.sum(x, net.layer(x, 8)))
    model = net.model(net.layer(net.transposed(net.concat(x, net.layer(x, 8)), 4), 4))
    ops = tuple(replace(op, inputs=inputs(op.inputs)) if op.name == name else op for op in model.operators)
    return replace(model, operators=ops)


@pytest.mark.parametrize("name", ["CONV_2D", "PAD", "MAX_POOL_2D", "ADD", "RESIZE_NEAREST_NEIGHBOR", "TRANSPOSE_CONV"])
@pytest.mark.parametrize("kind", ["none", "first", "optional", "rank"])
def test_operators_with_wrong_operands_are_refused(name: str, kind: str, tmp_path: Path):
    model = _with_inputs(name, lambda own: {"none": (), "first": own[:1], "optional": (-1,) * len(own)}.get(kind, own))
    if kind == "rank":
        wrong = {i for op in model.operators if op.name == name for i in op.inputs}
        tensors = [
            replace(t, shape=(int(np.prod(t.shape)),)) if at in wrong else t for at, t in enumerate(model.tensors)
        ]
        model = replace(model, tensors=tuple(tensors))
    file = encode(model)
    try:
        _shrunk(file, tmp_path)
    except DeuteronError:
        return
    assert (name, kind) == ("MAX_POOL_2D", "first")  # it has one input


def test_damaged_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shrinking, "verified", lambda before, after: "")  # LiteRT itself ends on some of these
    net = Network((1, 12, 12, 3))
    model = net.model(net.layer(net.pads(net.pool(net.layer(net.layer(net.input, 4), 4)), 1, 1, 1), 4))
    given, rng = encode(model, "serving_default"), np.random.default_rng(0)
    for _ in range(150):
        data = bytearray(given)
        for at in rng.integers(len(data), size=int(rng.integers(1, 4))):
            data[at] = int(rng.choice([0, 1, 2, 4, 128, 255, int(rng.integers(256))]))
        try:
            _shrunk(bytes(data), tmp_path, 600)
        except DeuteronError:
            continue


def _run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["shrink", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_command_writes_a_file_with_the_same_outputs(
    file: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source, output = tmp_path / "net.tflite", tmp_path / "small.tflite"
    source.write_bytes(file)
    arguments = (source, "-o", output, "--arena")
    assert _run(*arguments, LIMIT) == 0
    assert "verified: LiteRT computes the same outputs with both files" in capsys.readouterr().out
    sample = [np.random.default_rng(1).integers(-128, 128, (1, 24, 24, 8)).astype(np.int8)]
    for before, after in zip(Litert(file).run(sample), Litert(output.read_bytes()).run(sample), strict=True):
        np.testing.assert_array_equal(before, after)
    kept = output.read_bytes()
    assert _run(*arguments, 100, "--force") != 0
    assert "the limit is 100" in capsys.readouterr().err
    assert _run(*arguments, LIMIT) != 0
    assert "--force" in capsys.readouterr().err
    assert output.read_bytes() == kept
    assert _run(*arguments, LIMIT, "--force") == 0


@pytest.mark.full
def test_the_least_arena_of_the_error_is_reached(file: bytes, tmp_path: Path):
    with pytest.raises(CapacityError) as error:
        _shrunk(file, tmp_path, 100)
    least = int(str(error.value.hint).split("`--arena ")[1].split("`")[0])
    assert _shrunk(file, tmp_path, least).after.nbytes <= least


def test_a_file_with_variables_is_refused(tmp_path: Path) -> None:
    net, path = StatefulNet(), tmp_path / "net.tflite"
    x, handle = net.input((1, 4), "FLOAT32"), net.variable("sum", np.zeros((1, 4), np.float32))
    y = net.add("ADD", [net.read(handle, (1, 4), "FLOAT32"), x], (1, 4), "FLOAT32", "AddOptions")
    net.assign(handle, y)
    net.outputs.append(y)
    path.write_bytes(net.file())
    with pytest.raises(UnsupportedError, match="keeps state in variables"):
        shrinking.shrink(path, 1 << 20)

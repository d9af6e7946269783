"""TFLite files in part for the NPU, as programs: each form of operator that boards have, whole and damaged."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from tests.npu.neutron.tflite.partitioned_files import SHAPE, Net
from tests.tflite.stateful import StatefulNet

from deuteron import api
from deuteron.builds.manifest import PROGRAM
from deuteron.errors import FormatError, UnsupportedError
from deuteron.npu.neutron.tflite.operator_view import Names, Site
from deuteron.npu.neutron.tflite_partitioner import convert_mixed
from deuteron.runtime import pte, tflite_build, tflite_calls, tflite_model
from deuteron.runtime.host import HostRunner
from deuteron.runtime.litert import Litert
from deuteron.runtime.pte_writer import Call
from deuteron.runtime.tflite_build import build_of
from deuteron.runtime.tflite_calls import call_of
from deuteron.runtime.tflite_partitioned import MixedProgram
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant
from deuteron.views.run.host import TfliteOnHost

Change = Callable[[FlatOperator], FlatOperator]

FLOATS = {"dtype": "FLOAT32"}
FLAT = (1, 128)
FORMS: dict[str, Callable[[Net, int, int], int]] = {
    **{
        name: lambda net, a, b, name=name: net.add(
            name, a, b, kind=f"{name.title()}Options", FusedActivationFunction=0, **FLOATS
        )
        for name in ("ADD", "SUB", "MUL", "DIV")
    },
    **{
        name: lambda net, a, b, name=name: net.add(
            name, a, b, dtype="BOOL", kind=f"{name.title().replace('_', '')}Options"
        )
        for name in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
    },
    **{
        name: lambda net, a, b, name=name: net.add(name, a, **FLOATS)
        for name in ("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1")
    },
    "BROADCAST_TO": lambda net, a, b: net.add(
        "BROADCAST_TO", a, net.constant((3, *SHAPE[1:])), shape=(3, *SHAPE[1:]), kind="BroadcastToOptions", **FLOATS
    ),
    "EMBEDDING_LOOKUP": lambda net, a, b: net.add(
        "EMBEDDING_LOOKUP", net.constant((0, 0)), a, shape=(2, *SHAPE[1:]), **FLOATS
    ),
    "GATHER": lambda net, a, b: net.add(
        "GATHER", a, net.constant((0, 0)), shape=(2, *SHAPE[1:]), kind="GatherOptions", Axis=0, BatchDims=0, **FLOATS
    ),
    "PACK": lambda net, a, b: net.add(
        "PACK", a, b, shape=(2, *SHAPE), kind="PackOptions", ValuesCount=2, Axis=0, **FLOATS
    ),
    "REDUCE_MAX": lambda net, a, b: net.add(
        "REDUCE_MAX", a, net.constant((1, -2)), shape=(1, 8), kind="ReducerOptions", KeepDims=0, **FLOATS
    ),
    "SLICE": lambda net, a, b: net.add(
        "SLICE", a, net.constant((0, 1, 0, 0)), net.constant((1, 2, -1, -1)), shape=(1, 2, 4, 8), kind="SliceOptions",
        **FLOATS,
    ),
    "SPLIT": lambda net, a, b: net.parts(
        "SPLIT", net.constant((3,)), a, sizes=(4, 4), kind="SplitOptions", NumSplits=2, **FLOATS
    ),
    "SPLIT_V": lambda net, a, b: net.parts(
        "SPLIT_V", a, net.constant((1, 5, 2)), net.constant((-1,)), sizes=(1, 5, 2), kind="SplitVOptions", NumSplits=3,
        **FLOATS,
    ),
    "STRIDED_SLICE": lambda net, a, b: net.add(
        "STRIDED_SLICE", a, net.constant((0, -4, 0, -7)), net.constant((1, 9, 4, 8)), net.constant((1, 1, 1, 3)),
        shape=(*SHAPE[:3], 3), kind="StridedSliceOptions", BeginMask=2, EndMask=3, EllipsisMask=0, NewAxisMask=0,
        ShrinkAxisMask=0, **FLOATS,
    ),
    "CONCATENATION": lambda net, a, b: net.add(
        "CONCATENATION", a, b, shape=(2, *SHAPE[1:]), kind="ConcatenationOptions", Axis=0, FusedActivationFunction=0,
        **FLOATS,
    ),
    "DEQUANTIZE": lambda net, a, b: net.real(net.reversed(0)),
    "EXPAND_DIMS": lambda net, a, b: net.add(
        "EXPAND_DIMS", a, net.constant((0,)), shape=(1, *SHAPE), kind="ExpandDimsOptions", **FLOATS
    ),
    "QUANTIZE": lambda net, a, b: net.add("QUANTIZE", a, kind="QuantizeOptions"),
    "RESHAPE": lambda net, a, b: net.add(
        "RESHAPE", a, net.constant(FLAT), shape=FLAT, kind="ReshapeOptions", **FLOATS
    ),
    "SQUEEZE": lambda net, a, b: net.add("SQUEEZE", a, shape=SHAPE[1:], kind="SqueezeOptions", **FLOATS),
    "TRANSPOSE": lambda net, a, b: net.add(
        "TRANSPOSE", a, net.constant((0, 3, 1, 2)), shape=(1, 8, 4, 4), kind="TransposeOptions", **FLOATS
    ),
}  # fmt: skip


def net_of(name: str) -> tuple[Net, int]:
    """A net whose last operator has this name, and what that one writes."""
    net = Net()
    a = net.real(net.relu(0))
    return net, FORMS[name](net, a, net.real(net.reversed(0)))


def call(net: Net) -> Call:
    """The call of the last operator."""
    model = FlatModel("net", tuple(net.tensors), (0,), (), tuple(net.operators))
    return call_of(Site(model, Names(model), len(net.operators) - 1, []))


def damages(op: FlatOperator) -> Iterator[FlatOperator]:
    """The operator without each of its operands, with too many, and without its output."""
    for i in range(len(op.inputs)):
        yield replace(op, inputs=(*op.inputs[:i], *op.inputs[i + 1 :]))
        yield replace(op, inputs=(*op.inputs[:i], -1, *op.inputs[i + 1 :]))
    yield replace(op, inputs=(*op.inputs, *op.inputs))
    yield replace(op, outputs=())


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_a_call_and_damaged_a_refusal(name: str):
    net, _ = net_of(name)
    last = net.operators[-1]
    assert call(net).operator.partition("::")[0] in ("aten", "quantized_decomposed")
    net.operators[-1] = replace(last, kind="", options={})
    assert call(net).operator.partition("::")[0] in ("aten", "quantized_decomposed"), "the schema's defaults"
    taken = 0
    for net.operators[-1] in damages(last):
        try:
            call(net)
        except FormatError:
            continue
        taken += 1
    assert taken == {"CONCATENATION": 3, "RESHAPE": 1}.get(name, 0), "any number of inputs; the shape may be left out"


def test_there_is_no_form_without_a_case():
    assert {*FORMS} == {*tflite_calls._FORMS}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("ADD", lambda op: replace(op, inputs=op.inputs[:1]), "1 input and 1 output are not a form of this operator"),
        ("RELU", lambda op: replace(op, inputs=(-1,)), "input 0 is left out"),
        (
            "CONCATENATION",
            lambda op: replace(op, options={"Axis": 4, "FusedActivationFunction": 0}),
            "axis 4 of a tensor of 4 dimensions",
        ),
    ],
)  # fmt: skip
def test_an_operator_that_contradicts_itself_is_named(tmp_path: Path, name: str, change: Change, message: str):
    net, y = net_of(name)
    net.operators[-1] = change(net.operators[-1])
    path = tmp_path / "net.tflite"
    path.write_bytes(net.data(y))
    with pytest.raises(FormatError) as caught:
        build_of(path, "imxrt700")
    assert str(caught.value) == (
        f"op {len(net.operators) - 1} {name}, output `{net.tensors[y].name}`: {message}\n\n"
        "hint: make the file again; it is damaged or its exporter has a defect"
    )


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("BROADCAST_TO", (2, 4, 4, 8), "[3, 4, 4, 8]"),
        ("REDUCE_MAX", (1, 1, 1, 8), "[1, 8]"),
        ("RESHAPE", (2, 64), "[1, 128]"),
        ("SLICE", (1, 3, 4, 8), "[1, 2, 4, 8]"),
        ("SPLIT", (1, 4, 4, 3), "[1, 4, 4, 4]"),
        ("SPLIT_V", (1, 4, 4, 1), "[1, 4, 4, 2]"),
        ("STRIDED_SLICE", (1, 4, 4, 2), "[1, 4, 4, 3]"),
        ("TRANSPOSE", (1, 4, 8, 4), "[1, 8, 4, 4]"),
    ],
)  # fmt: skip
def test_an_output_of_another_shape_than_its_operands_give_is_told(name: str, shape: tuple[int, ...], says: str):
    net, y = net_of(name)
    net.tensors[y] = replace(net.tensors[y], shape=shape)
    with pytest.raises(FormatError) as caught:
        call(net)
    assert caught.value.message == f"the operands give `t{y}` the shape {says}, it is recorded as {list(shape)}"


@pytest.mark.parametrize(
    ("name", "operands", "message"),
    [
        ("BROADCAST_TO", {1: (3, 4, 4)}, "the operands give `{}` the shape [3, 4, 4], it is recorded as [3, 4, 4, 8]"),
        ("REDUCE_MAX", {1: (4,)}, "axis 4 of a tensor of 4 dimensions"),
        ("SLICE", {1: (0, 1, 0)}, "3 begins and 4 sizes for 4 dimensions"),
        ("SLICE", {2: (1, 4, -1, -1)}, "[1, 4, -1, -1] elements from [0, 1, 0, 0] on of [1, 4, 4, 8]"),
        ("SLICE", {2: (1, 2, -2, -1)}, "[1, 2, -2, -1] elements from [0, 1, 0, 0] on of [1, 4, 4, 8]"),
        ("SLICE", {1: (0, -3, 0, 0)}, "[1, 2, -1, -1] elements from [0, -3, 0, 0] on of [1, 4, 4, 8]"),
        ("SPLIT", {0: (1, 3)}, "2 numbers as the dimension to split"),
        ("SPLIT_V", {1: (1, 5)}, "3 parts of [1, 5] along a dimension of 8"),
        ("SPLIT_V", {1: (4, 5, -1)}, "3 parts of [4, 5, -1] along a dimension of 8"),
        ("SPLIT_V", {1: (-1, 9, -1)}, "3 parts of [-1, 9, -1] along a dimension of 8"),
        ("STRIDED_SLICE", {3: (1, 1, 1)}, "[4, 4, 3] begins, ends and steps for 4 dimensions"),
    ],
)  # fmt: skip
def test_operands_that_give_no_shape_are_told(name: str, operands: dict[int, tuple[int, ...]], message: str):
    net, y = net_of(name)
    inputs = list(net.operators[-1].inputs)
    for position, values in operands.items():
        inputs[position] = net.constant(values)
    net.operators[-1] = replace(net.operators[-1], inputs=tuple(inputs))
    with pytest.raises(FormatError) as caught:
        call(net)
    assert caught.value.message == message.format(net.tensors[y].name)


def test_operands_mean_what_they_mean_to_litert(tmp_path: Path):
    net = Net()
    a = net.real(net.relu(0))

    def add(name: str, kind: str, shape: tuple[int, ...], *operands: tuple[int, ...], **options: int) -> int:
        return net.add(name, a, *map(net.constant, operands), shape=shape, kind=f"{kind}Options", **options, **FLOATS)

    def strided(
        shape: tuple[int, ...], begins: tuple[int, ...], ends: tuple[int, ...], steps: tuple[int, ...], **masks: int
    ) -> int:
        none = dict.fromkeys(("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset"), 0)
        return add("STRIDED_SLICE", "StridedSlice", shape, begins, ends, steps, **none | masks)

    ends = [
        strided((1, 3, 4, 8), (0, -9, 0, 0), (1, 3, 4, 8), (1, 1, 1, 1)),
        strided((1, 4, 4, 2), (0, 0, 0, 0), (1, 4, 4, -2), (1, 1, 1, 3)),
        strided((1, 2, 4, 8), (0, 1, 0, 0), (10, 10, 10, 10), (1, 2, 1, 1)),
        strided((1, 4, 4, 2), (1, 2, 3, 2), (0, 0, 0, 4), (1, 1, 1, 1), BeginMask=7, EndMask=7),
        strided((1, 2, 4, 8), (0, 1), (1, 3), (1, 1)),
        add("SLICE", "Slice", (1, 4, 4, 3), (0, 0, 0, 5), (-1, 4, -1, -1)),
        add("REDUCE_MAX", "Reducer", (1, 1, 1, 8), (1, -2, 1), KeepDims=1),
        add("BROADCAST_TO", "BroadcastTo", (2, 3, 4, 4, 8), (2, 3, 4, 4, 8)),
        add("TRANSPOSE", "Transpose", (1, 8, 4, 4), (0, -1, 1, 2)),
        add("RESHAPE", "Reshape", (2, 64), (2, -1)),
        net.parts("SPLIT_V", a, net.constant((3, -1)), net.constant((-1,)), sizes=(3, 5), kind="SplitVOptions",
                  NumSplits=2, **FLOATS),
    ]  # fmt: skip
    x = np.random.default_rng(1).integers(-128, 128, SHAPE, np.int8)
    in_litert, in_executorch = outputs(tmp_path / "net.tflite", net.data(*ends), x)
    for end, ours, theirs in zip(ends, in_executorch, in_litert, strict=True):
        assert ours.shape == net.tensors[end].shape
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("name", "order", "y", "message"),
    [
        ("RESHAPE", None, {"shape": (1, 127), "dtype": "FLOAT32"}, "[1, 4, 4, 8] is not reshaped to [1, 127]"),
        ("SQUEEZE", None, {"shape": SHAPE[1:], "dtype": "INT32"}, "tensor `t2` is FLOAT32, and the output INT32"),
        ("TRANSPOSE", (9, 9, 9, 9), {"dtype": "FLOAT32"}, "axis 9 of a tensor of 4 dimensions"),
        ("TRANSPOSE", (0, 1, 2, 2), {"dtype": "FLOAT32"}, "[0, 1, 2, 2] is no order of 4 dimensions"),
    ],
)
def test_values_that_do_not_fit_their_form_are_refused(
    tmp_path: Path, name: str, order: tuple[int, ...] | None, y: dict[str, Any], message: str
) -> None:
    net, path = Net(), tmp_path / "net.tflite"
    inputs = [net.real(net.relu(0)), *([net.constant(order)] if order else [])]
    path.write_bytes(net.data(net.add(name, *inputs, kind=f"{name.title()}Options", **y)))
    with pytest.raises(FormatError) as caught:
        build_of(path, "imxrt700")
    assert caught.value.message == message


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "in part"])
def test_a_large_file_is_a_map_and_all_is_as_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_whole: bool):
    net, path = Net(), tmp_path / "net.tflite"
    a = net.relu(0)
    path.write_bytes(net.data(net.maximum(a, 0) if is_whole else net.relu(net.reversed(a))))
    manifest, files = build_of(path, "imxrt700")
    api.convert_file(path, tmp_path / "first.tflite")
    monkeypatch.setattr(tflite_model, "_LARGE", 0)
    assert not isinstance(tflite_model.read(path), bytes)
    assert build_of(path, "imxrt700") == (manifest, files)
    api.convert_file(path, tmp_path / "second.tflite")
    assert (tmp_path / "first.tflite").read_bytes() == (tmp_path / "second.tflite").read_bytes()
    x = np.random.default_rng(1).integers(-128, 128, SHAPE, np.int8)
    for subject in (path, tmp_path / "second.tflite"):
        (y,) = TfliteOnHost(subject, "imxrt700").runner()([x])
        assert y.shape == SHAPE
    assert TfliteOnHost(path, "imxrt700").compare([[x]]).passed


def outputs(path: Path, data: bytes, x: np.ndarray[tuple[int, ...], np.dtype[np.int8]]) -> list[list[np.ndarray]]:
    """Return the outputs of LiteRT and the driver for a file, and the outputs of its program."""
    path.write_bytes(data)
    program = path.with_suffix(".pte")
    program.write_bytes(build_of(path, "imxrt700")[1]["model.pte"])
    return [tflite_model.load(path, "imxrt700").run([x]), HostRunner(program).run([x])]


def test_an_output_that_is_an_input_is_copied(tmp_path: Path):
    net = Net()
    y = net.add("RELU", net.real(net.relu(0)), **FLOATS)
    x = np.random.default_rng(1).integers(-128, 128, SHAPE, np.int8)
    in_litert, in_executorch = outputs(tmp_path / "net.tflite", net.data(y, 0), x)
    for ours, theirs in zip(in_litert, in_executorch, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_program_rounds_halves_to_even_where_litert_rounds_them_away_from_zero(tmp_path: Path):
    net = Net()
    half = net.add(
        "MUL", net.real(net.relu(0)), net.scalar(0.5), kind="MulOptions", FusedActivationFunction=0, **FLOATS
    )
    data = net.data(net.add("QUANTIZE", half, kind="QuantizeOptions"))
    x = np.arange(128, dtype=np.int8).reshape(SHAPE)
    (in_litert,), (in_executorch,) = outputs(tmp_path / "net.tflite", data, x)
    steps = (x.astype(np.float64) + 4) / 2  # of Q, whose zero point is -4
    np.testing.assert_array_equal(in_litert, np.floor(steps + 0.5) - 4)
    np.testing.assert_array_equal(in_executorch, np.rint(steps) - 4)
    assert np.count_nonzero(in_litert != in_executorch) == 32


def test_state_that_the_npu_would_part_is_refused():
    net = Net()
    handle = net.add("VAR_HANDLE", dtype="RESOURCE", shape=(1,))
    net.operators.append(FlatOperator("ASSIGN_VARIABLE", (handle, net.real(0)), ()))
    before = net.data(net.reversed(net.relu(0)))
    state = net.add("READ_VARIABLE", handle, **FLOATS)
    for data, refused in ((before, None), (net.data(net.reversed(3), state), "op 0 VAR_HANDLE and op 5 READ_VARIABLE")):
        converted = convert_mixed(data, "imxrt700")
        assert converted is not None
        if refused is None:
            MixedProgram(converted.converted)
            continue
        with pytest.raises(UnsupportedError) as caught:
            MixedProgram(converted.converted)
        assert caught.value.message == f"{refused} keep state, and the NPU runs between them; LiteRT would part them"


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_host_keeps_variables_beside_operators_of_litert(tmp_path: Path, is_whole: bool):
    net = StatefulNet()
    x, total = net.input((1, 8)), net.variable("total", np.full((1, 8), 5, np.int8))
    y = net.add("MINIMUM", [x, net.read(total, (1, 8))], (1, 8))
    net.assign(total, y)
    net.outputs.append(y if is_whole else net.add("DEQUANTIZE", [net.add("ABS", [y], (1, 8))], (1, 8), "FLOAT32"))
    source = tmp_path / "net.tflite"
    source.write_bytes(net.file())
    samples = [(sample,) for sample in np.random.default_rng(0).integers(-128, 128, (4, 1, 8), np.int8)]
    for resets in (None, (0, 2)):
        subject = TfliteOnHost(source, "imxrt700")
        assert (len(subject.model.inputs), len(subject.model.outputs)) == (1, 1)
        subject.resets = resets
        litert = Litert(net.file())
        for i, (sample, ours) in enumerate(zip(samples, subject.run(samples), strict=True)):
            if resets is None or i in resets:
                litert.reset()
            np.testing.assert_array_equal(ours[0], litert.run(sample)[0])
        assert subject.compare(samples).passed


def test_every_output_of_an_operator_without_a_call_is_written(tmp_path: Path):
    net = Net()
    net.parts("TOPK_V2", net.real(net.relu(0)), net.constant((8,), ()), sizes=(8, 8), **FLOATS)
    values, indices = net.operators[-1].outputs
    net.tensors[indices] = replace(net.tensors[indices], dtype="INT32")
    source = tmp_path / "net.tflite"
    source.write_bytes(net.data(values, indices))
    _, files = build_of(source, "imxrt700")
    pte.read(files[PROGRAM])  # which refuses values that are read before they are written


def test_a_program_that_contradicts_itself_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "net.tflite"
    x = FlatTensor("x", (1, 4), "INT8", Quant((0.5,), (0,)))
    net = FlatModel("net", (x, replace(x, name="y")), (0,), (1,), (FlatOperator("RELU", (0,), (1,)),))
    source.write_bytes(encode(net))
    manifest, files = tflite_build.build_of(source, "cortex-m55")
    damaged = {**files, PROGRAM: files[PROGRAM][:100]}
    monkeypatch.setattr(tflite_build, "build_of", Mock(return_value=(manifest, damaged)))
    with pytest.raises(FormatError):
        api.build_model(str(source), target="cortex-m55", output=tmp_path / "build")
    assert [*tmp_path.iterdir()] == [source]

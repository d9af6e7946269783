"""Files of which the NPU takes a part: what it takes, in how many partitions, and what stays as it was."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import tflite
from tests import full
from tests.npu.neutron.tflite.cases import CASES
from tests.npu.neutron.tflite.files import odd_bytes, outside_bytes, with_float_edges
from tests.npu.neutron.tflite.partitioned_files import SHAPE, FullEncoder, Net, Q, drawn

from deuteron.arch.memory import MemoryOptions
from deuteron.errors import CapacityError, DeuteronError, FormatError, UnsupportedError
from deuteron.npu.neutron.convert import ConvertOptions
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.npu.neutron.tflite_partitioner import Mixed, Part, convert_mixed
from deuteron.runtime import litert
from deuteron.runtime.tflite_partitioned import MixedProgram
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import CUSTOM, FlatTensor
from deuteron.tflite.rewrite import rewrite


def mixed(data: bytes) -> Mixed:
    result = convert_mixed(data, "imxrt700")
    assert result is not None
    return result


def steps(result: Mixed) -> list[object]:
    return [step.operators if isinstance(step, Part) else result.model.operators[step].name for step in result.steps]


def sample(seed: int = 5) -> npt.NDArray[np.int8]:
    return np.random.default_rng(seed).integers(-128, 128, SHAPE, np.int8)


def check_equal(data: bytes, result: Mixed) -> None:
    x = sample()
    for ours, theirs in zip(MixedProgram(result.converted).run([x]), litert.run(data, [x]), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_partitions_around_float_operators():
    net = Net()
    a = net.relu(0)
    b = net.through_float(a)
    data = net.data(net.place(net.maximum(net.relu(b), a)), a)
    result = mixed(data)
    assert steps(result) == [(0,), "DEQUANTIZE", "FLOOR", "QUANTIZE", (4, 5), "ARG_MAX"]
    assert [part.inputs for part in result.parts] == [(0,), (4, 1)]
    assert {i: error.message for i, error in result.refused.items()} == {
        1: "tensor `t2` is FLOAT32; INT8 is allowed",
        2: "tensor `t2` is FLOAT32; INT8 is allowed",
        3: "tensor `t3` is FLOAT32; INT8 is allowed",
        6: "tensor `t8` is INT64; INT8 is allowed",
    }
    check_equal(data, result)


def test_what_can_wait_joins_a_later_partition():
    net = Net()
    early, late = net.relu(0), net.relu(net.reversed(0))
    data = net.data(net.maximum(early, late))
    assert steps(mixed(data)) == ["REVERSE_V2", (0, 2, 3)]
    check_equal(data, mixed(data))


@pytest.mark.parametrize("seed", full.first(range(24), 12))
def test_random_files_give_what_litert_gives(seed: int):
    data = drawn(seed)
    result = convert_mixed(data, "imxrt700")
    if result is None:
        return
    check_equal(data, result)
    rest = [step for step in result.steps if not isinstance(step, Part)]
    assert rest == sorted(result.refused), "in their order"
    inside = sorted(i for part in result.parts for i in part.operators)
    assert sorted([*rest, *inside]) == list(range(len(result.model.operators)))
    for one, following in zip(result.steps, result.steps[1:], strict=False):
        assert not (isinstance(one, Part) and isinstance(following, Part)), "they could be one"


def test_other_operators_stay_what_they_were():
    net = Net()
    data = net.data(net.place(net.relu(net.reversed(0))))
    before, after = (tflite.Model.GetRootAs(file, 0) for file in (data, mixed(data).converted))
    operators = [after.Subgraphs(0).Operators(i) for i in range(3)]
    codes = [after.OperatorCodes(op.OpcodeIndex()) for op in operators]
    assert [code.CustomCode() or code.BuiltinCode() for code in codes] == [
        tflite.BuiltinOperator.REVERSE_V2,
        b"NeutronGraph",
        tflite.BuiltinOperator.ARG_MAX,
    ]
    assert [code.Version() for code in codes] == [1, 1, 2]
    options = tflite.ArgMaxOptions()
    table = operators[2].BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    assert options.OutputType() == tflite.TensorType.INT64
    names = [[file.Subgraphs(0).Tensors(i).Name() for i in range(4)] for file in (before, after)]
    assert names[0] == names[1], "as far as nothing was taken out"


@pytest.mark.parametrize("name", CASES)
def test_a_file_comes_out_as_it_went_in(name: str):
    data = with_float_edges(emit(CASES[name](np.random.default_rng(2))))
    for file in (data, outside_bytes(decode(data))):
        assert decode(rewrite(file, range(len(decode(file).operators)))) == decode(file)


def test_codes_that_stand_in_the_newer_field_alone_are_read():
    model = decode(with_float_edges(emit(CASES["RELU"](np.random.default_rng(2)))))
    data = odd_bytes(model, "OperatorCode", lambda _: {"DeprecatedBuiltinCode": 0})
    assert decode(data) == model, "ai-edge-quantizer writes it so for a QUANTIZE that it puts in"
    assert decode(rewrite(data, range(len(model.operators)))) == model


def test_metadata_and_signatures_stay():
    net = Net()
    y = net.reversed(net.relu(net.reversed(0)))

    def signed(encoder: FullEncoder) -> dict[str, int]:
        ends = [
            encoder.offsets([encoder.table("TensorMap", Name=encoder.text(name), TensorIndex=index)])
            for name, index in (("in", 0), ("out", y))
        ]
        signature = encoder.table("SignatureDef", Inputs=ends[0], Outputs=ends[1], SignatureKey=encoder.text("serve"))
        return {"SignatureDefs": encoder.offsets([signature])}

    converted = mixed(net.data(y, extra=signed)).converted
    root = tflite.Model.GetRootAs(converted, 0)
    signature = root.SignatureDefs(0)
    assert [signature.SignatureKey(), signature.Inputs(0).Name()] == [b"serve", b"in"]
    graph = root.Subgraphs(0)
    assert signature.Inputs(0).TensorIndex() == graph.Inputs(0)
    assert signature.Outputs(0).TensorIndex() == graph.Outputs(0)
    assert decode(converted, partial=True).metadata["min_runtime_version"] == b"1.5.0"


def test_further_subgraphs_stay():
    net = Net()

    def doubled(encoder: FullEncoder) -> dict[str, int]:
        ends = encoder.integers([0])
        tensor = encoder.table("Tensor", Shape=encoder.integers(SHAPE), Type=0, Name=encoder.text("inside"))
        other = {"Tensors": encoder.offsets([tensor]), "Inputs": ends, "Outputs": ends, "Name": encoder.text("other")}
        return {"Subgraphs": encoder.offsets([encoder.last["SubGraph"], encoder.table("SubGraph", **other)])}

    root = tflite.Model.GetRootAs(mixed(net.data(net.relu(net.reversed(0)), extra=doubled)).converted, 0)
    assert [root.Subgraphs(i).Name() for i in range(root.SubgraphsLength())] == [b"mixed", b"other"]
    assert root.Subgraphs(1).Tensors(0).Name() == b"inside"


def test_damaged_files_are_refused_and_nothing_else_happens():
    net = Net()
    data = net.data(net.place(net.relu(net.reversed(net.through_float(0)))))
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(400):
        damaged = bytearray(data)
        for place in rng.integers(8, len(data), 3):
            damaged[place] = rng.integers(256)
        try:
            convert_mixed(bytes(damaged), "imxrt700")
        except DeuteronError:
            refused += 1
    assert refused > 100


def test_fields_of_a_newer_schema_are_not_lost_silently(monkeypatch: pytest.MonkeyPatch):
    net = Net()
    data = net.data(net.place(net.relu(0)))
    monkeypatch.setattr(tflite, "ArgMaxOptionsStart", lambda builder: builder.StartObject(0))
    with pytest.raises(UnsupportedError) as caught:
        mixed(data)
    assert str(caught.value) == (
        "a table `ArgMaxOptions` has fields that the schema of TFLite 2.18.0 lacks; they would be lost\n\n"
        "hint: write the file with an older exporter"
    )


def test_what_changes_nothing_alone_is_no_partition():
    net = Net()
    shape = net.constant((1, 8, 4, 4))
    y = net.reversed(net.add("RESHAPE", net.reversed(0), shape, shape=(1, 8, 4, 4), kind="ReshapeOptions"))
    assert convert_mixed(net.data(y), "imxrt700") is None
    assert mixed(net.data(net.relu(y))).refused[1].message == "it would be alone on the NPU, and changes no byte"


def test_partitions_that_do_not_fit_together_are_named():
    net = Net()
    data = net.data(net.relu(net.reversed(net.relu(0))))
    with pytest.raises(CapacityError) as caught:
        convert_mixed(data, "imxrt700", ConvertOptions(memory=MemoryOptions(sram_budget=64)))
    assert caught.value.where == "operators 0 to 0 of the file, npu 0, kernel call 0, `lut_s8` of op 0"


@pytest.mark.parametrize(
    ("outputs", "operands", "ends", "message"),
    [
        ((1,), (1,), (2,), "op 1 REVERSE_V2 writes `t1`, which op 0 has written"),
        ((0,), (1,), (1,), "op 1 REVERSE_V2 writes `x`, which is an input"),
        ((3,), (3,), (3,), "op 1 REVERSE_V2 reads `t3` before it is written"),
        ((3,), (4,), (3,), "op 1 REVERSE_V2 reads `nowhere`, which nothing writes"),
        ((3,), (1,), (3, 4), "nothing writes the output `nowhere`"),
    ],
)
def test_tensors_are_written_once_and_before_they_are_read(
    outputs: tuple[int, ...], operands: tuple[int, ...], ends: tuple[int, ...], message: str
):
    net = Net()
    net.reversed(net.relu(0))
    net.tensors.append(FlatTensor("nowhere", SHAPE, "INT8", Q))
    net.operators[1] = replace(net.operators[1], inputs=(*operands, 2), outputs=outputs)
    for take in (lambda data: convert_mixed(data, "imxrt700"), MixedProgram):
        with pytest.raises(FormatError) as caught:
            take(net.data(*ends))
        assert (
            str(caught.value) == f"{message}\n\nhint: make the file again; it is damaged or its exporter has a defect"
        )


def test_memory_that_a_custom_operator_asks_for_is_no_damage():
    net = Net()
    net.reversed(net.relu(0))
    net.tensors.append(FlatTensor("memory", (96,), "INT8"))
    net.operators[1] = replace(net.operators[1], name=CUSTOM, inputs=(1, 4), kind="", options={})
    for take in (lambda data: convert_mixed(data, "imxrt700"), MixedProgram):
        with pytest.raises(UnsupportedError, match=r"op 1 is the custom operator `.*`, which works in the memory of"):
            take(net.data(3))


@pytest.mark.parametrize("dtype", ["INT8", "FLOAT32"])
def test_a_constant_without_elements_is_one(dtype: str):
    net = Net()
    begin, size = net.constant((0, 0, 0, 0)), net.constant((1, 1, 1, 1))
    one = net.add("SLICE", net.reversed(net.relu(0)), begin, size, shape=(1, 1, 1, 1), kind="SliceOptions")
    one = net.real(one) if dtype == "FLOAT32" else one
    data = net.data(net.add("RESHAPE", one, net.constant((), (0,)), shape=(), kind="ReshapeOptions", dtype=dtype))
    check_equal(data, mixed(data))

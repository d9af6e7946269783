"""The converted partition as ExecuTorch's NXP backend takes it apart."""

import struct

import pytest
from executorch.backends.nxp.neutron_node_extraction import extract_artifacts_from_neutron_node

from deuteron.errors import FormatError
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.format import HEADER_WORDS, Flag, Header, LayoutB
from deuteron.npu.neutron.tflite.neutron_graph import unwrap, wrap
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

Q = Quant((0.5,), (-4,))


def source() -> bytes:
    """Two inputs and two outputs, the graph's order being none of the operators'."""
    names = ("sum", "b (2)", "product", "a/ü")
    tensors = tuple(FlatTensor(name, (1, 4), "INT8", Q) for name in names)
    operators = (
        FlatOperator("ADD", (3, 1), (0,), "AddOptions", {"FusedActivationFunction": 0}),
        FlatOperator("MUL", (3, 1), (2,), "MulOptions", {"FusedActivationFunction": 0}),
    )
    return encode(FlatModel("g", tensors, (3, 1), (2, 0), operators))


def container(profiling: bool = False) -> Container:
    words = [0] * HEADER_WORDS
    words[Header.SCRATCH_BYTES] = 4096
    if profiling:
        words[Header.FLAGS] = Flag.PROFILING
        words[LayoutB.PROFILE_BYTES] = 320
        words[LayoutB.DEBUG_BYTES] = 16
    return Container(struct.pack(f"<{HEADER_WORDS}I", *words), bytes(range(32)), b"\1\0\0\0\2\0\0\0")


@pytest.mark.parametrize("profiling", [False, True])
def test_executorch_finds_the_blocks_and_the_boundary(profiling: bool):
    blocks = container(profiling)
    found = extract_artifacts_from_neutron_node(wrap(source(), blocks, {}))
    assert found.microcode.tobytes() == blocks.microcode
    assert found.weights.tobytes() == blocks.weights
    assert found.kernels.tobytes() == blocks.kernels
    assert [name.decode() for name in found.input_names] == ["a/ü", "b (2)"]
    assert [name.decode() for name in found.output_names] == ["product", "sum"]
    assert (found.input_indices, found.output_indices) == ([0, 1], [0, 1])
    assert found.payload_version == (1 if profiling else 0)


@pytest.mark.parametrize(
    ("profiling", "areas"), [(False, {"scratch": 4096}), (True, {"scratch": 4096, "profile": 320, "debug": 16})]
)
def test_the_areas_have_the_sizes_of_the_header(profiling: bool, areas: dict[str, int]):
    model = decode(wrap(source(), container(profiling), {}))
    (op,) = model.operators
    assert (op.name, op.custom_code) == ("CUSTOM", "NeutronGraph")
    extra = [model.tensors[i] for i in op.outputs[2:]]
    assert {t.name: t.shape for t in extra} == {name: (size,) for name, size in areas.items()}
    assert {t.dtype for t in extra} == {"UINT8"}
    assert [model.tensors[i].quant for i in (*model.inputs, *model.outputs)] == [Q] * 4


def test_outputs_that_are_inputs_or_constants_are_written_by_the_npu():
    tensors = (
        FlatTensor("x", (1, 4), "INT8", Q),
        FlatTensor("c", (1, 4), "INT8", Q, b"1234"),
        FlatTensor("y", (1, 4), "INT8", Q),
    )
    op = FlatOperator("ADD", (0, 1), (2,), "AddOptions", {"FusedActivationFunction": 0})
    model = decode(wrap(encode(FlatModel("g", tensors, (0,), (2, 0, 1), (op,))), container(), {}))
    (npu,) = model.operators
    assert model.outputs == npu.outputs[:3]
    assert not {*model.outputs} & {*npu.inputs}
    assert [(model.tensors[i].name, model.tensors[i].data) for i in model.outputs] == [
        ("y", None), ("x", None), ("c", None),
    ]  # fmt: skip


def test_unwrapping_gives_back_the_container_and_the_metadata():
    metadata = {"deuteron.provenance": b"\0\1\2", "empty": b"", "ü": b"x"}
    assert unwrap(wrap(source(), container(), metadata)) == (container(), metadata)


def test_a_model_that_was_optimised_away_has_no_operator():
    data = wrap(source(), None, {"why": b"nothing left"})
    model = decode(data)
    assert model.operators == ()
    assert [model.tensors[i].name for i in (*model.inputs, *model.outputs)] == ["a/ü", "b (2)", "product", "sum"]
    with pytest.raises(RuntimeError, match="has `0` operators instead of `1`") as caught:
        extract_artifacts_from_neutron_node(data)
    assert caught.value.args[1] == 0
    with pytest.raises(FormatError) as ours:
        unwrap(data)
    assert ours.value.message == (
        "not a converted partition: its operators are none; exactly one NeutronGraph is required"
    )


def test_plain_tflite_is_not_a_converted_partition():
    with pytest.raises(FormatError) as caught:
        unwrap(source())
    assert str(caught.value) == (
        "not a converted partition: its operators are ADD, MUL; exactly one NeutronGraph is required\n\n"
        "hint: a partition that is still to be converted holds plain TFLite operators"
    )


@pytest.mark.parametrize("inputs", [(0, 1), (0, 1, -1), (0, 1, 2)])
def test_a_neutron_operator_without_its_blocks_is_malformed(inputs: tuple[int, ...]):
    tensors = (FlatTensor("x", (4,), "UINT8", None, b"1234"),) * 2 + (FlatTensor("empty", (4,), "UINT8"),)
    op = FlatOperator("CUSTOM", inputs, (0,), custom_code="NeutronGraph")
    with pytest.raises(FormatError, match="does not end in microcode, weights, kernels, none of them empty"):
        unwrap(encode(FlatModel("g", tensors, (), (0,), (op,))))


def test_microcode_without_a_whole_header_is_refused():
    with pytest.raises(
        FormatError, match=r"^microcode of 79 bytes; its header alone has 80\n\nhint: convert the model again$"
    ):
        wrap(source(), Container(bytes(79), bytes(16), bytes(16)), {})

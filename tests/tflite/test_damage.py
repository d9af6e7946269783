"""Whatever bytes come in: a result, a FormatError or an UnsupportedError, in bounded time; never anything else."""

import struct
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.tflite.cases import CASES
from tests.tflite.files import model, odd_bytes, strided_slice, with_float_edges

from deuteron.errors import FormatError, UnsupportedError
from deuteron.ir.types import Quant
from deuteron.microcode.container import Container
from deuteron.tflite.emit import emit
from deuteron.tflite.encode import encode
from deuteron.tflite.flat import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.neutron import unwrap, wrap
from deuteron.tflite.reader import op_names, read

MUTATIONS_PER_FILE = 220
EXTREMES = (0, 1, 4, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)


def partition() -> bytes:
    """A small file as ExecuTorch makes them: TRANSPOSE, PADV2, CONV_2D, RELU, MEAN, FULLY_CONNECTED."""
    q, wq = Quant((0.5,), (-4,)), Quant((0.25, 0.125), (0, 0), 0)

    def ints(name: str, *values: int) -> FlatTensor:
        return FlatTensor(name, (len(values),), "INT32", None, np.array(values, "<i4").tobytes())

    tensors = (
        FlatTensor("x", (1, 2, 4, 4), "INT8", q),
        ints("perm", 0, 2, 3, 1),
        FlatTensor("nhwc", (1, 4, 4, 2), "INT8", q),
        replace(ints("padding", 0, 0, 1, 1, 1, 1, 0, 0), shape=(4, 2)),
        FlatTensor("constant_values", (), "INT8", q, b"\xfc"),
        FlatTensor("padded", (1, 6, 6, 2), "INT8", q),
        FlatTensor("w", (2, 3, 3, 2), "INT8", wq, bytes(range(36))),
        FlatTensor("b", (2,), "INT32", Quant((0.125, 0.0625), (0, 0), 0), bytes(8)),
        FlatTensor("conv", (1, 4, 4, 2), "INT8", q),
        FlatTensor("relu", (1, 4, 4, 2), "INT8", q),
        ints("axes", 1, 2),
        FlatTensor("mean", (1, 2), "INT8", q),
        FlatTensor("fc_w", (3, 2), "INT8", Quant((0.25,), (0,)), bytes(6)),
        FlatTensor("fc_b", (3,), "INT32", Quant((0.125,), (0,)), bytes(12)),
        FlatTensor("y", (1, 3), "INT8", q),
    )
    conv = {"Padding": 1, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 0}
    dilation = {"DilationWFactor": 1, "DilationHFactor": 1}
    fc = {"FusedActivationFunction": 0, "WeightsFormat": 0, "KeepNumDims": 1}
    operators = (
        FlatOperator("TRANSPOSE", (0, 1), (2,), "TransposeOptions"),
        FlatOperator("PADV2", (2, 3, 4), (5,), "PadV2Options"),
        FlatOperator("CONV_2D", (5, 6, 7), (8,), "Conv2DOptions", conv | dilation),
        FlatOperator("RELU", (8,), (9,)),
        FlatOperator("MEAN", (9, 10), (11,), "ReducerOptions", {"KeepDims": 0}),
        FlatOperator("FULLY_CONNECTED", (11, 12, 13), (14,), "FullyConnectedOptions", fc),
    )
    return encode(FlatModel("partition", tensors, (0,), (14,), operators))


CONTAINER = Container(bytes(80), b"weights!" * 2, b"kernels!" * 2)
FILES = {name: emit(make(np.random.default_rng(0))) for name, make in CASES.items()}
FILES["partition"] = partition()
FILES["strided slice"] = encode(strided_slice([0, 0], [2, 2]))
FILES["float edges"] = with_float_edges(FILES["ADD"])
FILES["converted"] = wrap(FILES["partition"], CONTAINER, {"deuteron.build": b"{}"})
FILES["converted, float edges"] = wrap(FILES["float edges"], CONTAINER, {})


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Flipped bits, words with extreme values, words copied elsewhere, or a shorter file."""
    out = bytearray(data)
    match int(rng.integers(4)):
        case 0:
            for _ in range(int(rng.integers(1, 9))):
                out[int(rng.integers(len(out)))] ^= 1 << int(rng.integers(8))
        case 1:
            for _ in range(int(rng.integers(1, 4))):
                at = int(rng.integers(len(out) // 4)) * 4
                struct.pack_into("<I", out, at, int(rng.choice(EXTREMES)))
        case 2:
            source, target = (int(rng.integers(len(out) // 4)) * 4 for _ in range(2))
            out[target : target + 4] = data[source : source + 4]
        case _:
            del out[int(rng.integers(len(out))) :]
    if rng.integers(4):
        out[4:8] = data[4:8]
    return bytes(out)


def outcome(data: bytes) -> str:
    results: list[str] = []
    for function in (read, op_names, unwrap):
        try:
            function(data)
            results.append("result")
        except (FormatError, UnsupportedError) as error:
            results.append(type(error).__name__)
    return results[0]


def test_the_files_are_sound_before_they_are_damaged():
    assert op_names(FILES["partition"])[1:4] == ("PADV2", "CONV_2D", "RELU")
    for name, data in FILES.items():
        assert outcome(data) == ("UnsupportedError" if name.startswith("converted") else "result")


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_end_in_a_result_or_an_error_of_ours(name: str):
    rng = np.random.default_rng(list(FILES).index(name))
    seen = Counter(outcome(mutate(FILES[name], rng)) for _ in range(MUTATIONS_PER_FILE))
    assert seen["FormatError"] > MUTATIONS_PER_FILE // 10


@pytest.mark.parametrize("name", ["partition", "converted"])
def test_every_truncation_ends_in_an_error_of_ours(name: str):
    data = FILES[name]
    assert {outcome(data[:length]) for length in range(0, len(data) - 16, 3)} <= {"FormatError", "UnsupportedError"}


def test_files_that_are_not_tflite_at_all():
    for data, found in [(b"", b""), (b"PK\x03\x04", b""), (b"0123456789", b"4567")]:
        with pytest.raises(FormatError) as caught:
            read(data)
        assert caught.value.message == (
            f"not a TFLite model: {len(data)} bytes, of which 4 to 8 are {found!r} instead of b'TFL3'"
        )


def test_the_cause_of_the_damage_stays_attached():
    with pytest.raises(FormatError) as caught:
        read(FILES["ADD"][:60])
    assert str(caught.value) == (
        "the TFLite flatbuffer is damaged or truncated\n\n"
        "hint: make the file again; it is not what a TFLite exporter writes"
    )
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    "shared",
    [
        replace(model("RELU").tensors[0], name="n" * 50_000),
        replace(model("RELU").tensors[0], shape=(1,) * 50_000),
        replace(model("RELU").tensors[0], quant=Quant((0.5,) * 50_000, (0,) * 50_000, 3)),
    ],
    ids=["name", "shape", "scales"],
)
def test_a_small_file_that_names_one_large_vector_many_times_is_refused_early(shared: FlatTensor):
    source = replace(model("RELU"), tensors=(shared, shared))
    data = odd_bytes(source, "SubGraph", lambda e: {"Tensors": e.offsets([e.last["Tensor"]] * 20_000)})
    with pytest.raises(FormatError, match=r"^the TFLite flatbuffer is damaged: it declares more than the file holds\n"):
        read(data)


def test_a_damaged_shape_does_not_ask_for_a_huge_bias():
    tensors = (
        FlatTensor("x", (1, 1), "INT8", Quant((0.5,), (0,))),
        FlatTensor("w", (1 << 30, 1), "INT8", Quant((0.5,), (0,))),
        FlatTensor("y", (1, 1 << 30), "INT8", Quant((0.5,), (0,))),
    )
    op = FlatOperator("FULLY_CONNECTED", (0, 1), (2,))
    with pytest.raises(FormatError) as caught:
        read(encode(FlatModel("m", tensors, (0, 1), (2,), (op,))))
    assert caught.value.message == "1073741824 output channels; at most 65536 are possible"

"""Whatever bytes come in: a result or one of three errors of ours, in bounded time and memory; never anything else."""

import re
import resource
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import full
from tests.npu.neutron.tflite.cases import CASES
from tests.npu.neutron.tflite.files import model, odd_bytes, outside_bytes, strided_slice, with_float_edges

from deuteron.errors import CapacityError, DeuteronError, FormatError, UnsupportedError
from deuteron.npu.neutron.convert import convert
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.npu.neutron.tflite.neutron_graph import unwrap, wrap
from deuteron.npu.neutron.tflite.reader import op_names, read
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

MUTATIONS_PER_FILE = 110
MORE_MEMORY = 2 << 30
"""Bytes of address space that the tests may add to those at their start."""

EXTREMES = (0, 1, 4, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """The tests run out of memory early instead of taking all there is."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MORE_MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


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
FILES["outside"] = outside_bytes(decode(FILES["partition"]))
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
    for function in (read, op_names, unwrap, lambda data: convert(data, "imxrt700")):
        try:
            function(data)
            results.append("result")
        except (FormatError, UnsupportedError, CapacityError) as error:
            results.append(type(error).__name__)
    return results[0]


def test_the_files_are_sound_before_they_are_damaged():
    assert op_names(FILES["partition"])[1:4] == ("PADV2", "CONV_2D", "RELU")
    for name, data in FILES.items():
        assert outcome(data) == ("UnsupportedError" if name.startswith("converted") else "result")


@pytest.mark.parametrize("seed", full.first(range(2), 1))
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_end_in_a_result_or_an_error_of_ours(name: str, seed: int):
    rng = np.random.default_rng([list(FILES).index(name), seed])
    seen = Counter(outcome(mutate(FILES[name], rng)) for _ in range(MUTATIONS_PER_FILE))
    assert seen["FormatError"] > MUTATIONS_PER_FILE // 10


@pytest.mark.parametrize("name", ["partition", "outside", "converted"])
def test_every_truncation_ends_in_an_error_of_ours(name: str):
    data = FILES[name]
    assert {outcome(data[:length]) for length in range(0, len(data) - 16, 3)} <= {"FormatError", "UnsupportedError"}


def test_files_that_are_not_tflite_at_all():
    for data, found in [(b"PK\x03\x04", b""), (b"0123456789", b"4567")]:
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


def test_a_small_file_that_names_one_place_behind_it_many_times_is_refused_early():
    tensors = tuple(FlatTensor(f"t{i}", (1000,), "INT8", Quant((0.5,), (0,)), bytes(1000)) for i in range(2000))
    data = odd_bytes(
        replace(model("RELU"), tensors=tensors), "Buffer", lambda _: {"Data": 0, "Offset": 16, "Size": 60_000}
    )
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


# Small files that ask for much: the compiler must not do, nor hold, what only the chip could.

HALF = Quant((0.5,), (0,))


def _int8(name: str, *shape: int, data: bytes | None = None) -> FlatTensor:
    return FlatTensor(name, shape, "INT8", HALF, data)


def _ints(name: str, *values: int) -> FlatTensor:
    return FlatTensor(name, (len(values),), "INT32", None, np.array(values, "<i4").tobytes())


def _file(tensors: tuple[FlatTensor, ...], inputs: tuple[int, ...], output: int, *operators: FlatOperator) -> bytes:
    return encode(FlatModel("large", tensors, inputs, (output,), operators))


def many_dimensions() -> bytes:
    shape = (1,) * 70
    tensors = (_int8("x", *shape), _int8("c", *shape, data=b"\1"), _int8("y", *shape))
    return _file(tensors, (0,), 2, FlatOperator("MAXIMUM", (0, 1), (2,), "MaximumMinimumOptions"))


def computed_weights() -> bytes:
    tensors = (_int8("x", 1, 9000, 9000, 9000), _int8("w", 9000, 9000, 9000, 9000), _int8("y", 1, 1, 1, 9000))
    options = {"Padding": 1, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 0}
    options |= {"DilationWFactor": 1, "DilationHFactor": 1}
    return _file(tensors, (0, 1), 2, FlatOperator("CONV_2D", (0, 1, -1), (2,), "Conv2DOptions", options))


def padded_constant() -> bytes:
    pads = replace(_ints("pads", *(0, 60_000) * 3), shape=(3, 2))
    tensors = (_int8("c", 1, 1, 1, data=b"\1"), pads, _int8("p", 60_001, 60_001, 60_001), _int8("x", 1, 1, 1),
               _int8("y", 60_001, 60_001, 60_001))  # fmt: skip
    add = FlatOperator("ADD", (2, 3), (4,), "AddOptions", {"FusedActivationFunction": 0})
    return _file(tensors, (3,), 4, FlatOperator("PAD", (0, 1), (2,), "PadOptions"), add)


def turned_input() -> bytes:
    tensors = (_int8("x", 65_536, 65_536), _ints("perm", 1, 0), _int8("y", 65_536, 65_536))
    return _file(tensors, (0,), 2, FlatOperator("TRANSPOSE", (0, 1), (2,), "TransposeOptions"))


def enlarged_pixel() -> bytes:
    tensors = (_int8("x", 1, 1, 1, 1), _ints("size", 65_536, 65_536), _int8("y", 1, 65_536, 65_536, 1))
    options = {"AlignCorners": 0, "HalfPixelCenters": 0}
    return _file(
        tensors, (0,), 2, FlatOperator("RESIZE_NEAREST_NEIGHBOR", (0, 1), (2,), "ResizeNearestNeighborOptions", options)
    )


def five_maps_at_once() -> bytes:
    tensors = tuple(_int8(f"t{i}", 16_384, 65_536) for i in range(10))
    exps = (FlatOperator("EXP", (0,), (i,)) for i in range(1, 6))
    sums = ((1, 2, 6), (3, 4, 7), (6, 7, 8), (8, 5, 9))
    add = {"FusedActivationFunction": 0}
    return _file(tensors, (0,), 9, *exps, *(FlatOperator("ADD", (a, b), (y,), "AddOptions", add) for a, b, y in sums))


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (many_dimensions(), FormatError, "tensor `x`: a shape of 70 dimensions; at most 32 are possible"),
        (computed_weights(), UnsupportedError, "accumulator of output channel 0 can reach 23794560000000000"),
        (
            padded_constant(),
            UnsupportedError,
            "op 0 Pad, output `p`: kernel fill_s8 cannot take it: size is 2160108001",
        ),
        (turned_input(), CapacityError, "`x` takes 4294967296 bytes, the format 4294967280"),
        (enlarged_pixel(), CapacityError, "`y` takes 4294967296 bytes, the format 4294967280"),
        (
            five_maps_at_once(),
            CapacityError,
            "intermediate results need 3,221,225,472 bytes of SRAM, 7,864,320 are available",
        ),
    ],
    ids=["rank", "computed weights", "padded constant", "input", "output", "scratch"],
)
def test_a_small_file_that_asks_for_much_is_refused(data: bytes, kind: type[DeuteronError], text: str):
    assert len(data) < 1500
    with pytest.raises(kind, match=re.escape(text)):
        convert(data, "imxrt700")

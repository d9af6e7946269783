"""Reading `.pte` files: what is found in a sound one, and that damage is an error and nothing worse."""

import random
import struct
from pathlib import Path

import pytest
from tests.runtime.conftest import Build

from deuteron.errors import FormatError
from deuteron.npu.neutron import payload
from deuteron.runtime import pte
from deuteron.runtime.program import TensorSpec

DAMAGED = "the file is damaged or truncated: build it again"


@pytest.fixture(scope="module")
def data(build: Build) -> bytes:
    return (build("two") / "model.pte").read_bytes()


@pytest.mark.slow
def test_a_program_is_read(build: Build, data: bytes) -> None:
    method = pte.read(data).methods[0]
    assert method.name == "forward"
    assert method.input_specs == (
        TensorSpec((1, 2, 6, 5), "float32", (0, 1, 2, 3)),
        TensorSpec((1, 6), "float32", (0, 1)),
    )
    assert [spec.shape for spec in method.output_specs if spec] == [(1, 4), (1, 4)]
    assert method.operators == (
        "quantized_decomposed::quantize_per_tensor.out",
        "quantized_decomposed::dequantize_per_tensor.out",
    )
    assert [delegate.id for delegate in pte.delegates(data)] == [payload.BACKEND_ID]
    parsed = payload.parse(method.delegates[0].payload)
    assert parsed.input_args == 2
    assert parsed.container.microcode == (build("two") / "npu_0.microcode").read_bytes()
    assert parsed.container.weights == (build("two") / "npu_0.weights").read_bytes()
    assert parsed.container.kernels == (build("two") / "npu_0.kernels").read_bytes()


@pytest.mark.slow
def test_channels_last_is_seen(build: Build) -> None:
    method = pte.read((build("conv_channels_last") / "model.pte").read_bytes()).methods[0]
    assert [spec.channels_last for spec in (*method.input_specs, *method.output_specs) if spec] == [True, True]


@pytest.fixture(scope="module")
def plain() -> bytes:
    """A program without delegates, whose constants lie in a segment behind the flatbuffer."""
    import torch
    from executorch.exir import to_edge

    module = torch.nn.Linear(5, 3).eval()
    return bytes(to_edge(torch.export.export(module, (torch.ones(1, 5),), strict=False)).to_executorch().buffer)


@pytest.mark.slow
def test_a_program_with_segments_is_read(plain: bytes) -> None:
    method = pte.read(plain).methods[0]
    assert method.input_specs == (TensorSpec((1, 5), "float32", (0, 1)),)
    assert method.delegates == ()
    assert "aten::addmm.out" in method.operators


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["data", "plain"])
def test_every_truncation_is_refused(request: pytest.FixtureRequest, kind: str) -> None:
    whole: bytes = request.getfixturevalue(kind)
    for size in range(0, len(whole) - 16, 7):
        with pytest.raises(FormatError):
            pte.read(whole[:size])


@pytest.mark.slow
def test_truncation_is_named(plain: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        pte.read(plain[:1000], "model.pte")
    message = f"its header says {len(plain)} bytes, the file has 1000"
    assert str(caught.value) == f"model.pte: {message}\n\nhint: {DAMAGED}"
    with pytest.raises(FormatError) as caught:
        pte.read(plain[:30], "model.pte")
    assert caught.value.message == "the file ends inside its header: 30 bytes"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["data", "plain"])
def test_flipped_bits_are_refused_or_harmless(request: pytest.FixtureRequest, kind: str) -> None:
    whole: bytes = request.getfixturevalue(kind)
    generator = random.Random(0)
    refused: list[FormatError] = []
    for _ in range(3000):
        broken = bytearray(whole)
        broken[generator.randrange(len(whole))] ^= 1 << generator.randrange(8)
        try:
            pte.read(bytes(broken))
        except FormatError as error:
            refused.append(error)
    assert len(refused) > 100
    assert all(error.hint for error in refused)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("find", "replace", "message"),
    [
        (
            b"quantized_decomposed",
            b"\xff" + b"uantized_decomposed",
            "a string is not UTF-8: b'\\xffuantized_decomposed::quantize_per_tenso'",
        ),
        (b"forward\0", b"forwards", "a string does not end with a zero byte: b'forward'"),
        (
            b"\x04\0\0\0\x00\x01\x02\x03",
            b"\x04\0\0\0\x00\x01\x02\x02",
            "a tensor of shape (1, 2, 6, 5) has the dim order (0, 1, 2, 2)",
        ),
        (
            b"\x04\0\0\0\x01\0\0\0\x02\0\0\0",
            b"\x04\0\0\0\x01\0\0\0\xfe\xff\xff\xff",
            "a tensor has the shape (1, -2, 6, 5)",
        ),
        (
            b"\x04\0\0\0\x01\0\0\0\x02\0\0\0",
            b"\x11\0\0\0\x01\0\0\0\x02\0\0\0",
            "a tensor has 17 dimensions, at most 16 are allowed",
        ),
    ],
)
def test_damage_is_named(data: bytes, find: bytes, replace: bytes, message: str) -> None:
    assert find in data
    with pytest.raises(FormatError) as caught:
        pte.read(data.replace(find, replace), "model.pte")
    assert str(caught.value) == f"model.pte: {message}\n\nhint: {DAMAGED}"


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as caught:
        pte.read(b"\x1c\0\0\0TFL3" + bytes(100), "model.tflite")
    assert str(caught.value) == (
        "model.tflite: this is not an ExecuTorch program: bytes 4 to 7 are b'TFL3', not b'ET12'\n\n"
        "hint: give a `.pte` file that ExecuTorch 1.x or Deuteron wrote"
    )
    with pytest.raises(FormatError) as caught:
        pte.read(b"", "empty")
    assert caught.value.message == "this is not an ExecuTorch program: it is empty"
    with pytest.raises(FormatError) as caught:
        pte.read(b"\xf0\0\0\0ET12" + bytes(100), "zeros")
    assert str(caught.value) == (f"zeros: an offset leads to bytes 240 to 244 of 108\n\nhint: {DAMAGED}")


def _repeated(slot: int, entries: int, vtable: bytes, fields: bytes) -> bytes:
    """A program whose root has, in one slot, a vector with entries that all lead to one table; segments start at 8."""
    root = 40 + 4 + 2 * (slot + 1)
    table = root + 12 + 4 * entries + len(vtable)
    offsets = (table - (root + 12 + 4 * i) for i in range(entries))
    return b"".join(
        (
            struct.pack("<I4s", root, b"ET12"),
            struct.pack("<4sIQQQ", b"eh00", 32, table + 4 + len(fields), 8, 0),
            struct.pack(f"<{slot + 3}H", 4 + 2 * (slot + 1), 8, *(0,) * slot, 4),
            struct.pack(f"<i{entries + 2}I", root - 40, 4, entries, *offsets),
            vtable,
            struct.pack("<i", len(vtable)),
            fields,
        )
    )


def test_parts_that_are_used_again_and_again_are_refused() -> None:
    constants = _repeated(2, 2000, struct.pack("<3H", 6, 8, 4), struct.pack("<II", 4, 8000) + bytes(8000))
    with pytest.raises(FormatError) as caught:
        pte.read(constants, "constants")
    message = "its tables overlap: they would take more than 8 times its bytes"
    assert str(caught.value) == f"constants: {message}\n\nhint: {DAMAGED}"
    segments = _repeated(4, 3, struct.pack("<4H", 8, 20, 4, 12), struct.pack("<QQ", 2, 50))
    with pytest.raises(FormatError) as caught:
        pte.read(segments, "segments")
    message = f"a segment starts at byte 10, inside the program that ends at byte {len(segments)}"
    assert str(caught.value) == f"segments: {message}\n\nhint: {DAMAGED}"

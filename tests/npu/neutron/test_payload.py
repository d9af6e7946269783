"""The delegate payload: round trip, and the exact text of every refusal."""

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from deuteron.errors import FormatError
from deuteron.npu.neutron import payload
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.format import DEUTERON_MAGIC, MAGIC
from deuteron.npu.neutron.payload import Payload

MICROCODE_BYTES = 112
MICROCODE_AT = 16
WEIGHTS_AT = MICROCODE_AT + MICROCODE_BYTES
KERNELS_AT = WEIGHTS_AT + 32
DAMAGED = "the file is damaged or truncated: build it again"


def microcode(profiling: bool = False) -> bytes:
    words = [0] * (MICROCODE_BYTES // 4)
    words[0], words[1], words[6], words[7], words[9] = MAGIC, DEUTERON_MAGIC, MICROCODE_BYTES, 32, 64
    if profiling:
        words[3], words[10:15] = 1, [160, 0, 48, 2, 1]
    else:
        words[10:13] = [48, 2, 1]
    words[20:23] = [100, 200, 300]
    return struct.pack(f"<{len(words)}I", *words)


def sound(profiling: bool = False) -> Payload:
    return Payload(
        input_args=2,
        input_formats=(False, True),
        output_formats=(True,),
        input_map=(1, 0),
        output_map=(0,),
        version=int(profiling),
        container=Container(microcode(profiling), bytes(range(32)), struct.pack("<3I", 2, 1, 3)),
    )


@pytest.mark.parametrize("profiling", [False, True])
def test_compose_and_parse_are_inverse(profiling: bool) -> None:
    data = payload.compose(sound(profiling))
    assert len(data) % 16 == 0
    assert list(data[:10]) == [2, 1, 2, 0, 1, 1, 1, 0, 0, int(profiling)]
    assert payload.parse(data) == sound(profiling)


def with_byte(at: int, value: int) -> bytes:
    data = bytearray(payload.compose(sound()))
    data[at] = value
    return bytes(data)


def with_word(word: int, value: int, base: int = MICROCODE_AT) -> bytes:
    data = bytearray(payload.compose(sound()))
    struct.pack_into("<I", data, base + 4 * word, value)
    return bytes(data)


REFUSALS: list[tuple[Callable[[], bytes], str]] = [
    (lambda: b"\x01\x01", "the payload has 2 bytes, its header needs more"),
    (
        lambda: payload.compose(sound())[:12],
        "the payload ends inside its header of 2 inputs and 1 output: 12 bytes of 16",
    ),
    (lambda: with_byte(9, 1), "payload version 1 does not go with microcode without profiling"),
    (lambda: with_byte(3, 2), "the format of input 0 is 2, not 0 or 1"),
    (lambda: with_byte(5, 9), "the format of output 0 is 9, not 0 or 1"),
    (lambda: with_byte(6, 2), "input 0 is mapped to argument 2 of 2"),
    (lambda: with_byte(8, 1), "output 0 is mapped to 1 of 1"),
    (
        lambda: payload.compose(replace(sound(), output_formats=(False, False), output_map=(1, 1))),
        "outputs 0 and 1 are both mapped to 1",
    ),
    (
        lambda: payload.compose(sound())[:100],
        "the payload ends inside its microcode header: 84 bytes of 92",
    ),
    (lambda: with_word(0, 7), "the microcode starts with 0x00000007, not 0x64434D6E"),
    (lambda: with_word(3, 1), "payload version 0 does not go with microcode with profiling"),
    (lambda: with_word(6, 80), "the microcode size 80 is below its header's 92 or no multiple of 16"),
    (lambda: with_word(6, 104), "the microcode size 104 is below its header's 92 or no multiple of 16"),
    (lambda: with_word(6, 4096), "the microcode end at byte 4112, the payload has 176"),
    (lambda: with_word(7, 8), "the weights size 8 is no multiple of 16"),
    (lambda: with_word(7, 1024), "the weights end at byte 1152, the payload has 176"),
    (lambda: with_word(7, 48), "the payload ends inside its kernel list: 0 bytes of 4"),
    (lambda: with_word(11, 3), "the payload has 2 inputs and 1 output, its microcode 3 and 1"),
    (lambda: with_word(0, 5, KERNELS_AT), "the kernel list ends at byte 184, the payload has 176"),
]


@pytest.mark.parametrize(("data", "message"), REFUSALS, ids=[message for _, message in REFUSALS])
def test_damage_is_refused(data: Callable[[], bytes], message: str) -> None:
    with pytest.raises(FormatError) as caught:
        payload.parse(data(), "model.pte")
    assert str(caught.value) == f"model.pte: {message}\n\nhint: {DAMAGED}"


def test_a_newer_payload_version_is_refused() -> None:
    with pytest.raises(FormatError) as caught:
        payload.parse(with_byte(9, 2))
    assert str(caught.value) == (
        "delegate payload: the payload has version 2, 0 and 1 are known\n\n"
        "hint: it was written by a newer ExecuTorch: update Deuteron"
    )


def test_vendor_microcode_is_refused() -> None:
    with pytest.raises(FormatError) as caught:
        payload.parse(with_word(1, 0x12345678))
    assert str(caught.value) == (
        "delegate payload: the microcode is not Deuteron's: word 1 is 0x12345678\n\n"
        "hint: a vendor's microcode runs on the vendor's NPU only"
    )


def test_every_truncation_is_refused() -> None:
    data = payload.compose(sound())
    for size in range(KERNELS_AT + 12):
        with pytest.raises(FormatError):
            payload.parse(data[:size])

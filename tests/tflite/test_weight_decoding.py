"""TFLite Micro's TFLM_DECODE: weights become the constants that they stand for; damaged ones are refused."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from deuteron.board.host_executor import HostExecutor
from deuteron.board.translate import translate
from deuteron.errors import DeuteronError
from deuteron.runtime import pte, tflite_build
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant
from deuteron.tflite.weight_decoding import with_decoded_weights
from deuteron.views.compare.tflite_operators import compare

LUT, HUFFMAN, PRUNED = range(3)
Q = Quant((0.5,), (0,))
ROWS, COLUMNS = Quant((0.5, 0.25), (0, 0), 0), Quant((0.5, 0.25, 0.125), (0, 0, 0), 1)


def header(form: int, fifth: int = 0, sixth: int = 0) -> bytes:
    return bytes([form, 1, 0, 0, 1, fifth, sixth]) + bytes(9)


def packed(bits: str) -> bytes:
    bits += "0" * (-len(bits) % 32)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def coded(codes: bytes, description: bytes, quant: Quant | None = Q, dtype: str = "INT8") -> FlatModel:
    """A layer of three inputs and two outputs by weights that are coded."""
    tensors = (
        FlatTensor("x", (1, 3), "INT8", Quant((0.5,), (-4,))),
        FlatTensor("codes", (len(codes),), "UINT8", None, codes),
        FlatTensor("description", (len(description),), "UINT8", None, description),
        FlatTensor("w", (2, 3), dtype, quant),
        FlatTensor("y", (1, 2), "INT8", Quant((2.0,), (3,))),
    )
    layer = FlatOperator("FULLY_CONNECTED", (0, 3, -1), (4,), "FullyConnectedOptions", {"FusedActivationFunction": 0})
    operators = (FlatOperator("CUSTOM", (1, 2), (3,), custom_code="TFLM_DECODE"), layer)
    return FlatModel("m", tensors, (0,), (4,), operators)


def table(values: list[int], dtype: npt.DTypeLike = np.int8) -> bytes:
    return np.array(values, dtype).tobytes()


def symbol(value: int, bits: int) -> int:
    return 1 << 15 | bits << 11 | value


def further(places: int, bits: int) -> int:
    return (bits - 1) << 11 | places


CODES = "".join(f"{n:03b}" for n in (0, 1, 2, 3, 4, 0))
# 0: 5, 10: -1, 110: 7, 111: 9, by a table of one bit, and further ones of one.
TREE = table([symbol(5, 1), further(1, 1), symbol(255, 1), further(1, 1), symbol(7, 1), symbol(9, 1)], np.uint16)
CASES = {
    "one table": (coded(packed(CODES), header(LUT, 3, 5) + table([9, 8, 7, 6, 5])), [9, 8, 7, 6, 5, 9]),
    "a table for each row": (
        coded(packed("011010"), header(LUT, 1, 2) + table([1, 2, 3, 4]), ROWS),
        [1, 2, 2, 3, 4, 3],
    ),
    "a table for each column": (
        coded(packed("011010"), header(LUT, 1, 2) + table([1, 2, 3, 4, 5, 6]), COLUMNS),
        [1, 4, 6, 1, 4, 5],
    ),
    "int32": (
        coded(packed("011010"), header(LUT, 1, 2) + table([-70000, 70000], np.int32), None, "INT32"),
        [-70000, 70000, 70000, -70000, 70000, -70000],
    ),
    "pruned": (coded(packed("010011"), header(PRUNED) + table([1, 2, 3])), [0, 1, 0, 0, 2, 3]),
    "pruned with zero points": (
        coded(packed("010011"), header(PRUNED) + table([1, 2, 3]), replace(ROWS, zero_points=(7, -8))),
        [7, 1, 7, -8, 2, 3],
    ),
    "codes of several lengths": (coded(packed("0" + "10" + "110" + "111" + "0" + "10"), header(HUFFMAN) + TREE),
                                 [5, -1, 7, 9, 5, -1]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_weights(name: str) -> None:
    model, wanted = CASES[name]
    made = with_decoded_weights(decode(encode(model), partial=True))
    weights = made.tensors[3]
    assert [op.name for op in made.operators] == ["FULLY_CONNECTED"]
    found = np.frombuffer(weights.data or b"", weights.dtype.lower())
    assert found.tolist() == wanted


def test_a_program_has_the_weights(tmp_path: Path) -> None:
    model, wanted = CASES["codes of several lengths"]
    weights = replace(model.tensors[3], data=table(wanted))
    plain = replace(model, tensors=(*model.tensors[:3], weights, model.tensors[4]), operators=model.operators[1:])
    results: list[bytes] = []
    for source in (model, plain):
        (tmp_path / "net.tflite").write_bytes(encode(source))
        program = tflite_build.build_of(tmp_path / "net.tflite", "cortex-m33")[1]["model.pte"]
        (found,) = HostExecutor(translate(pte.read(program), name="net")).run([np.array([[1, -2, 3]], np.int8)])
        results.append(found.tobytes())
    assert results[0] == results[1]


def test_litert_gets_the_weights_for_a_comparison(tmp_path: Path) -> None:
    source = encode(CASES["pruned"][0])
    (tmp_path / "net.tflite").write_bytes(source)
    manifest, files = tflite_build.build_of(tmp_path / "net.tflite", "cortex-m33")
    executor = HostExecutor(translate(pte.read(files["model.pte"]), name="net"))

    def run(sample: Sequence[npt.NDArray[Any]], *, is_reset: bool) -> tuple[list[npt.NDArray[Any]], dict[str, Any]]:
        assert is_reset
        return executor.run(sample), {}

    found = compare(source, manifest, run, [[np.array([[1, -2, 3]], np.int8)]], is_reset=lambda _: True)
    assert not found.failures()
    assert found.outputs[0].elements == 2


@pytest.mark.parametrize(
    ("codes", "description", "message"),
    [
        (b"", header(LUT, 3, 5) + table([1]), "it has 0 bits for 6 codes of 3"),
        (packed(CODES), header(LUT, 0, 5), "its codes have 0 bits; 1 to 7 are allowed"),
        (packed(CODES), header(LUT, 3, 5) + table([1, 2]), "it needs entry 4 of a table of 2"),
        (packed(CODES), header(9), "it has the form 9; 0 to 2 are known"),
        (packed(CODES), b"\0", "its description has no header of version 1"),
        (packed("1"), header(PRUNED), "it needs entry 0 of a table of 0"),
        (packed("111"), header(HUFFMAN) + TREE[:8], "its symbol 0 is in no table"),
        (b"", header(HUFFMAN) + TREE, "it has 0 bits for 6 symbols of at least one"),
        (b"\xff", header(HUFFMAN) + TREE, "it ends at symbol 2 of 6"),
    ],
)
def test_damaged_codes(codes: bytes, description: bytes, message: str) -> None:
    model = coded(codes, description)
    with pytest.raises(DeuteronError) as caught:
        with_decoded_weights(model)
    assert str(caught.value) == (
        f"operator 0 (TFLM_DECODE): tensor `codes` cannot be decoded: {message}\n\n"
        "hint: make the file again; it is damaged or its exporter has a defect"
    )


def test_symbols_without_bits_take_no_time() -> None:
    """A table whose symbols use up no bits, for a tensor of the largest size."""
    model = coded(packed("1"), header(HUFFMAN) + table([symbol(1, 0)] * 2, np.uint16))
    tensors = [*model.tensors]
    tensors[3] = replace(tensors[3], shape=(1 << 14, 1 << 14))
    with pytest.raises(DeuteronError, match="it has 32 bits for 268435456 symbols of at least one"):
        with_decoded_weights(replace(model, tensors=tuple(tensors)))


def test_codes_that_are_computed() -> None:
    model, _ = CASES["pruned"]
    tensors = [*model.tensors]
    tensors[1] = replace(tensors[1], data=None)
    with pytest.raises(DeuteronError) as caught:
        with_decoded_weights(replace(model, tensors=tuple(tensors)))
    assert str(caught.value) == (
        "operator 0 (TFLM_DECODE): tensor `codes` is computed at run time; codes and their description must be "
        "constants\n\nhint: store the weights in the file"
    )

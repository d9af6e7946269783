"""Compressed bytes are written as they were; damaged streams and tables are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cortex_m.operator_library import OperatorLibrary, RefusedError

from deuteron.arch.cores import InnerWork
from deuteron.operators import compressed_weights
from deuteron.operators.catalogue import BY_SYMBOL, scratch
from deuteron.operators.cortex_m import HUFFMAN, PALETTE, DecompressParams

LENGTHS = 128


def decompressed(c_operators: OperatorLibrary, record: DecompressParams, stream: bytes, count: int) -> bytes:
    ((size, _),) = scratch(BY_SYMBOL["dtn_cm_decompress"], record)
    output = np.full(count, 0x5A, np.int8)
    return c_operators.run("decompress", (np.frombuffer(stream, np.uint8),), record, output, [size]).tobytes()


def skewed(count: int, base: float) -> bytes:
    """Bytes of which each value is `base` times as rare as the one before it: codes of up to 15 bits, and cut ones."""
    weights = base ** -np.arange(40.0)
    data = np.random.default_rng(3).choice(40, count, p=weights / weights.sum()).astype(np.uint8)
    return bytes(range(40)) + data.tobytes()


@pytest.mark.parametrize(
    "data",
    [
        *(bytes([value]) * count for value in (0, 1, 255) for count in (1, 2, 7)),
        bytes(range(256)) * 3,
        bytes(range(17)) * 5,
        np.random.default_rng(0).normal(0, 30, 5001).round().clip(-128, 127).astype(np.int8).tobytes(),
        skewed(3000, 1.5),
        skewed(100_000, 2.0),
    ],
    ids=len,
)
def test_bytes_come_back(c_operators: OperatorLibrary, data: bytes) -> None:
    record, stream = compressed_weights.compressed(data)
    assert decompressed(c_operators, record, stream, len(data)) == data


@settings(deadline=None, max_examples=100)
@given(data=st.binary(min_size=1, max_size=600))
def test_any_bytes_come_back_from_both_forms(data: bytes) -> None:
    library = OperatorLibrary(InnerWork.PORTABLE)
    values = np.frombuffer(data, np.uint8)
    assert decompressed(library, DecompressParams(HUFFMAN), compressed_weights.huffman(values), len(data)) == data
    few = values % compressed_weights.PALETTE_SIZE * 9
    found = decompressed(library, DecompressParams(PALETTE), compressed_weights.palette(few), len(data))
    assert found == few.tobytes()


def test_codes_are_optimal_up_to_their_longest() -> None:
    assert compressed_weights.code_lengths([5, 2, 1, 1, *[0] * 252])[:4] == [1, 2, 3, 3]
    lengths = compressed_weights.code_lengths([1 << at for at in range(40)] + [0] * 216)
    assert max(lengths) == compressed_weights.LONGEST
    assert sum(2.0**-bits for bits in lengths if bits) == 1


@pytest.mark.parametrize("table", [b"\x11", b"\x01", b"\x00", b"\x11\x01", b"\x22\x12"])
def test_tables_that_are_no_complete_code_are_refused(c_operators: OperatorLibrary, table: bytes) -> None:
    lengths = table.ljust(LENGTHS, b"\x00")
    is_complete = table == b"\x11"
    output = np.full(8, 0x5A, np.int8)
    stream = np.frombuffer(lengths + b"\x0f", np.uint8)
    if is_complete:
        found = c_operators.run("decompress", (stream,), DecompressParams(HUFFMAN), output, [768])
        assert found.tobytes() == bytes([0, 0, 0, 0, 1, 1, 1, 1])
        return
    with pytest.raises(RefusedError):
        c_operators.run("decompress", (stream,), DecompressParams(HUFFMAN), output, [768])


@pytest.mark.parametrize("change", ["truncated", "longer", "more", "fewer"])
def test_a_stream_of_another_length_is_refused(c_operators: OperatorLibrary, change: str) -> None:
    data = skewed(500, 1.5)
    record, stream = DecompressParams(HUFFMAN), compressed_weights.huffman(np.frombuffer(data, np.uint8))
    count = len(data) + {"more": 9, "fewer": -9}.get(change, 0)
    stream = {"truncated": stream[:-1], "longer": stream + b"\x00"}.get(change, stream)
    with pytest.raises(RefusedError):
        decompressed(c_operators, record, stream, count)


@pytest.mark.parametrize(
    ("form", "size", "work", "count"),
    [(2, 144, 768, 8), (-1, 144, 768, 8), (PALETTE, 16 + 5, 0, 8), (HUFFMAN, 127, 768, 8), (HUFFMAN, 144, 767, 8)],
)
def test_calls_of_other_forms_and_sizes_are_refused(
    c_operators: OperatorLibrary, form: int, size: int, work: int, count: int
) -> None:
    with pytest.raises(RefusedError):
        c_operators.run(
            "decompress", (np.zeros(size, np.uint8),), DecompressParams(form), np.zeros(count, np.int8), [work]
        )


def test_random_streams_stay_within_their_memory(c_operators: OperatorLibrary) -> None:
    generator = np.random.default_rng(9)
    refused = 0
    for _ in range(300):
        data = skewed(int(generator.integers(1, 200)), 1.4)
        stream = bytearray(compressed_weights.huffman(np.frombuffer(data, np.uint8)))
        for at in generator.integers(0, len(stream), 3):
            stream[at] ^= 1 << int(generator.integers(8))
        try:
            decompressed(c_operators, DecompressParams(HUFFMAN), bytes(stream), len(data))
        except RefusedError:
            refused += 1
    assert refused > 200

"""The numbers that Python and C must share, and the CRCs of the tables."""

import re
import struct
import zlib

from tests.board import programs
from tests.board.host import FIRMWARE

from deuteron.board import bundle
from deuteron.board.bundle import Bundle, ElementType, Memory, Step, StepKind, Value
from deuteron.board.tables import Tables
from deuteron.npu.neutron import firmware


def header(name: str) -> str:
    return (FIRMWARE / "include" / "deuteron" / name).read_text("utf-8")


def test_constants_are_those_of_the_headers() -> None:
    defined = dict(re.findall(r"#define (DTN_\w+) UINT32_C\((\w+)\)", header("bundle.h") + header("driver.h")))
    assert {name: int(text, 0) for name, text in defined.items()} == {
        "DTN_BUNDLE_VERSION": bundle.VERSION,
        "DTN_MEMORY_CONSTANT": bundle.MEMORY_CONSTANT,
        "DTN_POINTER_BYTES": firmware.POINTER_BYTES,
        "DTN_CONTEXT_BYTES": bundle.CONTEXT_BYTES,
    }
    types = {name: int(number) for name, number in re.findall(r"DTN_TYPE_(\w+) = (\d+)", header("bundle.h"))}
    assert types == {kind.name: kind.value for kind in ElementType}
    steps = {name: int(number) for name, number in re.findall(r"DTN_STEP_(\w+) = (\d+)", header("bundle.h"))}
    assert steps == {kind.name: kind.value for kind in StepKind}


def test_tables_are_words() -> None:
    plain = (0,)
    values = (
        Value(0, 16, 12, ElementType.F32, (3,), plain, "a"),
        Value(bundle.MEMORY_CONSTANT + 1, 0, 3, ElementType.S8, (3,), plain, "b"),
    )
    steps = (
        Step(StepKind.OPERATOR, 1, (0,), (1,), (7, 8), "x", "", 0),
        Step(StepKind.DELEGATE, 0, (1, 0), (1,), (), "y", "", 1),
    )
    memories = (Memory(32, "m"), Memory(256, "w"))
    delegates = (programs.delegate(programs.SMALL),)
    whole = Bundle("n", values, steps, (0,), (1, 0), memories, ("f", "g"), (b"", b"abc"), delegates)
    tables = Tables.of(whole)
    assert tables.counts == (2, 2, 7, 1, 2, 2, 2, 5, 1)
    assert tables.values == ((0, 16, 12, 6), (0x10001, 0, 3, 1))
    assert tables.steps == ((0, 1, 0, 1, 1, 2), (1, 0, 4, 2, 1, 0))
    assert tables.words == ((0, 1, 7, 8), (1, 0, 1))
    rows = (*tables.values, *tables.steps, *tables.words, (0,), (1, 0), (32, 256))
    sizes = [len(block) for block in (programs.SMALL.microcode, programs.SMALL.weights, programs.SMALL.kernels)]
    assert tables.delegates == ((2, 3),)
    rows = (*rows, (0, 0), (3, zlib.crc32(b"abc")), *((size, 0) for size in sizes), (2, 3))
    words = [word for row in rows for word in row]
    assert tables.counts_crc == zlib.crc32(struct.pack("<9I", *tables.counts))
    assert tables.crc == zlib.crc32(struct.pack(f"<9I{len(words)}I", *tables.counts, *words))

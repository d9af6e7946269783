"""Cores that no emulated board has: the firmware compiles for them, needs nothing that they lack, and has a size."""

import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests import full

from deuteron.board import boards, image, library
from deuteron.board.toolchain import PREFIX, Toolchain

pytestmark = pytest.mark.slow

FLAGS = {
    "cortex-m0plus": ("-mcpu=cortex-m0plus",),
    "cortex-m3": ("-mcpu=cortex-m3",),
    "cortex-m4": ("-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
    "cortex-m85": ("-march=armv8.1-m.main+mve.fp+fp.dp", "-mfloat-abi=hard"),  # GCC 12 does not know its name
}
Record = Callable[[str, object], None]

PARTS = ("executor.", "operators.", "cortex_m.", "io.")
LIBC = {"memcpy", "memset", "memcmp", "memmove", "abort"}
MOST_BYTES = {"cortex-m0plus": 92 << 10, "cortex-m3": 84 << 10, "cortex-m4": 123 << 10, "cortex-m85": 97 << 10}
"""Code and constants of all CPU operators and the executor together; no model has them all."""


def words(program: str, *arguments: object) -> list[list[str]]:
    done = subprocess.run([f"{PREFIX}{program}", *map(str, arguments)], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", full.only(FLAGS, "cortex-m0plus"))
def test_a_core_without_a_board_compiles_all_operators(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    assert name not in {boards.load(board).cpu for board in boards.names()}
    board = replace(boards.load("an505"), cpu=name)
    sources = [source for source in library.core(board) if source.name.startswith(PARTS)]
    flags = (*FLAGS[name], "-mthumb", "-DDTN_DATA_CACHE=0", "-Werror")
    objects = [item.path for item in Toolchain.find(image.OBJECTS).compile(sources, flags, library.FIRMWARE)]
    symbols = words("nm", "-g", *objects)
    defined = {line[2] for line in symbols if len(line) == 3}
    missing = {line[1] for line in symbols if len(line) == 2 and line[0] == "U"} - defined - LIBC
    others = ("__aeabi_", "__gnu_thumb1_", "neutron", "ethosu_", "dtn_")
    assert not {symbol for symbol in missing if not symbol.startswith(others)}
    text = sum(int(line[0]) for line in words("size", *objects)[1:])
    record_property("bytes of code and constants", text)
    assert text <= MOST_BYTES[name]

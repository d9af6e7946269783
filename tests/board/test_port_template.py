"""The template is a port that works: with a chip's own start-up and linker script, wherever the weights are placed."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from tests.board import fetching
from tests.board.port_images import EXECUTOR, FIRMWARE, build, generate, run

from deuteron.board.boards import load
from deuteron.board.emit import EmitOptions, Placement
from deuteron.board.toolchain import PLACE_ALL

TEMPLATE = FIRMWARE / "port" / "template"
CHIP = FIRMWARE / "tests" / "board" / "chip"
SOURCES = (
    "tests/board/chip/chip.c",
    "port/template/port.c",
    "port/template/io_copy.c",
    "port/template/fetch_hooks.c",
    "semihost/semihost.c",
)


@pytest.mark.parametrize(
    ("weights", "arenas"),
    [
        (Placement.FLASH, Placement.SRAM),
        (Placement.SRAM, Placement.SRAM),
        (Placement.EXTERNAL, Placement.SRAM),
        (Placement.SRAM, Placement.EXTERNAL),
    ],
)
def test_bundle_runs_on_the_template(tmp_path: Path, weights: Placement, arenas: Placement) -> None:
    board = load("an505")
    rng = np.random.default_rng(11)
    program = fetching.bundle(rng)
    name = f"template-{weights.value}-{arenas.value}"
    generated = generate(program, name, EmitOptions(weights=weights, arenas=arenas))
    sources = (*SOURCES, *EXECUTOR, *generated)
    image = build(board, name, sources, (f"-L{TEMPLATE}", PLACE_ALL), script=CHIP / "chip.ld")
    x = rng.integers(-128, 128, fetching.TENSOR_BYTES, np.int8).tobytes()
    (tmp_path / "x").write_bytes(x)
    done = run(board, image, directory=tmp_path)
    assert (done.status, done.output) == (0, "")
    assert (tmp_path / "y").read_bytes() == fetching.expected(program, x) * 3


@pytest.mark.parametrize("arenas", [Placement.SRAM, Placement.EXTERNAL])
def test_memories_have_lines_of_the_cache_to_themselves(arenas: Placement) -> None:
    """The executor invalidates the lines that an NPU has written: they must contain no other bytes."""
    program = fetching.bundle(np.random.default_rng(11))
    tensors, working = program.memories
    odd = replace(program, memories=(replace(tensors, bytes=tensors.bytes + 16), working))
    name = f"lines-{arenas.value}"
    sources = (*SOURCES, *EXECUTOR, *generate(odd, name, EmitOptions(arenas=arenas)))
    image = build(load("an505"), name, sources, (f"-L{TEMPLATE}", PLACE_ALL), script=CHIP / "chip.ld")
    with image.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab")
        starts = [symbols.get_symbol_by_name(f"dtn_bundle_memory{i}")[0]["st_value"] for i in range(2)]
    assert [start % 32 for start in starts] == [0, 0]


@pytest.mark.parametrize("copies", ["io_copy", "fetch_hooks"])
def test_only_whole_lines_of_the_cache_are_dropped(tmp_path: Path, copies: str) -> None:
    """Every byte arrives at every alignment; no line with another's bytes is dropped."""
    folders = ("include", "port/template")
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", *(f"-I{FIRMWARE / folder}" for folder in folders))
    files = (FIRMWARE / "tests/board/cache_line_split.c", TEMPLATE / f"{copies}.c")
    program = tmp_path / "lines"
    subprocess.run(["cc", *flags, f"-DTRY_{copies.upper()}", *files, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")

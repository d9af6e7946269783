"""Size of firmware on a Cortex-M33: executor and driver against their limits, and the saving of kernel selection.

Every image is one that a user would flash: the AN505's start-up code, the library, the model, and `footprint_app.c`,
which runs the model in a loop without semihosting and messages. All is compiled with -Os and linked with
--gc-sections. Figures are counted from the ELF file and the linker's map. Arenas and stack are not static RAM; weights
and tables are not code.

make bench-footprint
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import BUILDS, MODELS, REFERENCES, Results, build_of, folder, main, table

from deuteron.board import boards, firmware_record, image, size
from deuteron.board.firmware_record import FirmwareOptions, Kernels
from deuteron.board.link import link
from deuteron.board.size import Row, Sizes
from deuteron.board.toolchain import Source, Toolchain
from deuteron.npu.neutron.kernels.catalogue import KERNELS

BOARD = boards.load("an505")
APPLICATION = (Source("application.footprint_app", Path(__file__).with_name("footprint_app.c")),)
CORE = ("executor", "io", "driver")
MAX_CODE = 6000
MAX_RAM = 512
"""Bytes of text and rodata, and of static RAM, that executor, I/O copies and driver may take together."""


@dataclass(frozen=True, slots=True)
class Result:
    """Bytes of one model's images.

    Attributes:
        core_code: text and rodata of executor, I/O copies and driver.
        core_ram: their data and bss.
        code_selected: text and rodata of the whole image but for the model, with the kernels that it calls.
        code_all: the same with all kernels.
        flash_selected: of the whole image, model and all.
        flash_all: the same with all kernels.
        saved: per kernel that the model does not call.
        shared: what such kernels share.
    """

    model: str
    core_code: int
    core_ram: int
    code_selected: int
    code_all: int
    flash_selected: int
    flash_all: int
    saved: dict[str, int]
    shared: int


def measure(build: Path, toolchain: Toolchain) -> Result:
    """The sizes for a build directory."""
    bundle = image.bundle_of(build)
    sizes: dict[Kernels, Sizes] = {}
    for choice in Kernels:
        kernels = KERNELS if choice is Kernels.ALL else image.called(bundle)
        with tempfile.TemporaryDirectory() as scratch:
            work = Path(scratch)
            link(bundle, BOARD, FirmwareOptions(choice), kernels, toolchain, work, APPLICATION)
            sizes[choice] = size.measure(work / firmware_record.ELF, work / firmware_record.MAP)
    selected, everything = sizes[Kernels.SELECTED], sizes[Kernels.ALL]
    core = selected.module(*CORE)
    linked = {row.part for row in selected.rows}
    return Result(
        bundle.name,
        core.text + core.rodata,
        core.data + core.bss,
        code(selected),
        code(everything),
        selected.image,
        everything.image,
        {r.part: r.total for r in everything.rows if r.module == "kernels" and r.part not in (linked | {"table_fast"})},
        everything.module("inner").total - selected.module("inner").total,
    )


def code(sizes: Sizes) -> int:
    """Text and rodata of all but the model."""
    rows = [row for row in sizes.rows if row.module != "model"]
    total = sum(rows, Row("", ""))
    return total.text + total.rodata


def results(options: argparse.Namespace) -> Results:
    """Each model; executor and driver must keep to their limits."""
    names = options.models or [name for name in REFERENCES if name != "mobilenet_v2"]
    toolchain = Toolchain.find(image.OBJECTS)
    with folder(options.builds) as builds:
        rows = [measure(build_of(builds / name, name), toolchain) for name in names]
    columns = {"model": "model", "executor and driver": "core_code", "RAM": "core_ram"}
    columns |= {"whole code, selected": "code_selected", "with all kernels": "code_all"}
    columns |= {
        "saved": lambda r: r.code_all - r.code_selected,
        "flash: selected": "flash_selected",
        "all": "flash_all",
    }
    notes = [
        f"{r.model}: kernels left out, B: "
        + ", ".join(f"{name} {n:,}" for name, n in {**r.saved, "what these share": r.shared}.items())
        for r in rows
    ]
    over = [r for r in rows if r.core_code > MAX_CODE or r.core_ram > MAX_RAM]
    problems = [f"{r.model}: executor and driver are above {MAX_CODE:,} B of code or {MAX_RAM} B of RAM" for r in over]
    data = {"board": BOARD.name, "compiler": toolchain.version}
    return Results("counted", rows, [table(rows, columns)], problems, notes, data)


if __name__ == "__main__":
    sys.exit(main(results, MODELS, BUILDS))

"""Code size of a build's firmware, from an image linked for a board with the target's core."""

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deuteron.arch import targets
from deuteron.board import boards, firmware_record, image, size
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.link import link
from deuteron.board.toolchain import Toolchain
from deuteron.builds import manifest as manifests
from deuteron.builds.output import write_files
from deuteron.errors import CapacityError, MissingToolError, UnsupportedError

MODULES = ("executor", "operators", "cortex_m", "io", "driver", "kernels", "inner")
"""Modules of the library that depend on the model; not its data, the board, the compiler or the application."""


@dataclass(frozen=True, slots=True)
class CodeSize:
    """Bytes of instructions and constants, and their origin; None with a reason if they are unknown."""

    nbytes: int | None = None
    how: str = ""


def code_of(build: Path, kept: Path) -> CodeSize:
    """Return the code size of a build; caches it in a file for the next run with the same compiler."""
    try:
        toolchain = Toolchain.find(image.OBJECTS)
    except MissingToolError as e:
        return CodeSize(None, e.message)  # a later run may find it
    there: dict[str, Any] = json.loads(kept.read_bytes()) if kept.is_file() else {}
    if there.pop("compiler", None) == toolchain.version:
        return CodeSize(**there)
    counted = _counted(build, toolchain)
    write_files({kept: json.dumps({**asdict(counted), "compiler": toolchain.version}).encode()})
    return counted


def _counted(build: Path, toolchain: Toolchain) -> CodeSize:
    cpu = targets.load(manifests.read(build).target).cpu.name
    board = next((board for board in map(boards.load, boards.names()) if board.cpu == cpu), None)
    if board is None:
        return CodeSize(None, f"no board has a {cpu}")
    try:
        bundle = image.bundle_of(build)
        with tempfile.TemporaryDirectory(prefix="deuteron-code-") as scratch:
            work = Path(scratch)
            link(bundle, board, FirmwareOptions(), image.called(bundle), toolchain, work)
            own = size.measure(work / firmware_record.ELF, work / firmware_record.MAP).module(*MODULES)
    except (CapacityError, UnsupportedError) as e:
        return CodeSize(None, e.message)
    return CodeSize(own.text + own.rodata, f"linked for {board.name}, {toolchain.version}")

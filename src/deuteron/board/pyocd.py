"""Writes an image to a chip with pyOCD, through a debug probe."""

import subprocess
import sys
from pathlib import Path

from deuteron import extras
from deuteron.board.boards import Board
from deuteron.errors import BoardError, OptionError

_SECONDS = 600
_MAGIC = b"\x7fELF"
_LINES = 3
"""Last lines of pyOCD's output that an error repeats."""


def check_installed() -> None:
    """Check that pyOCD is installed; MissingToolError otherwise."""
    extras.require("boards", "pyocd", "`deuteron flash`")


def is_elf(path: Path) -> bool:
    """Return true for a file in the format ELF."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def without_board(path: Path) -> OptionError:
    """Return the error for a build or image that needs the name of a board."""
    return OptionError(f"`{path}` does not name its board", hint="give `--board NAME` or `--port DIR`")


def chip_of(board: Board | None, path: Path) -> str:
    """Return pyOCD's name of the chip of the board that `path` is for.

    Raises:
        OptionError: the board is not known or emulated, or its port names none.
    """
    if board is None:
        raise without_board(path)
    if board.machine:
        raise OptionError(
            f"the board `{board.name}` is emulated: there is no chip to write to",
            hint="docs/guides/boards.md starts its image in QEMU",
        )
    if not board.pyocd:
        raise OptionError(
            f"the port of `{board.name}` names no chip of pyOCD",
            hint="give `--chip NAME` of `pyocd list --targets`; docs/guides/boards.md has the board's own way",
        )
    return board.pyocd


def load(elf: Path, chip: str, probe: str | None = None) -> None:
    """Write the image to the chip, and restart it.

    Args:
        elf: the image.
        chip: pyOCD's name of the chip.
        probe: serial number of the probe, or its beginning; None for the only one.

    Raises:
        MissingToolError: pyOCD is not installed.
        BoardError: pyOCD fails, or takes longer than ten minutes.
    """
    check_installed()
    chosen = () if probe is None else ("--uid", probe)
    words = (sys.executable, "-m", "pyocd", "load", "--no-wait", "--target", chip, *chosen, "--format", "elf", str(elf))
    hint = f"`pyocd list` shows the connected probes; `pyocd pack install {chip}` adds the support of a chip"
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BoardError(f"pyOCD did not end within {_SECONDS} s", where=chip, hint=hint) from None
    if done.returncode:
        lines = [line.strip() for line in (*done.stdout.splitlines(), *done.stderr.splitlines()) if line.strip()]
        reason = "\n".join(lines[-_LINES:]) or f"exit status {done.returncode}, without a reason"
        raise BoardError(f"pyOCD could not write `{elf.name}`: {reason}", where=chip, hint=hint)

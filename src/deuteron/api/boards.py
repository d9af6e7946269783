"""Images on boards: written through a debug probe."""

import tempfile
from pathlib import Path

from deuteron.errors import InputError, OptionError, absent


def flash(
    path: str | Path, board: str | Path | None = None, *, chip: str | None = None, probe: str | None = None
) -> str:
    """Write an image to a board with pyOCD, and return pyOCD's name of the chip.

    Args:
        path: a directory of `firmware`, an ELF file, or a build, of which firmware with the serial harness is linked.
        board: a name of `firmware`, or the directory of a port, as a Path; None for the board of the firmware.
        chip: pyOCD's name of the chip; None for that of the port.
        probe: serial number of the probe, or its beginning; None for the only one.

    Raises:
        InputError: `path` does not exist.
        OptionError: the board is missing, emulated, or not that of the firmware, or its chip is not known.
        MissingToolError: pyOCD is not installed.
        BoardError: pyOCD fails.
        DeuteronError: the build cannot be linked for the board.
    """
    from deuteron.api.make import firmware
    from deuteron.board import boards, firmware_record, pyocd

    path = Path(path)
    if not path.exists():
        raise absent(path)
    if path.suffix == ".py":
        raise InputError(
            f"`{path}` is a Python file, not firmware or a build",
            hint=f"build it first: `deuteron build {path}:FUNCTION -o DIR`",
        )
    if isinstance(board, str) and board not in (*boards.names(), *boards.ports()):
        listed = ", ".join(f"`{name}`" for name in boards.ports())
        raise OptionError(f"unknown board `{board}`", hint=f"the boards are {listed}; `--port DIR` is your own")
    given = boards.read_port(board) if isinstance(board, Path) else None if board is None else boards.load(board)
    made = firmware_record.read(path) if (path / firmware_record.FILE.name).is_file() else None
    if made is not None and given is not None and given.name != made.board:
        raise OptionError(
            f"`{path}` is firmware for the board `{made.board}`, not for `{given.name}`",
            hint=f"leave out `--board`, or build firmware for `{given.name}`",
        )
    if made is not None and made.board in (*boards.names(), *boards.ports()):
        given = boards.load(made.board)
    elf = path if pyocd.is_elf(path) else path / firmware_record.ELF if made is not None else None
    if made is not None and given is None and chip is None:
        raise OptionError(
            f"`{path}` is firmware of the port `{made.board}`, whose directory it does not have",
            hint="give that directory with `--port DIR`, or the chip with `--chip NAME`",
        )
    chosen = chip or pyocd.chip_of(given, path)
    if elf is not None:
        pyocd.load(elf, chosen, probe)
        return chosen
    if board is None:
        raise pyocd.without_board(path)
    pyocd.check_installed()  # before the work
    with tempfile.TemporaryDirectory(prefix="deuteron-flash-") as scratch:
        directory = Path(scratch) / "firmware"
        firmware(
            path, board, directory, options=firmware_record.FirmwareOptions(harness=firmware_record.Harness.SERIAL)
        )
        pyocd.load(directory / firmware_record.ELF, chosen, probe)
    return chosen

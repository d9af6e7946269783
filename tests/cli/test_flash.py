"""`deuteron flash`: what pyOCD is asked for, and what is refused. A stand-in replaces pyOCD; no probe runs."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests import store
from tests.board.test_ports import port_of_an505

from deuteron.board import boards, firmware_record
from deuteron.board.firmware_record import FirmwareOptions, Harness

from .conftest import Result

Run = Callable[..., Result]

STAND_IN = """\
import json, os, sys
from pathlib import Path

folder = Path(__file__).parent
(folder / "asked.json").write_text(json.dumps([*sys.argv[1:-1], Path(sys.argv[-1]).read_bytes()[:4].hex()]))
said = (folder / "says").read_text()
print(said)
sys.exit(bool(said))
"""


@pytest.fixture
def pyocd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package `pyocd`, which writes what it is asked for, and fails if its file `says` has text."""
    folder = tmp_path / "packages" / "pyocd"
    folder.mkdir(parents=True)
    for name, text in {"__init__.py": "", "__main__.py": STAND_IN, "says": ""}.items():
        (folder / name).write_text(text)
    monkeypatch.setattr("sys.path", [str(folder.parent), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    return folder


@pytest.fixture(scope="module")
def firmware() -> Path:
    build = store.model("digits", target="cortex-m33")
    return store.firmware(build, boards.load("pico2"), FirmwareOptions(harness=Harness.SERIAL))


def asked(pyocd: Path) -> list[str]:
    return json.loads((pyocd / "asked.json").read_text())


ELF = b"\x7fELF".hex()


def test_firmware_names_its_board(deuteron: Run, pyocd: Path, firmware: Path) -> None:
    result = deuteron("flash", firmware)
    assert (result.code, result.err) == (0, f"wrote `{firmware}` to `rp2350`\n")
    assert asked(pyocd) == ["load", "--no-wait", "--target", "rp2350", "--format", "elf", ELF]


def test_an_image_with_a_chip_and_a_probe(deuteron: Run, pyocd: Path, firmware: Path) -> None:
    result = deuteron("flash", firmware / firmware_record.ELF, "--chip", "stm32l475xg", "--probe", "0669", "--json")
    assert json.loads(result.out)["chip"] == "stm32l475xg"
    assert asked(pyocd)[2:6] == ["--target", "stm32l475xg", "--uid", "0669"]


def test_a_build_is_linked_first(deuteron: Run, pyocd: Path) -> None:
    build = store.model("digits", target="cortex-m33")
    assert deuteron("flash", build, "--board", "frdm_mcxn947").code == 0
    assert asked(pyocd) == ["load", "--no-wait", "--target", "mcxn947", "--format", "elf", ELF]


def test_a_port_in_a_directory_names_its_chip(deuteron: Run, pyocd: Path, tmp_path: Path) -> None:
    build, port = store.model("digits", target="cortex-m33"), port_of_an505(tmp_path)
    assert deuteron("flash", build, "--port", port).err.startswith(
        "error: the port of `my_board` names no chip of pyOCD\n"
    )
    with (port / boards.PORT).open("a") as table:
        table.write('[debugger]\npyocd = "mine"\n')
    result = deuteron("flash", build, "--port", port)
    assert (result.code, result.err) == (0, f"wrote `{build}` to `mine`\n")
    assert asked(pyocd)[3] == "mine"


def test_the_reason_of_pyocd(deuteron: Run, pyocd: Path, firmware: Path) -> None:
    (pyocd / "says").write_text("No connected debug probes\n0001 E No target device available [load_cmd]")
    result = deuteron("flash", firmware)
    assert result.code == 1
    assert result.err == (
        "error: rp2350: pyOCD could not write `firmware.elf`: No connected debug probes\n"
        "0001 E No target device available [load_cmd]\n\n"
        "hint: `pyocd list` shows the connected probes; `pyocd pack install rp2350` adds the support of a chip\n"
    )


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--board", "an505"], "is firmware for the board `pico2`, not for `an505`"),
        (["--board", "nosuch"], "unknown board `nosuch`\n\nhint: the boards are `alif_ensemble_he`, "),
        (["--board", "pico2", "--port", "x"], "`--board` and `--port` both name the board"),
    ],
)
def test_options_that_do_not_fit(deuteron: Run, pyocd: Path, firmware: Path, words: list[str], error: str) -> None:
    result = deuteron("flash", firmware, *words)
    assert result.code == 2
    assert error in result.err
    assert not (pyocd / "asked.json").exists()


@pytest.mark.parametrize(
    ("board", "error"),
    [
        ("an505", "error: the board `an505` is emulated: there is no chip to write to\n"),
        ("mimxrt700_evk", "error: the port of `mimxrt700_evk` names no chip of pyOCD\n"),
        (None, "does not name its board\n\nhint: give `--board NAME` or `--port DIR`\n"),
    ],
)
def test_boards_that_cannot_be_written(deuteron: Run, pyocd: Path, board: str | None, error: str) -> None:
    build = store.model("digits", target="cortex-m33")
    result = deuteron("flash", build, *(("--board", board) if board else ()))
    assert result.code == 2
    assert error in result.err
    assert not (pyocd / "asked.json").exists()


def test_arguments_are_checked_before_pyocd(
    deuteron: Run, firmware: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_installed(package: str) -> bool:
        return package != "pyocd"

    monkeypatch.setattr("deuteron.extras.is_installed", is_installed)
    build = store.model("digits", target="cortex-m33")
    assert "does not name its board" in deuteron("flash", build).err
    (tmp_path / "vib.py").touch()
    assert "vib.py` is a Python file, not firmware or a build\n" in deuteron("flash", tmp_path / "vib.py").err
    assert "is emulated: there is no chip" in deuteron("flash", build, "--board", "an505").err
    assert "`nosuch` does not exist\n" in deuteron("flash", "nosuch", "--board", "pico2").err
    assert "needs the Python package `pyocd`" in deuteron("flash", build, "--board", "pico2").err
    own = tmp_path / "own"
    shutil.copytree(firmware, own)
    made = replace(firmware_record.read(firmware), board="my_board")
    (own / firmware_record.FILE.name).write_text(firmware_record.FILE.to_json(made))
    assert (
        f"`{own}` is firmware of the port `my_board`, whose directory it does not have\n\n"
        "hint: give that directory with `--port DIR`, or the chip with `--chip NAME`\n"
    ) in deuteron("flash", own).err


def test_without_pyocd(deuteron: Run, firmware: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_installed(package: str) -> bool:
        return package != "pyocd"

    monkeypatch.setattr("deuteron.extras.is_installed", is_installed)
    result = deuteron("flash", firmware)
    assert result.code == 2
    assert result.err == (
        "error: `deuteron flash` needs the Python package `pyocd`, which is not installed\n\n"
        "hint: install Deuteron with its extra: `pip install 'deuteron[boards]'`\n"
    )

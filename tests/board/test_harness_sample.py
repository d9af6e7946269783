"""The harness's sample for Zephyr and CMSIS-Drivers, against stand-ins for their interfaces, on an emulated board."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import full, store
from tests.board.serial_boards import emulated
from tests.board.test_package import configure_for_board

from deuteron import api
from deuteron.board import boards
from deuteron.board.generate import HARNESS
from deuteron.board.library import FIRMWARE
from deuteron.errors import OptionError
from deuteron.views.run.line import OnLine

CONSUMER = Path(__file__).parent / "consumer_harness"
SAMPLE = FIRMWARE / "samples" / "harness"


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("line", full.only(["zephyr", "cmsis"], "cmsis"))
def test_the_sample_answers(line: str, tmp_path: Path) -> None:
    model, board, build = store.model("digits", target="cortex-m33"), boards.load("an505"), tmp_path / "build"
    configure_for_board(CONSUMER, build, model, board, f"-DLINE={line}")
    done = subprocess.run(["cmake", "--build", build], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    with emulated(build / "app", board) as name:
        subject = api.subject(model, on=name)
        assert isinstance(subject, OnLine)
        assert subject.compare(subject.draw(3)).passed
    said = subject.to_json()
    assert said["board"] == "my_board"
    counts: Any = said["counts"]
    unit = "ticks" if line == "zephyr" else "cycles"  # the devicetree here names no rate of the core
    assert (counts["kind"], counts["unit"]) == ("measured", unit)
    assert all(step[unit] > 0 for step in counts["runs"][0]["steps"])


def test_the_application_of_zephyr_names_its_parts() -> None:
    """A build of Zephyr itself has not been tried."""
    listing = (SAMPLE / "CMakeLists.txt").read_text("utf-8")
    assert all((SAMPLE / name).is_file() for name in ("main.c", "line_zephyr.c", "prj.conf"))
    assert "target_sources(app PRIVATE main.c line_zephyr.c)" in listing
    options = dict(line.split("=") for line in (SAMPLE / "prj.conf").read_text("utf-8").splitlines() if "=" in line)
    assert options["CONFIG_DEUTERON"] == options["CONFIG_SERIAL"] == "y"
    assert {options[f"CONFIG_{name}"] for name in ("CONSOLE", "UART_CONSOLE", "BOOT_BANNER", "PRINTK", "LOG")} == {"n"}


@pytest.mark.full
def test_a_bundle_has_the_facts_that_the_harness_sends(tmp_path: Path) -> None:
    build = store.model("digits", target="cortex-m33")
    files = api.bundle(build, tmp_path / "with", harness="my_board")
    assert [path.name for path in files if path.name == HARNESS] == [HARNESS]
    text = (tmp_path / "with" / HARNESS).read_text("ascii")
    sha256 = api.read_manifest(build).files["model.pte"].sha256
    assert ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(sha256)) in text
    assert '.board = "my_board",' in text
    assert ".tick_unit = DTN_PROFILE_TIME," in text
    assert HARNESS not in [path.name for path in api.bundle(build, tmp_path / "without")]


@pytest.mark.parametrize("name", ["", "my-board", 'x"', "a" * 24, "ä"])
def test_names_that_the_protocol_has_not(name: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="a board cannot have the name"):
        api.bundle(store.model("digits", target="cortex-m33"), tmp_path / "out", harness=name)
    assert not (tmp_path / "out").exists()


def test_the_harness_has_one_program(tmp_path: Path) -> None:
    options = api.EmitOptions("other")
    with pytest.raises(OptionError, match="the harness runs the program `dtn_bundle`, not `other`"):
        api.bundle(store.model("digits", target="cortex-m33"), tmp_path / "out", options=options, harness="me")

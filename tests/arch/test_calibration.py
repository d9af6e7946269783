"""Your own measurements of boards: kept by program and board, and printed as bands."""

from dataclasses import replace
from pathlib import Path

import pytest

from deuteron.arch import calibration
from deuteron.arch.calibration import Measurement
from deuteron.errors import FormatError

ONE = Measurement("pico2", "cortex-m33", "cpu", "digits", "ab", 1500, 1000, "1.0")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_there_is_no_file_at_first(home: Path) -> None:
    assert (calibration.read(), calibration.bands()) == ((), ())
    assert calibration.path() == home / "deuteron" / "calibration.json"


def test_without_a_variable_the_file_is_in_the_home(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(home))
    assert calibration.path() == home / ".config" / "deuteron" / "calibration.json"


def test_bands_by_board_target_and_processor() -> None:
    other = replace(ONE, program_sha256="cd", measured_ns=6000)
    npu = replace(ONE, target="ethos-u55-128", processor="npu", measured_ns=900)
    calibration.add([ONE, other])
    calibration.add([npu])
    assert list(map(str, calibration.bands("cortex-m33", "cpu"))) == [
        "your `pico2` took 1.50 to 6.00 times the estimated time of operators on the CPU, 3.00 by the geometric mean "
        "of 2 measurements of yours"
    ]
    assert list(map(str, calibration.bands("ethos-u55-128"))) == [
        "your `pico2` took 0.90 to 0.90 times the simulated or estimated time of the NPU, 0.90 by the geometric mean "
        "of 1 measurement of yours"
    ]
    assert calibration.bands("cortex-m33", "npu") == ()
    assert len(calibration.bands()) == 2


def test_a_new_measurement_replaces_that_of_the_same_program() -> None:
    calibration.add([ONE, replace(ONE, board="mine")])
    calibration.add([replace(ONE, measured_ns=2000, deuteron="1.1")])
    assert [(one.board, one.ratio) for one in calibration.read()] == [("mine", 1.5), ("pico2", 2.0)]


def written(one: Measurement) -> str:
    return calibration.FILE.to_json(calibration.Measurements((one,)))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "is not JSON"),
        ('{"schema": 9}', "has schema 9, this version of Deuteron reads schema 1"),
        (written(replace(ONE, estimated_ns=0)), "impossible measurement"),
        (written(replace(ONE, processor="gpu")), "impossible measurement"),
    ],
)
def test_a_damaged_file_is_named(text: str, error: str) -> None:
    calibration.add([ONE])
    calibration.path().write_text(text)
    with pytest.raises(FormatError, match=error) as raised:
        calibration.read()
    assert raised.value.where == str(calibration.path())
    assert raised.value.hint == "delete it, and run `deuteron calibrate` again"


@pytest.mark.parametrize("content", ["{", "\xff", None])
def test_reports_go_on_without_a_damaged_file(home: Path, content: str | None) -> None:
    calibration.add([ONE])
    assert calibration.notes("cortex-m33", "cpu") == tuple(map(str, calibration.bands()))
    if content is None:
        calibration.path().unlink()
        calibration.path().mkdir()
    else:
        calibration.path().write_text(content, "latin-1")
    (note,) = calibration.notes("cortex-m33", "cpu")
    assert note.startswith("your measurements are not used: ")
    assert str(calibration.path()) in note

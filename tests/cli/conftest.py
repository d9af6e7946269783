"""The program under test: in this process for most cases, as a real process where that matters."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from deuteron.cli import main

PROGRAM = Path(sys.executable).with_name("deuteron")


@dataclass(frozen=True, slots=True)
class Result:
    """The files and texts that a run of the program leaves behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def deuteron(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Runs `deuteron ARGS` in this process, through the entry point."""

    def run(*args: str | Path) -> Result:
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Result(ended.value.code, out, err)

    return run


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Result]:
    """Runs `deuteron ARGS` as a subprocess in an empty directory."""

    def run(*args: str | Path) -> Result:
        done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, cwd=tmp_path, timeout=300)
        return Result(done.returncode, done.stdout, done.stderr)

    return run

"""`deuteron fvp install`: which programs it writes, and what it says."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deuteron.runtime import fvp

from .conftest import Result

Run = Callable[..., Result]


def test_programs_are_written_and_listed(deuteron: Run, tmp_path: Path) -> None:
    folder = tmp_path / "fvp"
    programs = [str(folder / one.name) for one in fvp.FVPS]
    assert deuteron("fvp", "install", folder) == Result(
        0,
        "".join(f"{program}\n" for program in programs),
        f"for ExecuTorch's tests: export PATH={folder}:$PATH EXECUTORCH_ROOT={folder}\n",
    )
    assert deuteron("fvp", "install", folder) == Result(
        2, "", f"error: `{programs[0]}` exists\n\nhint: choose another name, or replace it with `--force`\n"
    )
    again = deuteron("fvp", "install", folder, "--force", "--json")
    assert json.loads(again.out) == {"schema": 1, "programs": programs}


def test_paths_hold_in_every_folder(deuteron: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "fvp"
    said = f"for ExecuTorch's tests: export PATH={folder}:$PATH EXECUTORCH_ROOT={folder}\n"
    assert deuteron("fvp", "install", "fvp").err == said


def test_a_folder_that_cannot_be_written(deuteron: Run, tmp_path: Path) -> None:
    (tmp_path / "fvp").write_text("")
    assert deuteron("fvp", "install", tmp_path / "fvp") == Result(
        1,
        "",
        f"error: `{tmp_path / 'fvp'}` cannot be written: Not a directory\n\n"
        "hint: choose a folder that you may write to\n",
    )

"""Vela in a separate process."""

from pathlib import Path

import pytest

from deuteron.npu.ethosu.vela_process import run_vela


def test_files_of_the_working_directory_are_no_modules_of_vela(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "random.py").write_text("raise RuntimeError('a file of the user')\n")
    monkeypatch.chdir(tmp_path)
    assert run_vela(["--version"]).failure == ""

"""Vela in a separate process."""

import os
import signal
from pathlib import Path

import pytest

from deuteron.npu.ethosu import vela_process
from deuteron.npu.ethosu.vela_process import VelaRun, run_vela


def test_files_of_the_working_directory_are_no_modules_of_vela(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "random.py").write_text("raise RuntimeError('a file of the user')\n")
    monkeypatch.chdir(tmp_path)
    assert run_vela(["--version"]).failure == ""


def test_one_server_forks_for_all_runs_until_it_ends(tmp_path: Path) -> None:
    first = run_vela(["--version"])
    server = vela_process._idle[-1]
    assert run_vela(["--version"], tmp_path) == first
    assert vela_process._idle[-1] is server
    os.killpg(server._process.pid, signal.SIGKILL)
    assert run_vela(["--version"]) == first
    assert run_vela(["--version"]) == first
    assert server not in vela_process._idle


def test_runs_do_not_know_of_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = (
        "import os, sys\ndef main():\n    sys.modules['ethosu'].runs += 1; print(ethosu.runs, os.getcwd()); sys.exit(3)"
    )
    for name, text in {"__init__": "runs = 0\n", "vela/__init__": "", "vela/vela": f"import ethosu\n{main}\n"}.items():
        path = tmp_path / "ethosu" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for _ in range(2):
        assert run_vela([], tmp_path) == VelaRun(f"1 {tmp_path}\n", "", f"Vela fails: 1 {tmp_path}")


def test_a_server_that_does_not_start_leaves_vela_to_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ethosu.py").write_text("raise RuntimeError('broken')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert run_vela([]).failure == "Vela fails: RuntimeError: broken"


def test_a_run_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vela_process, "_TIME_OUT", 0)
    assert run_vela(["--version"]).failure == "Vela did not end within 0 s"

"""The README's example, run as a reader would: in an empty directory, with the program on PATH."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks(section: str) -> list[tuple[str, str]]:
    """(language, text) of the fenced blocks of a section of the README, in order."""
    page = (ROOT / "README.md").read_text("utf-8")
    body = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## )", page, re.DOTALL | re.MULTILINE)
    assert body, f"README.md has no section `{section}`"
    return re.findall(r"^```(\w+)\n(.*?)^```$", body[1], re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_example_runs_as_written(tmp_path: Path):
    (kind, module), (shell, commands), (python, script) = blocks("An example from end to end")
    assert (kind, shell, python) == ("python", "sh", "python")
    (tmp_path / "net.py").write_text(module)
    (tmp_path / "again.py").write_text(script)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said = ""
    for command in [*commands.splitlines(), "python again.py"]:
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        said += done.stdout
    manifest = json.loads((tmp_path / "net-build" / "build.json").read_text())
    assert len(manifest["partitions"]) == 1
    assert "net.py:13 `x = self.pool(torch.relu(self.conv(x)))`" in said
    first, second = (json.loads((tmp_path / d / "build.json").read_text()) for d in ("net-build", "from-python"))
    assert first["files"]["model.pte"] == second["files"]["model.pte"]

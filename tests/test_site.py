"""The site: every page in it, every link and picture there, the Python interface without PyTorch."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import deuteron
from deuteron import api

ROOT = Path(__file__).parents[1]
SPHINX = "import sys; sys.modules['torch'] = None; from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.full
def test_the_site_builds_without_warnings_and_without_pytorch(tmp_path: Path):
    command = (sys.executable, "-c", SPHINX, "-q", "-W", "--keep-going", "-b", "html", "-c", "docs", ".", tmp_path)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "docs" / "reference" / "python.html").read_text("utf-8")
    first, second = (set(re.findall(rf'id="{module}\.(\w+)"', page)) for module in (r"deuteron", r"deuteron\.api"))
    assert first == {*deuteron.__all__} - {"__version__"}
    assert second == {name for name in api._HOMES if callable(getattr(api, name))} - first

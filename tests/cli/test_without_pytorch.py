"""Commands on builds need neither PyTorch nor ExecuTorch: each runs in a process that has neither."""

import subprocess
import sys
from pathlib import Path

import pytest

from deuteron import api

from .memory_model import MODEL

START = """import sys
for name in ("torch", "torchao", "executorch"):
    sys.modules[name] = None  # importing it fails
from deuteron.cli import main
for line in sys.stdin:
    try:
        main(line.split())
    except SystemExit as end:
        assert end.code == 0, f"{line.strip()}: exit code {end.code}"
    print(f"done: {line.strip()}")
"""

COMMANDS = (
    "inspect BUILD",
    "inspect BUILD/model.pte",
    "inspect BUILD/npu_0.tflite",
    "explain BUILD",
    "plan BUILD --svg OUT/plan.svg",
    "sim BUILD --trace OUT/sim.trace",
    "sim BUILD --sram-budget 11968",
    "sim --compare BUILD BUILD",
    "profile BUILD --on sim -o OUT/sim",
    "profile OUT/sim",
    "report OUT/sim -o OUT/page.html",
    "kernels merge BUILD -o OUT/kernels.c",
    "bundle BUILD -o OUT/bundle",
    "firmware BUILD --board an505 -o OUT/firmware",
    "run OUT/firmware --on an505",
    "profile BUILD --on an505 -o OUT/an505",
)


@pytest.mark.slow
@pytest.mark.full
def test_every_view_of_a_build_runs_without_pytorch(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    build = tmp_path / "build"
    options = api.BuildOptions(use_profiling=True)
    manifest = api.build_model(f"{tmp_path / 'net.py'}:net", output=build, options=options).manifest
    assert "npu_0.tflite" in manifest.files
    (build / "reference.pt2").unlink()
    lines = [line.replace("BUILD", str(build)).replace("OUT", str(tmp_path)) for line in COMMANDS]
    done = subprocess.run([sys.executable, "-c", START], input="\n".join(lines), capture_output=True, text=True)
    finished = [line for line in done.stdout.splitlines() if line.startswith("done: ")]
    assert (finished, done.returncode) == ([f"done: {line}" for line in lines], 0), done.stderr

"""The examples of the README and of guides, run as a reader would: in a directory, command after command.

Commands and Python scripts run in this process, which has imported what they need. Commands of the guide to kernel
selection run as separate processes with the program on PATH.
"""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests import full, store
from tests.cli.test_inspect import GRAPH
from tests.npu.ethosu import mixed_network
from tests.npu.neutron.kernels.linking import M33
from tests.npu.neutron.sdk.models import parallel
from tests.npu.neutron.tflite.files import with_float_edges
from tests.tflite.cortex_m import recurrent_models

from deuteron.npu.neutron.convert import convert
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.operators.program import KernelCall
from deuteron.tflite.encode import encode

from .conftest import Result

Commands = Callable[[Sequence[str]], str]
ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of the fenced blocks of a page, in order, but for those without a language."""
    text = (ROOT / page).read_text("utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def commands_of(page: str) -> list[str]:
    """The commands of a page that run as written, in order."""
    return [line for kind, text in blocks(page) if kind == "sh" for line in text.splitlines()]


@pytest.fixture
def run(deuteron: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Runs commands of `deuteron` in the test's folder; gives what they print, and all must end well."""
    monkeypatch.chdir(tmp_path)

    def run_all(commands: Sequence[str]) -> str:
        printed = ""
        for command in commands:
            program, *args = shlex.split(command)
            assert program == "deuteron"
            assert not {*command}.intersection("$`|&;<>*?~"), "this needs a shell"
            result = deuteron(*args)
            assert result.code == 0, f"{command}\n{result.out}\n{result.err}"
            printed += result.out
        return printed

    return run_all


def run_in_shell(commands: Sequence[str], folder: Path) -> str:
    """Return the output of the commands as subprocesses; all must succeed."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    printed = ""
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout
    return printed


@pytest.fixture
def run_guide(run: Commands, tmp_path: Path) -> Commands:
    """The same, but for plain builds of `digits`, which other tests have, too: these are copied."""

    def run_all(commands: Sequence[str]) -> str:
        printed = ""
        for command in commands:
            if built := re.fullmatch(r"deuteron build digits --target (\S+) -o (\S+)", command):
                kept = (
                    mixed_network.built()
                    if built[1] == mixed_network.TARGET
                    else store.model("digits", target=built[1])
                )
                shutil.copytree(kept, tmp_path / built[2])
            else:
                printed += run([command])
        return printed

    return run_all


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 900


def test_the_three_commands_of_the_readme_print_what_it_shows(run: Commands, tmp_path: Path):
    (kind, commands), (language, printed), _ = blocks("README.md")
    assert (kind, language) == ("sh", "text")
    shutil.copyfile(ROOT / "examples" / "digits.tflite", tmp_path / "digits.tflite")
    execute, simulate, profile = commands.splitlines()
    run([execute])
    assert run([simulate]) == printed
    run([profile])
    assert (tmp_path / "digits-profile" / "report.html").is_file()


@pytest.mark.slow
def test_the_python_of_the_readme_runs_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    *_, (language, script) = blocks("README.md")
    assert language == "python"
    assert len(script.splitlines()) <= 12
    (tmp_path / "readme.py").write_text(script)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("readme.py", run_name="__main__")
    _, passed = capsys.readouterr().out.splitlines()
    assert passed == "True"
    assert (tmp_path / "net-firmware" / "firmware.elf").is_file()


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """The folder of a test, with the model of the first guide."""
    (tmp_path / "net.py").write_text(blocks("docs/guides/first-model.md")[0][1])
    return tmp_path


@pytest.mark.slow
def test_the_guide_to_a_first_model_runs_as_written(run: Commands, net: Path, monkeypatch: pytest.MonkeyPatch):
    (kind, _), (shell, commands), (python, script), *_ = blocks("docs/guides/first-model.md")
    assert (kind, shell, python) == ("python", "sh", "python")
    (net / "again.py").write_text(script)
    said = run(commands.splitlines())
    monkeypatch.syspath_prepend(str(net))
    runpy.run_path("again.py", run_name="__main__")
    sys.modules.pop("net", None)
    manifest = json.loads((net / "net-build" / "build.json").read_text())
    assert len(manifest["partitions"]) == 1
    assert "net.py:13 `x = self.pool(torch.relu(self.conv(x)))`" in said
    first, second = (json.loads((net / d / "build.json").read_text()) for d in ("net-build", "from-python"))
    assert first["files"]["model.pte"] == second["files"]["model.pte"]


@pytest.mark.slow
@pytest.mark.full
def test_the_guide_to_memory_runs_as_written(run: Commands, net: Path):
    said = run(commands_of("docs/guides/memory.md"))
    assert "npu 0 prefetch: " in said
    assert "in 2 stripes of up to " in said
    (total,) = re.findall(r"^total: ([\d.]+) us to ([\d.]+) us", said, re.MULTILINE)
    assert float(total[1]) < float(total[0]) / 5


@pytest.mark.slow
@pytest.mark.full
def test_the_guide_to_profiles_runs_as_written(run: Commands, tmp_path: Path):
    said = run(commands_of("docs/guides/profile.md"))
    assert "digits for imxrt700 on sim, simulated: " in said
    assert "digits for imxrt700 on host, measured: " in said


@pytest.mark.slow
def test_the_guide_to_firmware_runs_as_written(run_guide: Commands, tmp_path: Path):
    commands = commands_of("docs/guides/firmware.md")
    assert len(commands) == 9
    said = run_guide(commands)
    assert "digits on an505: selected kernels, weights in flash, inputs and outputs copied by cpu" in said
    assert "an547 and the host give the same bits for 1 sample" in said
    assert "4 of 17 kernels" in said
    assert '"kind": "counted"' in said
    assert (tmp_path / "digits-c" / "dtn_bundle.c").read_bytes() == (
        tmp_path / "digits-an505" / "dtn_bundle.c"
    ).read_bytes()


def test_the_guide_from_tflite_runs_as_written(run: Commands, tmp_path: Path):
    commands = commands_of("docs/guides/from-tflite.md")
    (tmp_path / "model.tflite").write_bytes(with_float_edges(emit(parse_graph(GRAPH))))
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((3, 1, 4, 4, 2)).astype(np.float32))
    keeps_state = recurrent_models.MODELS["svdf"](np.random.default_rng(0))
    (tmp_path / "wake_word.tflite").write_bytes(encode(keeps_state))
    shape = keeps_state.tensors[keeps_state.inputs[0]].shape
    np.save(tmp_path / "hops.npy", np.random.default_rng(0).integers(-128, 128, (5, *shape), np.int8))
    said = run(commands)
    assert len(commands) == 20
    for text in ("all bounds hold", "conv2d_s8", "QUANTIZE 0; DEQUANTIZE 4", "converted TFLite file", "CONV_2D  from "):
        assert text in said
    assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "y2.npy").read_bytes()


TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
"""The first trains a network, which takes longest."""


@pytest.mark.parametrize("page", full.only(TUTORIALS, *TUTORIALS[1:]), ids=lambda page: page.stem)
def test_a_tutorial_runs_as_written(page: Path, run_guide: Commands, tmp_path: Path):
    ((kind, commands),) = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert kind == "sh"
    for name in ("digits.tflite", "wake_word.py"):
        shutil.copyfile(ROOT / "examples" / name, tmp_path / name)
    assert run_guide(commands.splitlines())


def test_the_guide_to_kernel_selection_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    steps = [text for kind, text in blocks("docs/guides/kernel-selection.md") if kind == "sh"]
    assert len(steps) == 4
    monkeypatch.setenv("DEUTERON", str(ROOT))
    M33.compile(M33.program(tmp_path).with_suffix(".c"), tmp_path / "app.o")
    shutil.copyfile(M33.library(), tmp_path / "libdeuteron.a")
    (tmp_path / "keywords.tflite").write_bytes(emit(parse_graph(GRAPH)))
    (tmp_path / "images.tflite").write_bytes(parallel())
    said = run_in_shell([f"set -e\n{step}" for step in steps], tmp_path)
    held = said[said.index("app.elf: image") :].splitlines()
    wanted = {call.kernel.name for data in (emit(parse_graph(GRAPH)), parallel()) for call in calls(data)}
    assert held[0] == f"app.elf: image, {len(wanted)} of 17 kernels"
    assert {line.split()[1] for line in held[1:]} == wanted


def calls(tflite: bytes) -> Sequence[KernelCall]:
    return convert(tflite, "imxrt700").program.calls

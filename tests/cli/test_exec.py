"""Commands of ExecuTorch's and NXP's pages, word for word, with our converter in the place of the vendor's."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.test_inspect import GRAPH

from deuteron import api
from deuteron.errors import InputError, OptionError
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.sdk import execute as executed
from deuteron.npu.neutron.tflite.emit import emit

from .conftest import Result

Run = Callable[..., Result]

STAND_INS = {
    "torchvision/__init__.py": "from torchvision import models, transforms",
    "torchvision/models/__init__.py": "mobilenet_v2 = None",
    "torchvision/models/mobilenetv2.py": "MobileNet_V2_Weights = None",
    "torchvision/transforms.py": "",
    "model_explorer/__init__.py": "from model_explorer import config, consts\nvisualize_from_config = None",
    "model_explorer/config.py": "ModelExplorerConfig = None",
    "model_explorer/consts.py": "",
    "model_explorer/pytorch_exported_program_adater_impl.py": "PytorchExportedProgramAdapterImpl = None",
}
"""Modules that ExecuTorch's script imports and does not use here."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, with stand-ins for these modules in the import path."""
    for name, text in STAND_INS.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


AOT = "python -m executorch.examples.nxp.aot_neutron_compile -m linear --delegate --use_random_dataset"
MERGE = "python -m eiq_neutron_sdk.neutron_library_utils.merge_kernel_selection_code -input-files {} -output-file all.c"


@pytest.mark.full
@pytest.mark.slow
def test_executorchs_script_word_for_word(folder: Path) -> None:
    assert api.execute(AOT.split()) == 0
    nodes = api.explain(folder / "linear_nxp_delegate.pte").manifest.nodes
    assert [node.partition for node in nodes] == [None] * len(nodes), "it was not quantized"


def test_nxps_command_merges_what_the_converter_wrote(folder: Path) -> None:
    (folder / "net.tflite").write_bytes(emit(parse_graph(GRAPH)))
    (folder / "convert.py").write_text(
        "from pathlib import Path\n"
        "from eiq_neutron_sdk import neutron_converter as c\n"
        "context = c.CompilationContext()\n"
        "context.targetOpts = c.getNeutronTarget('imxrt700')\n"
        "context.compilationOpts.dumpKernelSelectionCode = True\n"
        "c.convertModel(list(Path('net.tflite').read_bytes()), context)\n"
    )
    assert api.execute(["python", "convert.py"]) == 0
    assert api.execute(MERGE.format("_kernel_selection.c").split()) == 0
    assert (folder / "all.c").read_bytes() == (folder / "_kernel_selection.c").read_bytes()


def test_what_our_converter_refuses_is_told(folder: Path, deuteron: Run) -> None:
    (folder / "script.py").write_text(
        "from eiq_neutron_sdk import neutron_converter as c\n"
        "context = c.CompilationContext()\n"
        "context.targetOpts = c.getNeutronTarget('imxrt700')\n"
        "c.convertModel([1, 2, 3], context)\n"
    )
    result = deuteron("exec", "--", "python", "script.py")
    assert result.code == 1
    assert result.err == (
        "refused in `python`: not a TFLite model: 3 bytes, of which 4 to 8 are b'' instead of b'TFL3'\n\n"
        "hint: make the file again; it is not what a TFLite exporter writes\n"
    )
    (folder / "goes_on.py").write_text("try:\n    import script\nexcept BaseException:\n    raise SystemExit(3)\n")
    assert deuteron("exec", "--", "python", "goes_on.py").code == 3


def test_the_commands_exit_code_and_interpreter_are_its_own(folder: Path, deuteron: Run) -> None:
    assert deuteron("exec", "--", "python", "-c", "raise SystemExit(7)") == Result(7, "", "")
    assert deuteron("exec", "--", "sh", "-c", "kill -9 $$") == Result(137, "", "")
    (folder / "which.py").write_text("import sys; open('prefix', 'w').write(sys.prefix)\n")
    assert api.execute(["python", "which.py"]) == 0
    assert (folder / "prefix").read_text() == sys.prefix


def test_nothing_is_hidden_or_left_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert api.execute(["python", "-c", "import eiq_neutron_sdk"]) == 0
    assert "eiq_neutron_sdk" not in sys.modules
    assert executed.VARIABLE not in os.environ
    monkeypatch.setattr(executed, "vendor_is_installed", lambda: True)
    with pytest.raises(OptionError, match="the vendor's package `eiq_neutron_sdk` is installed, and is never hidden"):
        api.execute(["python", "-c", ""])


def test_a_command_that_is_none_is_named(folder: Path) -> None:
    with pytest.raises(InputError, match="`no-such-command` cannot be run: No such file or directory"):
        api.execute(["no-such-command"])

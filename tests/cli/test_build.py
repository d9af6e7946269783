"""`deuteron build`: what is refused before any work, each with its exact text."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Result

Run = Callable[..., Result]


@pytest.mark.parametrize(
    ("args", "code", "err"),
    [
        (
            ["digits", "-o", "out", "--target", "imxrt70"],
            2,
            "error: unknown target `imxrt70`\n\n"
            "hint: did you mean `imxrt700`, `imxrt700cm`? `deuteron targets` lists all\n",
        ),
        (
            ["digits"],
            2,
            "error: missing option `-o` / `--output`\n\nhint: `deuteron build --help` lists the options\n",
        ),
        (
            ["digits", "-o", "out", "--converter", "closed"],
            2,
            "error: unknown converter `closed`\n\n"
            "hint: choose `open` (Deuteron's own) or `vendor` (NXP's eiq_neutron_sdk)\n",
        ),
        (
            ["digits", "-o", "out", "--activations", "int4"],
            2,
            "error: unknown value `int4` of `--activations`\n\nhint: choose one of `int8`, `int16`\n",
        ),
        (
            ["digits", "-o", "out", "--activations", "int16", "--target", "imxrt700cm"],
            2,
            "error: `imxrt700cm` does not support `--activations int16`; CPU-only and Ethos-U targets do\n\nhint: "
            "choose one of those, such as `cortex-m55`, or use int8 activations\n",
        ),
        (
            ["digits", "-o", "out", "--activations", "int16", "--target", "cortex-m55", "--use-qat"],
            2,
            "error: `--use-qat` trains for int8 activations\n\n"
            "hint: leave out `--use-qat` or `--activations int16`; int16 activations need no training\n",
        ),
        (
            ["digits", "-o", "out", "--calibration-method", "minmax", "--use-qat"],
            2,
            "error: `--use-qat` and `--calibration-method minmax` exclude each other: training adapts the "
            "ranges\n\nhint: leave out one of them\n",
        ),
        (
            ["digits", "-o", "out", "--equalise", "--use-qat"],
            2,
            "error: `--use-qat` and `--equalise` exclude each other: training corrects this error\n\n"
            "hint: leave out one of them\n",
        ),
        (
            ["digits", "-o", "out", "--min-sqnr", "0"],
            2,
            "error: `--min-sqnr 0` is not above 0 and at most 150 dB\n",
        ),
        (
            ["digits", "-o", "out", "--min-sqnr", "30", "--target", "imxrt700"],
            2,
            "error: `--min-sqnr` gives some layers int16 activations, but `imxrt700` has no operators for both int8 "
            "and int16\n\nhint: choose a target whose CPU has them, such as `cortex-m55` or `imxrt700cm`\n",
        ),
        (
            ["digits", "-o", "out", "--min-sqnr", "30", "--target", "ethos-u55-128"],
            2,
            "error: `--min-sqnr` gives some layers int16 activations, but `ethos-u55-128` has no operators for both "
            "int8 and int16\n\nhint: choose a target whose CPU has them, such as `cortex-m55` or `imxrt700cm`, or "
            "use `--activations int16`\n",
        ),
        (
            ["digits", "-o", "out", "--min-sqnr", "30", "--activations", "int16", "--target", "cortex-m55"],
            2,
            "error: `--min-sqnr` and `--activations int16` exclude each other: the latter applies to all layers\n\n"
            "hint: leave out one of them\n",
        ),
        (
            ["digits", "-o", "out", "--train", "digits.py:train"],
            2,
            "error: `--train` is given without `--use-qat`\n\nhint: give both, or neither\n",
        ),
        (
            ["digits", "-o", "out", "--sram-budget", "16Zi"],
            2,
            "error: `16Zi` is no size for `--sram-budget`\n\n"
            "hint: give bytes, or a number with k, Ki, M, Mi, G or Gi: `512Ki`, `1.5M`\n",
        ),
        (
            ["digits", "-o", "out", "--weights-budget", "-5"],
            2,
            "error: `-5` is no size for `--weights-budget`\n\n"
            "hint: give bytes, or a number with k, Ki, M, Mi, G or Gi: `512Ki`, `1.5M`\n",
        ),
        (
            ["digits", "-o", "out", "--flash-bandwidth", "fast"],
            2,
            "error: `fast` is no rate for `--flash-bandwidth`\n\n"
            "hint: give bytes per second, or a number with k, Ki, M, Mi, G or Gi: `100MB/s`\n",
        ),
        (
            ["digits", "-o", "out", "--sram-budget", "0"],
            2,
            "error: `--sram-budget` is 0, it must be above 0\n",
        ),
        (
            ["digits", "-o", "out", "--sram-budget", "30M"],
            2,
            "error: `--sram-budget` is 30,000,000 bytes, the SRAM of `imxrt700` only 7,864,320\n\n"
            "hint: give less, or leave it out to use all of it\n",
        ),
        (
            ["digits", "-o", "out", "--target", "cortex-m33", "--weights-budget", "64Ki"],
            2,
            "error: `--weights-budget` is for an NPU's program, `cortex-m33` has no NPU\n\n"
            "hint: leave it out, or choose another target: `deuteron targets` lists them\n",
        ),
        (
            ["digits", "-o", "out", "--target", "cortex-m33", "--fetch-constants-to-sram"],
            2,
            "error: `--fetch-constants-to-sram` is for an NPU's program, `cortex-m33` has no NPU\n\n"
            "hint: leave it out, or choose another target: `deuteron targets` lists them\n",
        ),
        (
            ["digits", "-o", "out", "--sram-budget", "512Ki", "--weights-budget", "1Mi"],
            2,
            "error: `--weights-budget` is 1,048,576 bytes, `--sram-budget` only 524,288\n\n"
            "hint: weights and intermediate results share the SRAM budget: lower one or raise "
            "the other\n",
        ),
        (
            ["digits", "-o", "out", "--weights-budget", "8Mi"],
            2,
            "error: `--weights-budget` is 8,388,608 bytes, the SRAM of `imxrt700` only 7,864,320\n\n"
            "hint: weights and intermediate results share the SRAM budget: lower one or raise "
            "the other\n",
        ),
        (
            ["digits", "-o", "out", "--weights-budget", "64Ki", "--fetch-constants-to-sram", "never"],
            2,
            "error: `--weights-budget` is for weights that are fetched, `--fetch-constants-to-sram never` fetches "
            "none\n\nhint: leave out one of the two; `--sram-budget` limits intermediate results and weights "
            "together\n",
        ),
        (
            ["digits", "-o", "out", "--flash-bandwidth", "0"],
            2,
            "error: `--flash-bandwidth` is 0, it must be above 0\n",
        ),
        (
            ["digits", "-o", "out", "--operators-not-to-delegate", "aten::relu,,aten::add"],
            2,
            "error: `` is not an operator name\n\n"
            "hint: give one edge operator per item, for example `aten::convolution`\n",
        ),
        (
            ["digit", "-o", "out"],
            1,
            "error: `digit` is neither an example model nor of the form `file.py:function`\n\n"
            "hint: did you mean `digits`?\n",
        ),
        (
            ["nte.py:net", "-o", "out"],
            1,
            "error: the model file `nte.py` does not exist\n\nhint: did you mean `net.py`?\n",
        ),
        (
            ["net.py", "-o", "out"],
            1,
            "error: `net.py` names a file but no function\n\nhint: write `net.py:FUNCTION`; the function must "
            "return `module, example_inputs` or `module, example_inputs, calibration_batches`\n",
        ),
        (
            ["net.py:nte", "-o", "out"],
            1,
            "error: `net.py` has no function named `nte`\n\nhint: did you mean `net.py:net`?\n",
        ),
    ],
)  # fmt: skip
def test_refused(deuteron: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], code: int, err: str):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("def net():\n    return 1\n")
    assert deuteron("build", *args) == Result(code, "", err)
    assert not Path("out").exists()


def test_an_existing_directory_is_not_overwritten(deuteron: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    assert deuteron("build", "digits", "-o", "out") == Result(
        2,
        "",
        "error: `out` has files but no `build.json`, so it is not replaced\n\nhint: choose another output directory, "
        "or empty this one yourself\n",
    )
    assert deuteron("build", "digits", "-o", "out", "--force") == Result(
        2,
        "",
        "error: `out` has files but no `build.json`, so it is not replaced\n\nhint: choose another output directory, "
        "or empty this one yourself\n",
    )
    assert Path("out/notes.txt").read_text() == "mine"


def test_what_is_wrong_with_the_options_is_told_before_torch_is_loaded(tmp_path: Path):
    code = (
        "import sys\nfrom deuteron.cli import main\n"
        "try: main(['build', 'digits', '-o', 'out', '--target', 'x'])\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "False\n"

"""Models that do not fit, as a user meets them: `build` names lines of the PyTorch model, `convert` TFLite's names."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Result
from .memory_model import MODEL

Run = Callable[..., Result]

NEVER = ("--fetch-constants-to-sram", "never")
WHOLE = ("--depth-first", "never")
NAME = "quantized_decomposed_dequantize_per_tensor_default"
WEIGHTS = "quantized_decomposed_dequantize_per_channel_default"
RESULTS = (
    f"{{b}}op 4: 4,096 bytes, `{NAME}_5` of `conv2d_s8`",
    f"{{a}}op 1: 2,048 bytes, `{NAME}_3` of `conv2d_s8`",
    f"{{b}}op 4: 640 bytes, `{NAME}_5/workspace` of `conv2d_s8`",
)
LARGEST = f"{{b}}op 4: 1,152 bytes, weights `{WEIGHTS}_2` of `conv2d_s8`"
FACTORS = f"{{b}}op 4: 128 bytes, weights `{NAME}_5/requant` of `conv2d_s8`"
BIAS = f"{{b}}op 4: 64 bytes, weights `{WEIGHTS}_3` of `conv2d_s8`"
FIRST = f"{{a}}op 1: 224 bytes, weights `{WEIGHTS}` of `conv2d_s8`"
PLACE = "{b}kernel call 2, `conv2d_s8` of op 4"
ALIVE = "the peak is here; the largest values are:\n  " + "\n  ".join(RESULTS)
SMALLER = "hint: make these values smaller (a smaller input, fewer channels, a stride earlier)"
TOO_MUCH = (
    f"error: {PLACE}: intermediate results need 6,784 bytes of SRAM, 4,096 are available; {ALIVE}\n\n"
    f"{SMALLER}, or give `--sram-budget 8672` or more\n"
)
TENSORS = "3,840 for inputs, outputs and CPU tensors"
BUILDS = {
    ("--sram-budget", "4Ki", *NEVER): (
        f"error: {PLACE}: intermediate results need 6,784 bytes of SRAM besides {TENSORS}, 4,096 are available; {ALIVE}"
        f"\n\n{SMALLER}, or give `--sram-budget 12512` or more\n"
    ),
    ("--sram-budget", "11968", *NEVER): (
        f"error: {PLACE}: 12,512 bytes of SRAM are needed, 6,784 for intermediate results, whose peak is "
        f"here, and 1,888 for weights besides {TENSORS}; 11,968 are available; the largest values are:\n  "
        + "\n  ".join((*RESULTS[:2], LARGEST, RESULTS[2], FIRST))
        + "\n\nhint: fetch weights from flash with `--fetch-constants-to-sram auto`: 11,968 bytes are enough then, or "
        "give `--sram-budget 12512` or more\n"
    ),
    ("--sram-budget", "11952"): (
        f"error: {PLACE}: 11,968 bytes of SRAM are needed, 6,784 for intermediate results and 1,344 for the weights of "
        f"this call besides {TENSORS}; 11,952 are available; the largest values are:\n  "
        + "\n  ".join((*RESULTS[:2], LARGEST, RESULTS[2], FACTORS))
        + "\n\nhint: split this layer into smaller ones, or give `--sram-budget 11968` or more\n"
    ),
}
"""Options of a build, and the error: what ExecuTorch plans counts, too."""


OTHERS = {
    ("--sram-budget", "8Ki", *NEVER): (
        f"error: {PLACE}: 8,672 bytes of SRAM are needed, 6,784 for intermediate results, whose peak is "
        "here, and 1,888 for weights; 8,192 are available; the largest values are:\n  "
        + "\n  ".join((*RESULTS[:2], LARGEST, RESULTS[2], FIRST))
        + "\n\nhint: fetch weights from flash with `--fetch-constants-to-sram auto`: 8,128 bytes are enough then, or "
        "give `--sram-budget 8672` or more\n"
    ),
    ("--sram-budget", "8000"): (
        f"error: {PLACE}: 8,128 bytes of SRAM are needed, 6,784 for intermediate results and 1,344 for the weights of "
        "this call; 8,000 are available; the largest values are:\n  "
        + "\n  ".join((*RESULTS[:2], LARGEST, RESULTS[2], FACTORS))
        + "\n\nhint: split this layer into smaller ones, or give `--sram-budget 8128` or more\n"
    ),
    ("--weights-budget", "1Ki"): (
        f"error: {PLACE}: the weights of this call need 1,344 bytes of SRAM at once, `--weights-budget` allows 1,024; "
        "the largest are:\n  "
        f"{LARGEST}\n  {FACTORS}\n  {BIAS}"
        "\n\nhint: split this layer into smaller ones, or give `--weights-budget 1344` or more\n"
    ),
}
"""Options of a conversion, and the error."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's file."""
    path = tmp_path_factory.mktemp("model") / "net.py"
    path.write_text(MODEL)
    return path


def _lines(text: str, path: Path | None) -> str:
    """The text with the places of the model's two convolutions, or without any."""
    if path is None:
        return text.format(a="", b="")
    return text.format(a=f"{path}:13: `x = self.a(x).relu()`: ", b=f"{path}:14: `x = self.b(x).relu()`: ")


def test_the_error_of_a_build_names_lines_of_the_model(deuteron: Run, model: Path) -> None:
    """The size in its last error is enough, as the tests of `deuteron sim` show."""
    output = model.parent / "out"
    args = ("build", f"{model}:net", "-o", output, "-q", *WHOLE)
    for options, told in BUILDS.items():
        assert deuteron(*args, *options) == Result(1, "", _lines(told, model))
    assert not output.exists()


def test_the_error_of_a_conversion_names_operators(deuteron: Run, model: Path) -> None:
    output = model.parent / "out"
    assert deuteron("build", f"{model}:net", "-o", output, "-q", "--intermediates").code == 0
    source, converted = output / "npu_0.tflite", output / "converted.tflite"
    args = ("convert", source, "-o", converted, "-q", *WHOLE)
    assert deuteron(*args, "--sram-budget", "4Ki", *NEVER) == Result(1, "", _lines(TOO_MUCH, None))
    for options, told in OTHERS.items():
        assert deuteron(*args, *options) == Result(1, "", _lines(told, None))
    assert not converted.exists()
    assert deuteron(*args, "--sram-budget", "8128").code == 0
    assert deuteron(*args, "--weights-budget", "1344", "--force").code == 0

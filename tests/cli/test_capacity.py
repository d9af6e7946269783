"""Models that do not fit, as a user meets them: `build` names lines of the PyTorch model, `convert` TFLite's names."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Result
from .memory_model import MODEL

Run = Callable[..., Result]

NEVER = ("--fetch-constants-to-sram", "never")
NAME = "quantized_decomposed_dequantize_per_tensor_default"
RESULTS = (
    f"{{b}}op 4: 4,096 bytes, `{NAME}_5` of `conv2d_s8`",
    f"{{a}}op 1: 2,048 bytes, `{NAME}_3` of `conv2d_s8`",
    f"{{b}}op 4: 640 bytes, `{NAME}_5/workspace` of `conv2d_s8`",
)
TOO_MUCH = (
    "error: {b}kernel call 2, `conv2d_s8` of op 4: intermediate results need 6,784 bytes of SRAM, 4,096 are available; "
    "most are alive here, the largest are:\n  "
    + "\n  ".join(RESULTS)
    + "\n\nhint: make what is alive there smaller (a smaller input, fewer channels, a stride earlier), or give "
    "`--sram-budget 8672` or more\n"
)


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
    output = model.parent / "out"
    args = ("build", f"{model}:net", "-o", output, "-q")
    assert deuteron(*args, "--sram-budget", "4Ki", *NEVER) == Result(1, "", _lines(TOO_MUCH, model))
    assert not output.exists()
    assert deuteron(*args, "--intermediates").code == 0
    source, converted = output / "npu_0.tflite", output / "converted.tflite"
    args = ("convert", source, "-o", converted, "-q")
    assert deuteron(*args, "--sram-budget", "4Ki", *NEVER) == Result(1, "", _lines(TOO_MUCH, None))
    assert not converted.exists()

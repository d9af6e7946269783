"""The generated C headers are current, and stand for the Python definitions."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from deuteron.npu.neutron.kernels.catalogue import KERNELS

CHECKOUT = Path(__file__).parents[2]
GENERATOR = CHECKOUT / "tools" / "gen_headers.py"
INCLUDE = Path("firmware") / "include" / "deuteron"
HEADERS = (
    *(
        INCLUDE / name
        for name in (
            "microcode.h",
            "cortex_m.h",
            "custom_ops.h",
            "aten.h",
            "tflite.h",
            "tflite_signal.h",
            "tflite_unquantized.h",
            "version.h",
        )
    ),
    Path("firmware") / "executorch" / "runner" / "operator_outputs.h",
)


def run(generator: Path) -> subprocess.CompletedProcess[str]:
    """`generator --check`."""
    return subprocess.run([sys.executable, generator, "--check"], capture_output=True, text=True, check=False)


def test_committed_headers_are_current() -> None:
    done = run(GENERATOR)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("stale", HEADERS, ids=lambda header: header.name)
def test_stale_header_is_found(stale: Path, tmp_path: Path) -> None:
    generator = tmp_path / "tools" / "gen_headers.py"
    generator.parent.mkdir()
    generator.write_bytes(GENERATOR.read_bytes())
    for header in HEADERS:
        text = (CHECKOUT / header).read_text()
        (tmp_path / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / header).write_text(text + "/* an edit */\n" if header == stale else text)
    done = run(generator)
    assert done.returncode == 1
    assert done.stderr == f"error: {stale.name} is stale\n\nhint: run tools/gen_headers.py\n"


def test_the_version_is_that_of_pyproject() -> None:
    release: str = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    text = (CHECKOUT / INCLUDE / "version.h").read_text()
    defined: dict[str, str] = dict(re.findall(r"^#define (DTN_VERSION_[A-Z]+) (\S+)$", text, re.MULTILINE))
    major, minor, patch = release.split(".")
    assert defined == {
        "DTN_VERSION_MAJOR": major,
        "DTN_VERSION_MINOR": minor,
        "DTN_VERSION_PATCH": patch,
        "DTN_VERSION_STRING": f'"{release}"',
    }


def test_every_kernel_and_field_is_there() -> None:
    text = (CHECKOUT / INCLUDE / "microcode.h").read_text()
    for kernel in KERNELS:
        assert f"DTN_KERNEL_{kernel.name.upper()} = {kernel.kind},\n" in text
        record = text[: text.index(f"}} dtn_{kernel.name}_params_t;")].rpartition("typedef struct {\n")[2]
        lengths = ((name, f"[{count}]" if count > 1 else "") for name, count in kernel.params.field_words())
        assert record == "".join(f"    int32_t {name}{length};\n" for name, length in lengths)

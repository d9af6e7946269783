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
INCLUDE = CHECKOUT / "firmware" / "include" / "deuteron"
NAMES = ("microcode.h", "cortex_m.h", "added.h", "aten.h", "version.h")


def run(generator: Path) -> subprocess.CompletedProcess[str]:
    """`generator --check`."""
    return subprocess.run([sys.executable, generator, "--check"], capture_output=True, text=True, check=False)


def test_committed_headers_are_current() -> None:
    done = run(GENERATOR)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("stale", NAMES)
def test_stale_header_is_found(stale: str, tmp_path: Path) -> None:
    generator = tmp_path / "tools" / "gen_headers.py"
    include = tmp_path / "firmware" / "include" / "deuteron"
    generator.parent.mkdir()
    include.mkdir(parents=True)
    generator.write_bytes(GENERATOR.read_bytes())
    for name in NAMES:
        text = (INCLUDE / name).read_text()
        (include / name).write_text(text + "/* an edit */\n" if name == stale else text)
    done = run(generator)
    assert done.returncode == 1
    assert done.stderr == f"error: {stale} is stale\n\nhint: run tools/gen_headers.py\n"


def test_the_version_is_that_of_pyproject() -> None:
    release: str = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    text = (INCLUDE / "version.h").read_text()
    defined: dict[str, str] = dict(re.findall(r"^#define (DTN_VERSION_[A-Z]+) (\S+)$", text, re.MULTILINE))
    major, minor, patch = release.split(".")
    assert defined == {
        "DTN_VERSION_MAJOR": major,
        "DTN_VERSION_MINOR": minor,
        "DTN_VERSION_PATCH": patch,
        "DTN_VERSION_STRING": f'"{release}"',
    }


def test_every_kernel_and_field_is_there() -> None:
    text = (INCLUDE / "microcode.h").read_text()
    for kernel in KERNELS:
        assert f"DTN_KERNEL_{kernel.name.upper()} = {kernel.kind},\n" in text
        record = text[: text.index(f"}} dtn_{kernel.name}_params_t;")].rpartition("typedef struct {\n")[2]
        lengths = ((name, f"[{count}]" if count > 1 else "") for name, count in kernel.params.field_words())
        assert record == "".join(f"    int32_t {name}{length};\n" for name, length in lengths)

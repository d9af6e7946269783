"""The C++ of `firmware/executorch`, compiled with all warnings and run: driver API and payload parser."""

import subprocess
from pathlib import Path

import pytest

from deuteron.native import LIBRARY_DIRECTORY, library
from deuteron.runtime.build_native import CHECKOUT, executorch_root

SOURCES = CHECKOUT / "firmware" / "executorch"
WARNINGS = ("-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror")


def compile_and_run(output: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    include = f"-I{CHECKOUT / 'firmware' / 'include'}"
    subprocess.run(("c++", "-std=c++17", *WARNINGS, include, *arguments, "-o", str(output)), check=True)
    return subprocess.run((str(output),), capture_output=True, text=True, check=False)


def test_driver_api_is_the_one_that_executorchs_delegate_uses(tmp_path: Path) -> None:
    arguments = (str(SOURCES / "tests" / "api_compat.cpp"), str(library("driver")), f"-Wl,-rpath,{LIBRARY_DIRECTORY}")
    done = compile_and_run(tmp_path / "api_compat", *arguments)
    assert (done.returncode, done.stdout) == (0, "")


def run_with_executorch(program: Path, *sources: str) -> subprocess.CompletedProcess[str]:
    """A run of sources of `firmware/executorch`, built with the sanitizers against the installed ExecuTorch."""
    root = executorch_root()
    headers = root / "include"
    c10 = headers / "executorch" / "runtime" / "core" / "portable_type" / "c10"
    return compile_and_run(
        program,
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-DC10_USING_CUSTOM_GENERATED_MACROS",
        f"-I{SOURCES}",
        "-isystem",
        str(headers),
        "-isystem",
        str(c10),
        *(str(SOURCES / source) for source in sources),
        str(root / "lib" / "libexecutorch.so"),
        f"-Wl,-rpath,{root / 'lib'}",
    )


@pytest.mark.slow
def test_payload_parser_refuses_damage_and_reads_nothing_outside(tmp_path: Path) -> None:
    done = run_with_executorch(tmp_path / "payload_test", "tests/payload_test.cpp", "payload.cpp")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[-2000:]
    assert "Payload has version 2, 0 and 1 are known" in done.stderr
    assert "Microcode is not Deuteron's: word 1 is 0x00000000" in done.stderr
    assert "Input 0 is mapped to argument 2 of 2" in done.stderr


@pytest.mark.slow
def test_bindings_refuse_other_tensors_and_reorder_every_rank(tmp_path: Path) -> None:
    done = run_with_executorch(tmp_path / "layout_test", "tests/layout_test.cpp", "layout.cpp")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[-2000:]
    assert [line.partition("] ")[2] for line in done.stderr.splitlines() if "layout.cpp" in line] == [
        "Input 7 has elements of type Byte, the NPU's are Char",
        "Output 7 has elements of type Float, the NPU's are Char",
        "Output 7 has 24 bytes, the microcode 25",
        "Input 7 has an unsupported dim order; allowed: contiguous, channels last",
        "Input 7 has an unsupported dim order; allowed: contiguous",
        "Input 7 has an unsupported dim order; allowed: contiguous, channels last",
        "No 24 bytes to reorder Input 7",
    ]

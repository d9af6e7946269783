"""The C++ of `firmware/executorch`, compiled with all warnings and run: driver API and payload parser."""

import subprocess
from pathlib import Path

import pytest

from deuteron.runtime.build_native import CHECKOUT, executorch_root
from deuteron.runtime.native import LIBRARY_DIRECTORY, library

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


@pytest.mark.slow
def test_payload_parser_refuses_damage_and_reads_nothing_outside(tmp_path: Path) -> None:
    root = executorch_root()
    headers = root / "include"
    c10 = headers / "executorch" / "runtime" / "core" / "portable_type" / "c10"
    done = compile_and_run(
        tmp_path / "payload_test",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-DC10_USING_CUSTOM_GENERATED_MACROS",
        f"-I{SOURCES}",
        "-isystem",
        str(headers),
        "-isystem",
        str(c10),
        str(SOURCES / "tests" / "payload_test.cpp"),
        str(SOURCES / "payload.cpp"),
        str(root / "lib" / "libexecutorch.so"),
        f"-Wl,-rpath,{root / 'lib'}",
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout == ""
    assert "Payload has version 2, 0 and 1 are known" in done.stderr
    assert "Microcode is not Deuteron's: word 1 is 0x00000000" in done.stderr
    assert "Input 0 is mapped to argument 2 of 2" in done.stderr

"""The C++ of `firmware/executorch`, compiled with all warnings and run: API, payloads, bindings, operators, log."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import full

from deuteron.native import LIBRARY_DIRECTORY, library
from deuteron.runtime.build_native import CHECKOUT, executorch_root

SOURCES = CHECKOUT / "firmware" / "executorch"
WARNINGS = ("-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror")


def compile_and_run(output: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    include = f"-I{CHECKOUT / 'firmware' / 'include'}"
    subprocess.run(("c++", "-std=c++17", *WARNINGS, include, *arguments, "-o", str(output)), check=True)
    return subprocess.run((str(output),), capture_output=True, text=True, check=False)


OPTIONS = ("-DEXTERNAL_MEM", "-DNO_HEAP_USAGE=1", "-DNEUTRON_NPU_POWER_GATING")


@pytest.mark.parametrize(
    ("options", "copies_from_const"), full.first([((), False), (OPTIONS, True), ((), True), (OPTIONS, False)], 2)
)
def test_driver_api_is_the_one_that_executorchs_delegate_uses(
    options: tuple[str, ...], copies_from_const: bool, tmp_path: Path
) -> None:
    source = ("-DDTN_COPY_FROM_CONST",) if copies_from_const else ()
    arguments = (str(SOURCES / "tests" / "api_compat.cpp"), str(library("driver")), f"-Wl,-rpath,{LIBRARY_DIRECTORY}")
    done = compile_and_run(tmp_path / "api_compat", *options, *source, *arguments)
    assert (done.returncode, done.stdout) == (0, "")


def test_arms_driver_api_is_the_one_that_executorchs_delegate_uses(tmp_path: Path) -> None:
    source = str(SOURCES / "tests" / "ethosu_compat.cpp")
    done = compile_and_run(
        tmp_path / "ethosu_compat", source, str(library("ethosu_driver")), f"-Wl,-rpath,{LIBRARY_DIRECTORY}"
    )
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
    assert [line.partition("] ")[2] for line in done.stderr.splitlines() if ".cpp" in line or "overlap.h" in line] == [
        *("The copy of Input 7 failed", "The copy of Output 7 failed") * 4,
        "Input 7 has elements of type Byte, the NPU's are Char",
        "Output 7 has elements of type Float, the NPU's are Char",
        "Output 7 has 24 bytes, the microcode 25",
        "Input 7 has an unsupported dim order; allowed: contiguous, channels last",
        "Input 7 has an unsupported dim order; allowed: contiguous",
        "Input 7 has an unsupported dim order; allowed: contiguous, channels last",
        "No 24 bytes to reorder Input 7",
        "Output 0 shares memory with the payload",
        "Output 1 shares memory with the payload",
        "Output 0 shares memory with input 1",
        "Output 1 shares memory with output 0",
    ]


@pytest.fixture(scope="session")
def sanitized() -> Path:
    """Where CMake builds the programs of `firmware/executorch/tests`, with the sanitizers; configured."""
    build = CHECKOUT / "build" / "executorch-tests"
    options = ("-DDTN_TESTS=ON", "-DDTN_SANITIZE=ON", "-DDTN_EXECUTORCH=ON", f"-DEXECUTORCH_ROOT={executorch_root()}")
    command = ("cmake", "-S", str(CHECKOUT / "firmware"), "-B", str(build), *options)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return build


def built(build: Path, name: str) -> Path:
    """A program of `firmware/executorch/tests`, up to date."""
    command = ("cmake", "--build", str(build), "--target", name, "--parallel", str(os.cpu_count() or 1))
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return build / "executorch" / "tests" / name


@pytest.mark.slow
def test_cortex_m_operators_refuse_what_no_sound_program_has(sanitized: Path) -> None:
    program = built(sanitized, "cortex_m_test")
    done = subprocess.run((program,), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[-2000:]
    assert [line.partition("] ")[2] for line in done.stderr.splitlines()] == [
        "cortex_m::softmax cannot run: it has more rows than 32 bits can count",
        "cortex_m::softmax cannot run: a tensor has no memory",
        "cortex_m::softmax cannot run: a tensor has no memory",
        "cortex_m::softmax cannot run: the dim order of a tensor has an invalid dimension",
        "cortex_m::transpose cannot run: an argument is not a list of integers",
        "cortex_m::transpose cannot run: its tensors and numbers do not fit together, or are out of range",
        "aten::cat cannot run: its tensors differ in size",
        "aten::cat cannot run: its tensors differ in size",
        "aten::cat cannot run: an argument is not a list of tensors",
        "cortex_m::quantized_avg_pool2d cannot run: an output shares memory with another tensor",
    ]


@pytest.mark.full
@pytest.mark.slow
def test_mutated_programs_are_refused_or_run(sanitized: Path, tmp_path: Path) -> None:
    """A slice of `make bench-fuzz-pte`."""
    from benches import fuzz_pte

    command = (built(sanitized, "fuzz_pte"), "6", "1", *fuzz_pte.programs(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.full
def test_mutated_partitions_of_an_ethos_u_are_refused_or_run(sanitized: Path, tmp_path: Path) -> None:
    """A slice of `make bench-fuzz-ethosu`."""
    from benches import fuzz_ethosu

    command = (built(sanitized, "fuzz_ethosu"), "50", "1", *fuzz_ethosu.partitions(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


LOG = """
import ctypes, sys, threading

runtime, delegate = (ctypes.CDLL(path) for path in sys.argv[1:])
show = runtime._ZN10executorch7runtime20pal_emit_log_messageEm18et_pal_log_level_tPKcS3_mS3_m


def log(level, text):
    show(ctypes.c_ulong(0), ord(level), b"any.cpp", b"any", ctypes.c_size_t(7), text, ctypes.c_size_t(len(text)))


def taken():
    buffer = ctypes.create_string_buffer(64)
    delegate.deuteron_take_log(buffer, len(buffer))
    return buffer.value.decode()


log("I", b"loaded")
log("E", b"wrong, loaded")
delegate.deuteron_keep_log()
log("I", b"kept")
log("E", b"wrong")
log("E", b"wrong, too")
elsewhere = threading.Thread(target=log, args=("E", b"wrong, elsewhere"))
elsewhere.start()
elsewhere.join()
print(taken(), end="")
log("E", b"wrong, after")
print(taken(), end="")
delegate.deuteron_keep_log()
log("E", b"forgotten")
delegate.deuteron_keep_log()
log("E", 60 * b"." + b"long")
print(taken(), end="")
"""


def test_the_runtime_logs_no_news_and_keeps_errors() -> None:
    runtime = executorch_root() / "lib" / "libexecutorch.so"
    command = (sys.executable, "-c", LOG, str(runtime), str(library("delegate")))
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "wrong\nwrong, too\n" + 60 * "." + "lon"
    assert [line.partition("any.cpp:7] ")[2] for line in done.stderr.splitlines()] == [
        "loaded",
        "wrong, loaded",
        "wrong, elsewhere",
        "wrong, after",
    ]

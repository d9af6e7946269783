"""The C tests: built with the sanitizers, every warning an error, and run by ctest; one Python test for each.

All run under the address and undefined-behaviour sanitizers, those with threads under the thread sanitizer, too, which
cannot be in one program with them.
"""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
BUILD = CHECKOUT / "build" / "firmware-tests"
PROGRAMS = (
    "test_requant",
    "test_kernels",
    "test_kernels_device",
    "test_weight_panels",
    "test_weight_panels_device",
    "test_container",
    "test_fetches",
    "test_driver",
    "test_calls",
    "test_parameter_limits",
    "test_bundle",
    "test_executor",
    "test_steps",
    "test_bind",
    "test_shared_memories",
    "test_faults",
    "test_resident_weights",
    "test_io_in_scratch",
    "test_aten",
    "test_crc32_0",
    "test_crc32_1",
    "test_threads",
    "test_state",
    "test_harness",
    "test_cache",
    "test_cache_ethosu",
    "test_npu_cycles",
    "test_port",
    "test_ethosu_waits",
    "test_cortex_m_layers",
    "test_cortex_m_elements",
    "test_kernels_device_dsp",
    "test_cortex_m_layers_dsp",
    "test_cortex_m_elements_dsp",
    "test_ethosu",
    "test_ethosu_85",
    "test_ethosu_85_elements",
    "test_ethosu_85_products",
    "test_ethosu_85_refusals",
    "test_ethosu_85_copies",
    "test_ethosu_85_branch",
    "test_ethosu_faults",
    "test_ethosu_driver",
    "test_ethosu_driver_1",
    "test_ethosu_watch",
    "test_ethosu_threads",
    "test_ethosu_executors",
    "test_arm_io",
    "test_npu_ethosu",
    "test_npu_ethosu_whole",
    "fuzz_driver",
    "fuzz_bundle",
    "fuzz_decompress",
    "fuzz_driver_dsp",
)
THREADED = ("test_threads", "test_state", "test_ethosu_threads", "test_ethosu_executors", "test_arm_io")


def command(*words: str | Path) -> str:
    """Output of a command, which must succeed."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def built(directory: Path, sanitize: str, *targets: str) -> Path:
    """The build directory of the C tests with these sanitizers, up to date; all targets unless some are named."""
    options = ("-DDTN_TESTS=ON", f"-DDTN_SANITIZE={sanitize}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    command("cmake", "-S", CHECKOUT / "firmware", "-B", directory, *options)
    chosen = ("--target", *targets) if targets else ()
    command("cmake", "--build", directory, "--parallel", str(os.cpu_count() or 1), *chosen)
    return directory


@pytest.fixture(scope="module")
def build() -> Path:
    return built(BUILD, "ON")


@pytest.fixture(scope="module")
def threads() -> Path:
    """The directory of the programs with threads, under the thread sanitizer."""
    return built(BUILD.with_name("firmware-tests-threads"), "thread", *THREADED) / "tests"


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(build: Path, name: str) -> None:
    output = command("ctest", "--test-dir", build, "--output-on-failure", "--tests-regex", f"^{name}$")
    assert "100% tests passed, 0 tests failed out of 1" in output


def test_every_file_is_c99_for_any_processor_without_fused_products(build: Path) -> None:
    compiled = json.loads((build / "compile_commands.json").read_text())
    assert len(compiled) > len(PROGRAMS)
    for entry in compiled:
        assert {"-std=c99", "-ffp-contract=off"} <= set(shlex.split(entry["command"])), entry["file"]
        assert "-march=" not in entry["command"], entry["file"]


@pytest.mark.parametrize("name", THREADED)
def test_what_may_happen_at_the_same_time_does_not_race(threads: Path, name: str) -> None:
    assert command(threads / name) == ""


def test_the_thread_sanitizer_reports_what_may_not(threads: Path) -> None:
    done = subprocess.run((threads / "test_threads", "race"), capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "WARNING: ThreadSanitizer: data race" in done.stderr
    assert "neutronRunBlocking" in done.stderr


def test_every_program_is_run_here(build: Path) -> None:
    listed: list[str] = re.findall(r"Test +#\d+: (\S+)", command("ctest", "--test-dir", build, "--show-only"))
    assert listed == list(PROGRAMS)


def test_own_table_links_only_its_kernels(build: Path) -> None:
    program = build / "tests" / "kernel_override"
    command(program)
    linked: set[str] = set(re.findall(r" T (dtn_k_\w+)", command("nm", program)))
    assert linked == {"dtn_k_lut_s8"}

"""The module of Zephyr, as far as can be had without Zephyr: descriptions, Kconfig, CMake, linker snippets and port.

`consumer_zephyr` has the functions, macros and headers of Zephyr that the module uses, under the names and with the
arguments that Zephyr's documentation gives them. A build of Zephyr itself has not been tried.
"""

import errno
import subprocess
from pathlib import Path

import kconfiglib
import pytest
import yaml
from tests.board.conftest import Built
from tests.board.test_package import check_on, configure_for_board

from deuteron.board import boards
from deuteron.board.library import FIRMWARE

CONSUMER = Path(__file__).parent / "consumer_zephyr"
CHECKOUT = FIRMWARE.parent
SYMBOLS = ("CPU_CORTEX_M", "CPU_CORTEX_M4", "CPU_CORTEX_M7", "ARMV8_M_DSP", "ARMV8_1_M_MVEI", "FPU")
CORES = {
    "m0plus": (set[str](), "PORTABLE"),
    "m3": (set[str](), "PORTABLE"),
    "m4": ({"CPU_CORTEX_M4"}, "DSP"),
    "m7": ({"CPU_CORTEX_M7", "FPU"}, "DSP"),
    "m33 without dsp": (set[str](), "PORTABLE"),
    "m33": ({"ARMV8_M_DSP"}, "DSP"),
    "m55": ({"ARMV8_M_DSP", "ARMV8_1_M_MVEI", "FPU"}, "MVE"),
    "m55 with its fpu off": ({"ARMV8_M_DSP", "ARMV8_1_M_MVEI"}, "DSP"),
}


@pytest.mark.parametrize("root", [CHECKOUT, FIRMWARE], ids=["checkout", "firmware"])
def test_a_module_says_where_its_files_are(root: Path) -> None:
    module = yaml.safe_load((root / "zephyr" / "module.yml").read_text("utf-8"))
    assert module["name"] == "deuteron"
    assert set(module["build"]) == {"cmake", "kconfig"}
    assert (root / module["build"]["cmake"]).resolve() == FIRMWARE / "zephyr"
    assert (root / module["build"]["kconfig"]).resolve() == FIRMWARE / "zephyr" / "Kconfig"


def _options(has: set[str], folder: Path) -> kconfiglib.Kconfig:
    tree = folder / "Kconfig"
    known = "".join(f"config {name}\n\tbool\n\tdefault {'y' if name in has else 'n'}\n" for name in SYMBOLS)
    tree.write_text(f'{known}source "{FIRMWARE / "zephyr" / "Kconfig"}"\n', "utf-8")
    kconfig = kconfiglib.Kconfig(str(tree), warn_to_stderr=False)
    assert kconfig.warnings == []
    return kconfig


@pytest.mark.parametrize(("has", "inner"), CORES.values(), ids=CORES)
def test_the_core_decides_which_inner_work_is_taken(has: set[str], inner: str, tmp_path: Path) -> None:
    kconfig = _options({"CPU_CORTEX_M", *has}, tmp_path)
    assert kconfig.syms["DEUTERON"].str_value == "n"
    kconfig.syms["DEUTERON"].set_value("y")
    chosen = [name for name in ("MVE", "DSP", "PORTABLE") if kconfig.syms[f"DEUTERON_INNER_{name}"].str_value == "y"]
    assert chosen == [inner]
    assert kconfig.syms["DEUTERON_PORT"].str_value == "y"


def test_other_architectures_have_no_such_option(tmp_path: Path) -> None:
    kconfig = _options(set(), tmp_path)
    kconfig.syms["DEUTERON"].set_value("y")
    assert kconfig.syms["DEUTERON"].str_value == "n"


def _port(program: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Compile the port with a test program that tells its calls of the cache functions."""
    include = f"-I{FIRMWARE / 'include'}", f"-I{CONSUMER / 'include'}"
    words = "cc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", *include, *options
    sources = FIRMWARE / "zephyr" / "port.c", CONSUMER / "told_cache.c"
    return subprocess.run([*words, *sources, "-o", program], capture_output=True, text=True, check=False)


def test_the_port_drops_lines_of_any_bytes_as_zephyr_defines_it(tmp_path: Path) -> None:
    assert _port(tmp_path / "told").stderr == ""
    for result, status, output in (
        (0, 0, "flush 3 70\nflush_and_invd 5 90\n"),
        (-errno.ENOTSUP, 0, "flush 3 70\nflush_and_invd 5 90\n"),
        (-5, 3, "flush 3 70\nDeuteron's port: the data cache failed, error -5"),
    ):
        done = subprocess.run([tmp_path / "told", str(result)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (status, output)


def test_the_port_refuses_a_data_cache_that_nobody_manages(tmp_path: Path) -> None:
    assert (
        "#error \"Deuteron's port: an NPU would compute with stale bytes; set CONFIG_CACHE_MANAGEMENT=y, or "
        'CONFIG_DCACHE=n"' in _port(tmp_path / "told", "-DCONFIG_DCACHE=1").stderr
    )
    assert _port(tmp_path / "told", "-DCONFIG_DCACHE=1", "-DCONFIG_CACHE_MANAGEMENT=1").returncode == 0


@pytest.mark.slow
def test_an_application_links_the_module_and_computes(built: Built, tmp_path: Path) -> None:
    model, board, build = built("two"), boards.load("an505"), tmp_path / "build"
    options = ("DEUTERON", "DEUTERON_INNER_DSP", "DEUTERON_PORT")
    configure_for_board(
        CONSUMER, build, model, board, f"-DMODULE={FIRMWARE / 'zephyr'}", *(f"-DCONFIG_{name}=y" for name in options)
    )
    done = subprocess.run(["cmake", "--build", build], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    check_on(board, build / "app", model, tmp_path)
    names = subprocess.run(["nm", build / "app"], capture_output=True, text=True, check=True).stdout
    assert " T dtn_port_ticks\n" in names
    sections = subprocess.run(["readelf", "-SW", build / "app"], capture_output=True, text=True, check=True).stdout
    assert ".dtn_arena" in sections
    assert ".dtn_flash" not in sections

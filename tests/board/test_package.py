"""The CMake package, from a project that uses it: the bundle is made anew when the build changes, and computes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.board.conftest import Built

from deuteron import api
from deuteron.board import boards
from deuteron.board.library import FIRMWARE, core
from deuteron.board.override import overridden
from deuteron.board.qemu import emulate
from deuteron.kernels.catalogue import KERNELS

CONSUMER = Path(__file__).parent / "consumer"
BOARD_CONSUMER = CONSUMER.with_name("consumer_board")
PROGRAM = Path(sys.executable).with_name("deuteron")
pytestmark = pytest.mark.slow


def cmake(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["cmake", *words], capture_output=True, text=True)


def configure(source: Path, build: Path, model: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return cmake(
        "-S", source, "-B", build, f"-Ddeuteron_DIR={FIRMWARE / 'cmake'}", f"-DDEUTERON_PROGRAM={PROGRAM}",
        f"-DMODEL={model}", f"-DPORT={FIRMWARE / 'port' / 'host' / 'port.c'}", *options,
    )  # fmt: skip


def check(app: Path, model: Path) -> None:
    """Runs the application on one sample: the outputs must be those of ExecuTorch's runtime."""
    (sample,) = api.seeded_inputs(api.read_manifest(model), 1)
    done = subprocess.run([app], input=b"".join(x.tobytes() for x in sample), capture_output=True, check=True)
    (wanted,) = api.run_each(model, [sample])
    assert done.stdout == b"".join(y.tobytes() for y in wanted)


def test_a_project_finds_the_package_and_runs_its_model(built: Built, tmp_path: Path):
    model, build = tmp_path / "model", tmp_path / "build"
    shutil.copytree(built("two"), model)
    done = configure(CONSUMER, build, model)
    assert done.returncode == 0, done.stderr
    done = cmake("--build", build)
    assert done.returncode == 0, done.stdout + done.stderr
    check(build / "app", model)
    names = subprocess.run(["nm", build / "app"], capture_output=True, text=True, check=True).stdout
    linked = {kernel.name for kernel in KERNELS if f" {kernel.symbol}\n" in names}
    manifest = api.read_manifest(model)
    assert linked == {kernel.kernel for part in manifest.partitions for kernel in part.kernels}

    tables = build / "model" / "net.c"
    before = tables.stat().st_mtime_ns
    assert cmake("--build", build).returncode == 0
    assert tables.stat().st_mtime_ns == before
    for file in built("conv").iterdir():
        shutil.copy(file, model)
        os.utime(model / file.name)
    assert cmake("--build", build).returncode == 0
    check(build / "app", model)


def configure_for_board(source: Path, build: Path, model: Path, board: boards.Board, *options: str) -> None:
    """Configures the project `consumer_board`, or a copy of it, for a board."""
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={FIRMWARE / 'cmake' / 'arm-none-eabi.cmake'}"
    own = (f"-DBOARD={board.name}", f"-DDTN_CPU={board.cpu}", f"-DFIRMWARE={FIRMWARE}", "-DCMAKE_BUILD_TYPE=Release")
    done = configure(source, build, model, toolchain, *own, *options)
    assert done.returncode == 0, done.stderr


def test_a_section_that_no_script_places_is_refused(built: Built, tmp_path: Path):
    source, build = tmp_path / "source", tmp_path / "build"
    shutil.copytree(BOARD_CONSUMER, source)
    (source / "odd.c").write_text('int odd __attribute__((section(".elsewhere"))) = 5;\n')
    with (source / "CMakeLists.txt").open("a") as listing:
        listing.write("target_sources(app PRIVATE odd.c)\ntarget_link_options(app PRIVATE -Wl,-u,odd)\n")
    board = boards.load("an505")
    configure_for_board(source, build, built("two"), board)
    done = cmake("--build", build)
    assert done.returncode != 0
    assert "unplaced orphan section `.elsewhere'" in done.stdout + done.stderr
    configure_for_board(source, build, built("two"), board, "-DDEUTERON_PLACE_ALL=OFF")
    done = cmake("--build", build)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("board", boards.names())
def test_a_project_for_a_board(board: str, built: Built, tmp_path: Path):
    model, build = built("two"), tmp_path / "build"
    chosen = boards.load(board)
    configure_for_board(BOARD_CONSUMER, build, model, chosen)
    done = cmake("--build", build)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = subprocess.run(["ar", "t", build / "libdeuteron_firmware.a"], capture_output=True, text=True, check=True)
    assert sorted(listed.stdout.split()) == sorted(f"{source.path.name}.obj" for source in core())
    assert overridden(build / "app") == ("dtn_io_copy_start", "dtn_io_copy_wait")

    (sample,) = api.seeded_inputs(api.read_manifest(model), 1)
    (wanted,) = api.run_each(model, [sample])
    words = ["firmware"]
    for i, array in enumerate(sample):
        (tmp_path / f"in{i}").write_bytes(array.tobytes())
        words += ("--input", f"in{i}")
    for i in range(len(wanted)):
        words += ("--output", f"out{i}")
    assert emulate(build / "app", chosen, words, tmp_path, time_out=60) == (0, "")
    assert [(tmp_path / f"out{i}").read_bytes() for i in range(len(wanted))] == [array.tobytes() for array in wanted]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("SYMBOL net", "SIMBOL net", "deuteron_add_bundle does not know `SIMBOL;net`"),
        ("C ASM", "C", "deuteron_add_bundle needs the language ASM: write project(... C ASM)"),
        (
            "REQUIRED)",
            'REQUIRED)\nset(DEUTERON_PROGRAM "")',
            "deuteron_add_bundle needs the program `deuteron`: activate the environment that it is installed in, or "
            "set DEUTERON_PROGRAM to its path",
        ),
    ],
)
def test_what_the_package_refuses(tmp_path: Path, old: str, new: str, error: str):
    source = tmp_path / "source"
    shutil.copytree(CONSUMER, source)
    listing = source / "CMakeLists.txt"
    listing.write_text(listing.read_text().replace(old, new))
    done = configure(source, tmp_path / "build", tmp_path)
    assert done.returncode == 1
    assert error in " ".join(done.stderr.split())


def test_the_library_alone_with_a_plain_toolchain_file(tmp_path: Path):
    """A toolchain file of any project is enough: nothing is built that only a host can use."""
    toolchain = tmp_path / "own.cmake"
    toolchain.write_text(
        "set(CMAKE_SYSTEM_NAME Generic)\nset(CMAKE_C_COMPILER arm-none-eabi-gcc)\n"
        "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)\nset(CMAKE_C_FLAGS_INIT -mcpu=cortex-m33)\n"
    )
    build = tmp_path / "build"
    done = cmake("-S", FIRMWARE, "-B", build, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}")
    assert done.returncode == 0, done.stderr
    done = cmake("--build", build, "--parallel", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in build.glob("lib*")} == {"libdeuteron_core.a"}

"""The CMake package in a project that uses it: a changed build makes a new bundle, which computes the right outputs."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests import full
from tests.board.conftest import Built

from deuteron import api
from deuteron.board import boards
from deuteron.board.library import FIRMWARE, core
from deuteron.board.override import overridden
from deuteron.board.qemu import emulate
from deuteron.npu.neutron.kernels.catalogue import KERNELS

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


def check(app: Path, *models: Path) -> None:
    """Runs the application on one sample per model: the outputs must be those of ExecuTorch's runtime."""
    given = wanted = b""
    for model in models:
        (sample,) = api.seeded_inputs(api.read_manifest(model), 1)
        (outputs,) = api.run_each(model, [sample])
        given += b"".join(x.tobytes() for x in sample)
        wanted += b"".join(y.tobytes() for y in outputs)
    assert subprocess.run([app], input=given, capture_output=True, check=True).stdout == wanted


def linked_kernels(app: Path) -> set[str]:
    """Names of the kernels whose functions are in an application."""
    names = subprocess.run(["nm", app], capture_output=True, text=True, check=True).stdout
    return {kernel.name for kernel in KERNELS if f" {kernel.symbol}\n" in names}


def called_kernels(model: Path) -> set[str]:
    """Names of the kernels that a build calls."""
    return {kernel.kernel for part in api.read_manifest(model).partitions for kernel in part.kernels}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build directory that the tests' projects share in turns: their library is compiled once."""
    return tmp_path_factory.mktemp("package")


def test_a_project_finds_the_package_and_runs_its_model(built: Built, folder: Path):
    model, build = folder / "model", folder / "build"
    shutil.copytree(built("two"), model)
    done = configure(CONSUMER, build, model, "-DCMAKE_BUILD_TYPE=Debug")
    assert done.returncode == 0, done.stderr
    done = cmake("--build", build)
    assert done.returncode == 0, done.stdout + done.stderr
    check(build / "app", model)
    assert linked_kernels(build / "app") == called_kernels(model)

    tables = build / "model" / "net.c"
    before = tables.stat().st_mtime_ns
    assert cmake("--build", build).returncode == 0
    assert tables.stat().st_mtime_ns == before
    for file in built("conv").iterdir():
        shutil.copy(file, model)
        os.utime(model / file.name)
    assert cmake("--build", build).returncode == 0
    check(build / "app", model)


def test_the_library_is_c99_without_fused_products(tmp_path: Path):
    """A compiler's own choice is GNU's C, where it may round a product and a sum once instead of twice."""
    done = configure(CONSUMER, tmp_path, tmp_path / "model", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    assert done.returncode == 0, done.stderr
    compiled = json.loads((tmp_path / "compile_commands.json").read_text())
    library = [entry for entry in compiled if Path(entry["file"]).is_relative_to(FIRMWARE / "src")]
    assert len(library) > len(KERNELS)
    for entry in library:
        assert {"-std=c99", "-ffp-contract=off"} <= set(shlex.split(entry["command"])), entry["file"]


@pytest.mark.full
def test_two_models_share_the_kernels_that_both_call(built: Built, folder: Path):
    models, build = (built("two"), built("pooled")), folder / "build"
    kernels = [called_kernels(model) for model in models]
    assert kernels[0] - kernels[1]
    assert kernels[1] - kernels[0]
    done = configure(CONSUMER, build, models[0], f"-DOTHER={models[1]}")
    assert done.returncode == 0, done.stderr
    done = cmake("--build", build, "--target", "two")
    assert done.returncode == 0, done.stdout + done.stderr
    check(build / "two", *models)
    assert linked_kernels(build / "two") == kernels[0] | kernels[1]


def configure_for_board(source: Path, build: Path, model: Path, board: boards.Board, *options: str) -> None:
    """Configures the project `consumer_board`, or a copy of it, for a board."""
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={FIRMWARE / 'cmake' / 'arm-none-eabi.cmake'}"
    own = (f"-DBOARD={board.name}", f"-DDTN_CPU={board.cpu}", f"-DFIRMWARE={FIRMWARE}", "-DCMAKE_BUILD_TYPE=Debug")
    done = configure(source, build, model, toolchain, *own, *options)
    assert done.returncode == 0, done.stderr


def check_on(board: boards.Board, app: Path, model: Path, folder: Path) -> None:
    """Runs the application on one sample on an emulated board: the outputs must be those of ExecuTorch's runtime."""
    (sample,) = api.seeded_inputs(api.read_manifest(model), 1)
    (wanted,) = api.run_each(model, [sample])
    words = ["firmware"]
    for i, array in enumerate(sample):
        (folder / f"in{i}").write_bytes(array.tobytes())
        words += ("--input", f"in{i}")
    for i in range(len(wanted)):
        words += ("--output", f"out{i}")
    assert emulate(app, board, words, folder, time_out=60) == (0, "")
    assert [(folder / f"out{i}").read_bytes() for i in range(len(wanted))] == [array.tobytes() for array in wanted]


@pytest.fixture
def project(folder: Path) -> tuple[Path, Path]:
    """Source and build directory of that project for the AN505, as it is before a change."""
    source = shutil.copytree(BOARD_CONSUMER, folder / "source", dirs_exist_ok=True)
    return source, folder / "build-an505"


@pytest.mark.full
def test_a_section_that_no_script_places_is_refused(built: Built, project: tuple[Path, Path]):
    source, build = project
    (source / "odd.c").write_text('int odd __attribute__((section(".elsewhere"))) = 5;\n')
    with (source / "CMakeLists.txt").open("a") as listing:
        listing.write("target_sources(app PRIVATE odd.c)\ntarget_link_options(app PRIVATE -Wl,-u,odd)\n")
    board = boards.load("an505")
    configure_for_board(source, build, built("two"), board, "-UDEUTERON_PLACE_ALL")
    done = cmake("--build", build)
    assert done.returncode != 0
    assert "unplaced orphan section `.elsewhere'" in done.stdout + done.stderr
    configure_for_board(source, build, built("two"), board, "-DDEUTERON_PLACE_ALL=OFF")
    done = cmake("--build", build)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("libraries", "required", "status"),
    [
        ("dma model deuteron::firmware", True, "linked"),
        ("dma model deuteron::firmware", False, "default"),
        ("model deuteron::firmware dma", True, "refused"),
    ],
)
def test_an_override_in_a_static_library(
    libraries: str, required: bool, status: str, built: Built, project: tuple[Path, Path]
):
    """Asked for, it is linked or the build fails; otherwise the linker takes the weak default in silence."""
    source, build = project
    listing = source / "CMakeLists.txt"
    text = listing.read_text().replace("model deuteron::firmware)", f"{libraries})")
    text = text.replace("/fault_injection", "/(fault_injection|io_copy_dma)")
    text += (
        'add_library(dma STATIC "${FIRMWARE}/port/cortex_m/io_copy_dma.c")\n'
        'target_include_directories(dma PRIVATE ${port} "${FIRMWARE}/include")\n'
    )
    listing.write_text(text + ("deuteron_require_io_copy(app)\n" if required else ""))
    configure_for_board(source, build, built("two"), boards.load("an505"))
    done = cmake("--build", build)
    assert (done.returncode == 0) is (status != "refused"), done.stdout + done.stderr
    if status == "refused":
        assert "error: `app` copies inputs and outputs by the weak default" in done.stdout + done.stderr
    else:
        assert bool(overridden(build / "app")) is (status == "linked")


def test_processors_that_the_toolchain_file_does_not_know(tmp_path: Path):
    options = ("-S", FIRMWARE, f"-DCMAKE_TOOLCHAIN_FILE={FIRMWARE / 'cmake' / 'arm-none-eabi.cmake'}")
    done = cmake(*options, "-B", tmp_path / "unknown", "-DDTN_CPU=cortex-m85")
    assert done.returncode == 1
    assert (
        "DTN_CPU is `cortex-m85`; known are cortex-m0plus, cortex-m3, cortex-m4, cortex-m7, cortex-m33, cortex-m55; "
        "for others set DTN_CPU_FLAGS to the compiler flags of the processor"
    ) in " ".join(done.stderr.split())
    done = cmake(*options, "-B", tmp_path / "own", "-DDTN_CPU_FLAGS=-mcpu=cortex-m7 -mthumb")
    assert done.returncode == 0, done.stderr
    done = cmake("--build", tmp_path / "own", "--target", "dtn_io")
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = (tmp_path / "own").rglob("io_copy.c.obj")
    shown = subprocess.run(["arm-none-eabi-readelf", "-A", made], capture_output=True, text=True, check=True).stdout
    assert "Tag_CPU_arch: v7E-M" in shown


BOARDS = ["an505", "an547"]
"""An AN500's core takes the sources of an AN505's."""


@pytest.mark.parametrize("board", BOARDS)
def test_the_library_of_a_board_has_its_sources(board: str, tmp_path: Path):
    chosen = boards.load(board)
    configure_for_board(BOARD_CONSUMER, tmp_path, tmp_path, chosen, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    compiled = json.loads((tmp_path / "compile_commands.json").read_text())
    assert {source.path for source in core(chosen)} <= {Path(entry["file"]) for entry in compiled}


@pytest.mark.parametrize("board", full.first(BOARDS, 1))
def test_a_project_for_a_board(board: str, built: Built, project: tuple[Path, Path], tmp_path: Path):
    source, build = project[0], project[1].with_name(f"build-{board}")
    model = built("two")
    chosen = boards.load(board)
    configure_for_board(source, build, model, chosen)
    done = cmake("--build", build)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    listed = subprocess.run(["ar", "t", build / "libdeuteron_firmware.a"], capture_output=True, text=True, check=True)
    assert sorted(listed.stdout.split()) == sorted(f"{source.path.name}.obj" for source in core(chosen))
    assert overridden(build / "app") == ("dtn_io_copy_start", "dtn_io_copy_wait")

    check_on(chosen, build / "app", model, tmp_path)


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
        (
            "add_executable",
            "deuteron_add_kernels(kernels)\nadd_executable",
            "deuteron_add_kernels needs the builds whose kernels `kernels` is to hold",
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


LIBRARIES = {"deuteron_core", "deuteron_ethosu_driver"}


@pytest.mark.full
@pytest.mark.parametrize("target", ["deuteron_ethosu_driver", "all"])
def test_the_library_alone_with_a_plain_toolchain_file(target: str, tmp_path: Path):
    """A toolchain file of any project is enough: nothing is built that only a host can use, or only if optimised."""
    toolchain = tmp_path / "own.cmake"
    toolchain.write_text(
        "set(CMAKE_SYSTEM_NAME Generic)\nset(CMAKE_C_COMPILER arm-none-eabi-gcc)\n"
        "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)\nset(CMAKE_C_FLAGS_INIT -mcpu=cortex-m33)\n"
    )
    build = tmp_path / "build"
    done = cmake("-S", FIRMWARE, "-B", build, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}")
    assert done.returncode == 0, done.stderr
    names = cmake("--build", build, "--target", "help").stdout.split()
    assert {name for name in names if name.startswith("deuteron_")} == LIBRARIES
    done = cmake("--build", build, "--target", target, "--parallel", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = LIBRARIES if target == "all" else {target}
    assert {path.name for path in build.glob("lib*")} == {f"lib{name}.a" for name in wanted}

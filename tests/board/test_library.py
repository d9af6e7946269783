"""The files of an image: the core chooses the inner loops of the Cortex-M operators and the kernels."""

import re
import subprocess
from pathlib import Path

import pytest
from tests import full

from deuteron.arch.cores import InnerWork
from deuteron.board import boards, library
from deuteron.board.library import FIRMWARE

CORTEX_M = FIRMWARE / "src" / "cortex_m"
KERNELS = FIRMWARE / "src" / "kernels"
DECLARED = re.compile(r"/\*\*\s+(?:\* )?(\w+\.c):.*?\*/\n\w+ (dtn_\w+)\(", re.DOTALL)
PROCESSORS = {
    "-mcpu=cortex-m0plus": "portable",
    "-mcpu=cortex-m3": "portable",
    "-mcpu=cortex-m4": "dsp",
    "-mcpu=cortex-m7": "dsp",
    "-mcpu=cortex-m33": "dsp",
    "-mcpu=cortex-m33+nodsp": "portable",
    "-mcpu=cortex-m55 -mfloat-abi=hard": "mve",
    "-mcpu=cortex-m55+nomve -mfloat-abi=hard": "dsp",
    "-mcpu=cortex-m55": "dsp",  # whose registers for vectors GCC leaves alone then
}


def stems(inner: InnerWork) -> set[str]:
    """Return the names of the operators in a directory: its file names without the common ending."""
    names = [path.stem for path in (CORTEX_M / inner.value).glob("*.c")]
    assert all(name.endswith(f"_{inner.value}") for name in names)
    return {name.removesuffix(f"_{inner.value}") for name in names}


def test_no_two_files_of_the_inner_work_have_one_name() -> None:
    files = [path.name for folder in (CORTEX_M, KERNELS / "single_rounding") for path in folder.rglob("*.[ch]")]
    assert len(files) > 100
    assert len(set(files)) == len(files)


SHARED = {InnerWork.DSP: {"matmul_row_pairs_s4"}}
"""Files of functions that others of their directory call, and that portable code lacks."""


@pytest.mark.parametrize("inner", InnerWork, ids=lambda inner: inner.value)
def test_each_directory_has_files_of_the_portable_names(inner: InnerWork) -> None:
    names = stems(InnerWork.PORTABLE) | SHARED.get(inner, set())
    assert stems(inner) <= names
    chosen = {source.path.stem.rpartition("_")[0]: source for source in library.inner_work(inner)}
    assert set(chosen) == names
    for stem, source in chosen.items():
        assert source.path.parent.name == (inner.value if stem in stems(inner) else "portable")
        scheduled = "-fno-schedule-insns" not in source.flags
        assert scheduled == (source.path.parent.name != "dsp")


@pytest.mark.parametrize("inner", InnerWork, ids=lambda inner: inner.value)
def test_kernels_have_the_inner_work_of_the_operators(inner: InnerWork) -> None:
    """But for what is done element by element, where what is rounded differs."""
    operators = {source.path.stem: source for source in library.inner_work(inner)}
    kernels = [source for source in library.kernels(inner) if source.path.parent.parent.name == "single_rounding"]
    shared = [source for source in kernels if not source.path.stem.startswith("add_s8")]
    assert {source.path.stem.partition("_single")[0] for source in shared} == {
        "conv2d_s8", "depthwise_conv2d_s8", "matmul_row_pairs_s8", "matmul_s8",
    }  # fmt: skip
    for source in shared:
        (origin,) = source.includes
        like = operators[source.path.stem.replace("_single_rounding", "")]
        assert (origin, source.flags) == (like.path, like.flags)
        lines = [line for line in source.path.read_text("utf-8").splitlines() if line]
        assert lines[0] == '#include "../single_rounding.h"'
        assert (source.path.parent / lines[-1].split('"')[1]).resolve() == origin


def taken_in(path: Path) -> set[Path]:
    """A file of the firmware with all that it includes."""
    files, left = set[Path](), [path.resolve()]
    while left:
        file = left.pop()
        if file not in files:
            files.add(file)
            names: list[str] = re.findall(r'^#include "(.+)"', file.read_text("utf-8"), re.MULTILINE)
            places = ((folder / name).resolve() for name in names for folder in (file.parent, FIRMWARE / "include"))
            left += [place for place in places if place.is_file()]
    return files


@pytest.mark.parametrize("board", boards.names())
def test_what_knows_nothing_of_events_has_the_same_object_with_them(board: str) -> None:
    sources = library.core(boards.load(board), profiling=True)
    same = set(sources).intersection(library.recording(sources))
    assert len(sources) > len(same) > 0.8 * len(sources)
    knowing = (source for source in same if any("DTN_PROFILING" in f.read_text() for f in taken_in(source.path)))
    assert [source.name for source in knowing] == []


def test_a_device_has_each_kernel_once() -> None:
    sources = [source for source in library.kernels(InnerWork.PORTABLE) if source.name.startswith("kernels.")]
    chosen = {source.path.stem: source.path for source in sources}
    assert len(chosen) == len(sources)
    assert set(chosen) == {path.stem for path in (KERNELS / "fast").glob("*.c")}
    assert set((KERNELS / "device").glob("*.c")) <= set(chosen.values())


def test_the_core_of_a_board_decides() -> None:
    chosen = {name: {source.path for source in library.core(boards.load(name))} for name in ("an505", "an547")}
    assert {source.path for source in library.inner_work(InnerWork.DSP)} <= chosen["an505"]
    assert {source.path for source in library.inner_work(InnerWork.MVE)} <= chosen["an547"]


def test_what_the_header_declares_stands_where_it_says() -> None:
    declared = DECLARED.findall((CORTEX_M / "inner_loops.h").read_text("utf-8"))
    assert len(declared) >= 3
    for inner in InnerWork:
        files = {re.sub("_[a-z]+$", "", source.path.stem): source.path for source in library.inner_work(inner)}
        for file, function in declared:
            text = files[file.removesuffix(".c")].read_text("utf-8")
            is_renamed = rf"#define \w+ {function}$"  # the definition of an included file, compiled under this name
            assert re.search(rf"^(\w+ {function}\(|{is_renamed})", text, re.MULTILINE), (inner, file)


@pytest.mark.parametrize(("flags", "inner"), full.only(PROCESSORS.items(), *[*PROCESSORS.items()][::2]))
def test_cmake_asks_the_compiler(flags: str, inner: str, tmp_path: Path) -> None:
    assert _chosen(tmp_path, flags) == inner


@pytest.mark.full
def test_a_build_without_optimisation_compiles(tmp_path: Path) -> None:
    """Loops in assembler need registers that compilers keep for themselves then; for an M33 see test_package.py."""
    assert _chosen(tmp_path, "-mcpu=cortex-m55 -mfloat-abi=hard", "-DCMAKE_BUILD_TYPE=Debug") == "mve"
    command = ("cmake", "--build", tmp_path, "--target", "dtn_cortex_m")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_option_chooses_another(tmp_path: Path) -> None:
    assert _chosen(tmp_path / "a", "-mcpu=cortex-m55", "-DDTN_INNER=portable") == "portable"
    done = _configured(tmp_path / "b", "-mcpu=cortex-m55", "-DDTN_INNER=neon")
    assert done.returncode == 1
    assert "DTN_INNER is `neon`; it can be portable, dsp or mve" in " ".join(done.stderr.split())


def _configured(build: Path, flags: str, *options: str) -> "subprocess.CompletedProcess[str]":
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={FIRMWARE / 'cmake' / 'arm-none-eabi.cmake'}"
    command = ("cmake", "-S", FIRMWARE, "-B", build, toolchain, f"-DDTN_CPU_FLAGS={flags} -mthumb", *options)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _chosen(build: Path, flags: str, *options: str) -> str:
    done = _configured(build, flags, *options)
    assert done.returncode == 0, done.stderr
    cache = (build / "CMakeCache.txt").read_text("utf-8")
    return re.findall(r"^DTN_INNER:STRING=(\w+)$", cache, re.MULTILINE)[0]

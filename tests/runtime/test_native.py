"""Native libraries: where they are, and what is said when they or the tools that build them are missing."""

import errno
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from deuteron import native
from deuteron.errors import InternalError, MissingToolError
from deuteron.runtime import build_native


def test_libraries_are_found() -> None:
    assert native.library("driver").name == "libdeuteron_driver.so"
    assert native.library("driver_ref").is_file()
    assert native.library("delegate").is_file()


def test_a_library_that_is_not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "LIBRARY_DIRECTORY", tmp_path)
    with pytest.raises(MissingToolError) as caught:
        native.library("delegate")
    assert str(caught.value) == (
        f"{tmp_path}: the native library `libdeuteron_delegate.so` is not built\n\n"
        "hint: run `make native` in Deuteron's checkout"
    )


def test_a_wheel_that_lacks_a_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "LIBRARY_DIRECTORY", tmp_path)
    monkeypatch.setattr(native, "IS_WHEEL", True)
    with pytest.raises(MissingToolError) as caught:
        native.library("driver")
    assert str(caught.value) == (
        f"{tmp_path}: the native library `libdeuteron_driver.so` is not built\n\nhint: install Deuteron's wheel again"
    )


def test_a_library_that_was_built_from_other_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingToolError) as caught:
        native.load("driver").dtn_later()
    assert str(caught.value) == (
        f"{native.library('driver')}: the native library `libdeuteron_driver.so` has no `dtn_later`: it was built from "
        "other sources\n\nhint: run `make native` in Deuteron's checkout"
    )
    assert not hasattr(native.load("driver"), "__wrapped__")
    monkeypatch.setattr(native, "IS_WHEEL", True)
    assert native.build_again(native.library("driver")) == "install Deuteron's wheel again"
    assert native.build_again(native.library("delegate")) == "remove it, and it is compiled again"


def test_a_library_that_does_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "LIBRARY_DIRECTORY", tmp_path)
    (tmp_path / "libdeuteron_packing.so").write_bytes(b"cut")
    with pytest.raises(MissingToolError) as caught:
        native.load("packing")
    assert caught.value.message.startswith("the native library `libdeuteron_packing.so` does not load: ")


def test_a_wheel_compiles_what_joins_executorch_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ours, cache = tmp_path / "lib", tmp_path / "cache"
    ours.mkdir()
    (ours / "libdeuteron_driver.so").write_bytes(b"ours")
    for module in (native, build_native):
        monkeypatch.setattr(module, "LIBRARY_DIRECTORY", ours)
    monkeypatch.setattr(native, "IS_WHEEL", True)
    monkeypatch.setenv("DEUTERON_CACHE", str(cache))
    builds: list[Path] = []

    def build(sources: Path, work: Path, destination: Path, *options: str, log: Path) -> None:
        builds.append(sources)
        destination.mkdir()
        for name in (*native.EXECUTORCH_PARTS, "libdeuteron_driver.so"):
            (destination / name).write_bytes(b"compiled")

    def compile_here() -> None:
        assert build_native.main(["--for-executorch"]) == 0

    monkeypatch.setattr(build_native, "_build", build)
    monkeypatch.setattr(native, "_compile_parts", compile_here)
    place = native.executorch_directory()
    assert native.library("delegate") == place / "libdeuteron_delegate.so"
    assert native.runner() == place / "deuteron-runner"
    compile_here()
    assert builds == [native.FIRMWARE]
    assert place.parent == cache
    assert (place / "libdeuteron_driver.so").samefile(ours / "libdeuteron_driver.so")
    assert not [path for path in cache.iterdir() if path.name.startswith(".new")]


@pytest.mark.parametrize("changed", ["sources", "executorch", "version", "installation"])
def test_a_wheel_takes_nothing_that_was_compiled_from_something_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: str
) -> None:
    sources = {name: tmp_path / name for name in ("old", "new")}
    for name, folder in sources.items():
        folder.mkdir()
        (folder / "kernel.c").write_text(name)
    monkeypatch.setenv("DEUTERON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(native, "FIRMWARE", sources["old"])
    before = native.executorch_directory()
    assert before == native.executorch_directory()
    match changed:
        case "sources":
            monkeypatch.setattr(native, "FIRMWARE", sources["new"])
        case "executorch":
            monkeypatch.setattr(native, "executorch_root", lambda: tmp_path / "executorch")
        case "version":
            monkeypatch.setattr(native, "distributions", lambda name: [SimpleNamespace(version="1.5.0")])
        case _:
            monkeypatch.setattr(native, "LIBRARY_DIRECTORY", tmp_path / "lib")
    assert native.executorch_directory() != before


@pytest.mark.parametrize("step", ["mkdir", "open", "rename"])
def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: str) -> None:
    monkeypatch.setenv("DEUTERON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build_native, "_build", lambda sources, work, destination, *_, log: destination.mkdir())

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, step, refuse)
    with pytest.raises(MissingToolError) as caught:
        build_native.build_for_executorch()
    assert str(caught.value) == (
        f"`{tmp_path / 'cache'}` cannot be written: Read-only file system\n\n"
        "hint: name a directory that can be written with `DEUTERON_CACHE`"
    )


def test_a_compilation_that_ends_without_a_word(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'Traceback:' >&2\necho 'MemoryError' >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(native, "LIBRARY_DIRECTORY", tmp_path)
    monkeypatch.setattr(native, "IS_WHEEL", True)
    monkeypatch.setenv("DEUTERON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(MissingToolError) as caught:
        native.library("delegate")
    assert str(caught.value) == "the libraries for ExecuTorch's runtime cannot be compiled: MemoryError"
    assert capsys.readouterr().err == "Traceback:\nMemoryError\n"


def test_a_wheel_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "LIBRARY_DIRECTORY", tmp_path)
    monkeypatch.setattr(native, "IS_WHEEL", True)
    monkeypatch.setenv("DEUTERON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError) as caught:
        native.library("delegate")
    assert str(caught.value) == (
        "the libraries for ExecuTorch's runtime cannot be compiled: CMake is not installed: found no `cmake` on "
        "PATH\n\n"
        "hint: install it, on Debian with `apt-get install cmake`"
    )


def test_building_without_the_sources(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError) as caught:
        build_native.build_native(tmp_path, tmp_path / "lib")
    assert str(caught.value) == (
        f"{tmp_path / 'firmware'}: Deuteron's C sources are missing: native libraries are built in a checkout\n\n"
        "hint: clone the repository and run `make native` there"
    )


@pytest.mark.parametrize(
    ("absent", "what", "package"),
    [("cmake", "CMake", "cmake"), ("cc", "a C compiler", "gcc"), ("c++", "a C++ compiler", "g++")],
)
def test_building_without_a_tool(monkeypatch: pytest.MonkeyPatch, absent: str, what: str, package: str) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda program: None if program == absent else f"/bin/{program}")
    with pytest.raises(MissingToolError) as caught:
        build_native.build_native()
    assert str(caught.value) == (
        f"{what} is not installed: found no `{absent}` on PATH\n\n"
        f"hint: install it, on Debian with `apt-get install {package}`"
    )


def test_building_without_executorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingToolError) as caught:
        build_native.executorch_root()
    assert str(caught.value) == (
        "ExecuTorch is not installed; the delegate is built against its headers and runtime library\n\n"
        "hint: run `make setup`, or `pip install 'deuteron[executorch]'`"
    )


def test_a_build_that_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "firmware").mkdir()
    (tmp_path / "firmware" / "CMakeLists.txt").write_text('message(FATAL_ERROR "broken on purpose")\n')
    with pytest.raises(InternalError) as caught:
        build_native.build_native(tmp_path, tmp_path / "lib")
    assert str(caught.value) == (
        f"the native build failed: `cmake -S {tmp_path / 'firmware'} ...` ended with exit code 1\n\n"
        "hint: the reason is in the output above this message"
    )
    assert "broken on purpose" in capfd.readouterr().err


def test_the_command_reports_errors_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise MissingToolError("CMake is not installed", hint="install it")

    monkeypatch.setattr(build_native, "build_native", fail)
    assert build_native.main() == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "error: CMake is not installed\n\nhint: install it\n")

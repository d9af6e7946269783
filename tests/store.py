"""Builds that tests share, kept under `build/test-builds`: each is made once for all workers, runs and folders.

The directory of a build depends on its sources: every file of `src/deuteron` with the native libraries, of `firmware`
and of `examples`. It includes the versions of all installed packages and the options. The test file that defines the
network counts with the files that it imports. A change of any of them gives another place, so nothing that is kept is
ever out of date. A test must not write into what it gets: it copies what it wants to damage. `tests/test_store.py`
holds all of this.
"""

import ast
import fcntl
import hashlib
import inspect
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from deuteron import api
from deuteron.board import image
from deuteron.board.boards import Board
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.toolchain import Toolchain

ROOT = Path(__file__).parents[1]
STORE = ROOT / "build" / "test-builds"
COMPILER = ("src/deuteron", "firmware", "examples")
GENERATIONS = 3
"""Compilers whose builds are kept: a run that began before an edit may still read those of the one before."""

Network = Callable[[], tuple[Any, Sequence[Any], api.BuildOptions]]
"""Gives a module, its example inputs, on which it is calibrated, too, and options."""


ALL_FILES = api.BuildOptions(intermediates=True, dump_kernel_selection_code=True)
"""The program that is built without options, and every file that can be written with it."""


def model(name: str, *, target: str = api.DEFAULT_TARGET, options: api.BuildOptions | None = None) -> Path:
    """The build directory of an example model, by default with all files that the target has."""
    if options is None:
        options = api.BuildOptions() if target.startswith("ethos-u") else ALL_FILES
    return kept(
        ("model", name, target, options),
        lambda output: api.build_model(name, target=target, output=output, options=options),
        name=name,
    )


def network(make: Network, name: str, *, target: str = api.DEFAULT_TARGET) -> Path:
    """The build directory of a network; `name`, which the manifest has, tells apart what a function makes by turns."""

    def build(output: Path) -> None:
        module, inputs, options = make()
        inputs = tuple(inputs)
        api.build(module, inputs, target=target, output=output, options=options, calibration=[inputs], name=name)

    key = ("network", make.__qualname__, target)
    return kept(key, build, name=name, source=Path(inspect.getfile(make)))


def firmware(build: Path, board: Board, options: FirmwareOptions = FirmwareOptions()) -> Path:
    """The firmware directory of a build that is kept here, for a board."""
    assert build.is_relative_to(STORE), f"{build} is not kept: get it from `model` or `network`"
    tools = Toolchain.find(image.OBJECTS)

    def link(output: Path) -> None:
        image.write(image.build(build, board, options, tools), output, force=False)

    key = ("firmware", build.parent.name, board, options, tools.version)
    return kept(key, link, name=f"{build.name}-{board.name}")


def kept(key: object, make: Callable[[Path], object], *, name: str, source: Path | None = None) -> Path:
    """The directory `name` that `make` writes, now or before.

    Args:
        key: its `repr` says all that the content depends on and that is not in a file.
        make: writes the directory that it is given.
        name: of the directory; a part of the key.
        source: the test file on which the content depends, if it does.
    """
    digest = hashlib.sha256(repr((name, key)).encode())
    for path in sorted(imported(source)) if source else ():
        digest.update(path.read_bytes())
    place = _generation() / digest.hexdigest()[:24]
    output, seal = place / name, place / "seal"
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not seal.is_file():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            make(output)
            seal.write_text(_contents(output), encoding="utf-8")
        assert seal.read_text(encoding="utf-8") == _contents(output), f"a test has written into {output}"
    return output


@cache
def imported(path: Path) -> frozenset[Path]:
    """A test file with those of the tests and benches that it imports, and that these import."""
    files, left = set[Path](), [path]
    while left:
        file = left.pop()
        if file not in files:
            files.add(file)
            left += _imports(file)
    return frozenset(files)


def _imports(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level:
            names = [".".join((*path.relative_to(ROOT).parts[: -node.level], node.module or ""))]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if isinstance(node, ast.ImportFrom):
            names += [f"{names[0]}.{alias.name}" for alias in node.names]
        for name in names:
            file = ROOT.joinpath(*name.split("."))
            yield from (found for found in (file.with_suffix(".py"), file / "__init__.py") if found.is_file())


@cache
def _generation() -> Path:
    """The folder of the builds of this compiler; those of older ones are removed."""
    digest = hashlib.sha256(sys.version.encode())
    packages = {(package.name, package.version) for package in distributions()}
    digest.update(repr(sorted(packages)).encode())
    files = (path for folder in COMPILER for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts)
    for path in sorted(path for path in files if path.is_file()):
        digest.update(f"\n{path.relative_to(ROOT)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    folder = STORE / digest.hexdigest()[:24]
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    for old in sorted(STORE.iterdir(), key=lambda path: path.stat().st_mtime)[:-GENERATIONS]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def _contents(directory: Path) -> str:
    """Names, sizes and times of the files of a directory, a line each."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return "".join(f"{p.relative_to(directory)} {p.stat().st_size} {p.stat().st_mtime_ns}\n" for p in files)

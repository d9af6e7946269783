"""The cross compiler: compiles C files, and links images.

Objects are cached under the hash of all their inputs: nothing is compiled twice, and no object is stale.
"""

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deuteron.errors import InputError, InternalError, MissingToolError
from deuteron.runtime.system_programs import find_program

PREFIX = "arm-none-eabi-"
COMPILER_PACKAGE = "gcc-arm-none-eabi"
BINUTILS_PACKAGE = "binutils-arm-none-eabi"
LIBC_PACKAGE = "libnewlib-arm-none-eabi"

FLAGS = (
    "-std=c99",
    "-ffp-contract=off",
    "-Os",
    "-ffunction-sections",
    "-fdata-sections",
    "-fcallgraph-info=su",
    "-Wall",
    "-Wextra",
)
"""Options of every C file; the core's own options follow."""

LINK_FLAGS = ("-nostartfiles", "--specs=nano.specs", "-Wl,--gc-sections", "-Wl,--print-memory-usage")

PLACE_ALL = "-Wl,--orphan-handling=error"
"""For the boards' own linker scripts: a section without a place would be in free memory that start-up does not fill."""

_USAGE = re.compile(r"^ *(\w+): +(\d+) ([KMG]?)B +(\d+) ([KMG]?)B(?: +[\d.]+%)?$", re.MULTILINE)
_REASON = re.compile(r" error: |unplaced orphan|undefined reference|multiple definition")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Source:
    """A C or assembler file.

    Attributes:
        name: name of the object, `<module>.<file>`; the size report groups by it.
        path: the file.
        includes: files that it includes, besides the firmware's headers.
        flags: options of the compiler for this file, after all others.
    """

    name: str
    path: Path
    includes: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Object:
    """A compiled file; `calls` is GCC's call graph with stack frames, empty for an assembler file."""

    name: str
    path: Path
    calls: Path


@dataclass(frozen=True, slots=True)
class Region:
    """A memory of the linker script: bytes in use and size."""

    name: str
    used: int
    size: int


@dataclass(frozen=True, slots=True)
class Toolchain:
    """GCC for Arm with newlib.

    Attributes:
        compiler: path of the program.
        version: first line of its version text.
        cache: directory of the objects; may be removed at any time.
        users: files of the user among the inputs, such as a port; None if all are Deuteron's.
    """

    compiler: Path
    version: str
    cache: Path
    users: Path | None = None

    @classmethod
    def find(cls, objects: Path) -> "Toolchain":
        """Find the installed toolchain, with its cache in `objects`; MissingToolError if a part of it is missing."""
        compiler = find_program(f"{PREFIX}gcc", COMPILER_PACKAGE, "the compiler for Arm boards")
        find_program(f"{PREFIX}ar", BINUTILS_PACKAGE, "the archiver for Arm boards")
        if not has_libc(compiler):
            raise MissingToolError(
                f"the C library for Arm boards is not installed: `{compiler.name}` does not find `libc_nano.a`",
                hint=f"install it, on Debian with `apt-get install {LIBC_PACKAGE}`",
            )
        return cls(compiler, _compiler_output(compiler, "--version").partition("\n")[0], objects)

    def compile(self, sources: Sequence[Source], flags: Sequence[str], root: Path) -> tuple[Object, ...]:
        """Return the objects of the sources, in order.

        `root` is the directory of the firmware: its `include` has the headers, and a change of any header in it
        recompiles everything, except for headers of its tests, which only the tests' sources include.
        """
        options = (*FLAGS, *flags, f"-I{root / 'include'}")
        seed = hashlib.sha256("\0".join((self.version, *FLAGS, *flags)).encode())
        tests = root / "tests"
        skips_tests = not any(source.path.is_relative_to(tests) for source in sources)
        for header in sorted(root.rglob("*.h")):
            if skips_tests and header.is_relative_to(tests):
                continue
            seed.update(header.relative_to(root).as_posix().encode() + b"\0" + header.read_bytes())
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            futures = [pool.submit(self._object, source, options, seed.digest()) for source in sources]
            return tuple(item.result() for item in futures)

    def _object(self, source: Source, options: Sequence[str], seed: bytes) -> Object:
        """Return the object from the cache; compile it first if it is missing."""
        contents = b"".join(hashlib.sha256(path.read_bytes()).digest() for path in (source.path, *source.includes))
        own = "\0".join((source.name, *source.flags)).encode()
        kept = self.cache / hashlib.sha256(seed + contents + own).hexdigest()[:32]
        compiled = Object(source.name, kept / f"{source.name}.o", kept / f"{source.name}.ci")
        if not compiled.path.is_file():
            self.cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.cache, prefix=".new-") as scratch:
                fresh = Path(scratch) / "object"
                fresh.mkdir()
                include = f"-I{source.path.parent}"
                command = (
                    self.compiler,
                    *options,
                    *source.flags,
                    include,
                    "-c",
                    source.path,
                    "-o",
                    fresh / compiled.path.name,
                )
                self._check(_run(command), f"`{source.path.name}` does not compile")
                _store_object(fresh, kept)
        return compiled

    def archive(self, objects: Sequence[Object], path: Path) -> None:
        """Write a static library of the objects."""
        command = (f"{PREFIX}ar", "rcsD", path, *(item.path for item in objects))
        self._check(_run(command), f"`{path.name}` cannot be created")

    def link(
        self, inputs: Sequence[str], flags: Sequence[str], script: Path, output: Path
    ) -> tuple[tuple[Region, ...], bool]:
        """Link and return the use of each memory, and whether all fits; an image is written only if it does.

        `inputs` are file names in the directory of `output`, in linker order; the map is next to the image, with the
        suffix `.map`.
        """
        options = (
            *flags,
            *LINK_FLAGS,
            f"-L{script.parent}",
            f"-T{script}",
            f"-Wl,-Map={output.with_suffix('.map').name}",
        )
        done = _run((self.compiler, *options, *inputs, "-o", output.name), output.parent)
        regions = tuple(
            Region(name, int(used) * _UNITS[unit], int(size) * _UNITS[size_unit])
            for name, used, unit, size, size_unit in _USAGE.findall(done.stdout)
        )
        fits = all(region.used <= region.size for region in regions)
        if fits:
            self._check(done, f"`{output.name}` cannot be linked")
        return regions, fits

    def _check(self, done: "subprocess.CompletedProcess[str]", message: str) -> None:
        """Raise an error with the program's output: InputError with files of the user, else InternalError."""
        if not done.returncode:
            return
        said = [line for line in done.stderr.strip().splitlines() if not line.startswith("collect2:")]
        reason = next((line for line in said if _REASON.search(line)), said[-1] if said else "no reason given")
        if self.users is None:
            raise InternalError(f"{message}: {reason}")
        raise InputError(
            f"{message}: {reason}",
            where=str(self.users),
            hint="correct the files there; docs/guides/boards.md lists those of a port and what each defines",
        )


@cache
def has_libc(compiler: Path) -> bool:
    """Return true if the compiler finds its C library; for a missing file it prints the bare name."""
    return "/" in _compiler_output(compiler, "-print-file-name=libc_nano.a")


def _compiler_output(compiler: Path, option: str) -> str:
    return _run((compiler, option)).stdout


def _run(command: Sequence[str | Path], directory: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def _store_object(fresh: Path, kept: Path) -> None:
    """Move a new object into the cache, unless another process was faster."""
    try:
        fresh.rename(kept)
    except OSError:
        if not kept.is_dir():
            raise

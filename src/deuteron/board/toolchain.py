"""The cross compiler: C files in, objects and linked images out.

An object is kept in a cache under the hash of all that it is made of, so that nothing is compiled twice and nothing is
ever stale.
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

from deuteron.errors import InternalError, MissingToolError
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
"""What every C file is compiled with; the core's own flags come after."""

LINK_FLAGS = ("-nostartfiles", "--specs=nano.specs", "-Wl,--gc-sections", "-Wl,--print-memory-usage")

PLACE_ALL = "-Wl,--orphan-handling=error"
"""For the boards' own linker scripts: a section that they do not place would lie in free memory, and start-up would not
fill it."""

_USAGE = re.compile(r"^ *(\w+): +(\d+) ([KMG]?)B +(\d+) ([KMG]?)B +[\d.]+%$", re.MULTILINE)
_REASON = re.compile(r" error: |unplaced orphan|undefined reference|multiple definition")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Source:
    """A C or assembler file.

    Attributes:
        name: the object's, `<module>.<file>`; the size report groups by it.
        path: where it is.
        includes: files that it takes in, but for the firmware's headers.
        flags: of the compiler for this file, after all others.
    """

    name: str
    path: Path
    includes: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Object:
    """A compiled file; `calls` is its call graph with stack frames as GCC writes it, absent for an assembler file."""

    name: str
    path: Path
    calls: Path


@dataclass(frozen=True, slots=True)
class Region:
    """A memory of the linker script: bytes that the image puts there and bytes that it has."""

    name: str
    used: int
    size: int


@dataclass(frozen=True, slots=True)
class Toolchain:
    """GCC for Arm with newlib.

    Attributes:
        compiler: path of the program.
        version: the first line that it says of itself.
        cache: directory of the objects; may be removed at any time.
    """

    compiler: Path
    version: str
    cache: Path

    @classmethod
    def find(cls, objects: Path) -> "Toolchain":
        """The installed toolchain, with its cache in `objects`; MissingToolError when a part of it is not there."""
        compiler = find_program(f"{PREFIX}gcc", COMPILER_PACKAGE, "the compiler for Arm boards")
        find_program(f"{PREFIX}ar", BINUTILS_PACKAGE, "the archiver for Arm boards")
        if not has_libc(compiler):
            raise MissingToolError(
                f"the C library for Arm boards is not installed: `{compiler.name}` finds no `libc_nano.a`",
                hint=f"install it, on Debian with `apt-get install {LIBC_PACKAGE}`",
            )
        return cls(compiler, _say(compiler, "--version").partition("\n")[0], objects)

    def compile(self, sources: Sequence[Source], flags: Sequence[str], root: Path) -> tuple[Object, ...]:
        """The objects of the sources, in their order.

        `root` is the directory of the firmware: headers are looked for in its `include`, and a change of any header in
        it compiles everything anew, but for those of its tests, which only tests' sources include.
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
        """The object from the cache, compiled first if it is not there."""
        contents = b"".join(hashlib.sha256(path.read_bytes()).digest() for path in (source.path, *source.includes))
        own = "\0".join((source.name, *source.flags)).encode()
        kept = self.cache / hashlib.sha256(seed + contents + own).hexdigest()[:32]
        compiled = Object(source.name, kept / f"{source.name}.o", kept / f"{source.name}.ci")
        if not compiled.path.is_file():
            self.cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.cache, prefix=".new-") as scratch:
                fresh = Path(scratch) / "object"
                fresh.mkdir()
                beside = f"-I{source.path.parent}"
                command = (
                    self.compiler,
                    *options,
                    *source.flags,
                    beside,
                    "-c",
                    source.path,
                    "-o",
                    fresh / compiled.path.name,
                )
                _check(_run(command), f"`{source.path.name}` does not compile")
                _keep(fresh, kept)
        return compiled

    def archive(self, objects: Sequence[Object], path: Path) -> None:
        """Write a static library of the objects."""
        command = (f"{PREFIX}ar", "rcsD", path, *(item.path for item in objects))
        _check(_run(command), f"`{path.name}` cannot be made")

    def link(
        self, inputs: Sequence[str], flags: Sequence[str], script: Path, output: Path
    ) -> tuple[tuple[Region, ...], bool]:
        """How full each memory is, and whether all fits: only then is there an image.

        `inputs` are file names in the directory of `output`, in the order that the linker takes them; beside the image
        stands its map, with the suffix `.map`.
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
            _check(done, f"`{output.name}` cannot be linked")
        return regions, fits


@cache
def has_libc(compiler: Path) -> bool:
    """Whether the compiler finds its C library: it answers with the bare name for what it does not find."""
    return "/" in _say(compiler, "-print-file-name=libc_nano.a")


def _say(compiler: Path, option: str) -> str:
    return _run((compiler, option)).stdout


def _run(command: Sequence[str | Path], directory: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def _check(done: "subprocess.CompletedProcess[str]", message: str) -> None:
    """Raises InternalError with what the program said: all that it is given is ours."""
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it gives no reason"]
        error = next((line for line in said if _REASON.search(line)), said[-1])
        raise InternalError(f"{message}: {error}")


def _keep(fresh: Path, kept: Path) -> None:
    """Gives what was made its place in the cache, unless someone else was faster."""
    try:
        fresh.rename(kept)
    except OSError:
        if not kept.is_dir():
            raise

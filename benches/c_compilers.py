"""Compiles the firmware library with GCC and Clang, at every level of optimisation, with registers reserved.

Each C file of the library is compiled as portable C, with DSP instructions and with vectors, warnings as errors. Frame
pointers take r7, and `-ffixed-r9` takes r9: the assembler of the inner loops must leave both to the compiler, so these
files are compiled with each of them, and with both, too. Every Clang on PATH takes part. With `--inner` only the inner
loops are compiled.

make bench-c-compilers
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from harness import Results, main, option

from deuteron.arch.cores import InnerWork
from deuteron.board import boards, library
from deuteron.board.boards import Board
from deuteron.board.toolchain import COMPILER_PACKAGE, PREFIX, Source
from deuteron.runtime.system_programs import find_program

FLAGS = ("-std=c99", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", f"-I{library.FIRMWARE / 'include'}")
LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os")
FRAME, FIXED = "-fno-omit-frame-pointer", "-ffixed-r9"
RESERVED = ((), (FRAME,), (FIXED,), (FRAME, FIXED))
CORES: dict[InnerWork, Board] = {
    InnerWork.PORTABLE: replace(boards.load("an505"), cpu="cortex-m3", flags=("-mcpu=cortex-m3", "-mthumb")),
    InnerWork.DSP: boards.load("an505"),
    InnerWork.MVE: boards.load("an547"),
}
CLANGS = ("clang", "clang-14", "clang-15", "clang-16", "clang-17", "clang-18", "clang-19", "clang-20")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A cross compiler: its name, and the command without sources."""

    name: str
    command: tuple[str, ...]

    def compile(self, source: Path, flags: Iterable[str], output: Path) -> str:
        """Compile a C file to an object, and return what the compiler says of a failure, else the empty text."""
        command = (*self.command, *flags, f"-I{source.parent}", "-c", source, "-o", output)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stderr if done.returncode else ""


def gcc() -> Compiler:
    """GCC for Arm."""
    return Compiler("gcc", (str(find_program(f"{PREFIX}gcc", COMPILER_PACKAGE, "the compiler for Arm boards")),))


def clangs() -> tuple[Compiler, ...]:
    """Every Clang on PATH, with the headers of GCC's C library."""
    command = (*gcc().command, "-print-file-name=libc_nano.a")
    libc = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    headers = Path(libc).resolve().parents[1] / "include"
    options = ("--target=arm-none-eabi", "-isystem", str(headers))
    found = {Path(path).resolve(): name for name in reversed(CLANGS) if (path := shutil.which(name))}
    return tuple(Compiler(name, (str(path), *options)) for path, name in found.items())


def inner_loops(work: InnerWork) -> tuple[Source, ...]:
    """The inner loops of operators and kernels for a kind of core, and the kernels that call them."""
    folders = {work.value, InnerWork.PORTABLE.value, "device"}
    sources = (*library.inner_work(work), *library.kernels(work))
    return tuple(source for source in sources if source.path.parent.name in folders)


@dataclass(frozen=True, slots=True)
class Failure:
    """A file that does not compile, with the options and the first error."""

    file: str
    compiler: str
    options: str
    error: str


def failures(
    compilers: Sequence[Compiler], options: Sequence[tuple[str, ...]], works: Iterable[InnerWork], *, inner: bool
) -> tuple[int, list[Failure]]:
    """The number of compilations, and those that failed."""
    jobs = [
        (compiler, (*CORES[work].flags, *FLAGS, *chosen), source.path)
        for work in works
        for source in (inner_loops(work) if inner else library.core(CORES[work]))
        for compiler, chosen in product(compilers, options)
    ]
    with ThreadPoolExecutor() as pool:
        started = [pool.submit(one.compile, path, flags, Path("/dev/null")) for one, flags, path in jobs]
        said = [job.result() for job in started]
    return len(jobs), [
        Failure(
            path.relative_to(library.FIRMWARE).as_posix(),
            compiler.name,
            " ".join(flags),
            next((line for line in text.splitlines() if "error" in line), text.strip()),
        )
        for (compiler, flags, path), text in zip(jobs, said, strict=True)
        if text
    ]


def results(arguments: argparse.Namespace) -> Results:
    """Every file with all compilers and options."""
    compilers = (gcc(), *clangs())
    options = [(level, *reserved) for level, reserved in product(LEVELS, RESERVED)]
    count, failed = failures(compilers, options, CORES, inner=True)
    if not arguments.inner:
        more, others = failures(compilers, [(level,) for level in LEVELS], CORES, inner=False)
        count, failed = count + more, [*failed, *(item for item in others if item not in failed)]
    notes = [f"{count:,} compilations with {', '.join(compiler.name for compiler in compilers)}: {len(failed)} failed"]
    problems = [f"{item.file} with {item.compiler} {item.options}: {item.error}" for item in failed]
    return Results("counted", failed, problems=problems, notes=notes, data={"compilations": count})


if __name__ == "__main__":
    sys.exit(main(results, option("--inner", action="store_true", help="compile the inner loops only")))

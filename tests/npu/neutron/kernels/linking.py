"""The firmware's library as a device links it, by the compilers of this host and of the boards."""

import hashlib
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from deuteron.arch.cores import InnerWork
from deuteron.board.library import kernels
from deuteron.npu.neutron.kernels import image
from deuteron.npu.neutron.kernels.selection import Selection

CHECKOUT = Path(__file__).parents[4]
FIRMWARE = CHECKOUT / "firmware"
SOURCES = ("src/driver/*.c", "src/kernels/check/*.c", "src/kernels/table_fast.c")
PROGRAM = """\
#include "NeutronDriver.h"

int main(void)
{
    NeutronModelHandle handle = NEUTRON_INVALID_HANDLE;
    return neutronModelPrepare(NULL, &handle) == ENONE;
}
"""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler with its linker: what it is called, what each program adds to the library, and flags."""

    name: str
    prefix: str
    port: str
    flags: tuple[str, ...]
    link_flags: tuple[str, ...]

    @property
    def directory(self) -> Path:
        """Where its objects are kept; a change of any source or flag gives another one."""
        seed = hashlib.sha256(repr((self.flags, SOURCES)).encode())
        for path in sorted((*FIRMWARE.rglob("*.[ch]"),)):
            seed.update(path.read_bytes())
        return CHECKOUT / "build" / "kernel-selection" / f"{self.name}-{seed.hexdigest()[:12]}"

    def compile(self, source: Path, output: Path) -> Path:
        """The object at `output`."""
        flags = ("-std=c99", "-Os", "-ffunction-sections", "-fdata-sections", *self.flags, "-I", FIRMWARE / "include")
        run(f"{self.prefix}gcc", *flags, "-c", source, "-o", output)
        return output

    def library(self) -> Path:
        """The library, made when it is not there yet."""
        directory = self.directory
        library = directory / "libdeuteron.a"
        if not library.is_file():
            directory.mkdir(parents=True, exist_ok=True)
            sources = [path for pattern in (*SOURCES, self.port) for path in sorted(FIRMWARE.glob(pattern))]
            sources += [source.path for source in kernels(InnerWork.PORTABLE)]
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                made = pool.map(lambda path: self.compile(path, directory / f"{path.stem}.{os.getpid()}.o"), sources)
                fresh = self.archive(list(made), directory / f"{os.getpid()}.a")
            fresh.replace(library)
        return library

    def archive(self, objects: Sequence[Path], output: Path) -> Path:
        """The static library at `output`."""
        run(f"{self.prefix}ar", "rcs", output, *objects)
        return output

    def selection(self, selection: Selection, folder: Path) -> Path:
        """The object of a kernel selection file."""
        source = folder / "a_kernel_selection.c"
        source.write_text(selection.to_c())
        return self.compile(source, folder / "selection.o")

    def program(self, folder: Path) -> Path:
        """The object of a program that uses the driver."""
        source = folder / "program.c"
        source.write_text(PROGRAM)
        return self.compile(source, folder / "program.o")

    def link(self, output: Path, *inputs: str | Path) -> Path:
        """The image of these objects, libraries and linker flags in this order."""
        run(f"{self.prefix}gcc", *self.flags, *self.link_flags, "-Wl,--gc-sections", *inputs, "-o", output)
        return output


HOST = Toolchain("host", "", "port/host/*.c", ("-fPIC",), ())
M33 = Toolchain(
    "m33",
    "arm-none-eabi-",
    "port/template/*.c",
    ("-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"),
    (
        "--specs=nano.specs",
        "--specs=nosys.specs",
        # What a board's linker script says of weights that start-up copies.
        *(f"-Wl,--defsym=__dtn_sram_{name}=0" for name in ("start", "end", "load")),
    ),
)


def run(*command: str | Path) -> None:
    """Run a command, which must succeed without a word on its error stream."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def functions(path: Path) -> list[str]:
    """Return the entry of an image's table for each kernel that it has; no other kernel may have one."""
    found = image.parse(path.read_bytes(), str(path))
    assert found.unused == ()
    return [entry.function for entry in found.table]

"""Arm's driver for Ethos-U, from a checkout or as a library with its headers: for images that run on silicon."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deuteron.board.toolchain import Source
from deuteron.errors import InputError, OptionError
from deuteron.native import FIRMWARE

_HEADER = "ethosu_driver.h"
_CORE = "src/ethosu_driver.c"
_DEVICES = {"u55": "ethosu_device_u55_u65.c", "u65": "ethosu_device_u55_u65.c", "u85": "ethosu_device_u85.c"}
_ACCELERATOR = re.compile(r"ethos-(u\d+)-(\d+)")
_FAMILY = "executor.npu_ethosu"
_LONGEST_MS = 60_000
"""Time limit of an inference: a hanging NPU must not hang the core. It equals the range of the boards' timers."""
_HINT = "give a checkout of Arm's driver, or a directory with its headers and its one library"


@dataclass(frozen=True, slots=True)
class EthosUDriver:
    """Arm's driver.

    Attributes:
        headers: directory of its headers.
        sources: files to compile, from a checkout; none for a library.
        library: the archive; None for a checkout.
    """

    headers: Path
    sources: tuple[Source, ...]
    library: Path | None

    def calling(self, sources: Sequence[Source]) -> tuple[Source, ...]:
        """Return the sources; those that call the driver include its own header."""
        included = tuple(sorted(self.headers.glob("*.h")))
        flags = ("-iquote", str(self.headers))
        return tuple(
            replace(source, includes=(*source.includes, *included), flags=(*source.flags, *flags))
            if source.name == _FAMILY or (source.path.parent.name == "ethosu" and source.name.startswith("port."))
            else source
            for source in sources
        )


def find(directory: Path, accelerators: Sequence[str]) -> EthosUDriver:
    """Find the driver in a directory, for images with partitions for these accelerators.

    Raises:
        OptionError: there is no partition for an Ethos-U, or there are some for different ones.
        InputError: the directory has no driver.
    """
    if not accelerators:
        raise OptionError(
            "`--ethos-u-driver` needs a program with Ethos-U partitions; this one has none", hint="leave it out"
        )
    directory = directory.absolute()
    headers = next((d for d in (directory / "include", directory) if (d / _HEADER).is_file()), None)
    if headers is None:
        raise InputError(f"`{directory}` has no `{_HEADER}`, and neither has its `include`", hint=_HINT)
    if (directory / _CORE).is_file():
        return EthosUDriver(headers, _sources(directory, headers, accelerators), None)
    libraries = sorted(directory.rglob("*.a"))
    if len(libraries) != 1:
        counted = f"{len(libraries)} libraries" if libraries else "no library"
        raise InputError(f"`{directory}` has {counted} and no `{_CORE}`", hint=_HINT)
    return EthosUDriver(headers, (), libraries[0])


def _sources(directory: Path, headers: Path, accelerators: Sequence[str]) -> tuple[Source, ...]:
    """Return the files that the checkout's own build compiles for an accelerator, without its log."""
    products = {match.groups() for name in accelerators if (match := _ACCELERATOR.fullmatch(name))}
    if len(products) != 1:
        listed = ", ".join(f"`{name}`" for name in accelerators)
        raise OptionError(f"a driver supports one accelerator, but the program is for {listed}")
    ((arch, macs),) = products
    own = directory / "src"
    flags = (
        "-std=gnu11", "-w", "-DNDEBUG", "-DETHOSU", f"-DETHOSU_ARCH={arch}", f"-DETHOSU_MACS={macs}",
        f"-DETHOS{arch.upper()}", "-DETHOSU_LOG_ENABLE=0", "-DETHOSU_LOG_SEVERITY=0",
        f"-DETHOSU_SEMAPHORE_WAIT_INFERENCE={_LONGEST_MS}", "-iquote", str(headers),
        f"-I{FIRMWARE / 'port' / 'ethosu' / 'cmsis'}",
    )  # fmt: skip
    included = tuple(sorted((*headers.glob("*.h"), *own.glob("*.h"))))
    names = ("ethosu_driver.c", "ethosu_pmu.c", _DEVICES[arch])
    return tuple(Source(f"npu_driver.{Path(name).stem}", own / name, included, flags) for name in names)

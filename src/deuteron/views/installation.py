"""Checks this installation, and says how to repair it."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path

from deuteron import native
from deuteron.board.toolchain import COMPILER_PACKAGE, LIBC_PACKAGE, PREFIX, has_libc
from deuteron.extras import is_installed
from deuteron.frontend.upstream import private_apis

OLDEST, NEWEST = (3, 11), (3, 13)
"""Python versions with ExecuTorch wheels, which we test."""

REQUIREMENT = re.compile(
    r"^(?P<name>[\w.-]+)(?:\[.*?\])?\s*(?P<pins>[^;]*?)\s*(?:;.*extra == [\"'](?P<extra>[\w-]+)[\"'].*)?$"
)


OPTIONAL = {
    "executorch": "compiles PyTorch models, runs .pte files",
    "ethos-u": "builds for Arm Ethos-U",
    "litert": "compares TFLite files: `deuteron run MODEL.tflite --compare litert`",
    "quantize": "quantizes float TFLite files: `deuteron build MODEL.tflite --calibration`",
    "cluster": "evaluates many points: `deuteron sweep`",
    "search": "looks for the best points: `deuteron sweep --search`",
    "solver": "proves plans with `--effort exact`",
    "boards": "runs on boards with `--on serial:PORT`, writes images with `flash`",
}
"""Optional extras and their purposes."""


class CheckState(Enum):
    """Result of a check; the value is its text in the report."""

    OK = "ok"
    ABSENT = "absent"
    MISSING = "MISSING"
    UNFIT = "UNFIT"


@dataclass(frozen=True, slots=True)
class Check:
    """One checked item: its state, the requirement or purpose, and how to repair it."""

    name: str
    state: CheckState
    found: str
    wanted: str
    mend: str

    @property
    def bad(self) -> bool:
        """Return true if Deuteron cannot do its main job."""
        return self.state in (CheckState.MISSING, CheckState.UNFIT)

    @property
    def is_absent(self) -> bool:
        """Return true if it is missing but optional."""
        return self.state is CheckState.ABSENT


def check_installation() -> tuple[Check, ...]:
    """Return all checks: packages and their private names, native libraries, programs, and the vendor's converter."""
    return (*_python(), *_packages(), *_private_names(), *_natives(), *_programs(), *_vendor())


def _python() -> Iterator[Check]:
    here = sys.version_info[:2]
    yield Check(
        "python",
        CheckState.OK if OLDEST <= here <= NEWEST else CheckState.UNFIT,
        ".".join(map(str, sys.version_info[:3])),
        f">={OLDEST[0]}.{OLDEST[1]},<={NEWEST[0]}.{NEWEST[1]}",
        "create the virtual environment with one of these versions: remove .venv, then `make setup PYTHON=python3.11`",
    )


def _packages() -> Iterator[Check]:
    """Check the packages for builds and runs, with the versions that our metadata requires."""
    seen: set[str] = set()
    for line in metadata.requires("deuteron") or ():
        match = REQUIREMENT.match(line)
        if match is None or match["extra"] not in (None, *OPTIONAL) or match["name"] in seen:
            continue
        seen.add(match["name"])
        name, pins = match["name"], match["pins"]
        extra = f"[{match['extra']}]" if match["extra"] else ""
        mend = f"run `make setup`, or `pip install 'deuteron{extra}'`"
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            if purpose := OPTIONAL.get(match["extra"]):
                yield Check(name, CheckState.ABSENT, "-", f"{pins}, {purpose}", f"optional; {mend}")
            else:
                yield Check(name, CheckState.MISSING, "-", pins, mend)
        else:
            state = CheckState.OK if satisfies(version, pins) else CheckState.UNFIT
            yield Check(name, state, version, pins, f"run `pip install '{name}{pins}'`")


def _private_names() -> Iterator[Check]:
    """The private names of PyTorch and ExecuTorch that the front end uses; an upgrade starts with the missing ones."""
    if not is_installed("executorch"):
        return
    missing, count = private_apis.missing(), len(private_apis.NAMES)
    yield Check(
        "upstream names",
        CheckState.UNFIT if missing else CheckState.OK,
        f"{count - len(missing)} of {count}",
        "private names of PyTorch and ExecuTorch",
        f"install the releases above; these lack {', '.join(f'`{name}`' for name in missing)}",
    )


def satisfies(version: str, pins: str) -> bool:
    """Return true if a version meets pins of the forms ==, >= and <, joined by commas; ignores `+cpu` and the like."""
    tests: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
        "==": lambda a, b: a == b,
        ">=": lambda a, b: a >= b,
        "<": lambda a, b: a < b,
    }
    have = _numbers(version.partition("+")[0])
    for pin in filter(None, (p.strip() for p in pins.split(","))):
        operator = next(o for o in tests if pin.startswith(o))
        want = _numbers(pin.removeprefix(operator))
        width = max(len(have), len(want))
        if not tests[operator](have + (0,) * (width - len(have)), want + (0,) * (width - len(want))):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version))


def converts_only(checks: Sequence[Check]) -> bool:
    """Return true if this installation only converts TFLite files, and has all it needs for that."""
    return any(check.is_absent and check.name in ("executorch", "torch") for check in checks)


def _natives() -> Iterator[Check]:
    purposes: dict[native.LibraryName, str] = {
        "driver": "runs microcode",
        "driver_ref": "checks kernels",
        "delegate": "runs partitions in ExecuTorch's runtime",
        "cortex_m": "runs Cortex-M operators",
        "ethosu": "runs programs of Arm Ethos-U",
        "ethosu_driver": "runs them behind Arm's driver API",
        "ethosu_watch": "checks their commands for missing waits",
        "executor": "runs bundles on this computer",
        "packing": "plans memory",
    }
    for name, purpose in purposes.items():
        yield _native(f"native {name}", native.file_of(name), purpose)
    yield _native(native.RUNNER, native.RUNNER, "runs programs without Python")


def _native(name: str, file: str, purpose: str) -> Check:
    """Check a native file; a wheel compiles some at first use."""
    if native.is_there(file):
        return Check(name, CheckState.OK, "built", purpose, "")
    if file in native.EXECUTORCH_PARTS:
        if not is_installed("executorch"):
            return Check(
                name, CheckState.ABSENT, "-", purpose, "optional; comes with `pip install 'deuteron[executorch]'`"
            )
        if native.IS_WHEEL:
            mend = "nothing to do; it is compiled at first use, with g++, cmake and make"
            return Check(name, CheckState.ABSENT, "-", purpose, mend)
    mend = "install Deuteron's wheel again" if native.IS_WHEEL else "run `make native` in the source checkout"
    return Check(name, CheckState.MISSING, "-", purpose, mend)


PROGRAMS = (
    ("gcc", "compiles the driver and the kernels (`make native`)", "build-essential"),
    ("g++", "compiles the delegate (`make native`)", "build-essential"),
    ("cmake", "drives both (`make native`)", "cmake"),
    (f"{PREFIX}gcc", "compiles firmware for boards", COMPILER_PACKAGE),
    ("qemu-system-arm", "runs firmware without a board", "qemu-system-arm"),
)


def _programs() -> Iterator[Check]:
    """Check compilers and emulator; none is required once the native libraries exist."""
    for program, purpose, package in PROGRAMS:
        version = _program_version(program)
        mend = f"optional; run `apt-get install {package}` on Debian, or use your system's package manager"
        yield Check(program, CheckState.OK if version else CheckState.ABSENT, version or "-", purpose, mend)
    there = _has_arm_libc()
    yield Check(
        "newlib for Arm",
        CheckState.OK if there else CheckState.ABSENT,
        "installed" if there else "-",
        "the C library of firmware for boards",
        f"optional; run `apt-get install {LIBC_PACKAGE}` on Debian, or use your system's package manager",
    )


def _has_arm_libc() -> bool:
    """Return true if the compiler for boards exists and finds its C library."""
    compiler = shutil.which(f"{PREFIX}gcc")
    return compiler is not None and has_libc(Path(compiler))


def _program_version(program: str) -> str | None:
    """Return the version that a program prints, `?` if it prints none, None if there is no such program."""
    if shutil.which(program) is None:
        return None
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    version = re.search(r"\d+(?:\.\d+)+", said)
    return version[0] if version else "?"


def _vendor() -> Iterator[Check]:
    there = is_installed("eiq_neutron_sdk")
    yield Check(
        "eiq_neutron_sdk",
        CheckState.OK if there else CheckState.ABSENT,
        "installed" if there else "-",
        "vendor converter (`--converter vendor`)",
        "optional; NXP's package, needed only to make microcode for Neutron silicon",
    )

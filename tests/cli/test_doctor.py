"""`deuteron doctor`: what it says of a good, a bad and a bare installation."""

import json
import shutil
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import get_args

import pytest

from deuteron import native
from deuteron.board.toolchain import PREFIX
from deuteron.frontend.upstream import private_apis
from deuteron.views import installation

from .conftest import Result

Run = Callable[..., Result]

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = {
    "click": "8.3.0",
    "flatbuffers": "25.2.10",
    "jinja2": "3.1.6",
    "numpy": "2.2.0",
    "ortools": "9.15.6755",
    "perfetto": "0.59.1",
    "pyelftools": "0.33",
    "tflite": "2.18.0",
    "tqdm": "4.67.1",
    "executorch": "1.5.1",
    "torch": "2.13.0+cpu",
    "ethos-u-vela": "5.1.0",
    "distributed": "2026.1.0",
    "pyarrow": "20.0.0",
    "optuna": "5.0.0",
    "pyserial": "3.5",
    "ai-edge-litert": "2.3.0",
    "ai-edge-quantizer": "0.10.0",
}
NATIVES = (
    *(
        f"native {name}"
        for name in (
            "driver", "driver_ref", "delegate", "cortex_m", "ethosu", "ethosu_driver", "ethosu_watch", "executor",
            "packing",
        )
    ),
    "deuteron-runner",
)  # fmt: skip
PROGRAMS = {"gcc": "12.2.0", "g++": "12.2.0", "cmake": "3.25.1"}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes this look like a machine with these packages, native libraries and programs."""

    def be(versions: dict[str, str] = VERSIONS, *, natives: bool = True, programs: dict[str, str] = PROGRAMS) -> None:
        def version(name: str) -> str:
            if name not in versions:
                raise metadata.PackageNotFoundError(name)
            return versions[name]

        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        requires = list(project["dependencies"])
        for extra, lines in project["optional-dependencies"].items():
            requires += [f'{line}; extra == "{extra}"' for line in lines]
        monkeypatch.setattr(metadata, "requires", lambda name: requires)  # those of this source, not as installed
        monkeypatch.setattr(metadata, "version", version)
        monkeypatch.setattr(native, "is_there", lambda name: natives)
        monkeypatch.setattr(installation, "_program_version", programs.get)
        monkeypatch.setattr(installation, "_has_arm_libc", lambda: f"{PREFIX}gcc" in programs)
        monkeypatch.setattr(installation, "_python", lambda: iter(()))
        monkeypatch.setattr(installation, "is_installed", lambda name: name in versions)

    return be


COUNT = f"{len(private_apis.NAMES)} of {len(private_apis.NAMES)}"

GOOD = f"""\
ok       click                 8.3.0          >=8.1
ok       flatbuffers           25.2.10        >=24.3.25
ok       jinja2                3.1.6          >=3.1
ok       numpy                 2.2.0          >=2.0
ok       perfetto              0.59.1         >=0.16
ok       pyelftools            0.33           >=0.31
ok       tflite                2.18.0         ==2.18.0
ok       tqdm                  4.67.1         >=4.67
ok       executorch            1.5.1          ==1.5.1
ok       torch                 2.13.0+cpu     ==2.13.0
ok       ethos-u-vela          5.1.0          ==5.1.0
absent   tosa-tools            -              ==2026.5.0, builds for Arm Ethos-U
ok       ortools               9.15.6755      >=9.12
ok       distributed           2026.1.0       >=2026.1
ok       pyarrow               20.0.0         >=20
ok       optuna                5.0.0          >=5
absent   pyocd                 -              >=0.36, runs on boards with `--on serial:PORT`, writes images with `flash`
ok       pyserial              3.5            >=3.5
ok       ai-edge-litert        2.3.0          ==2.3.0
ok       ai-edge-quantizer     0.10.0         ==0.10.0
ok       upstream names        {COUNT:<15}private names of PyTorch and ExecuTorch
ok       native driver         built          runs microcode
ok       native driver_ref     built          checks kernels
ok       native delegate       built          runs partitions in ExecuTorch's runtime
ok       native cortex_m       built          runs Cortex-M operators
ok       native ethosu         built          runs programs of Arm Ethos-U
ok       native ethosu_driver  built          runs them behind Arm's driver API
ok       native ethosu_watch   built          checks their commands for missing waits
ok       native executor       built          runs bundles on this computer
ok       native packing        built          plans memory
ok       deuteron-runner       built          runs programs without Python
ok       gcc                   12.2.0         compiles the driver and the kernels (`make native`)
ok       g++                   12.2.0         compiles the delegate (`make native`)
ok       cmake                 3.25.1         drives both (`make native`)
absent   arm-none-eabi-gcc     -              compiles firmware for boards
absent   qemu-system-arm       -              runs firmware without a board
absent   newlib for Arm        -              the C library of firmware for boards
absent   eiq_neutron_sdk       -              vendor converter (`--converter vendor`)

tosa-tools: optional; run `make setup`, or `pip install 'deuteron[ethos-u]'`

pyocd: optional; run `make setup`, or `pip install 'deuteron[boards]'`

arm-none-eabi-gcc: optional; run `apt-get install gcc-arm-none-eabi` on Debian, or use your system's package manager

qemu-system-arm: optional; run `apt-get install qemu-system-arm` on Debian, or use your system's package manager

newlib for Arm: optional; run `apt-get install libnewlib-arm-none-eabi` on Debian, or use your system's package manager

eiq_neutron_sdk: optional; NXP's package, needed only to make microcode for Neutron silicon

all requirements are met
"""


def test_a_good_machine(deuteron: Run, machine: Callable[..., None]):
    machine()
    assert deuteron("doctor") == Result(0, GOOD, "")


def test_names_that_a_release_of_executorch_lacks(
    deuteron: Run, machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    machine()
    monkeypatch.setattr(private_apis, "missing", lambda: (private_apis.EXPORT, private_apis.CODEGEN))
    result = deuteron("doctor")
    assert result.code == 1
    count = f"{len(private_apis.NAMES) - 2} of {len(private_apis.NAMES)}"
    assert f"UNFIT    upstream names        {count:<15}private names of PyTorch and ExecuTorch\n" in result.out
    assert mends(result) == [
        "upstream names: install the releases above; these lack `torch.export.export`, `torch.fx.graph.Graph._codegen`"
    ]


def mends(result: Result) -> list[str]:
    return [line for line in result.out.splitlines() if ": " in line and "optional" not in line]


def test_wrong_and_missing_packages(deuteron: Run, machine: Callable[..., None]):
    machine({**{k: v for k, v in VERSIONS.items() if k != "click"}, "torch": "2.12.1", "numpy": "1.26.4"})
    result = deuteron("doctor")
    assert result.code == 1
    assert mends(result) == [
        "click: run `make setup`, or `pip install 'deuteron'`",
        "numpy: run `pip install 'numpy>=2.0'`",
        "torch: run `pip install 'torch==2.13.0'`",
    ]
    assert "UNFIT    torch                 2.12.1         ==2.13.0\n" in result.out
    assert result.out.endswith("\n3 required things are not right\n")


def test_native_libraries_that_are_not_built(deuteron: Run, machine: Callable[..., None]):
    machine(natives=False, programs={})
    result = deuteron("doctor")
    assert result.code == 1
    assert mends(result) == [f"{name}: run `make native` in the source checkout" for name in NATIVES]
    assert {name.removeprefix("native ") for name in NATIVES[:-1]} == {*get_args(native.LibraryName)}
    assert (
        "absent   gcc                   -              compiles the driver and the kernels (`make native`)\n"
        in result.out
    )


WITHOUT_PYTORCH = {name: version for name, version in VERSIONS.items() if name not in ("torch", "executorch")}


def test_an_installation_for_tflite_files_is_as_good(deuteron: Run, machine: Callable[..., None]):
    machine(WITHOUT_PYTORCH)
    result = deuteron("doctor")
    assert (result.code, mends(result)) == (0, [])
    assert (
        "absent   executorch            -              ==1.5.1, compiles PyTorch models, runs .pte files\n"
        in result.out
    )
    assert result.out.endswith(
        "\nall requirements are met\n"
        "this installation compiles TFLite files only; `pip install 'deuteron[executorch]'` adds PyTorch models\n"
    )


def test_a_wheel_compiles_what_joins_executorch_when_it_is_used(
    deuteron: Run, machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(native, "IS_WHEEL", True)
    machine(natives=False)
    result = deuteron("doctor")
    assert "\nnative delegate: nothing to do; it is compiled at first use, with g++, cmake and make\n" in result.out
    assert "\nnative driver: install Deuteron's wheel again\n" in result.out
    machine(WITHOUT_PYTORCH, natives=False)
    assert "\nnative delegate: optional; comes with `pip install 'deuteron[executorch]'`\n" in deuteron("doctor").out


def test_json(deuteron: Run, machine: Callable[..., None]):
    machine({k: v for k, v in VERSIONS.items() if k != "jinja2"})
    result = deuteron("doctor", "--json")
    report = json.loads(result.out)
    assert (result.code, report["schema"], report["ok"]) == (1, 1, False)
    assert [c for c in report["checks"] if c["state"] == "missing"] == [
        {
            "name": "jinja2",
            "state": "missing",
            "found": "-",
            "wanted": ">=3.1",
            "mend": "run `make setup`, or `pip install 'deuteron'`",
        }
    ]


@pytest.mark.parametrize(
    ("version", "pins", "fits"),
    [
        ("2.13.0+cpu", "==2.13.0", True),
        ("2.13", "==2.13.0", True),
        ("2.13.1", "==2.13.0", False),
        ("8.10", ">=8.9", True),
        ("8.9", ">=8.10", False),
        ("3.13.2", ">=3.11,<3.14", True),
        ("3.14", ">=3.11,<3.14", False),
        ("1.0", "", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, pins: str, fits: bool):
    assert installation.satisfies(version, pins) is fits


def test_a_program_that_prints_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tool = tmp_path / "gcc"
    tool.write_text("#!/bin/sh\necho hello\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert shutil.which("gcc") == str(tool)
    assert installation._program_version("gcc") == "?"
    assert installation._program_version("no-such-program") is None
    tool.write_text("#!/bin/sh\necho 'gcc (Debian 12.2.0-14) 12.2.0'\n")
    assert installation._program_version("gcc") == "12.2.0"

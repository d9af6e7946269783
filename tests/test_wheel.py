"""The wheel as its users have it: built, installed with nothing but its dependencies, and run far from the checkout."""

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from tests.cli.test_inspect import GRAPH

from deuteron import native
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.views.installation import REQUIREMENT

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.full
"""Two compilations of everything, and what no change of a part breaks."""
OLDEST_GLIBC = (2, 17)
"""The promise of the released wheel's platform tag."""
LARGEST = 95_000_000
"""Bytes of what the wheel depends on: with pip and the wheel itself an environment stays below 120 MB."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the source distribution, in `build/sdist`.

    Objects stay there, and unchanged files keep their time: only changes are compiled again.
    """
    folder, kept = tmp_path_factory.mktemp("sdist"), ROOT / "build" / "sdist"
    backend = "from scikit_build_core.build import build_sdist; import sys; build_sdist(sys.argv[1])"
    subprocess.run((sys.executable, "-c", backend, folder), cwd=ROOT, check=True, capture_output=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    fresh = folder / archive.name.removesuffix(".tar.gz")
    names = {path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file()}
    for path in kept.rglob("*"):
        name = path.relative_to(kept)
        if path.is_file() and name not in names and name.parts[0] != "build":
            path.unlink()
    for name in names:
        content = (fresh / name).read_bytes()
        if not (kept / name).is_file() or (kept / name).read_bytes() != content:
            (kept / name).parent.mkdir(parents=True, exist_ok=True)
            (kept / name).write_bytes(content)
    return kept


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is made from the source distribution."""
    output = tmp_path_factory.mktemp("dist")
    pip = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index")
    subprocess.run((*pip, "--wheel-dir", output, sources), check=True)
    (path,) = output.iterdir()
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python in an environment that has the wheel and what it depends on, and nothing else."""
    place = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", place), check=True)
    interpreter = place / "bin" / "python"
    packages = next((place / "lib").glob("python*")) / "site-packages"
    for path in _installed("deuteron"):
        if not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    pip = (sys.executable, "-m", "pip", "--python", interpreter, "install", "-q", "--no-deps", "--no-index")
    subprocess.run((*pip, wheel), check=True)
    return interpreter


def _installed(name: str) -> Iterator[Path]:
    """The files and folders of all packages that a package needs, without its extras."""
    seen, ahead = set[str](), [name]
    while ahead:
        package = ahead.pop()
        for line in distribution(package).requires or ():
            match = REQUIREMENT.match(line)
            if match and "extra ==" not in line and match["name"] not in seen:
                if "python_version" in line or "platform" in line:
                    continue
                seen.add(match["name"])
                ahead.append(match["name"])
                here = distribution(match["name"])
                names = {file.parts[0] for file in here.files or () if file.parts[0] != ".."}
                yield from (Path(str(here.locate_file(first))) for first in sorted(names))


def deuteron(python: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """A command, run where nothing of the checkout is."""
    keep = {"PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(python.parents[2])}
    # Objects of boards' firmware are named by what they are compiled from, so those of the checkout will do.
    environment = keep | {"DEUTERON_CACHE": str(native.cache_directory())}
    command = (python.parent / "deuteron", *arguments)
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=python.parents[2])


def run(python: Path, *arguments: str | Path) -> str:
    """Return the output of a command that succeeds."""
    done = deuteron(python, *arguments)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout


@pytest.mark.full
def test_one_wheel_serves_all_versions_of_python(wheel: Path) -> None:
    assert re.fullmatch(r"deuteron-[\d.]+-py3-none-linux_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    assert {f"deuteron/runtime/lib/libdeuteron_{name}.so" for name in ("driver", "driver_ref", "packing")} < names
    assert "deuteron/share/firmware/cmake/deuteron-config.cmake" in names
    assert "deuteron/views/report/uplot/uPlot.iife.min.js" in names
    assert any(name.endswith("licenses/src/deuteron/views/report/uplot/LICENSE") for name in names)
    assert not [name for name in names if "/tests/" in name or "/build/" in name]
    assert not names & {f"deuteron/runtime/lib/{name}" for name in native.EXECUTORCH_PARTS}


def test_its_libraries_need_an_old_c_library_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        for name in (name for name in file.namelist() if name.endswith(".so")):
            with file.open(name) as stream:
                elf = ELFFile(stream)
                needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
                assert set(needed) <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, name
                versions = elf.get_section_by_name(".gnu.version_r")
                assert isinstance(versions, GNUVerNeedSection)
                used = [one.name for _, each in versions.iter_versions() for one in each]
                assert used
                assert all(tuple(map(int, v.removeprefix("GLIBC_").split("."))) <= OLDEST_GLIBC for v in used), name


def test_what_it_needs_is_small() -> None:
    files = (file for path in _installed("deuteron") for file in (path.rglob("*") if path.is_dir() else (path,)))
    assert sum(file.stat().st_size for file in files if file.is_file()) < LARGEST


def test_everything_but_builds_runs_without_pytorch(python: Path, tmp_path: Path) -> None:
    model, converted = tmp_path / "net.tflite", tmp_path / "net.npu.tflite"
    model.write_bytes(emit(parse_graph(GRAPH)))
    assert "Show the version" in run(python, "--help")
    cmake = Path(run(python, "--cmake-dir").strip())
    assert cmake.is_relative_to(python.parents[1])
    assert (cmake / "deuteron-config.cmake").is_file()
    assert run(python, "doctor").endswith(
        "\nall requirements are met\n"
        "this installation compiles TFLite files only; `pip install 'deuteron[executorch]'` adds PyTorch models\n"
    )
    assert "kernel calls" in run(python, "convert", model, "-o", converted)
    assert run(python, "run", converted, "--seed", "1") == run(python, "run", model, "--seed", "1")
    assert run(python, "sim", model).startswith(f"{model} on imxrt700, simulated: ")
    assert "CONV_2D" in run(python, "plan", model)
    assert "MAX_POOL_2D" in run(python, "explain", model)
    assert "ADD" in run(python, "profile", model, "--on", "sim", "-o", tmp_path / "profile")
    assert (tmp_path / "profile" / "report.html").is_file()
    assert "stack" in run(python, "firmware", model, "--board", "an505", "-o", tmp_path / "firmware")
    run(python, "run", model, "--on", "an505", "--compare", "host")


def test_a_build_says_what_to_install(python: Path, tmp_path: Path) -> None:
    refused = deuteron(python, "build", tmp_path / "net.py:net", "-o", tmp_path / "build")
    assert (refused.returncode, refused.stdout, refused.stderr) == (
        2,
        "",
        "error: a build of a PyTorch model needs the Python package `torch`, which is not installed\n\n"
        "hint: install Deuteron with its extra: `pip install 'deuteron[executorch]'`\n",
    )


CONVERT = """\
from pathlib import Path
from eiq_neutron_sdk import neutron_converter as c
context = c.CompilationContext()
context.targetOpts = c.getNeutronTarget("imxrt700")
context.compilationOpts.dumpKernelSelectionCode = True
Path("npu.tflite").write_bytes(c.convertModel(list(Path("net.tflite").read_bytes()), context))
"""


def test_the_vendors_name_is_a_distribution_of_its_own(python: Path, tmp_path: Path) -> None:
    def ran(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run((python, *arguments), capture_output=True, text=True, cwd=tmp_path)

    assert "No module named 'eiq_neutron_sdk'" in ran("-c", "import eiq_neutron_sdk").stderr
    source = ROOT / "distributions" / "eiq-neutron-sdk"
    pip = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index")
    subprocess.run((*pip, "--wheel-dir", tmp_path, source), check=True)
    (small,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(small).extractall(tmp_path / "named")
    packages = next((python.parents[1] / "lib").glob("python*")) / "site-packages"
    link = packages / "named.pth"
    link.write_text(str(tmp_path / "named"))
    try:
        (tmp_path / "net.tflite").write_bytes(emit(parse_graph(GRAPH)))
        assert ran("-c", CONVERT).stderr == ""
        assert ": converted TFLite file, " in run(python, "inspect", tmp_path / "npu.tflite")
        merge = "eiq_neutron_sdk.neutron_library_utils.merge_kernel_selection_code"
        assert ran("-m", merge, "-input-files", "_kernel_selection.c", "-output-file", "all.c").returncode == 0
        vendors = tmp_path / "named" / "eiq_neutron_sdk-1.0.dist-info"
        vendors.mkdir()
        (vendors / "METADATA").write_text("Name: eiq_neutron_sdk\nVersion: 1.0\n")
        assert ran("-c", "import eiq_neutron_sdk").stderr.endswith(
            "ImportError: `eiq_neutron_sdk` is installed twice, by its vendor and by `deuteron-eiq-neutron-sdk`, one "
            "over the other\n\n"
            "hint: `pip uninstall eiq_neutron_sdk deuteron-eiq-neutron-sdk`, then install the one that you want\n"
        )
    finally:
        link.unlink()

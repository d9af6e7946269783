"""Cost of an installation: the source distribution, its wheel, and an environment with only that.

pip installs the wheel with its dependencies. Sizes are of all files of the environment and of its largest
distributions. Then the environment gets PyTorch and ExecuTorch of this one. The first `deuteron run` of a `.pte`
compiles the ExecuTorch delegate, and the second finds it. Each time has its processor time and the machine's load
before.

make bench-installation
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

from harness import Results, main, processor_seconds, table

from deuteron.board.build_directory import build_directory
from deuteron.builds.manifest import PROGRAM

ROOT = Path(__file__).resolve().parents[1]
Row = dict[str, str | float]


def timed(what: str, command: Sequence[str | Path], cwd: Path, environment: Mapping[str, str]) -> tuple[Row, str]:
    """Run a command; return its times and its standard error."""
    load, before, began = os.getloadavg()[0], processor_seconds(), time.perf_counter()
    done = subprocess.run(command, cwd=cwd, env={**environment}, check=True, capture_output=True, text=True)
    row: Row = {"what": what, "wall_s": time.perf_counter() - began}
    return row | {"processor_s": processor_seconds() - before, "load_before": load}, done.stderr


def nbytes(files: Iterator[Path]) -> int:
    """The bytes of files; links count as what they are."""
    return sum(path.lstat().st_size for path in files if path.is_file())


def size_of(distribution: Distribution) -> int:
    """The bytes of an installed distribution, with what Python has compiled of it."""
    return nbytes(Path(str(distribution.locate_file(file))) for file in distribution.files or ())


def results(_: argparse.Namespace) -> Results:
    """Build, install and run; return times and sizes."""
    rows, sizes = list[Row](), dict[str, int]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own, place = dict(os.environ), folder / "environment"
        backend = "import scikit_build_core.build as b, sys; print(b.build_sdist(sys.argv[1]))"
        rows.append(timed("source distribution", (sys.executable, "-c", backend, folder), ROOT, own)[0])
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as file:
            file.extractall(folder / "sources", filter="data")
        (sources,) = (folder / "sources").iterdir()
        pip = ("-m", "pip", "--disable-pip-version-check", "-q")
        build = (sys.executable, *pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, sources)
        rows.append(timed("wheel from it", build, folder, own)[0])
        (wheel,) = folder.glob("*.whl")
        sizes |= {archive.name: archive.stat().st_size, wheel.name: wheel.stat().st_size}
        venv.create(place, with_pip=True)
        python = place / "bin" / "python"
        rows.append(timed("installation", (python, *pip, "install", wheel), folder, own)[0])
        packages = next((place / "lib").glob("python*")) / "site-packages"
        sizes["environment"] = nbytes(place.rglob("*"))
        installed = {one.name: size_of(one) for one in distributions(path=[str(packages)])}
        sizes |= dict(sorted(installed.items(), key=lambda item: -item[1]))
        (packages / "executorch.pth").write_text(others())
        clean = {"PATH": own["PATH"], "HOME": name, "DEUTERON_CACHE": str(folder / "cache")}
        run = (place / "bin" / "deuteron", "run", build_directory(ROOT / "examples" / "digits.tflite") / PROGRAM)
        for what in ("first run of a .pte", "second run"):
            row, said = timed(what, run, folder, clean)
            rows.append(row)
            print(f"{what}: {said.strip().partition(chr(10))[0] or 'nothing said'}")
    columns = {"what": "what", "wall, s": "wall_s:.1f", "processor, s": "processor_s:.1f", "load": "load_before:.1f"}
    sized = table(sizes.items(), {"what": lambda item: item[0], "MB": lambda item: f"{item[1] / 1e6:.1f}"})
    return Results("measured", rows, [table(rows, columns), sized], data={"bytes": sizes})


def others() -> str:
    """The folders of packages of the environment that runs this, as lines of a path file."""
    return "".join(f"{path}\n" for path in sys.path if path.endswith("site-packages"))


if __name__ == "__main__":
    sys.exit(main(results))

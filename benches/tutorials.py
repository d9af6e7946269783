"""Time to the first result of each tutorial: its commands in turn, in an empty folder.

Each command is a separate process. A row has wall time to the end of the first command, which shows a result of the
model, and of the last; the processor time of all; and the machine's load before and after.

make bench-tutorials
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Results, main, option, processor_seconds, table

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
COMMAND = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def row(page: Path) -> dict[str, str | float]:
    """Run the commands of a page and time them."""
    (commands,) = COMMAND.findall(page.read_text("utf-8"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("digits.tflite", "wake_word.py"):
            shutil.copyfile(ROOT / "examples" / name, Path(folder) / name)
        load, used, began, ends = os.getloadavg()[0], processor_seconds(), time.perf_counter(), list[float]()
        for command in commands.splitlines():
            program = shutil.which((arguments := shlex.split(command))[0], path=path)
            assert program is not None, command
            subprocess.run(
                [program, *arguments[1:]],
                cwd=folder,
                env=os.environ | {"PATH": path},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            ends.append(time.perf_counter() - began)
    return {
        "page": page.stem,
        "first_s": ends[0],
        "all_s": ends[-1],
        "processor_s": processor_seconds() - used,
        "load_before": load,
        "load_after": os.getloadavg()[0],
    }


def results(options: argparse.Namespace) -> Results:
    """Each page."""
    rows = [row(page) for page in PAGES if not options.pages or page.stem in options.pages]
    columns = {"tutorial": "page", "first result, s": "first_s:.1f", "all, s": "all_s:.1f"}
    columns |= {"processor, s": "processor_s:.1f"}
    columns["load"] = lambda one: f"{one['load_before']:.1f} to {one['load_after']:.1f}"
    return Results("measured", rows, [table(rows, columns)])


if __name__ == "__main__":
    sys.exit(main(results, option("--pages", nargs="+", choices=[page.stem for page in PAGES], help="all by default")))

"""Time to compile: Deuteron's converter and Arm's Vela on the same TFLite partitions.

Both run as programs from start to exit, in turns, so that other load affects both. "alone" is the converter in a
running process. All figures are medians of wall time. Vela compiles for an Ethos-U55 with 64 MACs, the size of the
N3-64.

make bench-convert
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import Results, main, option, table

from deuteron import api
from deuteron.npu.neutron.convert import convert

LIMIT_MODEL = "mobilenet_v2"
"""The model that we must not take longer for than Vela."""
TARGET = "imxrt700"
ACCELERATOR = "ethos-u55-64"
PROGRAM = f"""
import sys
from pathlib import Path
from deuteron.npu.neutron.convert import convert
convert(Path(sys.argv[1]).read_bytes(), {TARGET!r})
"""


@dataclass(frozen=True, slots=True)
class Result:
    """One model: sizes in bytes, median times in seconds; Vela's are None when it cannot compile the model."""

    model: str
    partitions: int
    tflite_bytes: int
    microcode_bytes: int
    weights_bytes: int
    alone_s: float
    deuteron_s: float
    vela_s: float | None

    @property
    def ratio(self) -> float | None:
        """Our program's time as a share of Vela's."""
        return None if self.vela_s is None else self.deuteron_s / self.vela_s


def partitions(folder: Path) -> dict[str, list[Path]]:
    """The partitions of each example model, built into `folder`."""
    found: dict[str, list[Path]] = {}
    for example in api.REFERENCES:
        print(f"building {example.name}", file=sys.stderr)
        output = folder / example.name
        manifest = api.build_model(example.name, output=output).manifest
        found[example.name] = [output / f"npu_{index}.tflite" for index in range(len(manifest.partitions))]
    return found


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def run_program(command: Sequence[str]) -> None:
    """Runs a program to its end; CalledProcessError when it fails."""
    subprocess.run(command, check=True, capture_output=True, text=True)


def measure(model: str, paths: Sequence[Path], runs: int, scratch: Path) -> Result:
    """All figures of one model."""
    files = [path.read_bytes() for path in paths]
    containers = [convert(data, TARGET).container for data in files]  # also the warm-up
    vela = [str(Path(sys.executable).parent / "vela"), "--accelerator-config", ACCELERATOR]
    ours = [[sys.executable, "-c", PROGRAM, str(path)] for path in paths]
    theirs = [[*vela, "--output-dir", str(scratch), str(path)] for path in paths]
    times: dict[str, list[float]] = {"alone": [], "deuteron": [], "vela": []}
    vela_works = True
    for _ in range(runs):
        times["alone"].append(seconds(lambda: [convert(data, TARGET) for data in files]))
        times["deuteron"].append(seconds(lambda: [run_program(command) for command in ours]))
        try:
            times["vela"].append(seconds(lambda: [run_program(command) for command in theirs]))
        except subprocess.CalledProcessError as error:
            print(f"vela cannot compile {model}: {error.stderr.strip() or error.stdout.strip()}", file=sys.stderr)
            vela_works = False
    return Result(
        model,
        len(paths),
        sum(map(len, files)),
        sum(len(container.microcode) for container in containers if container is not None),
        sum(len(container.weights) for container in containers if container is not None),
        statistics.median(times["alone"]),
        statistics.median(times["deuteron"]),
        statistics.median(times["vela"]) if vela_works else None,
    )


def results(options: argparse.Namespace) -> Results:
    """Each model; MobileNetV2 must not take longer than with Vela."""
    with tempfile.TemporaryDirectory() as parent:
        files = options.tflite and {path.stem: [path] for path in sorted(options.tflite.glob("*.tflite"))}
        models = files or partitions(Path(parent))
        rows = [measure(model, paths, options.runs, Path(parent)) for model, paths in models.items()]
    columns = {"model": "model", "alone ms": lambda r: f"{r.alone_s * 1e3:.0f}"}
    columns |= {"program ms": lambda r: f"{r.deuteron_s * 1e3:.0f}", "share of Vela": "ratio:.2f"}
    columns["Vela ms"] = lambda r: None if r.vela_s is None else f"{r.vela_s * 1e3:.0f}"
    columns |= {"microcode B": "microcode_bytes", "weights B": "weights_bytes"}
    over = [r for r in rows if r.model == LIMIT_MODEL and r.ratio is not None and r.ratio > 1]
    problems = [f"{r.model} takes {r.ratio:.2f} of Vela's time" for r in over]
    return Results("measured", rows, [table(rows, columns)], problems)


TFLITE = option("--tflite", type=Path, metavar="DIR", help="TFLite partitions instead of the examples")

if __name__ == "__main__":
    sys.exit(main(results, TFLITE, option("--runs", type=int, default=7, help="runs per figure (default: 7)")))

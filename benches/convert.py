"""Time to compile: our converter beside Arm's Vela on the same TFLite partitions.

Both run as programs, from start to exit, because Vela has no other form; they take turns, so that other load on the
machine meets both. The figure for our converter alone, TFLite bytes to container in a running process, stands beside.
All figures are medians of wall time. Vela compiles for Ethos-U55 with 64 MACs, the size of the N3-64.

make bench-convert
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

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


def table(results: Sequence[Result]) -> str:
    """The results in columns."""
    lines = ["median wall time in ms, measured; `alone` is our converter in a running process, the others are programs"]
    lines.append(
        f"{'model':<18}{'alone':>10}{'deuteron':>10}{'vela':>10}{'share':>8}{'microcode B':>13}{'weights B':>11}"
    )
    for r in results:
        vela = "-" if r.vela_s is None else f"{r.vela_s * 1e3:.0f}"
        share = "-" if r.ratio is None else f"{r.ratio:.2f}"
        times = f"{r.alone_s * 1e3:>10.1f}{r.deuteron_s * 1e3:>10.0f}{vela:>10}{share:>8}"
        lines.append(f"{r.model:<18}{times}{r.microcode_bytes:>13}{r.weights_bytes:>11}")
    return "\n".join(lines)


def main() -> int:
    """Exit status: 1 when MobileNetV2 takes longer than with Vela."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tflite", type=Path, metavar="DIR", help="TFLite partitions to compile instead of the examples"
    )
    parser.add_argument("--runs", type=int, default=7, help="runs per figure (default: 7)")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent)
        if arguments.tflite is None:
            models = partitions(folder)
        else:
            models = {path.stem: [path] for path in sorted(arguments.tflite.glob("*.tflite"))}
        results = [measure(model, paths, arguments.runs, folder) for model, paths in models.items()]
    print(table(results))
    if arguments.json:
        machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": sys.version}
        rows = [asdict(result) for result in results]
        arguments.json.write_text(json.dumps({"schema": 1, "machine": machine, "results": rows}, indent=2))
    over = [r for r in results if r.model == LIMIT_MODEL and r.ratio is not None and r.ratio > 1]
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())

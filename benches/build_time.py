"""Processor time of `deuteron build`, beside that of an older commit: user and system time of whole processes.

Each commit builds the same model files, taken from this checkout, in turns. Trust the ratios, not the seconds. What
both write is compared: all files of the older one must be equal, but for the addresses and numbers of Python objects
that PyTorch writes into `reference.pt2`, whether it would train the biases that folding batch norms has made,
partitions that once stood in it, and the list of files in `build.json`, its schema and the kinds of work, which have
finer names now.

    python benches/build_time.py --against DIR [--repeats N] [--json FILE]

`DIR` is a checkout of the older commit, with a `.venv` of its own in which `deuteron` is that checkout.
"""

import argparse
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from ending import finish

ROOT = Path(__file__).parents[1]
MODELS = {"digits": "digits.py:digits", "resnet8": "mlperf_tiny.py:resnet8"}
MOST = 0.6
"""Of the older commit's processor time."""
ADDRESS = re.compile(rb"(graph_id\W+|[;\"]|0x)[\da-f]{12,15}(?=[^\da-f])|(<eval_with_key>\.)\d+")
TRAINED = re.compile(rb'("requires_grad": )(true|false)')
"""Says nothing of what a quantised program computes; once PyTorch folded, now Deuteron does, and before training."""
TARGET = ("--target", "imxrt700")


def built(checkout: Path, model: str, directory: Path) -> float:
    """Seconds of processor time that a build took, in the process and its children."""
    python = checkout / ".venv" / "bin" / "python"
    command = [python, "-m", "deuteron", "build", ROOT / "examples" / "models" / MODELS[model], *TARGET]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["OMP_NUM_THREADS"] = "1"
    process = subprocess.Popen(
        [*command, "-q", "--force", "-o", directory],
        cwd=directory.parent,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{checkout}: `deuteron build` ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def differing(first: Path, second: Path) -> list[str]:
    """Names of the first build's files that are others in the second."""
    names = sorted(path.name for path in first.iterdir())
    return [name for name in names if _content(first / name) != _content(second / name)]


def _content(path: Path) -> object:
    if not path.exists():
        return None
    data = path.read_bytes()
    if path.suffix == ".pt2":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
        kept = {name: data for name, data in entries.items() if not name.endswith((".tflite", "serialization_id"))}
        return {name: TRAINED.sub(rb"\1", ADDRESS.sub(rb"\1\2", data)) for name, data in kept.items()}
    if path.name == "build.json":
        record = json.loads(data)
        for node in record["nodes"]:
            node.pop("work", None)
        return {key: value for key, value in record.items() if key not in {"files", "schema"}}
    return data


def compare(model: str, against: Path, repeats: int, folder: Path) -> dict[str, Any]:
    """The seconds of both, their ratio, and what differs."""
    old, new = folder / f"{model}-old", folder / f"{model}-new"
    pairs = [(built(against, model, old), built(ROOT, model, new)) for _ in range(repeats)]
    return {
        "model": model,
        "old_s": [before for before, _ in pairs],
        "new_s": [after for _, after in pairs],
        "ratio": statistics.median(after / before for before, after in pairs),
        "differing": differing(old, new),
    }


def main() -> int:
    """Prints the times; 1 when a build takes longer than it may, or its files differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--against", type=Path, required=True, metavar="DIR", help="checkout of the older commit")
    parser.add_argument("--repeats", type=int, default=3, help="pairs of builds of each model")
    options = parser.parse_args()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(m, options.against.resolve(), options.repeats, Path(folder)) for m in MODELS]
    for result in results:
        old, new = statistics.median(result["old_s"]), statistics.median(result["new_s"])
        print(f"{result['model']}, measured: {old:.2f} s before, {new:.2f} s now: {result['ratio']:.2f} of it")
        if result["ratio"] > MOST:
            failures.append(f"{result['model']}: {result['ratio']:.2f} of the time, at most {MOST} is allowed")
        failures += [f"{result['model']}: `{name}` differs" for name in result["differing"]]
    data = {"kind": "measured", "repeats": options.repeats, "builds": results}
    return finish(data, failures, options.json)


if __name__ == "__main__":
    sys.exit(main())

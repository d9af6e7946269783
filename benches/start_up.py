"""Time that `import deuteron` and `deuteron --help` take: the median of 20 fresh processes, against 0.3 s each.

make bench-start-up
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

LIMIT_S = 0.3
REPEATS = 20
CASES = {
    "python alone": [sys.executable, "-c", "pass"],
    "import deuteron": [sys.executable, "-c", "import deuteron"],
    "deuteron --help": [str(Path(sys.executable).with_name("deuteron")), "--help"],
}


def median_seconds(command: list[str]) -> float:
    """Median wall time of the command, after one run that warms the disk cache."""
    times = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def main() -> int:
    """Exit status: 1 when a start takes longer than the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    seconds = {name: median_seconds(command) for name, command in CASES.items()}
    for name, value in seconds.items():
        print(f"{name:<16} {value * 1000:7.1f} ms measured, limit {LIMIT_S * 1000:.0f} ms")
    if arguments.json:
        machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": sys.version}
        arguments.json.write_text(json.dumps({"machine": machine, "repeats": REPEATS, "median_s": seconds}, indent=2))
    return int(any(value > LIMIT_S for value in seconds.values()))


if __name__ == "__main__":
    sys.exit(main())

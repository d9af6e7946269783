"""Ten million attacks on the harness of the serial line, under the address and undefined sanitizers.

An attack is noise, a damaged frame, or a whole frame with any header and data. After every 64th the program runs by
requests, and its outputs must be right. "ok" to "range" are the statuses of the replies.

make bench-fuzz-harness
"""

import argparse
import shlex
import subprocess
import sys
import time

from fuzzing import FIRST, Target, build
from harness import Results, main, option, table

TARGET = Target("test_harness")
RUNS = 10_000_000


def results(options: argparse.Namespace) -> Results:
    """Build the test with the sanitizers, and run it."""
    build(TARGET)
    command, began = TARGET.command(options.runs, options.first), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    words = done.stdout.split()
    row = dict(zip(words[::2], map(int, words[1::2]), strict=True)) if done.returncode == 0 else {}
    problems = [f"repeated by `{shlex.join(command)}`:\n{done.stdout}{done.stderr}"] if done.returncode else []
    columns = {name.replace("_", " "): name for name in row}
    return Results("counted", [row], [table([row], columns)], problems, [f"{time.perf_counter() - began:.0f} s"])


if __name__ == "__main__":
    sys.exit(
        main(results, FIRST, option("--runs", type=int, default=RUNS, help=f"how many attacks (default {RUNS:,})"))
    )

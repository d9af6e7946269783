"""Random PyTorch graphs on Arm Ethos-U: built by the unmodified flow, run, compared with TOSA's reference model.

Each graph (`tests/npu/ethosu/graphs.py`) has 2 to 6 operators of 40 kinds. Four of them make a model for the next
accelerator in turn, calibrated and run on random samples. No result of a partition, and no tensor in memory, may differ
by a bit. A model that cannot be built is built again graph by graph. Refused graphs are counted; only refusals for lack
of support are allowed. `--wide` has graphs of up to five axes and three samples, with flips and matrix products.

make bench-ethosu-graphs ARGS="--graphs 5000"
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness import Results, Rows, main, option

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.npu.ethosu.graphs import check

from deuteron.errors import DeuteronError, UnsupportedError

ACCELERATORS = (
    "ethos-u55-128", "ethos-u55-32", "ethos-u65-256", "ethos-u55-256", "ethos-u85-256", "ethos-u55-64",
    "ethos-u65-512", "ethos-u85-512",
)  # fmt: skip
TOGETHER = 4


def checked(seeds: Sequence[int], accelerator: str, *, wide: bool = False) -> list[dict[str, Any]]:
    """Check graphs that are built together, or each alone if that fails."""
    entry: dict[str, Any] = {"seeds": [*seeds], "accelerator": accelerator}
    try:
        return [entry | asdict(check(seeds, accelerator, wide=wide))]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
        if len(seeds) > 1:
            return [one for seed in seeds for one in checked([seed], accelerator, wide=wide)]
        said = error.message if isinstance(error, DeuteronError) else f"{type(error).__name__}: {error}"
        kind = "refused" if isinstance(error, UnsupportedError) else "failed"
        return [entry | {kind: said.splitlines()[0][:200]}]


def report(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The sums in lines."""
    refused = [entry for entry in entries if "refused" in entry]
    names = ("graphs", "partitions", "results", "values")
    sums = {name: sum(entry[name] for entry in entries if name in entry) for name in names}
    yield ", ".join(f"{count:,} {name}" for name, count in sums.items())
    by_accelerator = Counter(e["accelerator"] for e in entries for _ in range(e.get("graphs", 0)))
    yield f"by accelerator: {dict(by_accelerator)}"
    operators: Counter[str] = Counter()
    for entry in entries:
        operators.update(entry.get("operators", {}))
    yield f"{len(operators)} kinds of operators: {dict(operators.most_common())}"
    yield f"refused: {len(refused)}"
    for text, count in Counter(entry["refused"] for entry in refused).most_common():
        yield f"  {count} x {text}"


def problems(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return differences and failures; or that nothing was compared."""
    wrong = [
        f"seeds {entry['seeds']} on {entry['accelerator']}: {failure}"
        for entry in entries
        for failure in (*entry.get("failures", ()), *((entry["failed"],) if "failed" in entry else ()))
    ]
    return wrong or ([] if any(entry.get("results") for entry in entries) else ["nothing was compared"])


def results(options: argparse.Namespace) -> Results:
    """So many graphs."""
    kept, entries = Rows(options.resume), list[dict[str, Any]]()
    end = time.monotonic() + options.seconds
    for first in range(options.first, options.first + options.graphs, TOGETHER):
        accelerator = ACCELERATORS[first // TOGETHER % len(ACCELERATORS)]
        key = f"wide {first}" if options.wide else str(first)
        if key not in kept:
            if time.monotonic() > end:
                break
            kept[key] = checked(range(first, first + TOGETHER), accelerator, wide=options.wide)
        entries += kept[key]
    return Results("counted", entries, problems=problems(entries), notes=list(report(entries)))


OPTIONS = (
    option("--resume", type=Path, help="keep results there, and go on behind those of the same sources"),
    option("--graphs", type=int, default=400, help="how many, with seeds from --first on"),
    option("--first", type=int, default=0, help="the first seed, a multiple of 4"),
    option("--wide", action="store_true", help="more axes and samples"),
    option("--seconds", type=float, default=float("inf"), help="begin no model after so long"),
)

if __name__ == "__main__":
    sys.exit(main(results, *OPTIONS))

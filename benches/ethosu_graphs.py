"""Random PyTorch graphs on Arm Ethos-U: built by the unmodified flow, run, and held against TOSA's reference model.

Each graph (`tests/npu/ethosu/graphs.py`) has 2 to 6 operators of 40 kinds. Four of them side by side make a model, for
the next accelerator in turn; calibrated and run on random samples. No result of a partition, and no tensor that an
operator leaves in memory, may differ by a bit. A model that cannot be built is built again graph by graph, and the
graphs that cannot are counted, with what was said. Seeds that the file of `--json` has already are not run again.

make bench-ethosu-graphs ARGS="--graphs 5000"
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ending import finish

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.npu.ethosu.graphs import check

from deuteron.errors import DeuteronError

ACCELERATORS = (
    "ethos-u55-128", "ethos-u55-32", "ethos-u65-256", "ethos-u55-256", "ethos-u85-256", "ethos-u55-64",
    "ethos-u65-512", "ethos-u85-512",
)  # fmt: skip
TOGETHER = 4


def checked(seeds: Sequence[int], accelerator: str) -> list[dict[str, Any]]:
    """What came of graphs that are built together: of each alone where that fails."""
    entry: dict[str, Any] = {"seeds": [*seeds], "accelerator": accelerator}
    try:
        return [entry | asdict(check(seeds, accelerator))]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
        if len(seeds) > 1:
            return [one for seed in seeds for one in checked([seed], accelerator)]
        said = error.message if isinstance(error, DeuteronError) else f"{type(error).__name__}: {error}"
        return [entry | {"refused": said.splitlines()[0][:200]}]


def report(entries: Sequence[Mapping[str, Any]]) -> None:
    """Prints the table."""
    refused = [entry for entry in entries if "refused" in entry]
    sums = {
        name: sum(entry[name] for entry in entries if name in entry)
        for name in ("graphs", "partitions", "results", "values")
    }
    print(", ".join(f"{count:,} {name}" for name, count in sums.items()))
    print("by accelerator:", dict(Counter(e["accelerator"] for e in entries for _ in range(e.get("graphs", 0)))))
    operators: Counter[str] = Counter()
    for entry in entries:
        operators.update(entry.get("operators", {}))
    print(f"{len(operators)} kinds of operators: {dict(operators.most_common())}")
    print(f"refused: {len(refused)}")
    for text, count in Counter(entry["refused"] for entry in refused).most_common():
        print(f"  {count} x {text}")


def main() -> int:
    """Runs; 1 when anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there, and go on behind those there")
    parser.add_argument("--graphs", type=int, default=400, help="how many, with seeds from --first on")
    parser.add_argument("--first", type=int, default=0, help="the first seed, a multiple of 4")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no model after so long")
    args = parser.parse_args()
    entries: list[dict[str, Any]] = []
    if args.json is not None and args.json.is_file():
        entries = json.loads(args.json.read_text(encoding="utf-8"))["entries"]
    known = {seed for entry in entries for seed in entry["seeds"]}
    end = time.monotonic() + args.seconds
    for first in range(args.first, args.first + args.graphs, TOGETHER):
        if time.monotonic() > end:
            break
        if first not in known:
            accelerator = ACCELERATORS[first // TOGETHER % len(ACCELERATORS)]
            entries += checked(range(first, first + TOGETHER), accelerator)
            if args.json is not None:
                args.json.write_text(json.dumps({"entries": entries}) + "\n", encoding="utf-8")
    report(entries)
    wrong = [(entry, failure) for entry in entries for failure in entry.get("failures", ())]
    problems = [f"seeds {entry['seeds']} on {entry['accelerator']}: {failure}" for entry, failure in wrong]
    return finish({"entries": entries}, problems, args.json)


if __name__ == "__main__":
    raise SystemExit(main())

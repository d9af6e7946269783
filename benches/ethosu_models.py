"""The reference models on every accelerator: what they give, and what they leave in memory, beside TOSA's definition.

Each model is built for each accelerator and run on random samples. "results" are those of the partitions, "tensors"
and "values" what their operators leave in memory on the way, "operators" how many of those that compute something are
seen so. None may differ from TOSA's reference model, and no output may be further from quantised PyTorch's than
`deuteron run --compare` allows. `--resume FILE` keeps rows there, and measures none again that it has of the same
sources.

    python benches/ethosu_models.py [MODEL...] [--accelerators NAME...] [--json FILE] [--resume FILE]
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ending import Rows, finish

from deuteron import api
from deuteron.builds import manifest as manifests
from deuteron.runtime.inputs import seeded_inputs
from deuteron.views.compare.pytorch import compare

ACCELERATORS = (
    "ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512", "ethos-u85-256",
)  # fmt: skip
SAMPLES = 2
COLUMNS = {
    "partitions": 12, "results": 10, "differ": 8, "tensors": 9, "values": 13, "values_differ": 15, "operators": 11,
    "compared": 10, "parted": 8,
}  # fmt: skip
"""Of the table, and how wide they are."""


def row(name: str, accelerator: str, folder: Path) -> dict[str, object]:
    """A model on an accelerator."""
    directory = folder / "build"
    api.build_model(name, target=accelerator, output=directory)
    found = compare(directory, seeded_inputs(manifests.read(directory), SAMPLES))
    return {
        "model": name,
        "accelerator": accelerator,
        "partitions": len(found.partitions),
        "results": sum(p.elements for p in found.partitions),
        "differ": sum(p.mismatches for p in found.partitions),
        "tensors": len(found.tensors),
        "values": sum(t.elements for t in found.tensors),
        "values_differ": sum(t.mismatches for t in found.tensors),
        "operators": found.coverage.operators,
        "compared": found.coverage.compared,
        "parted": found.coverage.parted,
        "failures": list(found.failures()),
    }


def line(row: Mapping[str, Any]) -> str:
    """A row of the table."""
    counts = "".join(f"{row[column]:>{width},}" for column, width in COLUMNS.items())
    return f"{row['model']:<22}{row['accelerator']:<16}{counts}"


def problems(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What differs, and rows in which nothing was compared."""
    return [
        f"{key}: {problem}"
        for key, row in rows.items()
        for problem in (row["failures"] or (() if row["results"] and row["compared"] else ("nothing was compared",)))
    ] or ([] if rows else ["no model was run"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 1 when anything differs, or nothing was compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--resume", type=Path, help="keep rows there, and go on behind those of the same sources")
    parser.add_argument("--accelerators", nargs="*", default=ACCELERATORS, help="all seven by default")
    parser.add_argument("models", nargs="*", default=[m.name for m in api.REFERENCES], help="all by default")
    args = parser.parse_args(arguments)
    kept, rows = Rows(args.resume), dict[str, Any]()
    titles = "".join(f"{column:>{width}}" for column, width in COLUMNS.items())
    print(f"{'model':<22}{'accelerator':<16}{titles}")
    for name in args.models:
        for accelerator in args.accelerators:
            key = f"{name} {accelerator}"
            if key not in kept:
                with tempfile.TemporaryDirectory() as folder:
                    kept[key] = row(name, accelerator, Path(folder))
            rows[key] = kept[key]
            print(line(rows[key]), flush=True)
    return finish(rows, problems(rows), args.json)


if __name__ == "__main__":
    raise SystemExit(main())

"""The reference models on every accelerator: results and tensors in memory, compared with TOSA's definition.

Each model is built for each accelerator and run on random samples. "results" are those of the partitions, "tensors" and
"values" what operators leave in memory, "operators" how many compute something. None may differ from TOSA's reference
model, and no output may be further from quantized PyTorch's than `deuteron run --compare` allows.

make bench-ethosu-networks
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import MODELS, REFERENCES, Results, Rows, main, option, progress, table

from deuteron import api
from deuteron.builds import manifest as manifests
from deuteron.runtime.inputs import seeded_inputs
from deuteron.views.compare.pytorch import compare

ACCELERATORS = (
    "ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512", "ethos-u85-256",
)  # fmt: skip
SAMPLES = 2
COLUMNS = (
    "partitions", "results", "differ", "tensors", "values", "values_differ", "operators", "compared", "parted"
)  # fmt: skip
"""Columns of the table."""


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


def problems(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return differences, and rows in which nothing was compared."""
    return [
        f"{key}: {problem}"
        for key, row in rows.items()
        for problem in (row["failures"] or (() if row["results"] and row["compared"] else ("nothing was compared",)))
    ] or ([] if rows else ["no model was run"])


def results(options: argparse.Namespace) -> Results:
    """Each model on each accelerator."""
    kept, rows = Rows(options.resume), dict[str, Any]()
    for name in options.models or REFERENCES:
        for accelerator in options.accelerators:
            key = f"{name} {accelerator}"
            if key not in kept:
                with tempfile.TemporaryDirectory() as folder:
                    kept[key] = progress(row(name, accelerator, Path(folder)))
            rows[key] = kept[key]
    shown = table(rows.values(), {column.replace("_", " "): column for column in ("model", "accelerator", *COLUMNS)})
    return Results("counted", list(rows.values()), [shown], problems(rows))


OPTIONS = (
    MODELS,
    option("--resume", type=Path, help="keep rows there, and go on behind those of the same sources"),
    option("--accelerators", nargs="*", default=ACCELERATORS, help="all seven by default"),
)

if __name__ == "__main__":
    sys.exit(main(results, *OPTIONS))

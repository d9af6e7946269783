"""Agreement: each reference model on the NPU, in ExecuTorch's runtime, beside quantised PyTorch, on seeded inputs.

A row per model: results of the NPU that differ from the interpreter (none may), results of single operators compared
with float32 PyTorch, those within float32's own error of half-way (ties), those that differ, those that differ beyond
ties (none may), and the largest difference of an output, in quantisation steps.

make bench-agreement
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from deuteron import api
from deuteron.views.compare.pytorch import PytorchComparison, compare

MODELS = Path(__file__).resolve().parents[1] / "examples" / "models"
sys.path.insert(0, str(MODELS))
SEED = 7


def inputs(example: api.ExampleModel, count: int) -> list[tuple[npt.NDArray[np.generic]]]:
    """`count` inputs that the calibration has not seen: held-back digits, seeded ones for the other models."""
    import digits
    import seeding

    if example.name == "digits":
        images = digits.data()[1].images[:count]
    else:
        images = seeding.samples(example.input_shape[1:], count, seed=SEED)
    return [(image.numpy(),) for image in images.split(1)]


def agreement(name: str, count: int, directory: Path) -> PytorchComparison:
    """The comparison of one example model, built into `directory`."""
    (example,) = (e for e in api.EXAMPLES if e.name == name)
    api.build_model(name, output=directory)
    return compare(directory, inputs(example, count))


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; 0 when every bound holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=32, help="inputs per model (default: 32)")
    parser.add_argument("--models", nargs="+", default=[e.name for e in api.REFERENCES], help="models to compare")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    args = parser.parse_args(argv)

    table = Table(title=f"measured on {args.samples} inputs each")
    for column in (
        "model",
        "NPU differs",
        "results",
        "ties %",
        "differ",
        "beyond ties",
        "largest step",
        "best score same",
    ):
        table.add_column(column, justify="left" if column == "model" else "right")
    results: dict[str, object] = {}
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models:
            found = agreement(name, args.samples, Path(folder) / name)
            results[name] = found.to_json()
            passed &= found.passed
            table.add_row(name, *row(found))
            for failure in found.failures():
                print(f"{name}: {failure}", file=sys.stderr)
    Console(width=130).print(table)
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=1))
    return 0 if passed else 1


def row(found: PytorchComparison) -> tuple[str, ...]:
    """The cells of one model."""
    elements = sum(o.elements for o in found.operators)
    return (
        f"{sum(p.mismatches for p in found.partitions)} of {sum(p.elements for p in found.partitions):,}",
        f"{elements:,}",
        f"{100 * sum(o.ties for o in found.operators) / elements:.3f}",
        f"{sum(o.mismatches for o in found.operators):,}",
        f"{sum(o.beyond for o in found.operators):,}",
        f"{max(o.largest for o in found.outputs):.3g}",
        f"{sum(o.top1 for o in found.outputs)} of {sum(o.rows for o in found.outputs)}",
    )


if __name__ == "__main__":
    sys.exit(main())

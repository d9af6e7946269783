"""Each reference model on the NPU, in ExecuTorch's runtime, compared with quantized PyTorch on seeded inputs.

Columns are results of the NPU that differ from the interpreter (none may), and results of single operators against
float32 PyTorch: ties (within float32's own error of half-way), differences, and differences beyond ties (none may). The
last are the largest difference of an output, in steps, and equal best scores.

make bench-compare-pytorch
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from harness import MODELS, REFERENCES, Results, main, option, table

from deuteron import api
from deuteron.views.compare.pytorch import PytorchComparison, compare

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "models"))
SEED = 7
COLUMNS = (
    "model",
    "NPU differs",
    "operator results",
    "ties %",
    "differ",
    "beyond ties",
    "largest step",
    "best score the same",
)


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


def results(options: argparse.Namespace) -> Results:
    """The comparison of each model."""
    found: dict[str, PytorchComparison] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.models or REFERENCES:
            found[name] = agreement(name, options.samples, Path(scratch) / name)
    shown = table(found.items(), {title: lambda item, i=i: row(*item)[i] for i, title in enumerate(COLUMNS)})
    problems = [f"{name}: {failure}" for name, each in found.items() for failure in each.failures()]
    return Results("measured", [{"model": name, **each.to_json()} for name, each in found.items()], [shown], problems)


def row(name: str, found: PytorchComparison) -> tuple[str, ...]:
    """The cells of one model."""
    elements = sum(o.elements for o in found.operators)
    return (
        name,
        f"{sum(p.mismatches for p in found.partitions)} of {sum(p.elements for p in found.partitions):,}",
        f"{elements:,}",
        f"{100 * sum(o.ties for o in found.operators) / elements:.3f}",
        f"{sum(o.mismatches for o in found.operators):,}",
        f"{sum(o.beyond for o in found.operators):,}",
        f"{max(o.largest for o in found.outputs):.3g}",
        f"{sum(o.top1 for o in found.outputs)} of {sum(o.rows for o in found.outputs)}",
    )


if __name__ == "__main__":
    sys.exit(main(results, MODELS, option("--samples", type=int, default=32, help="inputs per model (default: 32)")))

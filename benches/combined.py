"""The reference models and the mixed ones, by PTQ and QAT, on NPU and Cortex-M together and on the Cortex-M alone.

Each is built, run by ExecuTorch's runtime on the host, and compared with its quantised PyTorch model on seeded inputs.
"NPU differs": results of the NPU unlike the compiler's interpreter, of which none may be. "steps": the largest
difference of an output to PyTorch's, in steps of its quantisation. PyTorch computes in float32 and so rounds some ties
of the NPU's otherwise (spec/rounding.md); each operator on the Cortex-M may be one step off. Nodes and multiply-
accumulates are counted on the model before it is lowered; those of one processor fuse. Training is two steps towards
the float model's outputs: enough for every part of the way, not for better weights.

make bench-combined
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import torch
from ending import finish
from rich.console import Console
from rich.table import Table
from torch import Tensor, fx
from torch.nn import functional

from deuteron import api
from deuteron.arch.cores import Work
from deuteron.compare import MAX_STEPS, compare
from deuteron.frontend.loader import Model, load

TARGETS = ("imxrt700cm", "cortex-m33", "cortex-m55")
MODES = ("PTQ", "QAT")
MODELS = tuple(example.name for example in (*api.REFERENCES, *api.COMBINED))
MULTIPLIES = (Work.CONVOLUTION, Work.DEPTHWISE, Work.LINEAR)
SAMPLES = 4
STEPS = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One model, quantised in one way for one target.

    Attributes:
        model: its name.
        mode: how it was quantised.
        target: for what.
        npu_nodes: nodes of the model on the NPU.
        cpu_nodes: nodes of the model on the CPU.
        npu_macs: multiply-accumulates on the NPU.
        cpu_macs: multiply-accumulates on the CPU.
        cpu_operators: what the CPU runs, with what was added for it.
        npu_differs: results of the NPU that are not the interpreter's.
        steps: the largest difference of an output to PyTorch's.
    """

    model: str
    mode: str
    target: str
    npu_nodes: int
    cpu_nodes: int
    npu_macs: int
    cpu_macs: int
    cpu_operators: int
    npu_differs: int
    steps: float

    @property
    def agrees(self) -> bool:
        """True when the program is as near to its reference as the page on rounding says."""
        return not self.npu_differs and self.steps <= MAX_STEPS


def trainer(model: Model) -> Callable[[fx.GraphModule], Iterator[float]]:
    """A function that trains a little, towards the outputs that the model has before it is quantised."""
    batches = [batch for batch, _ in zip(_batches(model), range(STEPS), strict=False)]
    with torch.no_grad():
        wanted = [model.module(*batch) for batch in batches]

    def train(prepared: fx.GraphModule) -> Iterator[float]:
        optimiser = torch.optim.SGD(prepared.parameters(), lr=1e-5)
        for batch, like in zip(batches, wanted, strict=True):
            optimiser.zero_grad()
            loss = functional.mse_loss(prepared(*batch), like)
            loss.backward()
            optimiser.step()
            yield loss.item()

    return train


def _batches(model: Model) -> Iterator[tuple[Tensor, ...]]:
    for batch in model.calibration or [model.example_inputs]:
        yield cast("tuple[Tensor, ...]", batch) if isinstance(batch, tuple) else (cast(Tensor, batch),)


def row(name: str, mode: str, target: str) -> Row:
    """One build, run and compared."""
    model = load(name)
    trains = mode == "QAT"
    with tempfile.TemporaryDirectory() as folder:
        manifest = api.build(
            model.module,
            model.example_inputs,
            target=target,
            calibration=model.calibration,
            train=trainer(model) if trains else None,
            output=Path(folder) / "build",
            options=api.BuildOptions(use_qat=trains),
        ).manifest
        found = compare(Path(folder) / "build", api.seeded_inputs(manifest, SAMPLES))
    on_npu = [node for node in manifest.nodes if node.partition is not None]
    on_cpu = [node for node in manifest.nodes if node.partition is None]
    return Row(
        name,
        mode,
        target,
        len(on_npu),
        len(on_cpu),
        sum(node.terms for node in on_npu if node.work in MULTIPLIES),
        sum(node.terms for node in on_cpu if node.work in MULTIPLIES),
        len(manifest.cpu_ops),
        sum(partition.mismatches for partition in found.partitions),
        max(output.largest for output in found.outputs),
    )


def report(rows: Sequence[Row]) -> Table:
    """The rows as a table."""
    table = Table("model", "mode", "target")
    for title in ("NPU nodes", "CPU nodes", "NPU MACs", "CPU MACs", "CPU operators", "NPU differs", "steps"):
        table.add_column(title, justify="right")
    for r in rows:
        counts = (r.npu_nodes, r.cpu_nodes, r.npu_macs, r.cpu_macs, r.cpu_operators, r.npu_differs)
        table.add_row(r.model, r.mode, r.target, *(f"{n:,}" for n in counts), f"{r.steps:.2g}")
    return table


def main() -> int:
    """1 when a program does not agree with its reference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--model", action="append", choices=MODELS, help="of these only; may be repeated")
    parser.add_argument("--target", action="append", choices=TARGETS, help="of these only; may be repeated")
    options = parser.parse_args()
    rows: list[Row] = []
    for name in options.model or MODELS:
        for mode in MODES:
            for target in options.target or TARGETS:
                rows.append(row(name, mode, target))
                print(rows[-1], file=sys.stderr, flush=True)
    Console(width=140).print(report(rows))
    far = [f"{r.model} by {r.mode} on {r.target} is not what its reference is" for r in rows if not r.agrees]
    return finish({"schema": 1, "rows": [asdict(r) for r in rows]}, far, options.json)


if __name__ == "__main__":
    sys.exit(main())

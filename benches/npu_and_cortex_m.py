"""The reference models and the mixed ones, by PTQ and QAT, on NPU and Cortex-M together and on the Cortex-M alone.

Each is built, run in ExecuTorch's runtime on the host, and compared on seeded inputs. None of these may be above 0:

* "npu differs": results of the NPU that are not the interpreter's;
* "program differs": outputs, and inputs of the NPU, that are not those of the lowered program in
  PyTorch (`exact_execution.py`);
* "bounds broken": bounds of `deuteron run --compare`, about the NPU's operators; about outputs if all are on the NPU.

"steps" is the largest difference of an output from the quantized model; on the NPU alone only ties of PyTorch's float32
cause it. Nodes and multiply-accumulates are counted before lowering. Training is two steps towards the float outputs.

make bench-npu-and-cortex-m
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast
from unittest.mock import patch

import torch
from exact_execution import ExactInterpreter
from harness import Results, main, only, progress, table
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.nn import functional

from deuteron import api
from deuteron.builds.manifest import PROGRAM
from deuteron.frontend.cortex_m import numerical_check
from deuteron.frontend.loader import Model, load
from deuteron.runtime.host import HostRunner
from deuteron.views.compare.pytorch import compare

TARGETS = ("imxrt700cm", "cortex-m33", "cortex-m55")
MODES = ("PTQ", "QAT")
MODELS = tuple(example.name for example in (*api.REFERENCES, *api.COMBINED))
SAMPLES = 4
STEPS = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One model, quantized in one way for one target.

    Attributes:
        model: its name.
        mode: how it was quantized.
        target: for what.
        npu_nodes: nodes of the model on the NPU.
        cpu_nodes: nodes of the model on the CPU.
        npu_macs: multiply-accumulates on the NPU.
        cpu_macs: multiply-accumulates on the CPU.
        cpu_operators: what the CPU runs, with what was added for it.
        npu_differs: results of the NPU that are not the interpreter's.
        program_differs: outputs, and inputs of the NPU, that are not those of the lowered program run by PyTorch.
        steps: the largest difference of an output to the quantized model's.
        ties: results of the NPU's operators that PyTorch's float32 rounds otherwise; beyond ties it may not.
        broken: bounds that do not hold, of `compare`'s.
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
    program_differs: int
    steps: float
    ties: int
    broken: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """True when the NPU's results are the interpreter's and all others PyTorch's, beyond ties."""
        exact = self.cpu_nodes or self.ties or self.steps < 0.5
        return bool(exact) and not (self.npu_differs or self.program_differs or self.broken)


def trainer(model: Model) -> Callable[[fx.GraphModule], Iterator[float]]:
    """A function that trains a little, towards the outputs that the model has before it is quantized."""
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


def _samples(model: Model) -> list[tuple[Tensor, ...]]:
    like, generator = next(_batches(model)), torch.Generator().manual_seed(0)
    return [tuple(torch.randn(x.shape, generator=generator) for x in like) for _ in range(SAMPLES)]


@contextmanager
def checked(samples: Sequence[tuple[Tensor, ...]]) -> Generator[list[ExactInterpreter]]:
    """The program that is lowered meanwhile, to be run by PyTorch, with the build's check on all samples."""
    runs: list[ExactInterpreter] = []
    check = numerical_check.check

    def check_all(program: ExportedProgram, module: fx.GraphModule, _: object) -> None:
        runs[:] = [ExactInterpreter(program)]
        for sample in samples:
            check(program, module, sample)

    with patch.object(numerical_check, "check", check_all):
        yield runs


def unlike(path: Path, samples: Sequence[tuple[Tensor, ...]], interpreter: ExactInterpreter) -> int:
    """Count the numbers of a program in ExecuTorch's runtime that differ from PyTorch's."""
    runner, numbers = HostRunner(path), 0
    for sample in samples:
        with runner.observe() as calls:
            outputs = runner.run([x.numpy() for x in sample])
        numbers += interpreter.differences(sample, calls, outputs)
    return numbers


def row(name: str, mode: str, target: str) -> Row:
    """One build, run and compared."""
    model = load(name)
    samples, trains = _samples(model), mode == "QAT"
    arrays = [[x.numpy() for x in sample] for sample in samples]
    with tempfile.TemporaryDirectory() as folder, checked(samples) as runs:
        manifest = api.build(
            model.module,
            model.example_inputs,
            target=target,
            calibration=model.calibration,
            train=trainer(model) if trains else None,
            output=Path(folder) / "build",
            options=api.BuildOptions(use_qat=trains),
        ).manifest
        found = compare(Path(folder) / "build", arrays)
        differs = unlike(Path(folder) / "build" / PROGRAM, samples, *runs)
    on_npu = [node for node in manifest.nodes if node.partition is not None]
    on_cpu = [node for node in manifest.nodes if node.partition is None]
    return Row(
        name,
        mode,
        target,
        len(on_npu),
        len(on_cpu),
        sum(node.macs for node in on_npu),
        sum(node.macs for node in on_cpu),
        len(manifest.cpu_ops),
        sum(partition.mismatches for partition in found.partitions),
        differs,
        max(output.largest for output in found.outputs),
        sum(operator.mismatches for operator in found.operators),
        # Steps of the Cortex-M's operators grow on their way to the outputs, without a bound that holds for all models.
        (replace(found, outputs=()) if on_cpu else found).failures(),
    )


def results(options: argparse.Namespace) -> Results:
    """Each model in each way for each target."""
    rows = [
        progress(row(name, mode, target))
        for name in options.model or MODELS
        for mode in MODES
        for target in options.target or TARGETS
    ]
    names = ("npu_nodes", "cpu_nodes", "npu_macs", "cpu_macs", "cpu_operators", "npu_differs", "program_differs")
    columns = {name.replace("_", " "): name for name in ("model", "mode", "target", *names)}
    columns |= {"steps": "steps:.2g", "ties": "ties", "bounds broken": lambda r: len(r.broken)}
    far = [f"{r.model} by {r.mode} on {r.target} is not what its reference is" for r in rows if not r.agrees]
    return Results("counted", rows, [table(rows, columns)], far)


if __name__ == "__main__":
    sys.exit(main(results, only("--model", MODELS), only("--target", TARGETS)))

"""The value of quantization-aware training: a small network on handwritten digits that loses by quantization.

Its hidden channels have very different ranges, as after folding of batch norms, and linear layers have one scale for
all weights. Each seed is trained in float, quantized (PTQ), and trained with fake quantization (QAT). Accuracy is on
held-back digits in ExecuTorch's runtime. QAT has to recover at least half of PTQ's loss. "trained on" is float
training for as many more epochs.

make bench-qat
"""

import argparse
import copy
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from harness import Results, main, only, option, progress, table
from torch import nn
from torch.nn import functional

from deuteron import api
from deuteron.frontend.examples import FOLDER

sys.path.insert(0, str(FOLDER))
import digits

SEEDS = (0, 1, 2)
TARGETS = ("imxrt700cm", "cortex-m33")
CHANNELS = 12
SPREAD = 300
EPOCHS = 40
QAT_EPOCHS = 30
QAT_RATE = 3e-3
BATCH = 64
MADE_GOOD = 0.5
"""The share of PTQ's loss that QAT must make good for each seed."""


class Uneven(nn.Module):
    """1x8x8 to 10 classes, through a few channels, which `spread` gives very different ranges."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.classes = nn.Linear(64, CHANNELS), nn.Linear(CHANNELS, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classes(functional.relu(self.hidden(x.flatten(1))))

    def spread(self) -> None:
        """Multiply channels by factors up to `SPREAD` apart and divide them again behind the ReLU."""
        factors = torch.logspace(0, 1, CHANNELS, SPREAD)[torch.randperm(CHANNELS)] / SPREAD
        with torch.no_grad():
            self.hidden.weight.mul_(factors[:, None])
            self.hidden.bias.mul_(factors)
            self.classes.weight.div_(factors)


@dataclass(frozen=True, slots=True)
class Row:
    """Accuracies of one seed on one target, in 0..1."""

    target: str
    seed: int
    float32: float
    trained_on: float
    ptq: float
    qat: float

    @property
    def loss(self) -> float:
        """The accuracy that PTQ loses."""
        return self.float32 - self.ptq

    @property
    def made_good(self) -> float:
        """The share of PTQ's loss that QAT makes good; 1 where PTQ loses nothing."""
        return (self.qat - self.ptq) / self.loss if self.loss > 0 else 1.0


def epochs(model: nn.Module, split: digits.Split, count: int, rate: float, seed: int) -> Iterator[float]:
    """The mean loss of each epoch of training, which this does."""
    torch.manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, count)
    for _ in range(count):
        losses: list[float] = []
        for rows in torch.randperm(len(split.labels)).split(BATCH):
            optimiser.zero_grad()
            loss = functional.cross_entropy(model(split.images[rows]), split.labels[rows])
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        schedule.step()
        yield sum(losses) / len(losses)


def accuracy(model: nn.Module, split: digits.Split) -> float:
    """The accuracy of a PyTorch model."""
    with torch.no_grad():
        return float((model.eval()(split.images).argmax(1) == split.labels).float().mean())


def built_accuracy(
    model: nn.Module, splits: tuple[digits.Split, digits.Split], target: str, seed: int, qat: bool
) -> float:
    """The accuracy of a program in ExecuTorch's runtime."""
    training, held_back = splits

    def train(prepared: nn.Module) -> Iterator[float]:
        return epochs(prepared, training, QAT_EPOCHS, QAT_RATE, seed)

    with tempfile.TemporaryDirectory() as folder:
        api.build(
            copy.deepcopy(model),
            (held_back.images[:1],),
            target=target,
            calibration=digits.calibration(training),
            train=train if qat else None,
            output=Path(folder) / "build",
            options=api.BuildOptions(use_qat=qat),
        )
        samples = [[image.numpy()] for image in held_back.images.split(1)]
        outputs = list(api.run_each(Path(folder) / "build", samples))
    best = np.array([int(output[0].argmax()) for output in outputs])
    return float((best == held_back.labels.numpy()).mean())


def row(target: str, seed: int) -> Row:
    """The accuracies of one seed."""
    splits = training, held_back = digits.data()
    torch.manual_seed(seed)
    model = Uneven()
    list(epochs(model, training, EPOCHS, 1e-2, seed))
    model.spread()
    longer = copy.deepcopy(model)
    list(epochs(longer, training, QAT_EPOCHS, QAT_RATE, seed))
    return Row(
        target,
        seed,
        accuracy(model, held_back),
        accuracy(longer, held_back),
        built_accuracy(model, splits, target, seed, qat=False),
        built_accuracy(model, splits, target, seed, qat=True),
    )


def problems(rows: Sequence[Row]) -> list[str]:
    """A sentence for each seed for which QAT makes good for too little."""
    return [
        f"QAT makes good for {row.made_good:.0%} of what PTQ loses on {row.target} with seed {row.seed}"
        for row in rows
        if row.made_good < MADE_GOOD
    ]


def results(options: argparse.Namespace) -> Results:
    """Each seed on each target."""
    torch.set_num_threads(1)
    rows = [progress(row(target, seed)) for target in options.target or TARGETS for seed in options.seed or SEEDS]
    columns = {"target": "target", "seed": "seed"}
    names = {"float32": "float32", "trained on": "trained_on", "PTQ": "ptq", "QAT": "qat", "PTQ loses": "loss"}
    columns |= {title: lambda r, name=name: f"{100 * getattr(r, name):.2f}" for title, name in names.items()}
    return Results("measured", rows, [table(rows, {**columns, "QAT makes good for": "made_good:.0%"})], problems(rows))


if __name__ == "__main__":
    sys.exit(main(results, only("--target", TARGETS), option("--seed", action="append", type=int, help="only these")))

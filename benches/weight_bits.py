"""Trained networks with weights of eight and four bits: accuracy of the program on held-back data, SQNR, and flash.

The networks are trained here, seeded, on data that scikit-learn ships. The way auto may lose one point of accuracy on
a part of the training data. All other figures are of held-back data. The way nearest rounds weights of four bits to
their nearest values. Flash is that of all constants of the program. With one budget after the other, more flash never
gives less SQNR on the calibration data.

make bench-weight-bits
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean
from unittest.mock import patch

import numpy as np
import torch
from harness import Results, main, only, progress, table
from sklearn import datasets
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.arch.memory import MemoryOptions
from deuteron.board import image
from deuteron.frontend.quantize import learned_rounding

TARGET = "cortex-m33"
MOST_LOST = 1.0
"""Points of accuracy that `auto` may lose."""

MOST_FLASH = 0.6
"""The geometric mean, over all networks, of the share of the flash with int8 weights."""

CALIBRATION, HELD_BACK, CHECKED = 32, 200, 150
STEPS = 5
"""Flash budgets between all weights with four bits, and with eight."""


class Residual(nn.Module):
    """The sum of the input and a 3x3 convolution of it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both."""
        return torch.relu(x + self.body(x))


def mlp(inputs: int, classes: int, hidden: int = 96) -> nn.Module:
    """A perceptron of three layers."""
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)
    )


def cnn() -> nn.Module:
    """1x8x8 to 10 classes: convolutions."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


def residual() -> nn.Module:
    """1x8x8 to 10 classes: residual blocks."""
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), Residual(24), nn.MaxPool2d(2), Residual(24), Residual(24),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(96, 10),
    )  # fmt: skip


def separable(channels: int, size: int, classes: int) -> nn.Module:
    """Depthwise and pointwise convolutions."""
    layers: list[nn.Module] = [nn.Conv2d(channels, 32, 3, 2, 1), nn.ReLU()]
    for inputs, outputs in ((32, 48), (48, 64)):
        layers += [nn.Conv2d(inputs, inputs, 3, 1, 1, groups=inputs), nn.ReLU(), nn.Conv2d(inputs, outputs, 1)]
        layers += [nn.ReLU()]
    return nn.Sequential(*layers, nn.AvgPool2d(size // 2), nn.Flatten(), nn.Linear(64, classes))


def series() -> nn.Module:
    """1x64 to 10 classes: convolutions over time."""
    return nn.Sequential(
        nn.Conv1d(1, 24, 5, 2, 2), nn.ReLU(), nn.Conv1d(24, 48, 5, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(768, 48),
        nn.ReLU(), nn.Linear(48, 10),
    )  # fmt: skip


Data = tuple[Tensor, Tensor]


def scaled(loaded: tuple[np.ndarray, np.ndarray]) -> Data:
    """Features with mean 0 and deviation 1, and labels."""
    x = torch.from_numpy(loaded[0]).float()
    return (x - x.mean(0)) / x.std(0).clamp_min(1e-6), torch.from_numpy(loaded[1]).long()


def digits(*shape: int) -> Data:
    """Handwritten digits, 0 to 1."""
    images, labels = datasets.load_digits(return_X_y=True)
    return torch.from_numpy(images).float().reshape(-1, *shape) / 16, torch.from_numpy(labels).long()


def patches() -> Data:
    """Patches of 16x16 of two photographs, and which it is."""
    generator, found, labels = np.random.default_rng(0), list[np.ndarray](), list[int]()
    for label, photo in enumerate(datasets.load_sample_images().images):
        for _ in range(1000):
            y, x = (int(generator.integers(0, size - 16)) for size in photo.shape[:2])
            found.append(photo[y : y + 16, x : x + 16].transpose(2, 0, 1))
            labels.append(label)
    return torch.from_numpy(np.stack(found)).float() / 255 - 0.5, torch.tensor(labels)


@dataclass(frozen=True, slots=True)
class Trained:
    """A network, its data and the epochs of its training."""

    make: Callable[[], nn.Module]
    data: Callable[[], Data]
    epochs: int = 25


NETWORKS: Mapping[str, Trained] = {
    "digits, convolutions": Trained(cnn, lambda: digits(1, 8, 8)),
    "digits, residual": Trained(residual, lambda: digits(1, 8, 8)),
    "digits, separable": Trained(lambda: separable(1, 8, 10), lambda: digits(1, 8, 8), 40),
    "digits, over time": Trained(series, lambda: digits(1, 64)),
    "digits, linear": Trained(lambda: mlp(64, 10), lambda: digits(64)),
    "photographs, separable": Trained(lambda: separable(3, 16, 2), patches, 15),
    "breast cancer, linear": Trained(lambda: mlp(30, 2), lambda: scaled(datasets.load_breast_cancer(return_X_y=True))),
    "wine, linear": Trained(lambda: mlp(13, 3), lambda: scaled(datasets.load_wine(return_X_y=True)), 60),
}
WAYS = ("int8", "auto", "4 bits", "4 bits, nearest")


@dataclass(frozen=True, slots=True)
class Row:
    """A network in one way: accuracy in percent of the float model and of the program, SQNR in dB, bytes of flash."""

    network: str
    way: str
    floats: float
    program: float
    sqnr: float
    flash: int


@dataclass(frozen=True, slots=True)
class Budget:
    """A flash budget and the SQNR of the program for it, on the calibration data."""

    network: str
    budget: int
    flash: int
    sqnr: float


def accuracy(model: Callable[..., Tensor], x: Tensor, labels: Tensor) -> float:
    """Percent of samples with the right class, one sample at a time."""
    return (
        100
        * sum(int(torch.as_tensor(model(one[None])).argmax()) == int(y) for one, y in zip(x, labels, strict=True))
        / len(x)
    )


@dataclass(frozen=True, slots=True)
class Subject:
    """A trained network and its data."""

    name: str
    model: nn.Module
    train: Data
    held: Data

    def build(self, folder: Path, options: api.BuildOptions) -> tuple[api.Build, int]:
        """Build it; the build, and the bytes of its constants."""
        x, labels = self.train
        checked = (x[CALIBRATION : CALIBRATION + CHECKED], labels[CALIBRATION : CALIBRATION + CHECKED])
        calibration = [(one[None],) for one in x[:CALIBRATION]]
        evaluate = None if options.max_loss is None else lambda model: accuracy(model, *checked)
        build = api.build(
            self.model, calibration[0], target=TARGET, calibration=calibration, options=options, output=folder,
            evaluate=evaluate,
        )  # fmt: skip
        return build, sum(map(len, image.bundle_of(folder).constants))

    def row(self, way: str) -> Row:
        """Build it in one way, and measure the program."""
        bits = api.WeightBits.EIGHT if way == "int8" else api.WeightBits.AUTO if way == "auto" else api.WeightBits.FOUR
        options = api.BuildOptions(weights_bits=bits, max_loss=MOST_LOST if way == "auto" else None)
        rounded = patch.object(learned_rounding, "rounded", nearest) if "nearest" in way else nullcontext()
        with tempfile.TemporaryDirectory() as folder, rounded:
            build, flash = self.build(Path(folder) / "build", options)
            samples = [[one[None].numpy()] for one in self.held[0]]
            classes = [int(outputs[0].argmax()) for outputs in api.run_each(Path(folder) / "build", samples)]
        right = sum(found == int(y) for found, y in zip(classes, self.held[1], strict=True))
        with torch.no_grad():
            floats = accuracy(self.model, *self.held)
        sqnr = min(output.sqnr for output in build.manifest.quality.outputs)
        return Row(self.name, way, floats, 100 * right / len(classes), sqnr, flash)

    def budgets(self, least: int, most: int) -> list[Budget]:
        """Build it for budgets from the least flash to the most."""
        found: list[Budget] = []
        for budget in np.linspace(least, most, STEPS).astype(int).tolist():
            options = api.BuildOptions(weights_bits=api.WeightBits.AUTO, memory=MemoryOptions(flash_budget=budget))
            with tempfile.TemporaryDirectory() as folder:
                build, flash = self.build(Path(folder) / "build", options)
            sqnr = min(output.sqnr for output in build.manifest.quality.outputs)
            found.append(progress(Budget(self.name, budget, flash, sqnr)))
        return found


def nearest(rows: Tensor, scale: Tensor, moments: Tensor, largest: int) -> Tensor:
    """Weights rounded to their nearest values."""
    del moments
    return (rows / scale).round().clamp(-largest, largest)


def trained(name: str) -> Subject:
    """Train a network."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    case = NETWORKS[name]
    x, labels = case.data()
    parts = train_test_split(x, labels, test_size=min(HELD_BACK, len(x) // 3), stratify=labels, random_state=0)
    x_train, x_held, y_train, y_held = parts
    model = case.make()
    optimiser = torch.optim.Adam(model.parameters(), 2e-3, weight_decay=1e-4)
    for _ in range(case.epochs):
        for rows in torch.randperm(len(x_train)).split(32):
            optimiser.zero_grad()
            functional.cross_entropy(model(x_train[rows]), y_train[rows]).backward()
            optimiser.step()
    return Subject(name, model.eval(), (x_train, y_train), (x_held, y_held))


def problems(rows: list[Row], budgets: list[Budget]) -> list[str]:
    """Return the broken bounds."""
    by = {(row.network, row.way): row for row in rows}
    found: list[str] = []
    shares: list[float] = []
    for name in NETWORKS:
        plain, auto = by.get((name, "int8")), by.get((name, "auto"))
        if plain is None or auto is None:
            continue
        shares.append(auto.flash / plain.flash)
        if auto.program < plain.program - MOST_LOST:
            found.append(f"{name}: {auto.program:.1f} % with fewer bits, {plain.program:.1f} % with eight")
    if len(shares) == len(NETWORKS) and geometric_mean(shares) > MOST_FLASH:
        found.append(f"flash is {geometric_mean(shares):.2f} of that with int8 weights, {MOST_FLASH} are allowed")
    for less, more in pairwise(budgets):
        if less.network == more.network and more.sqnr < less.sqnr:
            found.append(f"{more.network}: {more.budget:,} B give {more.sqnr} dB, {less.budget:,} B {less.sqnr} dB")
    return found


def of_int8(row: Row, rows: Mapping[tuple[str, str], Row]) -> float:
    """The share of the flash with int8 weights; NaN if those were not built."""
    plain = rows.get((row.network, "int8"))
    return math.nan if plain is None else row.flash / plain.flash


def results(options: argparse.Namespace) -> Results:
    """All networks in all ways, and budgets of the first."""
    rows: list[Row] = []
    budgets: list[Budget] = []
    for name in options.network or NETWORKS:
        subject = trained(name)
        own = {way: progress(subject.row(way)) for way in options.way or WAYS}
        rows += own.values()
        if name == next(iter(NETWORKS)) and len(own) == len(WAYS):
            budgets = subject.budgets(own["4 bits"].flash, own["int8"].flash)
    by = {(row.network, row.way): row for row in rows}

    columns = {"network": "network", "weights": "way", "float, %": "floats:.1f", "program, %": "program:.1f"}
    columns |= {"SQNR, dB": "sqnr:.1f", "flash, B": "flash"}
    columns |= {"of int8": lambda row: f"{of_int8(row, by):.2f}"}
    shares = [of_int8(row, by) for row in rows if row.way == "auto"]
    budget = {"network": "network", "budget, B": "budget", "flash, B": "flash", "SQNR, dB": "sqnr:.1f"}
    notes = (
        [f"auto: flash is {geometric_mean(shares):.2f} of that with int8 weights (geometric mean)"] if shares else []
    )
    tables = [table(rows, columns), table(budgets, budget)]
    return Results("measured", [*rows, *budgets], tables, problems(rows, budgets), notes)


if __name__ == "__main__":
    sys.exit(main(results, only("--network", NETWORKS), only("--way", WAYS)))

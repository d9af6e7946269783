"""A small CNN that reads handwritten digits: trained here, on scikit-learn's 8x8 digits (1797 real samples).

The data ships with scikit-learn; nothing is downloaded. Training is seeded and takes a few seconds on one core.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from seeding import CALIBRATION_BATCHES, Example
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional

HELD_BACK = 400
EPOCHS = 20
QAT_EPOCHS = 3
BATCH = 64


class Split(NamedTuple):
    """Images [N, 1, 8, 8] in 0..1 and their labels [N]."""

    images: Tensor
    labels: Tensor


class DigitsCnn(nn.Module):
    """1x8x8 to 10 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AvgPool2d(2),
        )
        self.classifier = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).flatten(1))


def data() -> tuple[Split, Split]:
    """(training set, held-back set); the split is stratified and always the same."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images, labels, test_size=HELD_BACK, stratify=labels, random_state=0)
    x_train, x_test = (torch.from_numpy(p).float().reshape(-1, 1, 8, 8) / 16 for p in parts[:2])
    y_train, y_test = (torch.from_numpy(p).long() for p in parts[2:])
    return Split(x_train, y_train), Split(x_test, y_test)


def fit(split: Split) -> DigitsCnn:
    """The trained network in evaluation mode."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the layers are too small to share, and sums come out the same on every machine
    model = DigitsCnn().train()
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(split.labels)).split(BATCH):
            optimiser.zero_grad()
            loss = functional.cross_entropy(model(split.images[rows]), split.labels[rows])
            loss.backward()
            optimiser.step()
        schedule.step()
    return model.eval()


def train(model: nn.Module) -> Iterator[float]:
    """The mean loss of each epoch of quantization-aware training, for `deuteron build digits --use-qat`."""
    training, _ = data()
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    for _ in range(QAT_EPOCHS):
        losses: list[float] = []
        for rows in torch.randperm(len(training.labels)).split(BATCH):
            optimiser.zero_grad()
            loss = functional.cross_entropy(model(training.images[rows]), training.labels[rows])
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        yield sum(losses) / len(losses)


def calibration(split: Split) -> list[tuple[Tensor]]:
    """Calibration batches: real digits of the training set, one at a time."""
    return [(x,) for x in split.images[: 16 * CALIBRATION_BATCHES].split(1)]


def digits() -> Example:
    """The trained network, a held-back digit, and calibration batches of real training digits."""
    training, held_back = data()
    return fit(training), (held_back.images[:1],), calibration(training)

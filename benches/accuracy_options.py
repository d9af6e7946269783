"""Networks that lose much to int8, and the gain of each way to lose less: signal to noise of the program, in dB.

Figures are on the calibration data, as the build says, and on held-back samples. "int16" counts operators with 16-bit
activations and those that convert the dtype.

make bench-accuracy-options
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from harness import Results, main, only, progress, table
from networks_on_targets import sqnr
from torch import Tensor, nn
from zoo import NAMES, NETWORKS, Network

from deuteron import api, records

TARGETS = ("cortex-m55", "imxrt700cm")
CALIBRATION, HELD_BACK = 64, 16


class Spread(nn.Module):
    """1x20x20 to 5 classes: separable convolutions whose channels have sizes over three decades, each as important."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, 2, 1, groups=16),
            nn.ReLU(),
            nn.Conv2d(16, 24, 1),
            nn.ReLU(),
            nn.Conv2d(24, 24, 3, 1, 1, groups=24),
            nn.ReLU(),
            nn.Conv2d(24, 24, 1),
        )
        self.classes = nn.Linear(24, 5)
        with torch.no_grad():
            for at, grouped in ((0, True), (2, False), (4, True), (6, False)):
                layer, behind = self.body[at], self.body[at + 2]
                factors = 10 ** (3 * torch.rand(layer.weight.shape[0]) - 1.5)
                layer.weight *= factors.reshape(-1, 1, 1, 1)
                layer.bias *= factors
                behind.weight /= factors.reshape((-1, 1, 1, 1) if grouped else (1, -1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Scores of five classes."""
        return self.classes(torch.relu(self.body(x)).mean((2, 3)))


@dataclass(frozen=True, slots=True)
class Case:
    """A network that loses much, by how much each way is to raise it at least, in dB, and what a search asks for."""

    network: Network
    gains: Mapping[str, float]
    least: float = 30.0


CASES = (
    Case(Network("spread", Spread, ((1, 1, 20, 20),)), {"equalise": 10, "correct_biases": 5, "both": 10}, 23.0),
    Case(NETWORKS[NAMES.index("dilated_separable")], {"min_sqnr": 4}),
    Case(NETWORKS[NAMES.index("rms_norm")], {"min_sqnr": 3}, 40.0),
    Case(NETWORKS[NAMES.index("mobilenet_v3")], {}),
)
WAYS: Mapping[str, Mapping[str, object]] = {
    "int8": {},
    "equalise": {"equalise": True},
    "correct_biases": {"correct_biases": True},
    "both": {"equalise": True, "correct_biases": True},
    "min_sqnr": {},
}


@dataclass(frozen=True, slots=True)
class Row:
    """One network for one target in one way: signal to noise on the calibration and held back, and int16 operators."""

    network: str
    target: str
    way: str
    sqnr: float
    held_back: float
    int16: int


def row(case: Case, target: str, way: str) -> Row:
    """One build, measured."""
    network = case.network
    calibration, held_back = network.samples(CALIBRATION, seed=2), network.samples(HELD_BACK, seed=1)
    module = network.module()
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder) / "build"
        least = {"min_sqnr": case.least} if way == "min_sqnr" else {}
        plain = {**records.plain(api.BuildOptions()), **WAYS[way], **least}
        options = records.parse(json.dumps(plain), api.BuildOptions, "options", "mend `WAYS`")
        manifest = api.build(
            module, calibration[0], target=target, calibration=calibration, output=build, options=options
        ).manifest
        outputs = list(api.run_each(build, [[x.numpy() for x in sample] for sample in held_back]))
    worst = min(output.sqnr for output in manifest.quality.outputs)
    int16 = sum("s16" in op.op for op in manifest.cpu_ops)
    return Row(network.name, target, way, worst, round(sqnr(module, held_back, outputs), 2), int16)


def problems(rows: list[Row]) -> list[str]:
    """Ways that do not raise the signal to noise of held-back samples as they are to."""
    held = {(r.network, r.target, r.way): r.held_back for r in rows}
    listed: list[str] = []
    for case in CASES:
        for target in TARGETS:
            before = held.get((case.network.name, target, "int8"))
            for way, gain in case.gains.items():
                after = held.get((case.network.name, target, way))
                if before is not None and after is not None and after - before < gain:
                    listed.append(f"{way} raises {case.network.name} on {target} by {after - before:.1f} dB")
    return listed


def results(options: argparse.Namespace) -> Results:
    """Each network in each way."""
    rows = [
        progress(row(case, target, way))
        for case in CASES
        for target in options.target or TARGETS
        for way in options.way or WAYS
        if case.network.name in (options.network or [case.network.name])
    ]
    columns = {"network": "network", "target": "target", "way": "way", "SQNR, dB": "sqnr:.1f"}
    columns |= {"held back": "held_back:.1f", "int16": "int16"}
    return Results("measured", rows, [table(rows, columns)], problems(rows))


if __name__ == "__main__":
    sys.exit(
        main(
            results,
            only("--network", (case.network.name for case in CASES)),
            only("--target", TARGETS),
            only("--way", WAYS),
        )
    )

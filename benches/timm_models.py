"""Networks of timm at their sizes on imxrt700cm: whether they build, in how much processor time, and agree.

Untrained, with seeded weights. It needs the extra `timm`: `pip install -e '.[timm]'`. Where torchvision's library was
compiled for another PyTorch, for CUDA's say, the bench does without it.

make bench-timm-models
"""

import argparse
import importlib
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from harness import Results, main, only, progress, table

from deuteron import api
from deuteron.extras import require

TARGET = "imxrt700cm"
SIZES = {"mobilenetv3_small_050": 224, "efficientnet_lite0": 224, "resnet18": 224}
"""The networks, and the width and height of their images."""

MOST_SECONDS = 60.0
CALIBRATION = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One network: partitions on the NPU, signal to noise in dB, agreement, seconds of processor time for the build."""

    model: str
    partitions: int
    sqnr: float
    agrees: bool
    seconds: float

    @property
    def problem(self) -> str:
        """The broken bound; empty if there is none."""
        if not self.agrees:
            return "does not agree with its reference"
        return f"takes {self.seconds:.0f} s to build" if self.seconds > MOST_SECONDS else ""


def imported() -> Any:
    """The package; torchvision, which it imports for its data sets and detectors, with or without its own library.

    Without it, the import fails: two operators of the library are not declared. No classification network has them,
    so declarations without an implementation suffice.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("timm")


def row(name: str, size: int) -> Row:
    """One build, compared."""
    torch.manual_seed(0)
    module = imported().create_model(name, pretrained=False).eval()
    generator = torch.Generator().manual_seed(1)
    calibration = [torch.randn(1, 3, size, size, generator=generator) for _ in range(CALIBRATION)]
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder) / "build"
        begin = time.process_time()
        manifest = api.build(module, calibration[0], target=TARGET, calibration=calibration, output=build).manifest
        seconds = time.process_time() - begin
        agrees = api.compare(build, [(calibration[0].numpy(),)]).passed
    return Row(name, len(manifest.partitions), manifest.quality.outputs[0].sqnr, agrees, round(seconds, 1))


def results(options: argparse.Namespace) -> Results:
    """Each network."""
    require("timm", "timm", "this bench")
    rows = [progress(row(name, SIZES[name])) for name in options.model or SIZES]
    columns = {"network": "model", "partitions": "partitions", "SQNR, dB": "sqnr:.1f", "agrees": "agrees"}
    problems = [f"{r.model} {r.problem}" for r in rows if r.problem]
    return Results("measured", rows, [table(rows, {**columns, "build, s": "seconds:.1f"})], problems)


if __name__ == "__main__":
    sys.exit(main(results, only("--model", SIZES)))

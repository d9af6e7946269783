"""The main job from end to end on real data: train, quantise, compile, run and compare the digits network.

Usage: python examples/digits_demo.py [DIRECTORY]     (default: demo-out; replaced when it exists)
"""

import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.table import Table

import deuteron
from deuteron.frontend import saved
from deuteron.runtime.host import HostRunner
from deuteron.views.compare.pytorch import compare

sys.path.insert(0, str(Path(__file__).parent / "models"))

import digits

TARGET = "imxrt700"
COMPARED = 32
"""Held-back digits that are compared operator by operator."""

Labels = npt.NDArray[np.int64]


def main(directory: Path) -> int:
    """Runs the demo; 0 when every bound holds."""
    log = Console(stderr=True)
    training, held_back = digits.data()
    log.print(f"training on {len(training.labels)} handwritten digits; {len(held_back.labels)} are held back")
    began = time.monotonic()
    model = digits.fit(training)
    log.print(f"trained in {time.monotonic() - began:.0f} s; quantising and compiling for {TARGET}")
    built = deuteron.build(
        model,
        (held_back.images[:1],),
        target=TARGET,
        calibration=digits.calibration(training),
        output=directory,
        options=deuteron.BuildOptions(force=True),
        name="digits",
        progress=lambda step, index, count: None if "batch" in step else log.print(f"  {index + 1}/{count} {step}"),
    )
    log.print("running the held-back digits in ExecuTorch's runtime, and comparing with quantised PyTorch")
    images, labels = held_back.images, held_back.labels.numpy()
    runner = HostRunner(directory / "model.pte")
    samples = [(image.numpy(),) for image in images.split(1)]
    on_npu = np.array([runner.run(sample)[0].argmax() for sample in samples])
    reference = saved.load(directory / "reference.pt2")
    quantised = np.array([int(reference.run(image)[0].argmax()) for image in zip(images.split(1))])
    with torch.no_grad():
        in_float = model(images).argmax(1).numpy()
    comparison = compare(directory, samples[:COMPARED])

    out = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    out.print(accuracy_table(in_float, quantised, on_npu, labels))
    out.print(npu_table(built))
    on_cpu = ", ".join(sorted({op.op for op in built.manifest.cpu_ops})) or "nothing"
    out.print(f"on the CPU: {on_cpu}")
    verdict = "all bounds hold" if comparison.passed else "; ".join(comparison.failures())
    out.print(f"operator by operator on {COMPARED} digits: {verdict}")
    out.print(f"artefacts: {directory}/  (look inside with `deuteron inspect {directory}`)")
    return 0 if comparison.passed else 1


def accuracy_table(in_float: Labels, quantised: Labels, on_npu: Labels, labels: Labels) -> Table:
    """Accuracy of the three ways to run the network, and how often the NPU agrees with quantised PyTorch."""
    table = Table(title=f"{len(labels)} held-back digits (measured)", title_justify="left")
    table.add_column("network")
    table.add_column("accuracy %", justify="right")
    for name, found in (("float32 PyTorch", in_float), ("quantised PyTorch", quantised), ("int8 on the NPU", on_npu)):
        table.add_row(name, f"{100 * np.mean(found == labels):.2f}")
    table.add_row("NPU agrees with quantised PyTorch", f"{100 * np.mean(on_npu == quantised):.2f}")
    return table


def npu_table(built: deuteron.Build) -> Table:
    """What was delegated, and its sizes."""
    table = Table(title="delegated to the NPU", title_justify="left")
    for name in ("partition", "operators", "kernel calls", "microcode B", "weights B", "scratch B"):
        table.add_column(name, justify="right")
    for i, part in enumerate(built.manifest.partitions):
        sizes = (len(part.ops), len(part.kernels), part.microcode_bytes, part.weights_bytes, part.scratch_bytes)
        table.add_row(str(i), *(f"{size:,}" for size in sizes))
    return table


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")))

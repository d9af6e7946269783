"""Train, quantize, compile, run and compare the digits network: Deuteron's main job on real data."""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

import deuteron
from deuteron.frontend import saved
from deuteron.runtime.host import HostRunner
from deuteron.views.compare.pytorch import compare

sys.path.insert(0, str(Path(__file__).parent / "models"))

import digits

TARGET = "imxrt700"
COMPARED = 32
"""Held-back digits that are compared operator by operator."""


def main(directory: Path, *, verbose: bool) -> int:
    """Run the demo; 0 when every bound holds."""
    training, held_back = digits.data()
    count = len(held_back.labels)
    print(f"training on {len(training.labels)} handwritten digits; {count} are held back")
    began = time.monotonic()
    model = digits.fit(training)
    print(f"trained in {time.monotonic() - began:.0f} s; quantizing and compiling for {TARGET}")
    built = deuteron.build(
        model,
        (held_back.images[:1],),
        target=TARGET,
        calibration=digits.calibration(training),
        output=directory,
        options=deuteron.BuildOptions(force=True),
        name="digits",
        progress=lambda step, index, steps: print(f"  {index + 1}/{steps} {step}") if verbose else None,
    )
    print("running the held-back digits in ExecuTorch's runtime, and comparing with quantized PyTorch")
    images, labels = held_back.images, held_back.labels.numpy()
    runner = HostRunner(directory / "model.pte")
    samples = [(image.numpy(),) for image in images.split(1)]
    on_npu = np.array([runner.run(sample)[0].argmax() for sample in samples])
    reference = saved.load(directory / "reference.pt2")
    quantized = np.array([int(reference.run(image)[0].argmax()) for image in zip(images.split(1))])
    with torch.no_grad():
        in_float = model(images).argmax(1).numpy()
    comparison = compare(directory, samples[:COMPARED])

    results = {"float32 PyTorch": in_float, "quantized PyTorch": quantized, "int8 on the NPU": on_npu}
    accuracy = ", ".join(f"{name} {100 * np.mean(found == labels):.2f} %" for name, found in results.items())
    print(f"accuracy on {count} digits (measured): {accuracy}")
    print(f"the NPU agrees with quantized PyTorch on {int(np.sum(on_npu == quantized))} of {count}")
    for part in built.manifest.partitions:
        print(
            f"on the NPU: {len(part.ops)} operators in {len(part.kernels)} kernel calls; microcode "
            f"{part.microcode_bytes:,} B, weights {part.weights_bytes:,} B, scratch {part.scratch_bytes:,} B"
        )
    print(f"on the CPU: {', '.join(sorted({op.op for op in built.manifest.cpu_ops})) or 'nothing'}")
    verdict = "all bounds hold" if comparison.passed else "; ".join(comparison.failures())
    print(f"operator by operator on {COMPARED} digits: {verdict}")
    print(f"artefacts: {directory}/  (look inside with `deuteron inspect {directory}`)")
    return 0 if comparison.passed else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path("demo-out"), help="replaced if it exists")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the steps of the build")
    options = parser.parse_args()
    sys.exit(main(options.directory, verbose=options.verbose))

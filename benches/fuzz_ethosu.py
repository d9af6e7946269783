"""Mutated partitions of an Ethos-U under the address and undefined sanitizers: taken apart, checked, watched, executed.

The partitions are what Vela makes of small networks in TFLite, for each accelerator, and of a loop in TOSA, which has
the branches of an Ethos-U85. The mutations and findings are described in
`firmware/executorch/tests/fuzz_ethosu.cpp`.

make bench-fuzz-ethosu
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from fuzzing import Target, main

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.npu.ethosu import tosa_graphs, vela
from tests.npu.ethosu.loop_graph import loop
from tests.npu.ethosu.networks import ACCELERATORS, KINDS, network
from tests.npu.neutron.tflite import cases

from deuteron.frontend.log_suppression import captured_output
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.runtime.build_native import executorch_root

OPERATORS = KINDS | {
    "matmul": cases.batch_matmul,
    "bilinear": cases.resize(ops.ResizeBilinear),
    "mean": cases.reduction(ops.Mean, 0.05),
    "transpose": cases.transpose,
    "logistic": cases.logistic,
    "transpose_conv": cases.transpose_conv,
}
LOOPING = ("ethos-u85-128", "ethos-u85-256", "ethos-u85-512", "ethos-u85-2048")


def partitions(directory: Path) -> tuple[str, ...]:
    """The files of the partitions that are mutated, made in a directory."""
    models = {"network": emit(network())} | {
        kind: emit(make(np.random.default_rng(1))) for kind, make in OPERATORS.items()
    }
    with captured_output():
        payloads: dict[str, bytes | None] = {
            f"loop-{accelerator}": tosa_graphs.compiled(loop().data, accelerator) for accelerator in LOOPING
        }
    for number, (name, model) in enumerate(models.items()):
        for accelerator in ACCELERATORS if name == "network" else ACCELERATORS[number % 6 :: 6]:
            payloads[f"{name}-{accelerator}"] = vela.compiled(model, accelerator, directory)
    for name, payload in payloads.items():
        if payload is not None:
            (directory / name).write_bytes(payload)
    return tuple(str(directory / name) for name, payload in payloads.items() if payload is not None)


def target(directory: Path) -> Target:
    """The target, with partitions made in a directory."""
    options = ("-DDTN_EXECUTORCH=ON", f"-DEXECUTORCH_ROOT={executorch_root()}")
    return Target("fuzz_ethosu", "executorch-tests", "executorch/tests", options, partitions(directory))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as parent:
        sys.exit(main(target(Path(parent)), __doc__))

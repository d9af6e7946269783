"""TFLite files as users have them: ten int8 files that Google's tools make of PyTorch models, taken through everything.

The files are made by litert-torch, and quantised by ai-edge-quantizer with its recipe of int8 weights and activations,
inputs and outputs too. Both come with `pip install litert-torch`, which no extra of Deuteron's asks
for: it brings jax and transformers. A row per file: its size, operators on the NPU and beside it, partitions, how many
results differ from LiteRT's, of how many, and by how many steps at most, simulated time, and whether firmware for the
board an505 was built.

make bench-tflite-files
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from deuteron import api
from deuteron.builds.manifest import TensorInfo
from deuteron.errors import DeuteronError
from deuteron.npu.neutron.tflite_partitioner import convert_mixed
from deuteron.runtime import litert, tflite_model
from deuteron.views.compare.tflite_partitioned import MixedOutput

MODELS = Path(__file__).resolve().parents[1] / "examples" / "models"
sys.path.insert(0, str(MODELS))
NAMES = (
    "tiny",
    "digits",
    "ds_cnn",
    "resnet8",
    "mobilenet_v1_025",
    "deep_autoencoder",
    "mobilenet_v3_blocks",
    "encoder_decoder",
    "attention",
    "mobilenet_v2",
)
TARGET = "imxrt700"
COLUMNS = ("file", "KB", "npu", "beside", "partitions", "differ", "of", "largest", "sim us", "firmware")


def tiny() -> tuple[nn.Module, tuple[int, ...]]:
    """A model of a few kilobytes."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 12), nn.Softmax(-1)), (1, 64)


def model(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """The float model of a file, and the shape of its input."""
    if name == "tiny":
        return tiny()
    from deuteron.frontend.loader import load

    (example,) = (e for e in (*api.EXAMPLES, *api.COMBINED) if e.name == name)
    return load(f"{example.path}:{name}").module.eval(), example.input_shape


def make(name: str) -> bytes:
    """The int8 file of a model."""
    import litert_torch
    from ai_edge_quantizer import quantizer, recipe

    module, shape = model(name)
    rng = np.random.default_rng(7)
    samples = [rng.normal(size=shape).astype(np.float32) for _ in range(8)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "float.tflite"
        litert_torch.convert(module.eval(), (torch.from_numpy(samples[0]),)).export(str(path))
        made = quantizer.Quantizer(str(path), recipe.static_wi8_ai8())
        calibrated = made.calibrate({"serving_default": [{"args_0": sample} for sample in samples]})
        return bytes(made.quantize(calibrated).quantized_model)


def drawn(info: TensorInfo) -> npt.NDArray[np.generic]:
    """A random input."""
    rng = np.random.default_rng(1)
    if info.dtype == "int8":
        return rng.integers(-128, 128, info.shape, np.int8)
    return rng.normal(size=info.shape).astype(np.float32)


def row(path: Path) -> Iterator[object]:
    """What came of one file."""
    data = path.read_bytes()
    mixed = convert_mixed(data, TARGET)
    if mixed is None:
        raise DeuteronError("the NPU takes nothing of it", where=str(path))
    yield path.stem
    yield round(len(data) / 1000)
    yield len(mixed.model.operators) - len(mixed.refused)
    yield len(mixed.refused)
    yield len(mixed.parts)
    subject = tflite_model.load(path, TARGET)
    inputs = [drawn(info) for info in subject.inputs]
    ours, theirs = subject.run(inputs), litert.run(data, inputs)
    agreement = MixedOutput(path.stem)
    for a, b in zip(ours, theirs, strict=True):
        agreement.add(a, b)
    yield agreement.mismatches
    yield agreement.elements
    yield f"{agreement.largest:g}" + (f" and {agreement.infinite} NaN or infinite" if agreement.infinite else "")
    simulation = api.simulate(path)
    yield f"{simulation.engine.microseconds(simulation.cycles):,.1f}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            api.firmware(path, "an505", Path(folder) / "out")
        except DeuteronError as error:
            yield error.message.splitlines()[0]
        else:
            yield "built"


def main() -> int:
    """Print the table; 0 when each file is taken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, help="where files are kept; those that are there are not made again")
    parser.add_argument("--names", nargs="+", default=NAMES, help="models, all by default")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--make", action="store_true", help="make the files and leave it at that")
    args = parser.parse_args()
    folder = args.files or Path(tempfile.mkdtemp(prefix="tflite-files-"))
    folder.mkdir(exist_ok=True)
    for name in args.names:
        path = folder / f"{name}.tflite"
        if not path.exists():
            path.write_bytes(make(name))
    if args.make:
        return 0
    rows = [list(row(folder / f"{name}.tflite")) for name in args.names]
    table = Table(*COLUMNS)
    for one in rows:
        table.add_row(*map(str, one))
    Console(width=140).print(table)
    if args.json:
        args.json.write_text(json.dumps([dict(zip(COLUMNS, one, strict=True)) for one in rows], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

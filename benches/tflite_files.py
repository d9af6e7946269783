"""TFLite files as users have them: ten int8 files of Google's tools, through every command.

litert-torch makes the files, and ai-edge-quantizer quantizes them with its recipe of int8 weights and activations.
Both come with `pip install litert-torch`, which no extra of Deuteron includes. A row has the size, operators on the
NPU and on the CPU, partitions, results that differ from LiteRT's and by how many steps, simulated time, and firmware
for the an505.

make bench-tflite-files
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from harness import Results, folder, main, option, table
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
COLUMNS = ("file", "KB", "npu", "on the CPU", "partitions", "differ", "of", "largest", "sim us", "firmware")


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
    """Yield the cells of one file."""
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


def results(options: argparse.Namespace) -> Results:
    """Each file, which is made if it is missing."""
    with folder(options.files) as files:
        files.mkdir(exist_ok=True)
        for name in options.names:
            if not (path := files / f"{name}.tflite").exists():
                path.write_bytes(make(name))
        names = () if options.make else options.names
        rows = [dict(zip(COLUMNS, row(files / f"{name}.tflite"), strict=True)) for name in names]
    tables = [table(rows, {column: column for column in COLUMNS})] if rows else []
    return Results("counted; times are simulated", rows, tables)


OPTIONS = (
    option("--files", type=Path, help="where files are kept; those that are there are not made again"),
    option("--names", nargs="+", default=NAMES, help="models, all by default"),
    option("--make", action="store_true", help="make the files and leave it at that"),
)

if __name__ == "__main__":
    sys.exit(main(results, *OPTIONS))

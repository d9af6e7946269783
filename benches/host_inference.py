"""Time of one inference on this machine, one thread: our driver beside LiteRT on the same TFLite partitions.

LiteRT runs as its reference kernels (BUILTIN_REF), as its own optimised kernels without a delegate, and with XNNPACK,
which is its default. Contenders take turns, run by run, so that other load on the machine meets them all; a figure is
the median. Only the run is timed: neither loading nor the copies of inputs and outputs. Random int8 inputs, seeded.

make bench-host-inference
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# Fixes the thread count of libraries that read it when they load.
os.environ["OMP_NUM_THREADS"] = "1"

from ai_edge_litert.interpreter import Interpreter, OpResolverType

from deuteron import api
from deuteron.convert import convert
from deuteron.runtime.driver import Driver

LIMIT_MODEL = "mobilenet_v2"
LIMIT_RATIO = 0.5
"""MobileNetV2 must take at most this share of the time of LiteRT's reference kernels."""
RESOLVERS = {
    "litert reference": OpResolverType.BUILTIN_REF,
    "litert optimised": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "litert xnnpack": OpResolverType.AUTO,
}
OURS = "deuteron"
SECONDS_PER_MODEL = 8.0

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Result:
    """One model: median milliseconds per contender, and over how many runs."""

    model: str
    runs: int
    median_ms: dict[str, float]

    def ratio(self, contender: str) -> float:
        """Our time as a share of a contender's."""
        return self.median_ms[OURS] / self.median_ms[contender]


def partitions(folder: Path | None) -> dict[str, list[bytes]]:
    """TFLite bytes of each model's partitions: from `NAME.tflite` files, or of the example models built here."""
    if folder is not None:
        return {path.stem: [path.read_bytes()] for path in sorted(folder.glob("*.tflite"))}
    found: dict[str, list[bytes]] = {}
    for example in api.EXAMPLES:
        print(f"building {example.name}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as parent:
            output = Path(parent) / example.name
            api.build_model(example.name, output=output, options=api.BuildOptions(intermediates=True))
            found[example.name] = [path.read_bytes() for path in sorted(output.glob("npu_*.tflite"))]
    return found


def our_run(tflite: bytes) -> Run:
    """A run of the converted partition on the driver."""
    container = convert(tflite, "imxrt700").container
    if container is None:
        return lambda: None
    model = Driver().load(container)
    generator = np.random.default_rng(0)
    model.fill([generator.integers(-128, 128, size, np.int8).tobytes() for size in model.input_bytes])
    return model.invoke


def litert_run(tflite: bytes, resolver: OpResolverType) -> Run:
    """A run of the partition in LiteRT."""
    interpreter = Interpreter(model_content=tflite, num_threads=1, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    generator = np.random.default_rng(0)
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], generator.integers(-128, 128, detail["shape"], np.int8))
    return interpreter.invoke


def seconds(runs: Sequence[Run]) -> float:
    """Time of one inference: every partition once."""
    began = time.perf_counter()
    for run in runs:
        run()
    return time.perf_counter() - began


def measure(model: str, tflites: list[bytes]) -> Result:
    """All contenders on one model, taking turns."""
    contenders = {OURS: [our_run(data) for data in tflites]}
    contenders |= {name: [litert_run(data, resolver) for data in tflites] for name, resolver in RESOLVERS.items()}
    one_round = sum(seconds(runs) for runs in contenders.values())  # also the warm-up
    count = int(min(200, max(9, SECONDS_PER_MODEL / one_round)))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(count):
        for name, runs in contenders.items():
            times[name].append(seconds(runs))
    return Result(model, count, {name: statistics.median(values) * 1000 for name, values in times.items()})


def main() -> int:
    """Exit status: 1 when MobileNetV2 takes more than its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tflite", type=Path, metavar="DIR", help="TFLite partitions to run instead of the examples")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    results = [measure(model, data) for model, data in partitions(arguments.tflite).items()]
    names = (OURS, *RESOLVERS)
    print("median ms of one inference, measured (our time as a share of theirs)")
    print(f"{'model':<18}" + "".join(f"{name:>24}" for name in names) + f"{'runs':>6}")
    for result in results:
        cells = [f"{result.median_ms[OURS]:.3f}"]
        cells += [f"{result.median_ms[name]:.3f} ({result.ratio(name):.2f})" for name in RESOLVERS]
        print(f"{result.model:<18}" + "".join(f"{cell:>24}" for cell in cells) + f"{result.runs:>6}")
    if arguments.json:
        machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": sys.version}
        rows = [{"model": r.model, "runs": r.runs, "median_ms": r.median_ms} for r in results]
        arguments.json.write_text(json.dumps({"machine": machine, "results": rows}, indent=2))
    over = [r for r in results if r.model == LIMIT_MODEL and r.ratio("litert reference") > LIMIT_RATIO]
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())

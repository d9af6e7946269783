"""Time of one inference on this machine, one thread: our driver beside LiteRT on the same partitions.

LiteRT runs as its reference kernels (BUILTIN_REF), as its own optimised kernels without a delegate, and with XNNPACK,
which is its default; each on two forms of a partition. "as written" is the file that ExecuTorch's NXP backend writes,
with activations and paddings as operators of their own; XNNPACK has no PADV2, so that form falls into many fragments
and mostly measures what lies between them. "fused" is the same partition after our compiler's passes, written back to
TFLite: the form to compare kernels by. Our own run is the same in both rows.

Contenders take turns, run by run, so that other load on the machine meets them all; a figure is the median of wall
time. Only the run is timed: neither loading nor the copies of inputs and outputs. Inputs are random int8, seeded; the
last columns show that the outputs agree with LiteRT's reference kernels and how many different values they have.

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
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

# Fixes the thread count of libraries that read it when they load.
os.environ["OMP_NUM_THREADS"] = "1"

from ai_edge_litert.interpreter import Interpreter, OpResolverType

from deuteron import api
from deuteron.npu.neutron.convert import convert
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.runtime.driver import Driver

LIMIT_MODEL = "mobilenet_v2"
LIMIT_RATIO = 0.5
"""MobileNetV2 must take at most this share of the time of LiteRT's reference kernels, in either form."""
REFERENCE = "litert reference"
DEFAULT = "litert xnnpack"
RESOLVERS = {
    REFERENCE: OpResolverType.BUILTIN_REF,
    "litert optimised": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    DEFAULT: OpResolverType.AUTO,
}
OURS = "deuteron"
SECONDS_PER_MODEL = 8.0

Values = npt.NDArray[np.int8]


class Contender(Protocol):
    """A loaded partition with its inputs set."""

    def run(self) -> None:
        """One inference; the only thing that is timed."""
        ...

    def outputs(self) -> list[Values]:
        """What the last run gave, flat."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """One model in one form: median milliseconds per contender, over how many runs, and how outputs compare."""

    model: str
    form: str
    runs: int
    median_ms: dict[str, float]
    max_difference_lsb: int
    distinct_values: int

    def ratio(self, contender: str) -> float:
        """Our time as a share of a contender's."""
        return self.median_ms[OURS] / self.median_ms[contender]


def partitions(folder: Path | None) -> dict[str, list[bytes]]:
    """TFLite bytes of each model's partitions: from `NAME.tflite` files, or of the example models built here."""
    if folder is not None:
        return {path.stem: [path.read_bytes()] for path in sorted(folder.glob("*.tflite"))}
    found: dict[str, list[bytes]] = {}
    for example in api.REFERENCES:
        print(f"building {example.name}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as parent:
            output = Path(parent) / example.name
            api.build_model(example.name, output=output)
            files = sorted(output.glob("npu_*.tflite"))
            found[example.name] = [path.read_bytes() for path in files]
    return found


def random_input(size: int, index: int) -> Values:
    """The same values for input `index` of every contender."""
    return np.random.default_rng(index).integers(-128, 128, size, np.int8)


class Ours:
    """The converted partition on our driver."""

    def __init__(self, container: Container) -> None:
        self.model = Driver().load(container)
        self.inputs = [random_input(size, i).tobytes() for i, size in enumerate(self.model.input_bytes)]
        self.model.fill(self.inputs)
        self.run = self.model.invoke

    def outputs(self) -> list[Values]:
        """The outputs."""
        return [np.frombuffer(data, np.int8) for data in self.model.run(self.inputs)]


class LiteRt:
    """A TFLite file in LiteRT."""

    def __init__(self, tflite: bytes, resolver: OpResolverType) -> None:
        self.interpreter = Interpreter(model_content=tflite, num_threads=1, experimental_op_resolver_type=resolver)
        self.interpreter.allocate_tensors()
        for i, detail in enumerate(self.interpreter.get_input_details()):
            shape = detail["shape"]
            self.interpreter.set_tensor(detail["index"], random_input(int(np.prod(shape)), i).reshape(shape))
        self.run = self.interpreter.invoke

    def outputs(self) -> list[Values]:
        """The outputs."""
        details = self.interpreter.get_output_details()
        return [self.interpreter.get_tensor(detail["index"]).reshape(-1) for detail in details]


def seconds(parts: Sequence[Contender]) -> float:
    """Time of one inference: every partition once."""
    began = time.perf_counter()
    for part in parts:
        part.run()
    return time.perf_counter() - began


def measure(model: str, tflites: list[bytes]) -> list[Result]:
    """All contenders on one model, taking turns: a result per form."""
    conversions = [convert(data, "imxrt700") for data in tflites]
    forms = {"as written": tflites, "fused": [emit(conversion.graph) for conversion in conversions]}
    ours: list[Contender] = [Ours(c.container) for c in conversions if c.container is not None]
    contenders: dict[tuple[str, str], list[Contender]] = {("", OURS): ours}
    for form, files in forms.items():
        for name, resolver in RESOLVERS.items():
            contenders[form, name] = [LiteRt(data, resolver) for data in files]
    one_round = sum(seconds(parts) for parts in contenders.values())  # also the warm-up
    runs = int(min(200, max(9, SECONDS_PER_MODEL / one_round)))
    times: dict[tuple[str, str], list[float]] = {key: [] for key in contenders}
    for _ in range(runs):
        for key, parts in contenders.items():
            times[key].append(seconds(parts))
    median = {key: statistics.median(values) * 1000 for key, values in times.items()}
    found = flat_outputs(ours)
    results: list[Result] = []
    for form in forms:
        wanted = flat_outputs(contenders[form, REFERENCE])
        results.append(
            Result(
                model,
                form,
                runs,
                {OURS: median["", OURS]} | {name: median[form, name] for name in RESOLVERS},
                int(np.abs(found.astype(np.int32) - wanted).max()),
                len(np.unique(found)),
            )
        )
    return results


def flat_outputs(parts: Sequence[Contender]) -> Values:
    """All outputs of all partitions in one array."""
    return np.concatenate([values for part in parts for values in part.outputs()])


def main() -> int:
    """Exit status: 1 when MobileNetV2 takes more than its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tflite", type=Path, metavar="DIR", help="TFLite partitions to run instead of the examples")
    parser.add_argument("--level", help="the level of vector instructions of our kernels, AVX2 for example")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    if arguments.level is not None:
        Driver().use_level(arguments.level)
    results = [r for model, data in partitions(arguments.tflite).items() for r in measure(model, data)]
    print("median ms of one inference, measured (our time as a share of theirs: above 1 we are slower)")
    header = f"{'model':<18}{'form':<12}" + "".join(f"{name:>24}" for name in (OURS, *RESOLVERS))
    print(header + f"{'runs':>6}{'max LSB':>9}{'values':>8}")
    for result in results:
        cells = [f"{result.median_ms[OURS]:.3f}"]
        cells += [f"{result.median_ms[name]:.3f} ({result.ratio(name):.2f})" for name in RESOLVERS]
        line = f"{result.model:<18}{result.form:<12}" + "".join(f"{cell:>24}" for cell in cells)
        print(line + f"{result.runs:>6}{result.max_difference_lsb:>9}{result.distinct_values:>8}")
    load = os.getloadavg()[0]
    for form in ("as written", "fused"):
        ratios = [r.ratio(DEFAULT) for r in results if r.form == form]
        mean, most = statistics.geometric_mean(ratios), max(ratios)
        print(f"our time as a share of XNNPACK's, {form}: geometric mean {mean:.2f}, largest {most:.2f}")
    print(f"our kernels at {Driver().level()}; XNNPACK takes the widest vectors that it has code for")
    print(f"load average of the last minute {load:.1f} on {os.cpu_count()} cores")
    if arguments.json:
        machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": sys.version}
        machine |= {"load_average": load, "level": Driver().level()}
        arguments.json.write_text(json.dumps({"machine": machine, "results": [asdict(r) for r in results]}, indent=2))
    over = [r for r in results if r.model == LIMIT_MODEL and r.ratio(REFERENCE) > LIMIT_RATIO]
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())

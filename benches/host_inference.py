"""Time of one inference on this machine, one thread: Deuteron's driver and LiteRT on the same partitions.

LiteRT runs as reference kernels (BUILTIN_REF), as optimised kernels without a delegate, and with XNNPACK, its default,
on two forms of a partition. The form "as written" is the file of ExecuTorch's NXP backend; XNNPACK has no PADV2, so
that form falls into fragments. The form "fused" is the partition after the compiler's passes, written back to TFLite.

Contenders take turns of a millisecond or more; a figure is the least processor time of an inference in a turn, without
loading and copies. Outputs are compared with LiteRT's reference kernels. On the fused form no model may take more than
1.3 times XNNPACK's time, and the geometric mean must be at most 1, with the widest vectors of the processor.

make bench-host-inference
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from harness import Results, main, option, table

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
MODEL_BAR = 1.3
MEAN_BAR = 1.0
"""The most of XNNPACK's time that a model may take, and the geometric mean of all: fused, at the highest level."""
REFERENCE = "litert reference"
DEFAULT = "litert xnnpack"
RESOLVERS = {
    REFERENCE: OpResolverType.BUILTIN_REF,
    "litert optimised": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    DEFAULT: OpResolverType.AUTO,
}
OURS = "deuteron"
FUSED = "fused"
SECONDS_PER_MODEL = 8.0
SECONDS_PER_TURN = 0.001

Values = npt.NDArray[np.int8]


class Contender(Protocol):
    """A loaded partition with its inputs set."""

    def run(self) -> None:
        """One inference; the only thing that is timed."""
        ...

    def outputs(self) -> list[Values]:
        """The outputs of the last run, flat."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """One model in one form: milliseconds per contender, the least of so many turns, and how outputs compare."""

    model: str
    form: str
    turns: int
    least_ms: dict[str, float]
    max_difference_lsb: int
    distinct_values: int

    def ratio(self, contender: str) -> float:
        """Our time as a share of a contender's."""
        return self.least_ms[OURS] / self.least_ms[contender]


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


def seconds(parts: Sequence[Contender], times: int) -> float:
    """Processor time of one inference, every partition once, of so many in a row."""
    began = time.process_time()
    for _ in range(times):
        for part in parts:
            part.run()
    return (time.process_time() - began) / times


def measure(model: str, tflites: list[bytes]) -> list[Result]:
    """All contenders on one model, taking turns: a result per form."""
    conversions = [convert(data, "imxrt700") for data in tflites]
    forms = {"as written": tflites, FUSED: [emit(conversion.graph) for conversion in conversions]}
    ours: list[Contender] = [Ours(c.container) for c in conversions if c.container is not None]
    contenders: dict[tuple[str, str], list[Contender]] = {("", OURS): ours}
    for form, files in forms.items():
        for name, resolver in RESOLVERS.items():
            contenders[form, name] = [LiteRt(data, resolver) for data in files]
    warm = {key: min(seconds(parts, 1), seconds(parts, 1)) for key, parts in contenders.items()}
    in_a_row = {key: 1 + int(SECONDS_PER_TURN / one) for key, one in warm.items()}
    one_round = sum(warm[key] * times for key, times in in_a_row.items())
    turns = int(min(200, max(9, SECONDS_PER_MODEL / one_round)))
    least = dict(warm)
    for _ in range(turns):
        for key, parts in contenders.items():
            least[key] = min(least[key], seconds(parts, in_a_row[key]))
    least = {key: 1000 * value for key, value in least.items()}
    found = flat_outputs(ours)
    results: list[Result] = []
    for form in forms:
        wanted = flat_outputs(contenders[form, REFERENCE])
        results.append(
            Result(
                model,
                form,
                turns,
                {OURS: least["", OURS]} | {name: least[form, name] for name in RESOLVERS},
                int(np.abs(found.astype(np.int32) - wanted).max()),
                len(np.unique(found)),
            )
        )
    return results


def flat_outputs(parts: Sequence[Contender]) -> Values:
    """All outputs of all partitions in one array."""
    return np.concatenate([values for part in parts for values in part.outputs()])


def problems(results: Sequence[Result]) -> list[str]:
    """Return the broken bars."""
    ratios = {result.model: result.ratio(DEFAULT) for result in results if result.form == FUSED}
    mean = statistics.geometric_mean(ratios.values())
    words = [f"{m} takes {r:.2f} of XNNPACK's time, allowed {MODEL_BAR}" for m, r in ratios.items() if r > MODEL_BAR]
    if mean > MEAN_BAR:
        words.append(f"the geometric mean is {mean:.2f} of XNNPACK's time, allowed {MEAN_BAR}")
    return words + [
        f"{r.model} takes {r.ratio(REFERENCE):.2f} of the reference's time, {r.form}, allowed {LIMIT_RATIO}"
        for r in results
        if r.model == LIMIT_MODEL and r.ratio(REFERENCE) > LIMIT_RATIO
    ]


def results(options: argparse.Namespace) -> Results:
    """Each model; levels below the processor's have no bar."""
    driver = Driver()
    if options.level is not None:
        driver.use_level(options.level)
    rows = [row for model, data in partitions(options.tflite).items() for row in measure(model, data)]
    columns = {"model": "model", "form": "form", "ms": lambda r: f"{r.least_ms[OURS]:.4f}"}
    columns |= {f"of {name}": lambda r, name=name: f"{r.ratio(name):.2f}" for name in RESOLVERS}
    columns |= {"turns": "turns", "max LSB": "max_difference_lsb", "values": "distinct_values"}
    notes = [f"our kernels at {driver.level()}; XNNPACK takes the widest vectors that it has code for"]
    for form in ("as written", FUSED):
        ratios = [r.ratio(DEFAULT) for r in rows if r.form == form]
        mean, most = statistics.geometric_mean(ratios), max(ratios)
        notes.append(f"our time as a share of XNNPACK's, {form}: geometric mean {mean:.2f}, largest {most:.2f}")
    bars = problems(rows) if driver.level() == driver.levels()[-1] else ()
    shown = table(rows, columns, "least ms of processor time of one inference, and our share of others' time")
    return Results("measured", rows, [shown], bars, notes, {"level": driver.level()})


TFLITE = option("--tflite", type=Path, metavar="DIR", help="TFLite partitions instead of the examples")

if __name__ == "__main__":
    sys.exit(
        main(
            results, TFLITE, option("--level", help="the level of vector instructions of our kernels, AVX2 for example")
        )
    )

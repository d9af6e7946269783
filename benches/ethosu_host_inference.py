"""Time of one inference by command streams of an Ethos-U on this machine, one thread, against XNNPACK.

Vela compiles the reference models' partitions after the converter's fusions, and `firmware/src/ethosu` executes the
commands. LiteRT runs the same files with XNNPACK. Both take turns; figures are medians of processor time of the run
alone. Outputs may differ by 1 from LiteRT's reference kernels, whose fully connected layers round once and Vela's
commands twice.

make bench-ethosu-host-inference
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import Results, main, option, progress, table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from host_inference import (
    DEFAULT,
    REFERENCE,
    RESOLVERS,
    Contender,
    LiteRt,
    Values,
    flat_outputs,
    partitions,
    random_input,
)  # fmt: skip
from tests.npu.ethosu import vela
from tests.npu.ethosu.machine import Machine, aligned, shram_bytes

from deuteron.npu.ethosu.memory import FAST_SCRATCH_BYTES
from deuteron.npu.ethosu.program import program_of
from deuteron.npu.neutron.convert import convert
from deuteron.npu.neutron.tflite.emit import emit

ACCELERATOR = "ethos-u55-128"
LIMITS = {"mobilenet_v2": 300.0}
LIMIT = 10.0
"""Milliseconds that an inference may take, of MobileNetV2 and of all others."""
SECONDS_PER_MODEL = 4.0


class Ours:
    """A partition that Vela has compiled."""

    def __init__(self, payload: bytes) -> None:
        program = program_of(payload, "the partition")
        self.blob = program.blob
        config = program.stream.config
        self.scratch = aligned(np.zeros(self.blob.scratch_bytes, np.uint8))
        memories = {
            0: aligned(np.frombuffer(self.blob.weights, np.uint8)),
            1: self.scratch,
            2: aligned(np.zeros(FAST_SCRATCH_BYTES, np.uint8)),
        }
        shram = aligned(np.zeros(shram_bytes(config), np.uint8))
        self.machine = Machine(config, self.blob.command_data, memories, shram)

    def fill(self) -> None:
        """Writes the inputs, which a run may overwrite."""
        for i, tensor in enumerate(self.blob.inputs):
            values = random_input(tensor.nbytes, i).view(np.uint8)
            self.scratch[tensor.offset : tensor.offset + tensor.nbytes] = values

    def run(self) -> None:
        """One inference."""
        self.machine.run()

    def outputs(self) -> list[Values]:
        """The outputs."""
        return [self.scratch[t.offset : t.offset + t.nbytes].view(np.int8).copy() for t in self.blob.outputs]


@dataclass(frozen=True, slots=True)
class Result:
    """One model: median milliseconds of either, over how many runs, and how outputs compare."""

    model: str
    runs: int
    ours_ms: float
    xnnpack_ms: float
    max_difference_lsb: int
    distinct_values: int

    @property
    def limit_ms(self) -> float:
        """The limit of its time."""
        return LIMITS.get(self.model, LIMIT)


def processor_seconds(parts: Sequence[Contender]) -> float:
    """Processor time of one inference: every partition once."""
    began = time.process_time()
    for part in parts:
        part.run()
    return time.process_time() - began


def measure(model: str, tflites: list[bytes], accelerator: str) -> Result | None:
    """Both on one model, taking turns; None where Vela leaves a part of it to the CPU."""
    files = [emit(convert(data, "imxrt700").graph) for data in tflites]
    with tempfile.TemporaryDirectory() as folder:
        payloads = [vela.compiled(data, accelerator, Path(folder)) for data in files]
    ours = [Ours(payload) for payload in payloads if payload is not None]
    if len(ours) != len(files):
        return None
    xnnpack = [LiteRt(data, RESOLVERS[DEFAULT]) for data in files]
    wanted = [LiteRt(data, RESOLVERS[REFERENCE]) for data in files]
    processor_seconds(wanted)
    times: dict[str, list[float]] = {"ours": [], "xnnpack": []}
    while sum(map(sum, times.values())) < SECONDS_PER_MODEL or len(times["ours"]) < 9:
        for part in ours:
            part.fill()
        times["ours"].append(processor_seconds(ours))
        times["xnnpack"].append(processor_seconds(xnnpack))
    found = flat_outputs(ours)
    difference = int(np.abs(found.astype(np.int32) - flat_outputs(wanted)).max())
    ms = {name: 1000 * statistics.median(values) for name, values in times.items()}
    return Result(model, len(times["ours"]), ms["ours"], ms["xnnpack"], difference, len(np.unique(found)))


def results(options: argparse.Namespace) -> Results:
    """Each model; none may take more than its limit or compute something else."""
    rows: list[Result] = []
    notes: list[str] = []
    for model, tflites in partitions(options.tflite).items():
        row = measure(model, tflites, options.accelerator)
        if row is None:
            notes.append(f"{model} has operators that Vela leaves to the CPU")
        else:
            rows.append(progress(row))
    columns = {"model": "model", "ours": "ours_ms:.2f", "XNNPACK": "xnnpack_ms:.2f", "limit": "limit_ms:.0f"}
    columns |= {"runs": "runs", "max LSB": "max_difference_lsb", "values": "distinct_values"}
    shown = table(rows, columns, f"median ms of processor time by the commands for {options.accelerator}")
    wrong = [f"{r.model} takes {r.ours_ms:.2f} ms" for r in rows if r.ours_ms > r.limit_ms]
    wrong += [f"{r.model} is {r.max_difference_lsb} apart" for r in rows if r.max_difference_lsb > 1]
    return Results("measured", rows, [shown], wrong if rows else ["nothing was measured"], notes)


TFLITE = option("--tflite", type=Path, metavar="DIR", help="TFLite partitions instead of the examples")

if __name__ == "__main__":
    sys.exit(
        main(results, TFLITE, option("--accelerator", default=ACCELERATOR, help="one of Vela's, such as ethos-u65-512"))
    )

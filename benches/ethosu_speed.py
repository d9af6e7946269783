"""Time of one inference by command streams of an Ethos-U on this machine, one thread, beside XNNPACK's.

The reference models' partitions, as ExecuTorch's NXP backend writes them in TFLite and our compiler fuses them, are
compiled by Vela for an accelerator; what the NPU would execute is executed by `firmware/src/ethosu`. The same files run
in LiteRT with XNNPACK, its default. Both take turns, run by run; a figure is the median of processor time, in which
other load on the machine counts less. Only the run is timed. Outputs are compared with those of LiteRT's reference
kernels: they may differ by 1 where LiteRT's fully connected layers round once and Vela's commands twice.

make bench-ethosu-speed
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

import numpy as np

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
        """What it may take."""
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


def main() -> int:
    """Exit status: 1 when a model takes more than its limit, or computes something else."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tflite", type=Path, metavar="DIR", help="TFLite partitions to run instead of the examples")
    parser.add_argument("--accelerator", default=ACCELERATOR, help="one of Vela's, such as ethos-u65-512")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    results: list[Result] = []
    print(f"median ms of processor time of one inference by the commands for {arguments.accelerator}, measured")
    print(f"{'model':<20}{'ours':>10}{'XNNPACK':>10}{'ratio':>8}{'limit':>8}{'runs':>7}{'max LSB':>9}{'values':>8}")
    for model, tflites in partitions(arguments.tflite).items():
        result = measure(model, tflites, arguments.accelerator)
        if result is None:
            print(f"{model:<20}has operators that Vela leaves to the CPU")
            continue
        results.append(result)
        print(
            f"{result.model:<20}{result.ours_ms:>10.2f}{result.xnnpack_ms:>10.2f}"
            f"{result.ours_ms / result.xnnpack_ms:>8.2f}{result.limit_ms:>8.0f}{result.runs:>7}"
            f"{result.max_difference_lsb:>9}{result.distinct_values:>8}"
        )
    load = os.getloadavg()[0]
    print(f"load average of the last minute {load:.1f} on {os.cpu_count()} cores")
    if arguments.json:
        machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load_average": load}
        arguments.json.write_text(json.dumps({"machine": machine, "results": [asdict(r) for r in results]}, indent=2))
    return int(not results or any(r.ours_ms > r.limit_ms or r.max_difference_lsb > 1 for r in results))


if __name__ == "__main__":
    sys.exit(main())

"""How little SRAM a network needs depth first, and what that costs, simulated for imxrt700.

For each budget of the partition (its inputs and outputs, which ExecuTorch plans, come on top): scratch, room for
weights that are fetched from a flash of 400 MB/s, cycles of a run in which resident weights are in place, how many more
that are than layer by layer with all weights in SRAM, and than layer by layer with the same room for weights,
multiply-accumulates that are done twice, kernel calls, bytes of the microcode, and seconds of processor time of the
planner. The first row is layer by layer, the last the least that the planner's error asks for. Every program is run on
the host on a random input and must give the bytes of the first one, and the simulator must find no hazard in it.

make bench-depth-first
make bench-depth-first ARGS='--tflite my-build/npu_0.tflite'
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from ending import finish

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.engine import engine
from deuteron.arch.memory import DepthFirst, FetchPolicy, MemoryOptions
from deuteron.errors import CapacityError
from deuteron.npu.neutron.convert import Conversion, ConvertOptions, convert
from deuteron.npu.neutron.machine import hazards, simulate
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.runtime.driver import Driver

TARGET = "imxrt700"
MODELS = ("mobilenet_v1", "mobilenet_v2")
BUDGETS_KIB = (1024, 768, 512, 384, 320, 256, 192)
LIMIT_S = 20
"""Seconds of processor time for one plan of MobileNetV2."""


@dataclass(frozen=True, slots=True)
class Row:
    """One budget: bytes, cycles, those with each layer whole, multiply-accumulates beyond the network's, seconds."""

    network: str
    budget: int
    scratch: int
    area: int
    cycles: int
    alike: int
    again: int
    calls: int
    microcode: int
    seconds: float


def container_of(conversion: Conversion) -> Container:
    """The container of a partition that computes something."""
    if conversion.container is None:
        raise SystemExit("the partition computes nothing")
    return conversion.container


def rows(network: str, tflite: bytes, problems: list[str]) -> Iterator[Row]:
    """The rows of a partition, largest budget first."""
    rates = engine(targets.load(TARGET))
    whole = container_of(convert(tflite, TARGET))
    rng = np.random.default_rng(1)
    inputs = [rng.integers(-128, 128, size).astype(np.int8).tobytes() for size in decode(whole).input_bytes]
    expected = Driver().run(whole, inputs)
    macs, scratch = simulate(decode(whole), rates).macs, decode(whole).header.scratch_bytes

    def row(budget: int, depth_first: DepthFirst = DepthFirst.AUTO) -> Row:
        began = time.process_time()
        memory = MemoryOptions(sram_budget=budget, depth_first=depth_first)
        conversion = convert(tflite, TARGET, ConvertOptions(memory=memory))
        seconds = time.process_time() - began
        container = container_of(conversion)
        decoded = decode(container)
        where = f"{network} in {budget:,} bytes"
        problems.extend(f"{where}: command {h.command}: {h.message}" for h in hazards(decoded, conversion.dataflow))
        if Driver().run(container, inputs) != expected:
            problems.append(f"{where} computes something else")
        if seconds > LIMIT_S:
            problems.append(f"{where}: {seconds:.1f} s to plan, limit {LIMIT_S} s")
        run, header = simulate(decoded, rates), decoded.header
        alike = run.cycles
        if header.prefetch_bytes:
            room = MemoryOptions(
                FetchPolicy.ALWAYS, sram_budget=scratch + header.prefetch_bytes, depth_first=DepthFirst.NEVER
            )
            alike = simulate(decode(container_of(convert(tflite, TARGET, ConvertOptions(memory=room)))), rates).cycles
        taken = header.prefetch_bytes or header.weights_bytes
        calls = len(conversion.program.calls)
        return Row(
            network, budget, header.scratch_bytes, taken, run.cycles, alike, run.macs - macs, calls,
            header.microcode_bytes, seconds,
        )  # fmt: skip

    header = decode(whole).header
    yield row(header.scratch_bytes + header.weights_bytes, DepthFirst.NEVER)
    for kib in BUDGETS_KIB:
        try:
            yield row(kib * 1024)
        except CapacityError as error:
            needed = re.search(r"--sram-budget (\d+)", error.hint or "")
            if needed is None:
                problems.append(f"{network} in {kib} KiB: {error}")
            else:
                yield row(int(needed[1]))
            return


def line(row: Row, first: Row) -> str:
    """The row as text."""
    slower, alike = row.cycles / first.cycles - 1, row.cycles / row.alike - 1
    return (
        f"{row.network:<14}{row.budget:>11,}{row.scratch:>11,}{row.area:>11,}{row.cycles:>12,}{slower:>8.1%}{alike:>8.1%}"
        f"{row.again:>13,}{row.calls:>7,}{row.microcode:>10,}{row.seconds:>7.1f}"
    )


def partitions(models: list[str], files: list[Path]) -> Iterator[tuple[str, bytes]]:
    """The largest partition of each model, and each file."""
    for file in files:
        yield file.stem, file.read_bytes()
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "out"
            api.build_model(model, output=output)
            yield model, max((path.read_bytes() for path in output.glob("npu_?.tflite")), key=len)


def main() -> int:
    """Exit status: 1 when a program is wrong, or takes too long to plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=None, help=f"names of models; {' '.join(MODELS)} by default")
    parser.add_argument("--tflite", nargs="*", type=Path, default=[], help="partitions of builds, instead of models")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    models = arguments.models if arguments.models is not None else [] if arguments.tflite else list(MODELS)
    sizes, times = "budget    scratch    weights", "cycles  slower   alike"
    print(f"network           {sizes}      {times}   MACs again  calls microcode plan s")
    everything: list[Row] = []
    problems: list[str] = []
    for network, tflite in partitions(models, arguments.tflite):
        first = None
        for row in rows(network, tflite, problems):
            first = first or row
            everything.append(row)
            print(line(row, first), flush=True)
    return finish({"kind": "simulated", "rows": [asdict(row) for row in everything]}, problems, arguments.json)


if __name__ == "__main__":
    sys.exit(main())

"""How little SRAM a network needs depth first, and what that costs, simulated for imxrt700; beside it Vela's estimates.

For each budget of the partition: SRAM that it takes with its inputs and outputs, which come on top of the budget, its
scratch, room for weights that are fetched from a flash of 400 MB/s, cycles and milliseconds of a run in which resident
weights are in place, how many more that are than layer by layer with all weights in SRAM, and than layer by layer with
the same room for weights, multiply-accumulates that are done twice, kernel calls, bytes of the microcode, and the
planner's seconds of processor time. The first row is layer by layer, the last the least that the planner's error asks
for. Every program is run on the host on a random input and must give the bytes of the first one, and the simulator must
find no hazard in it; a budget with more memory must not be slower.

The rows of Vela are its own estimates for the same file on an Ethos-U55 with 64 multiply-accumulates per cycle, in the
system and memory mode that ExecuTorch names for it: optimised for performance, for an arena of so many KiB, which Vela
may exceed, and for size. Its SRAM has inputs and outputs in it; "slower" is beside its own first row. Its cycles are
those of another NPU at another clock: what compares is how they grow.

Networks are built without training, with int8 from eight seeded samples. Their partitions are kept in `--builds`, and
used where they are there.

make bench-depth-first
make bench-depth-first ARGS='resnet8_224 unet_128'
make bench-depth-first ARGS='--tflite my-build/npu_0.tflite'
"""

import argparse
import csv
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from ending import finish
from large_images import LARGE_IMAGES

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.engine import engine
from deuteron.arch.memory import DepthFirst, FetchPolicy, MemoryOptions
from deuteron.errors import CapacityError
from deuteron.frontend.ethosu.vela import DEFAULTS
from deuteron.npu.neutron.convert import Conversion, ConvertOptions, convert
from deuteron.npu.neutron.machine import hazards, simulate
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.planner import depth_first as planner
from deuteron.runtime.driver import Driver

planner.STRICT = True

TARGET = "imxrt700"
RATES = engine(targets.load(TARGET))
BUILDS = Path(__file__).resolve().parents[1] / "build" / "benches" / "depth_first"
BUDGETS_KIB = (1024, 512, 384, 320, 256, 192, 128, 96, 64)
LIMIT_S = 20
"""Seconds of processor time for one plan."""

ACCELERATOR = "ethos-u55-64"
ARENAS_KIB = (512, 384, 256)


@dataclass(frozen=True, slots=True)
class Row:
    """One budget: bytes, cycles, those with each layer whole, multiply-accumulates beyond the network's, seconds."""

    network: str
    budget: int
    sram: int
    scratch: int
    area: int
    cycles: int
    alike: int
    again: int
    calls: int
    microcode: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """What Vela says of a file compiled so: bytes of SRAM, cycles, seconds, operators that it leaves to the CPU."""

    network: str
    options: str
    sram: int
    cycles: int
    seconds: float
    on_cpu: int


def container_of(conversion: Conversion) -> Container:
    """The container of a partition that computes something."""
    if conversion.container is None:
        raise SystemExit("the partition computes nothing")
    return conversion.container


def rows(network: str, tflite: bytes, problems: list[str]) -> Iterator[Row]:
    """The rows of a partition, largest budget first."""
    whole = container_of(convert(tflite, TARGET))
    rng = np.random.default_rng(1)
    sizes = decode(whole).input_bytes
    inputs = [rng.integers(-128, 128, size).astype(np.int8).tobytes() for size in sizes]
    expected = Driver().run(whole, inputs)
    ports = sum(sizes) + sum(map(len, expected))
    macs, header = simulate(decode(whole), RATES).macs, decode(whole).header
    scratch, most = header.scratch_bytes, header.scratch_bytes + header.weights_bytes

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
        run, header = simulate(decoded, RATES), decoded.header
        alike = run.cycles if decoded.linked_bytes else 0  # 0: all weights are fetched to scratch
        if header.prefetch_bytes:
            room = MemoryOptions(
                FetchPolicy.ALWAYS, sram_budget=scratch + header.prefetch_bytes, depth_first=DepthFirst.NEVER
            )
            alike = simulate(decode(container_of(convert(tflite, TARGET, ConvertOptions(memory=room)))), RATES).cycles
        area = header.prefetch_bytes + decoded.linked_bytes
        return Row(
            network, budget, header.scratch_bytes + area + ports, header.scratch_bytes, area, run.cycles, alike,
            run.macs - macs, len(conversion.program.calls), header.microcode_bytes, seconds,
        )  # fmt: skip

    yield row(most, DepthFirst.NEVER)
    for kib in BUDGETS_KIB:
        if kib * 1024 >= most:
            continue
        try:
            yield row(kib * 1024)
        except CapacityError as error:
            needed = re.search(r"--sram-budget (\d+)", error.hint or "")
            if needed is None:
                problems.append(f"{network} in {kib} KiB: {error}")
            else:
                yield row(int(needed[1]))
            return


def estimates(network: str, tflite: bytes) -> Iterator[Estimate]:
    """What Vela estimates of a partition."""
    fused = emit(convert(tflite, TARGET).graph)
    system, mode = DEFAULTS["ethos-u55"]
    of_target = ("--accelerator-config", ACCELERATOR, "--config", "Arm/vela.ini", "--system-config", system)
    command = (Path(sys.executable).parent / "vela", *of_target, "--memory-mode", mode)
    asked = {"Performance": ("--optimise", "Performance")}
    asked |= {f"{kib} KiB": ("--arena-cache-size", str(kib * 1024)) for kib in ARENAS_KIB}
    asked |= {"Size": ("--optimise", "Size")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.tflite"
        file.write_bytes(fused)
        for name, options in asked.items():
            output = Path(folder) / name
            done = subprocess.run(
                (*command, *options, "--output-dir", output, file), capture_output=True, text=True, check=True
            )
            (summary,) = output.glob("*_summary_*.csv")
            figures = next(csv.DictReader(summary.read_text(encoding="utf-8").splitlines()))
            on_cpu = re.search(r"CPU operators = (\d+)", done.stdout)
            yield Estimate(
                network,
                name,
                round(float(figures["sram_memory_used"]) * 1024),
                int(figures["cycles_total"]),
                float(figures["inference_time"]),
                int(on_cpu[1]) if on_cpu else 0,
            )


def line(row: Row, first: Row) -> str:
    """The row as text."""
    slower = row.cycles / first.cycles - 1
    alike = f"{row.cycles / row.alike - 1:.1%}" if row.alike else ""
    milliseconds = RATES.microseconds(row.cycles) / 1000
    return (
        f"{row.network:<22}{row.budget:>11,}{row.sram:>11,}{row.scratch:>11,}{row.area:>11,}{row.cycles:>12,}"
        f"{milliseconds:>8.2f}{slower:>8.1%}{alike:>8}{row.again:>12,}{row.calls:>7,}{row.microcode:>11,}"
        f"{row.seconds:>7.1f}"
    )


def estimated_line(estimate: Estimate, first: Estimate) -> str:
    """Vela's row as text."""
    left = f"  {estimate.on_cpu} operators on the CPU" if estimate.on_cpu else ""
    return (
        f"  Vela, {estimate.options:<14}{'':>11}{estimate.sram:>11,}{'':>22}{estimate.cycles:>12,}"
        f"{estimate.seconds * 1000:>8.2f}{estimate.cycles / first.cycles - 1:>8.1%}{left}"
    )


def partition_of(network: str, builds: Path) -> bytes:
    """The largest partition of a network, from `builds` or built and kept there."""
    kept = builds / f"{network}.tflite"
    if not kept.is_file():
        module, example, calibration = LARGE_IMAGES[network]()
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "out"
            api.build(module, example, target=TARGET, calibration=calibration, output=output, name=network)
            largest = max((path.read_bytes() for path in output.glob("npu_?.tflite")), key=len)
        builds.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(largest)
    return kept.read_bytes()


def main() -> int:
    """Exit status: 1 when a program is wrong, takes too long to plan, or is slower with more memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", help=f"by default {' '.join(LARGE_IMAGES)}")
    parser.add_argument("--tflite", nargs="*", type=Path, default=[], help="partitions of builds, instead of networks")
    parser.add_argument("--builds", type=Path, default=BUILDS, help=f"where partitions are kept (default: {BUILDS})")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    names = arguments.networks or ([] if arguments.tflite else list(LARGE_IMAGES))
    sizes, times = "budget       SRAM    scratch    weights", "cycles      ms  slower   alike"
    print(f"network                    {sizes}      {times}  MACs again  calls  microcode plan s")
    everything: list[Row] = []
    beside: list[Estimate] = []
    problems: list[str] = []
    subjects = [(file.stem, file.read_bytes()) for file in arguments.tflite]
    for network, tflite in (*subjects, *((name, partition_of(name, arguments.builds)) for name in names)):
        own: list[Row] = []
        for row in rows(network, tflite, problems):
            own.append(row)
            print(line(row, own[0]), flush=True)
        problems += [
            f"{network}: slower in {more.budget:,} bytes than in {less.budget:,}"
            for more, less in pairwise(own)
            if more.cycles > less.cycles
        ]
        others = list(estimates(network, tflite))
        print("\n".join(estimated_line(each, others[0]) for each in others), flush=True)
        everything += own
        beside += others
    data = {"rows": [asdict(row) for row in everything], "estimates": [asdict(each) for each in beside]}
    return finish({"kind": "simulated, and estimated by Vela", **data}, problems, arguments.json)


if __name__ == "__main__":
    sys.exit(main())

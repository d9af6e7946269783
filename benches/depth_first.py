"""Least SRAM of networks with stripes, and its cost, simulated for imxrt700; then Vela's estimates.

A row is a budget of the partition. It has SRAM with inputs and outputs, scratch, memory for weights from a flash of 400
MB/s, and cycles with resident weights in place. Two shares compare them with all weights in SRAM layer by layer, and
with equal memory for weights. Then follow multiply-accumulates done twice, kernel calls, bytes of microcode, and
planning seconds. The first row is layer by layer, the last the minimum of the planner's error. Every program must give
the bytes of the first on the host without a hazard, and a larger budget must not be slower.

Vela's rows are its estimates for the same file on an Ethos-U55-64: for performance, for an arena limit, and for size.

make bench-depth-first
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
from harness import Results, main, option, progress, table
from zoo.large_images import LARGE_IMAGES

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.engine import engine
from deuteron.arch.memory import DepthFirst, FetchPolicy, MemoryOptions
from deuteron.errors import CapacityError
from deuteron.frontend.backends.ethosu.vela import DEFAULTS
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
    """Vela's report of a file: bytes of SRAM, cycles, seconds, operators that it leaves to the CPU."""

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
            equal = MemoryOptions(
                FetchPolicy.ALWAYS, sram_budget=scratch + header.prefetch_bytes, depth_first=DepthFirst.NEVER
            )
            alike = simulate(decode(container_of(convert(tflite, TARGET, ConvertOptions(memory=equal)))), RATES).cycles
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
    """Yield Vela's estimates of a partition."""
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


def results(options: argparse.Namespace) -> Results:
    """Each partition in each budget; less memory must not be faster."""
    names = options.networks or ([] if options.tflite else list(LARGE_IMAGES))
    subjects = [(file.stem, file.read_bytes()) for file in options.tflite]
    found: list[Row] = []
    others: list[Estimate] = []
    problems: list[str] = []
    for network, tflite in (*subjects, *((name, partition_of(name, options.builds)) for name in names)):
        own = [progress(row) for row in rows(network, tflite, problems)]
        problems += [
            f"{network}: slower in {more.budget:,} bytes than in {less.budget:,}"
            for more, less in pairwise(own)
            if more.cycles > less.cycles
        ]
        found += own
        others += map(progress, estimates(network, tflite))
    whole = {r.network: r.cycles for r in reversed(found)}
    columns = {"network": "network", "budget, B": "budget", "SRAM, B": "sram", "scratch": "scratch", "weights": "area"}
    columns |= {"cycles": "cycles", "ms": lambda r: f"{RATES.microseconds(r.cycles) / 1000:.2f}"}
    columns |= {"more": lambda r: f"{r.cycles / whole[r.network] - 1:+.1%}"}
    columns |= {"than with equal area": lambda r: f"{r.cycles / r.alike - 1:+.1%}" if r.alike else ""}
    columns |= {"MACs again": "again", "calls": "calls", "microcode": "microcode", "plan s": "seconds:.1f"}
    best = {e.network: e.cycles for e in reversed(others)}
    estimated = {"network": "network", "Vela": "options", "SRAM, B": "sram", "cycles": "cycles"}
    estimated |= {"ms": lambda e: f"{e.seconds * 1000:.2f}", "more": lambda e: f"{e.cycles / best[e.network] - 1:+.1%}"}
    tables = [table(found, columns), table(others, {**estimated, "operators on the CPU": "on_cpu"})]
    data = {"estimates": [asdict(each) for each in others]}
    return Results("simulated, and estimated by Vela", found, tables, problems, data=data)


OPTIONS = (
    option("networks", nargs="*", help=f"by default {' '.join(LARGE_IMAGES)}"),
    option("--tflite", nargs="*", type=Path, default=[], help="partitions of builds, instead of networks"),
    option("--builds", type=Path, default=BUILDS, help=f"where partitions are kept (default: {BUILDS})"),
)

if __name__ == "__main__":
    sys.exit(main(results, *OPTIONS))

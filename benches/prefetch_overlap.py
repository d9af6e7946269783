"""Fetches during compute, counted on the emulated AN505: a planned build against one that waits for each copy.

The board's flash is a timer and a DMA (firmware/port/cortex_m/fetch.h). Its core computes instead of an NPU, some
thousand times slower, so the flash is slowed by the same factor. The unit is one instruction of the core, sleep
included, of the second run, whose resident weights are in place. A row is one flash rate. A planned run should take
the larger of compute and transfer, a blocking one their sum, each within 5 %, and both must give the bits of the host.

make bench-prefetch-overlap
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import torch
from harness import Results, main, table
from torch import nn

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.engine import NANOSECONDS, engine
from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.board import boards, firmware_record, image, qemu
from deuteron.board.bundle import Bundle, StepKind
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.flash import Flash
from deuteron.board.link import link
from deuteron.board.toolchain import Toolchain
from deuteron.npu.neutron import firmware
from deuteron.npu.neutron.convert import Conversion, ConvertOptions, convert
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.operators.transfers import Fetch, Transfer, Wait
from deuteron.planner import plan
from deuteron.views.compare.board import compare

BOARD = boards.load("an505")
TARGET = "imxrt700"
INSTRUCTION_NS = 64
LAYERS, CHANNELS, SIDE = 24, 24, 8
RATES = (80_000_000, 160_000_000, 250_000_000, 400_000_000)
"""Bytes per second of the flash that a build is planned for: far slower than compute, about as fast, and faster."""
BUDGET = 64 * 1024
"""Bytes of SRAM for weights, of which the model has twice as many."""
LIMIT = 0.05


@dataclass(frozen=True, slots=True)
class Result:
    """One rate of the flash; times in instructions.

    Attributes:
        rate: that the build was planned for, bytes per second.
        compute: of the same kernel calls with all weights where they are linked.
        transfer: of all that the second run fetches, by the flash's numbers.
        planned: of the build.
        blocking: of the same fetches, each when its weights are needed, and waited for.
        identical: whether all three give the host's bits.
    """

    rate: int
    compute: int
    transfer: int
    planned: int
    blocking: int
    identical: bool

    @property
    def planned_error(self) -> float:
        """The planned run over the larger of compute and transfer."""
        return self.planned / max(self.compute, self.transfer) - 1

    @property
    def blocking_error(self) -> float:
        """The blocking run over the sum."""
        return self.blocking / (self.compute + self.transfer) - 1

    def problems(self) -> list[str]:
        """Return the broken bounds."""
        found = [] if self.identical else ["the outputs are not the host's"]
        for name, error in (("planned", self.planned_error), ("blocking", self.blocking_error)):
            if abs(error) > LIMIT:
                found.append(f"the {name} run is off by {error:+.1%}")
        return [f"{self.rate / 1e6:g} MB/s: {problem}" for problem in found]


def network() -> nn.Module:
    """Convolutions of equal size, each of whose weights take about as long to fetch as to use at 300 MB/s."""
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    widths = (3, *[CHANNELS] * LAYERS)
    layers = [
        nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())
        for before, after in pairwise(widths)
    ]
    module = nn.Sequential(*layers)
    module(torch.randn(64, 3, SIDE, SIDE))  # batch norms that keep the layers' ranges
    return module.eval()


def build(directory: Path, rate: int) -> None:
    """Builds the network for a flash of that rate."""
    memory = MemoryOptions(FetchPolicy.ALWAYS, weights_budget=BUDGET, flash_bandwidth=rate)
    batches = [(torch.randn(1, 3, SIDE, SIDE),) for _ in range(4)]
    options = api.BuildOptions(memory=memory)
    api.build(network(), batches[0], target=TARGET, calibration=batches, output=directory, options=options, name="net")


def blocking(transfers: Mapping[int, Sequence[Transfer]]) -> dict[int, tuple[Transfer, ...]]:
    """The same fetches, each waited for at once; resident ones, which must keep their order, where they were."""
    pending: dict[int, Fetch] = {}
    found: dict[int, tuple[Transfer, ...]] = {}
    for call in sorted(transfers):
        for command in transfers[call]:
            if isinstance(command, Fetch) and command.resident:
                found[call] = (*found.get(call, ()), command, Wait(command.channel))
            elif isinstance(command, Fetch):
                pending[command.channel] = command
            elif command.channel in pending:
                found[call] = (*found.get(call, ()), pending.pop(command.channel), Wait(command.channel))
    return found


class Bench:
    """The image of one build, into which other microcode of the same program can be put."""

    def __init__(self, build: Path, directory: Path, toolchain: Toolchain) -> None:
        self._bundle, self._directory, self._toolchain = image.bundle_of(build), directory, toolchain
        made = image.build(build, BOARD, FirmwareOptions(), toolchain)
        image.write(made, directory, force=False)
        self._record = made.record
        self._samples = api.seeded_inputs(api.read_manifest(build), 2)
        self._expected = list(api.run_each(build, self._samples))

    @property
    def container(self) -> Container:
        """The build's own microcode."""
        return Container(*(block.data for block in self._bundle.delegates[0].partition.blocks))

    def run(self, container: Container, flash: Flash) -> tuple[int, bool]:
        """Instructions of the partition in the second run, and whether the outputs are the host's."""
        (delegate,) = self._bundle.delegates
        partition = replace(delegate.partition, blocks=firmware.blocks_of(container))
        bundle: Bundle = replace(self._bundle, delegates=(replace(delegate, partition=partition),))
        with tempfile.TemporaryDirectory() as scratch:
            work = Path(scratch)
            link(bundle, BOARD, FirmwareOptions(), image.called(bundle), self._toolchain, work)
            (self._directory / firmware_record.ELF).write_bytes((work / firmware_record.ELF).read_bytes())
        runs = qemu.run(self._directory, replace(self._record, flash=flash), BOARD, self._samples).runs
        (step,) = (
            event
            for event in runs[1].events
            if event.kind is qemu.EventKind.STEP and bundle.steps[event.index].kind is StepKind.DELEGATE
        )
        return step.instructions, compare(BOARD.name, [run.outputs for run in runs], self._expected).passed


def slowed(conversion: Conversion, compute: int, rate: int) -> Flash:
    """The flash that is to the emulated core what one of `rate` is to the NPU."""
    rates = engine(targets.load(TARGET), flash_bandwidth=rate)
    cycles = sum(rates.call_dispatch + cost(call.params, rates).cycles for call in conversion.program.calls)
    factor = compute * INSTRUCTION_NS / (rates.microseconds(cycles) * 1000)
    return Flash(round(rates.microseconds(rates.fetch_latency) * 1000 * factor), round(rate / factor))


def measure(build: Path, rate: int, toolchain: Toolchain) -> Result:
    """One row."""
    tflite = (build / "npu_0.tflite").read_bytes()
    memory = api.read_manifest(build).options.memory
    planned = convert(tflite, TARGET, ConvertOptions(memory=memory))
    linked = encode(planned.program, plan(planned.program))
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(build, Path(scratch) / "image", toolchain)
        compute, same = bench.run(linked, Flash(0, 0))
        flash = slowed(planned, compute, rate)
        ours, fetched_same = bench.run(bench.container, flash)
        serial = encode(planned.program, replace(planned.plan, transfers=blocking(planned.plan.transfers)))
        one_by_one, serial_same = bench.run(serial, flash)
    fetches = [c for commands in planned.plan.transfers.values() for c in commands if isinstance(c, Fetch)]
    seconds = [flash.latency_ns / NANOSECONDS + f.nbytes / flash.bandwidth for f in fetches if not f.resident]
    transfer = round(sum(seconds) * NANOSECONDS / INSTRUCTION_NS)
    return Result(rate, compute, transfer, ours, one_by_one, same and fetched_same and serial_same)


def results(_: argparse.Namespace) -> Results:
    """Each rate of the flash."""
    toolchain = Toolchain.find(image.OBJECTS)
    rows: list[Result] = []
    with tempfile.TemporaryDirectory() as scratch:
        for rate in RATES:
            directory = Path(scratch) / str(rate)
            build(directory, rate)
            rows.append(measure(directory, rate, toolchain))
    columns = {"flash, MB/s": lambda r: f"{r.rate / 1e6:g}", "compute": "compute", "transfer": "transfer"}
    columns |= {"planned": "planned", "of the larger": "planned_error:+.1%", "blocking": "blocking"}
    columns |= {"of the sum": "blocking_error:+.1%", "same bits": "identical"}
    return Results(
        "counted",
        rows,
        [table(rows, columns)],
        [problem for row in rows for problem in row.problems()],
        data={"board": BOARD.name},
    )


if __name__ == "__main__":
    sys.exit(main(results))

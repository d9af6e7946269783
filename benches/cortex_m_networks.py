"""Instructions of whole networks on Cortex-M processors, one inference with everything in it, by kind of operator.

The networks are MLPerf Tiny's, built for `cortex-m33`, `cortex-m55` and `imxrt700` and run on the emulated boards,
which have no NPU: its programs run on the processor there. For the processors they are built with int16 activations,
too. For the M33 they are also built with a flash budget of 1 MiB, within which layers get larger weights to be faster.
ResNet-8 is also built with an SRAM budget of 80 KiB, within which runs transform the weights. Each has a bar.
Outputs must be the host's bit for bit. Instructions are counted by the emulator, one per instruction whatever a core
would need for it.

make bench-cortex-m-networks
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from harness import BUILDS, Results, build_of, folder, main, option, progress, table

from deuteron import api
from deuteron.arch.memory import MemoryOptions
from deuteron.board import boards, image, qemu
from deuteron.board.firmware_record import Firmware, FirmwareOptions
from deuteron.board.toolchain import Toolchain
from deuteron.views.compare.board import compare

NPU = "imxrt700"
TARGETS = {"cortex-m33": ("an505",), "cortex-m55": ("an547",), NPU: ("an505", "an547")}


class Variant(Enum):
    """Types of activations, or a budget of flash or SRAM, with which a network is built."""

    INT8 = "int8"
    INT16 = "int16"
    FLASH = "flash"
    SRAM = "SRAM"

    @property
    def options(self) -> api.BuildOptions:
        """The options of the build."""
        if self is Variant.FLASH:
            return api.BuildOptions(memory=MemoryOptions(flash_budget=1 << 20))
        if self is Variant.SRAM:
            return api.BuildOptions(memory=MemoryOptions(sram_budget=80 << 10))
        return api.BuildOptions(activations=api.Activations.INT16 if self is Variant.INT16 else api.Activations.INT8)


WANTED = {
    "ds_cnn": {"an505": 3_700_000, "an547": 1_020_000},
    "resnet8": {"an505": 11_600_000, "an547": 2_600_000},
    "mobilenet_v1_025": {"an505": 11_500_000, "an547": 3_200_000},
    "deep_autoencoder": {"an505": 360_000, "an547": 67_000},
}
"""The bars of an inference; CMSIS-NN's kernels alone take 8.3 and 1.8 million for ds_cnn, 27.5 and 4.4
for resnet8, 24.5 and 6.4 for mobilenet_v1_025, 0.58 and 0.15 for deep_autoencoder."""
WANTED_OF = {
    Variant.INT8: WANTED,
    Variant.INT16: {
        "ds_cnn": {"an505": 4_300_000, "an547": 1_700_000},
        "resnet8": {"an505": 21_000_000, "an547": 6_900_000},
        "mobilenet_v1_025": {"an505": 14_500_000, "an547": 5_600_000},
        "deep_autoencoder": {"an505": 620_000, "an547": 200_000},
    },
    Variant.FLASH: {
        "ds_cnn": {"an505": 3_300_000},
        "resnet8": {"an505": 7_500_000},
        "mobilenet_v1_025": {"an505": 10_200_000},
    },
    Variant.SRAM: {"resnet8": {"an505": 8_700_000}},
}
"""The same by variant; the NPU has the first only."""
NPU_SHARE = 1.3
"""The bar of NPU programs on a processor, relative to that: they round otherwise, and their calls are checked."""
NPU_BARS = {("resnet8", "an505"): 19_500_000}
"""Bars of NPU programs whose kernels lack Winograd's algorithm."""


@dataclass(frozen=True, slots=True)
class Result:
    """A network for a target on a board: all instructions, those of each kind of operator, and the bar."""

    network: str
    target: str
    board: str
    instructions: int
    kinds: dict[str, int]
    wanted: int
    identical: bool
    variant: str = Variant.INT8.value

    def problems(self) -> list[str]:
        """Return the broken bounds."""
        found = [] if self.identical else ["the outputs are not the host's"]
        if self.instructions > self.wanted:
            found.append(f"{self.instructions:,} instructions, {self.wanted:,} are wanted")
        return [f"{self.title}: {problem}" for problem in found]

    @property
    def title(self) -> str:
        """The network, target and board."""
        kind = "" if self.variant == Variant.INT8.value else f" ({self.variant})"
        return f"{self.network}{kind} for {self.target} on {self.board}"


def kinds_of(run: qemu.EmulatorRun, titles: Sequence[str]) -> dict[str, int]:
    """The instructions of a run by kind of operator, the most first, and those between the events."""
    kinds: Counter[str] = Counter()
    for event in run.events:
        if event.kind is qemu.EventKind.STEP:
            kinds[titles[event.index].split(",")[0].removesuffix(".out")] += event.instructions
        else:
            kinds["copies of inputs and outputs"] += event.instructions
    kinds["between"] = run.instructions - kinds.total()
    return dict(kinds.most_common())


def wanted(network: str, target: str, board: str, variant: Variant = Variant.INT8) -> int:
    """The bar of an inference."""
    bar = WANTED_OF[variant][network][board]
    return NPU_BARS.get((network, board), int(bar * NPU_SHARE)) if target == NPU else bar


def run_on_board(build: Path, board: str, toolchain: Toolchain) -> tuple[qemu.EmulatorRun, Firmware, bool]:
    """One inference on an emulated board, its image's record, and whether its outputs are the host's."""
    data = api.seeded_inputs(api.read_manifest(build), 1)
    machine = boards.load(board)
    firmware = image.build(build, machine, FirmwareOptions(), toolchain)
    with tempfile.TemporaryDirectory() as scratch:
        image.write(firmware, Path(scratch) / "firmware", force=False)
        report = qemu.run(Path(scratch) / "firmware", firmware.record, machine, data)
    same = compare(board, [run.outputs for run in report.runs], list(api.run_each(build, data))).passed
    return report.runs[0], firmware.record, same


def measure(network: str, target: str, build: Path, board: str, toolchain: Toolchain, variant: Variant) -> Result:
    """One network for one target on one board."""
    run, record, identical = run_on_board(build, board, toolchain)
    kinds = kinds_of(run, [step.title for step in record.steps])
    bar = wanted(network, target, board, variant)
    return Result(network, target, board, run.instructions, kinds, bar, identical, variant.value)


def variants(network: str, target: str, board: str) -> list[Variant]:
    """The variants that have a bar."""
    return [
        variant
        for variant, bars in WANTED_OF.items()
        if board in bars.get(network, {}) and (target != NPU or variant is Variant.INT8)
    ]


def results(options: argparse.Namespace) -> Results:
    """Each network for each target on each board."""
    toolchain = Toolchain.find(image.OBJECTS)
    rows: list[Result] = []
    with folder(options.builds) as builds:
        for network in options.networks or WANTED:
            for target, machines in TARGETS.items():
                for board in machines:
                    for variant in variants(network, target, board):
                        place = builds / f"{network}-{target}-{variant.value}"
                        build = build_of(place, network, target=target, options=variant.options)
                        rows.append(progress(measure(network, target, build, board, toolchain, variant)))
    columns = {"network": "title", "instructions": "instructions", "bar": "wanted"}
    columns["of the bar"] = lambda r: f"{r.instructions / r.wanted:.2f}"
    columns["most in"] = lambda r: "; ".join(f"{kind} {count:,}" for kind, count in list(r.kinds.items())[:2])
    data = {"compiler": toolchain.version}
    return Results(
        "counted", rows, [table(rows, columns)], [problem for row in rows for problem in row.problems()], data=data
    )


if __name__ == "__main__":
    sys.exit(main(results, BUILDS, option("networks", nargs="*", help="all by default")))

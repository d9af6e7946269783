"""Every reference model on emulated boards: the host's bits, instructions, and what a DMA takes off the core.

A row is one model on one board that its target fits. Outputs must be the host's bit for bit, and two runs must count
the same. Instructions are counted by the emulator, one per instruction whatever a core would need for it; they are not
cycles. The copies of inputs and outputs are counted by the core (`--io-copy cpu`) and, on a board with a DMA, with the
override (`dma`): at least 90 % fewer instructions for tensors of 4 KiB and more.

make bench-boards
python benches/boards.py --target ethos-u55-128    whose operations the core executes in the NPU's place
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from harness import BUILDS, MODELS, REFERENCES, Results, build_of, folder, main, option, progress, table

from deuteron import api
from deuteron.arch import cores, targets
from deuteron.board import boards, firmware_record, image, qemu
from deuteron.board.boards import Board
from deuteron.board.firmware_record import FirmwareOptions, IoCopy, Weights
from deuteron.board.toolchain import Toolchain
from deuteron.views.compare.board import compare

EXTERNAL = {"mobilenet_v2"}
"""Models whose weights are put into external memory; elsewhere they find their place themselves."""
LARGE = 4096
LEAST_SAVED = 0.9


@dataclass(frozen=True, slots=True)
class Copy:
    """Instructions of the copies of one input or output."""

    tensor: str
    bytes: int
    cpu: int
    dma: int

    @property
    def saved(self) -> float:
        """Share of the instructions that the override takes off the core."""
        return 1 - self.dma / self.cpu


@dataclass(frozen=True, slots=True)
class Result:
    """One model on one board.

    Attributes:
        instructions: of a run whose copies are the core's.
        saved: of these, those that the override saves, in copies of the program's tensors and of partitions' tensors.
    """

    model: str
    board: str
    weights: str
    identical: bool
    repeatable: bool
    instructions: int
    saved: int
    stack: int
    stack_bound: int
    copies: tuple[Copy, ...]

    def problems(self) -> list[str]:
        """Return the broken bounds."""
        found = [] if self.identical else ["the outputs are not the host's"]
        if not self.repeatable:
            found.append("two runs count differently")
        if self.stack > self.stack_bound:
            found.append("the stack is deeper than its bound")
        found += [
            f"{copy.tensor}: only {copy.saved:.1%} fewer instructions"
            for copy in self.copies
            if copy.bytes >= LARGE and copy.saved < LEAST_SAVED
        ]
        return [f"{self.model} on {self.board}: {problem}" for problem in found]


def copies(firmware: firmware_record.Firmware, cpu: qemu.EmulatorRun, dma: qemu.EmulatorRun) -> tuple[Copy, ...]:
    """Pair the copies of a run by the core with those of a run with the override."""
    sizes = {
        **{(qemu.EventKind.COPY_IN, i): ("input", value.bytes) for i, value in enumerate(firmware.inputs)},
        **{(qemu.EventKind.COPY_OUT, i): ("output", value.bytes) for i, value in enumerate(firmware.outputs)},
    }
    return tuple(
        Copy(f"{what} {ours.index}", size, ours.instructions, theirs.instructions)
        for ours, theirs in zip(cpu.events, dma.events, strict=True)
        if (entry := sizes.get((ours.kind, ours.index)))
        for what, size in (entry,)
    )


def with_copier(board: Board) -> Board:
    """The board, with what copies in the place of a DMA where it has none."""
    return board if board.dma else replace(board, dma=True, flags=(*board.flags, "-DDTN_DMA_APART=1"))


def measure(build: Path, board: Board, samples: int, toolchain: Toolchain) -> Result:
    """One row."""
    board = with_copier(board)
    data = api.seeded_inputs(api.read_manifest(build), samples)
    weights = Weights.EXTERNAL if build.name in EXTERNAL else Weights.AUTO
    host = list(api.run_each(build, data))
    reports: dict[IoCopy, qemu.EmulatorReport] = {}
    identical = repeatable = True
    stack = bound = 0
    with tempfile.TemporaryDirectory() as scratch:
        for choice in IoCopy:
            made = image.build(build, board, FirmwareOptions(weights=weights, io_copy=choice), toolchain)
            directory = Path(scratch) / choice.value
            image.write(made, directory, force=False)
            first, again = (qemu.run(directory, made.record, board, data) for _ in range(2))
            identical &= compare(board.name, [run.outputs for run in first.runs], host).passed
            repeatable &= [(r.instructions, r.events) for r in first.runs] == [
                (r.instructions, r.events) for r in again.runs
            ]
            stack = max(stack, *(run.stack for run in first.runs))
            bound = max(bound, made.record.stack.bytes)
            reports[choice] = first
    cpu, dma = (reports[choice].runs[0] for choice in (IoCopy.CPU, IoCopy.DMA))
    return Result(
        build.name,
        board.name,
        made.record.weights,
        identical,
        repeatable,
        cpu.instructions,
        cpu.instructions - dma.instructions,
        stack,
        bound,
        copies(made.record, cpu, dma),
    )


def results(options: argparse.Namespace) -> Results:
    """Each model on each board that has the instructions of the target's core."""
    toolchain = Toolchain.find(image.OBJECTS)
    found: list[Result] = []
    wanted = cores.load(targets.load(options.target).cpu.name).inner
    fitting = [board for board in map(boards.load, boards.names()) if cores.load(board.cpu).inner.has(wanted)]
    with folder(options.builds) as builds:
        for name in options.models or REFERENCES:
            build = build_of(builds / name, name, target=options.target)
            samples = 1 if name in EXTERNAL else options.samples
            found += [progress(measure(build, board, samples, toolchain)) for board in fitting]
    columns = {"model": "model", "board": "board", "weights": "weights", "host bits": "identical"}
    columns |= {"repeats": "repeatable", "instructions": "instructions", "stack B": "stack", "bound": "stack_bound"}
    columns["copies: instructions by cpu, dma"] = lambda r: "; ".join(
        f"{c.tensor} {c.bytes:,} B {c.cpu:,}, {c.dma:,}" for c in r.copies
    )
    problems = [problem for result in found for problem in result.problems()]
    return Results("counted", found, [table(found, columns)], problems, data={"compiler": toolchain.version})


SAMPLES = option("--samples", type=int, default=2, help="inputs per model; MobileNetV2 gets one")

if __name__ == "__main__":
    sys.exit(
        main(
            results,
            MODELS,
            BUILDS,
            SAMPLES,
            option("--target", default=api.DEFAULT_TARGET, help="what they are built for"),
        )
    )

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
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ending import finish

from deuteron import api
from deuteron.arch import cores, targets
from deuteron.board import boards, image, qemu, record
from deuteron.board.boards import Board
from deuteron.board.record import FirmwareOptions, IoCopy, Weights
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
        saved: of these, those that the override takes off the core, in copies of the program's tensors and of those of
            partitions whose NPU has its tensors in memory of its own.
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
        """What is not as it must be."""
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


def copies(firmware: record.Firmware, cpu: qemu.EmulatorRun, dma: qemu.EmulatorRun) -> tuple[Copy, ...]:
    """The copies of a run by the core beside those of a run with the override."""
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


def report(results: Sequence[Result]) -> None:
    """Prints a row."""
    print(
        f"{'model':<17}{'board':<7}{'weights':<10}{'host bits':<11}{'repeats':<9}{'instructions':>14}"
        f"{'stack B':>9}{'bound':>7}  copies: instructions by cpu, dma"
    )
    for r in results:
        listed = "; ".join(f"{c.tensor} {c.bytes:,} B {c.cpu:,}, {c.dma:,}" for c in r.copies)
        print(
            f"{r.model:<17}{r.board:<7}{r.weights:<10}{'same' if r.identical else 'DIFFERENT':<11}"
            f"{'yes' if r.repeatable else 'NO':<9}{r.instructions:>14,}{r.stack:>9,}{r.stack_bound:>7,}  {listed}"
        )


def main() -> int:
    """0 when everything is as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--builds", type=Path, help="directory of builds by name, used where there is one")
    parser.add_argument("--samples", type=int, default=2, help="inputs per model; MobileNetV2 gets one")
    parser.add_argument("models", nargs="*", help="names of reference models; all by default")
    parser.add_argument("--target", default=api.DEFAULT_TARGET, help="what they are built for")
    options = parser.parse_args()
    toolchain = Toolchain.find(image.OBJECTS)
    results: list[Result] = []
    wanted = cores.load(targets.load(options.target).cpu.name).inner
    fitting = [board for board in map(boards.load, boards.names()) if cores.load(board.cpu).inner.has(wanted)]
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.models or [example.name for example in api.REFERENCES]:
            build = options.builds / name if options.builds else Path(scratch) / name
            if not build.is_dir():
                api.build_model(name, target=options.target, output=build)
            samples = 1 if name in EXTERNAL else options.samples
            results += [measure(build, board, samples, toolchain) for board in fitting]
    report(results)
    rows = [asdict(result) for result in results]
    data = {"kind": "counted", "compiler": toolchain.version, "results": rows}
    return finish(data, [problem for result in results for problem in result.problems()], options.json)


if __name__ == "__main__":
    sys.exit(main())

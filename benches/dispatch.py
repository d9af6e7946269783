"""Cost of the driver on a Cortex-M33: instructions per kernel call and per fetch, counted on the emulated AN505.

Every kernel is replaced by one that returns at once, so the remaining instructions are the driver's: checks, commands,
operands, calls. A fetch costs the difference that it makes: driver, the port's `copy` and `wait` hooks, the start of
the DMA and its interrupts. The emulated DMA and flash take no time. Instructions are not cycles: memory waits come on
top. The figures are in `src/deuteron/arch/presets/imxrt700.toml`.

make bench-dispatch
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from harness import BUILDS, Results, folder, main, option, table

from deuteron import api
from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.board import boards, firmware_record, image, library, qemu
from deuteron.board.bundle import Bundle, StepKind
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.flash import Flash
from deuteron.board.link import link
from deuteron.board.toolchain import Source, Toolchain
from deuteron.npu.neutron.kernels.catalogue import KERNELS
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import Call, Fetch, decode

BOARD = boards.load("an505")
MODELS = ("ds_cnn", "resnet8", "mobilenet_v1_025")
STUB = """int32_t {}(const dtn_call_t *call, dtn_phase_t phase)
{{
    (void)call;
    (void)phase;
    return DTN_OK;
}}
"""
STUBS = '#include "deuteron/kernel.h"\n' + "".join(STUB.format(kernel.symbol) for kernel in KERNELS)


@dataclass(frozen=True, slots=True)
class Result:
    """Instructions of one model's partitions without their kernels.

    Attributes:
        calls: kernel calls.
        fetches: fetches of the program that fetches its weights; the first run makes all of them.
        linked: instructions with weights where they are linked.
        fetched: instructions with weights fetched.
    """

    model: str
    calls: int
    fetches: int
    linked: int
    fetched: int

    @property
    def per_call(self) -> float:
        """Instructions per kernel call."""
        return self.linked / self.calls

    @property
    def per_fetch(self) -> float:
        """Instructions per fetch."""
        return (self.fetched - self.linked) / self.fetches


def count(build: Path, toolchain: Toolchain) -> tuple[Bundle, int]:
    """The program of a build, and the instructions that its partitions take without kernels."""
    bundle = image.bundle_of(build)
    with tempfile.TemporaryDirectory() as scratch:
        directory, work = Path(scratch) / "image", Path(scratch) / "work"
        made = image.build(build, BOARD, FirmwareOptions(), toolchain)
        image.write(made, directory, force=False)
        work.mkdir()
        (work / "stubs.c").write_text(STUBS)
        application = (*library.runner(), Source("application.stubs", work / "stubs.c"))
        link(bundle, BOARD, FirmwareOptions(), image.called(bundle), toolchain, work, application)
        (directory / firmware_record.ELF).write_bytes((work / firmware_record.ELF).read_bytes())
        data = api.seeded_inputs(api.read_manifest(build), 1)
        (run,) = qemu.run(directory, replace(made.record, flash=Flash(0, 0)), BOARD, data).runs
    steps = [event for event in run.events if event.kind is qemu.EventKind.STEP]
    return bundle, sum(e.instructions for e in steps if bundle.steps[e.index].kind is StepKind.DELEGATE)


def measure(model: str, folder: Path, toolchain: Toolchain) -> Result:
    """One row."""
    counted: list[int] = []
    calls = fetches = 0
    for policy in (FetchPolicy.NEVER, FetchPolicy.ALWAYS):
        build = folder / policy.value / model
        if not build.is_dir():
            build.parent.mkdir(parents=True, exist_ok=True)
            api.build_model(model, output=build, options=api.BuildOptions(memory=MemoryOptions(policy)))
        bundle, instructions = count(build, toolchain)
        counted.append(instructions)
        containers = (Container(*(block.data for block in d.partition.blocks)) for d in bundle.delegates)
        commands = [command for container in containers for command in decode(container).commands]
        calls, fetches = (sum(isinstance(command, kind) for command in commands) for kind in (Call, Fetch))
    return Result(model, calls, fetches, *counted)


def results(options: argparse.Namespace) -> Results:
    """The costs in each model."""
    toolchain = Toolchain.find(image.OBJECTS)
    with folder(options.builds) as builds:
        rows = [measure(model, builds, toolchain) for model in options.models or MODELS]
    columns = {"model": "model", "calls": "calls", "per call": "per_call:,.0f", "fetches": "fetches"}
    shown = table(rows, {**columns, "per fetch": "per_fetch:,.0f"}, f"instructions on {BOARD.name}")
    return Results("counted", rows, [shown], data={"compiler": toolchain.version})


if __name__ == "__main__":
    sys.exit(main(results, BUILDS, option("models", nargs="*", help="names of reference models")))

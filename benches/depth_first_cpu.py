"""Least memory of networks with stripes on a CPU alone, and the added instructions.

Each network runs layer by layer, and in half of that memory, or the minimum if half is too small. MobileNetV2 1.0 224
also runs in the AN547's tightly coupled memory. The emulator counts instructions of an inference; outputs must be the
host's bit for bit. Inputs and outputs are int8 unless the name says float.

make bench-depth-first-cpu ARGS='mobilenet_v2_96 --builds DIR'
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness import BUILDS, Results, folder, main, option, progress, table

MODELS = Path(__file__).resolve().parents[1] / "examples" / "models"
sys.path.insert(0, str(MODELS))

from mobilenet_v2 import MobileNetV2  # noqa: E402
from seeding import Example, seeded  # noqa: E402

from deuteron import api  # noqa: E402
from deuteron.arch.memory import DepthFirst, MemoryOptions  # noqa: E402
from deuteron.board import boards, image, qemu  # noqa: E402
from deuteron.board.arena import planned  # noqa: E402
from deuteron.board.firmware_record import Arenas, FirmwareOptions  # noqa: E402
from deuteron.board.toolchain import Toolchain  # noqa: E402
from deuteron.builds import manifest as manifests  # noqa: E402
from deuteron.errors import CapacityError  # noqa: E402
from deuteron.views.compare.board import compare  # noqa: E402

TARGET, BOARD = "cortex-m55", "an547"
NETWORKS = ("mobilenet_v2_96_float", "mobilenet_v2_96", "mobilenet_v1_025", "mobilenet_v2")
MOST_SLOWER = 0.08
"""Share of the instructions layer by layer that half of the memory may cost."""
DTCM = {"mobilenet_v2": 500 << 10}
"""Bytes that must fit into 512 KiB, with the stack and the program's own variables."""
TIME_OUT = 3600


@dataclass(frozen=True, slots=True)
class Row:
    """A network in one budget: bytes of its memory and where that is, steps, MACs and instructions of an inference."""

    network: str
    budget: int | None
    nbytes: int
    arenas: str
    steps: int
    again: int
    instructions: int
    identical: bool


def build(network: str, output: Path) -> None:
    """Write the build of a network."""
    options = api.BuildOptions(remove_quant_io_ops=not network.endswith("_float"))
    if not network.startswith("mobilenet_v2_96"):
        api.build_model(network, target=TARGET, output=output, options=options)
        return
    example: Example = seeded(MobileNetV2, (3, 96, 96))
    module, inputs, calibration = example
    api.build(module, inputs, target=TARGET, calibration=calibration, output=output, options=options, name=network)


def row(network: str, directory: Path, memory: MemoryOptions, toolchain: Toolchain, arenas: Arenas) -> Row:
    """One budget, counted on the board."""
    data = api.seeded_inputs(api.read_manifest(directory), 1)
    machine = boards.load(BOARD)
    with tempfile.TemporaryDirectory() as scratch:
        other = Path(scratch) / "build"
        shutil.copytree(directory, other)
        manifest = manifests.read(directory)
        changed = replace(manifest, options=replace(manifest.options, memory=memory))
        (other / manifests.NAME).write_text(changed.to_json())
        arena = planned(image.translated(other, changed), memory, TARGET)
        firmware = image.build(other, machine, FirmwareOptions(arenas=arenas), toolchain)
        image.write(firmware, Path(scratch) / "firmware", force=False)
        report = qemu.run(Path(scratch) / "firmware", firmware.record, machine, data, time_out=TIME_OUT)
    identical = compare(BOARD, [run.outputs for run in report.runs], list(api.run_each(directory, data))).passed
    again = sum(chain.again for chain in arena.chains)
    taken = firmware.record.memories[0].bytes
    steps = len(firmware.record.steps)
    where = firmware.record.arenas
    return Row(network, memory.sram_budget, taken, where, steps, again, report.runs[0].instructions, identical)


def rows(network: str, directory: Path, toolchain: Toolchain) -> Iterator[Row]:
    """Those of a network: layer by layer, half of that or the least, and what its own budget is."""
    bundle = image.translated(directory, manifests.read(directory))
    whole = planned(bundle, MemoryOptions(), TARGET).whole_bytes
    yield row(network, directory, MemoryOptions(), toolchain, Arenas.AUTO)
    half = MemoryOptions(sram_budget=whole // 2)
    try:
        planned(bundle, half, TARGET)
    except CapacityError:
        least = planned(bundle, MemoryOptions(depth_first=DepthFirst.ALWAYS), TARGET).memory.nbytes
        half = MemoryOptions(sram_budget=least)
    if network in DTCM:
        yield row(network, directory, MemoryOptions(sram_budget=DTCM[network]), toolchain, Arenas.TCM)
    yield row(network, directory, half, toolchain, Arenas.AUTO)


def problems(found: Sequence[Row]) -> Iterator[str]:
    """Return the broken bounds."""
    first = found[0]
    for each in found:
        where = f"{each.network} in {each.nbytes:,} bytes"
        if not each.identical:
            yield f"{where}: the outputs are not the host's"
        if each.nbytes * 2 >= first.nbytes and each.instructions > first.instructions * (1 + MOST_SLOWER):
            yield f"{where}: {each.instructions / first.instructions - 1:+.1%} instructions"


def results(options: argparse.Namespace) -> Results:
    """Each network in each of its budgets."""
    toolchain = Toolchain.find(image.OBJECTS)
    found: list[Row] = []
    wrong: list[str] = []
    with folder(options.builds) as builds:
        for network in options.networks or NETWORKS:
            if not (builds / network).is_dir():
                build(network, builds / network)
            own = [progress(each) for each in rows(network, builds / network, toolchain)]
            wrong += problems(own)
            found += own
    first = {r.network: r for r in reversed(found)}
    columns = {"network": "network", "memory": "nbytes", "in": "arenas"}
    columns |= {
        "share": lambda r: f"{r.nbytes / first[r.network].nbytes:.1%}",
        "steps": "steps",
        "MACs again": "again",
    }
    columns["instructions"] = "instructions"
    columns["more"] = lambda r: f"{r.instructions / first[r.network].instructions - 1:.2%}"
    return Results("counted", found, [table(found, columns)], wrong, data={"compiler": toolchain.version})


if __name__ == "__main__":
    sys.exit(main(results, BUILDS, option("networks", nargs="*", help=f"by default {' '.join(NETWORKS)}")))

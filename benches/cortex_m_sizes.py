"""Code of the Cortex-M operators in images of whole networks: plain C, DSP instructions and vectors.

The networks are MLPerf Tiny's, and the images those of `deuteron firmware`. Plain C and DSP instructions are compiled
for the Cortex-M33, vectors for the Cortex-M55. Bytes of text and rodata, counted from the linker's map, without the
executor.

make bench-cortex-m-sizes
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cortex_m_networks import WANTED
from harness import BUILDS, Results, Table, build_of, folder, main, option, table

from deuteron.arch.cores import InnerWork
from deuteron.board import boards, firmware_record, image, size
from deuteron.board.boards import Board
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.link import link
from deuteron.board.toolchain import Toolchain

VARIANTS: dict[InnerWork, tuple[str, Board]] = {
    InnerWork.PORTABLE: ("cortex-m33", replace(boards.load("an505"), cpu="cortex-m3")),
    InnerWork.DSP: ("cortex-m33", boards.load("an505")),
    InnerWork.MVE: ("cortex-m55", boards.load("an547")),
}
"""The target and the board of each: its processor chooses the sources, its flags are those of the compiler."""
MODULES = ("cortex_m", "operators")


@dataclass(frozen=True, slots=True)
class Result:
    """Bytes of a network's operators with one kind of inner work: text and rodata of each object."""

    network: str
    variant: str
    objects: dict[str, int]

    @property
    def code(self) -> int:
        """The bytes of all objects."""
        return sum(self.objects.values())


def measure(network: str, build: Path, variant: InnerWork, toolchain: Toolchain) -> Result:
    """The sizes of one network's image."""
    bundle = image.bundle_of(build)
    board = VARIANTS[variant][1]
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        link(bundle, board, FirmwareOptions(), image.called(bundle), toolchain, work)
        rows = size.measure(work / firmware_record.ELF, work / firmware_record.MAP).rows
    return Result(network, variant.value, {row.part: row.text + row.rodata for row in rows if row.module in MODULES})


def report(rows: Sequence[Result]) -> Table:
    """A row per network."""
    sizes = {
        network: {r.variant: r.code for r in rows if r.network == network} for network in (r.network for r in rows)
    }
    variants = {v.value: lambda item, v=v: item[1].get(v.value) for v in VARIANTS}
    return table(sizes.items(), {"network": lambda item: item[0], **variants})


def results(options: argparse.Namespace) -> Results:
    """Each network with each kind of inner loops."""
    toolchain = Toolchain.find(image.OBJECTS)
    rows: list[Result] = []
    with folder(options.builds) as builds:
        for network in options.networks or WANTED:
            for variant, (target, _) in VARIANTS.items():
                build = build_of(builds / f"{network}-{target}", network, target=target)
                rows.append(measure(network, build, variant, toolchain))
    return Results("counted", rows, [report(rows)], data={"compiler": toolchain.version})


if __name__ == "__main__":
    sys.exit(main(results, BUILDS, option("networks", nargs="*", help="all by default")))

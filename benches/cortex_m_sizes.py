"""Code of the Cortex-M operators in images of whole networks: plain C, DSP instructions and vectors.

The networks are MLPerf Tiny's. Each image is one that `deuteron firmware` makes: the linker takes the operators that a
network calls, and of their inner work what these need. Plain C is compiled for the Cortex-M33, as DSP instructions are,
vectors for the Cortex-M55. Bytes of text and rodata, counted from the map of the linker; the executor is beside them.

make bench-cortex-m-sizes
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cortex_m_networks import WANTED
from ending import finish

from deuteron import api
from deuteron.arch.cores import InnerWork
from deuteron.board import boards, image, record, size
from deuteron.board.boards import Board
from deuteron.board.link import link
from deuteron.board.record import FirmwareOptions
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
        """Of all objects."""
        return sum(self.objects.values())


def measure(network: str, build: Path, variant: InnerWork, toolchain: Toolchain) -> Result:
    """The sizes of one network's image."""
    bundle = image.bundle_of(build)
    board = VARIANTS[variant][1]
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        link(bundle, board, FirmwareOptions(), image.called(bundle), toolchain, work)
        rows = size.measure(work / record.ELF, work / record.MAP).rows
    return Result(network, variant.value, {row.part: row.text + row.rodata for row in rows if row.module in MODULES})


def report(results: Sequence[Result]) -> None:
    """Prints a line per network."""
    print(f"{'bytes of operators':<24}" + "".join(f"{variant.value:>10}" for variant in VARIANTS))
    for network in dict.fromkeys(result.network for result in results):
        sizes = (result.code for result in results if result.network == network)
        print(f"{network:<24}" + "".join(f"{size:>10,}" for size in sizes))


def main() -> int:
    """0 when all have been linked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--builds", type=Path, help="directory of builds, <network>-<target>, used where there is one")
    parser.add_argument("networks", nargs="*", help="names of networks; all by default")
    options = parser.parse_args()
    toolchain = Toolchain.find(image.OBJECTS)
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as scratch:
        for network in options.networks or WANTED:
            for variant, (target, _) in VARIANTS.items():
                build = (options.builds or Path(scratch)) / f"{network}-{target}"
                if not build.is_dir():
                    api.build_model(network, target=target, output=build)
                results.append(measure(network, build, variant, toolchain))
    report(results)
    data = {"kind": "counted", "compiler": toolchain.version, "results": [asdict(result) for result in results]}
    return finish(data, [], options.json)


if __name__ == "__main__":
    sys.exit(main())

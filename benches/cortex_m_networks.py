"""Instructions of whole networks on Cortex-M processors, one inference with everything in it, by kind of operator.

The networks are MLPerf Tiny's, built for `cortex-m33`, `cortex-m55` and `imxrt700` and run on the emulated boards,
which have no NPU: its programs run on the processor there. The first row of each has its bar, and the ratio. Outputs
must be the host's bit for bit. *between* is what the executor takes between its steps. Instructions are counted by
the emulator, one per instruction whatever a core would need for it.

make bench-cortex-m-networks
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ending import finish

from deuteron import api
from deuteron.board import boards, image, qemu
from deuteron.board.record import FirmwareOptions
from deuteron.board.toolchain import Toolchain
from deuteron.views.compare.board import compare

NPU = "imxrt700"
TARGETS = {"cortex-m33": ("an505",), "cortex-m55": ("an547",), NPU: ("an505", "an547")}
WANTED = {
    "ds_cnn": {"an505": 6_000_000, "an547": 1_300_000},
    "resnet8": {"an505": 19_000_000, "an547": 3_700_000},
    "mobilenet_v1_025": {"an505": 18_000_000, "an547": 4_200_000},
    "deep_autoencoder": {"an505": 450_000, "an547": 90_000},
}
"""What an inference must not take more of: CMSIS-NN's kernels alone take 8.3 and 1.8 million for ds_cnn, 27.5 and 4.4
for resnet8, 24.5 and 6.4 for mobilenet_v1_025, 0.58 and 0.15 for deep_autoencoder."""
NPU_SHARE = 1.3
"""What the NPU's programs may take of that on a processor: they round otherwise, and their calls are checked."""


@dataclass(frozen=True, slots=True)
class Result:
    """A network for a target on a board: all instructions, those of each kind of operator, and what is wanted."""

    network: str
    target: str
    board: str
    instructions: int
    kinds: dict[str, int]
    wanted: int
    identical: bool

    def problems(self) -> list[str]:
        """What is not as it must be."""
        found = [] if self.identical else ["the outputs are not the host's"]
        if self.instructions > self.wanted:
            found.append(f"{self.instructions:,} instructions, {self.wanted:,} are wanted")
        return [f"{self.title}: {problem}" for problem in found]

    @property
    def title(self) -> str:
        """What ran where."""
        return f"{self.network} for {self.target} on {self.board}"


def kinds_of(run: qemu.EmulatorRun, titles: Sequence[str]) -> dict[str, int]:
    """The instructions of a run by kind of operator, the most first, and what lies between the events."""
    kinds: Counter[str] = Counter()
    for event in run.events:
        if event.kind is qemu.EventKind.STEP:
            kinds[titles[event.index].split(",")[0].removesuffix(".out")] += event.instructions
        else:
            kinds["copies of inputs and outputs"] += event.instructions
    kinds["between"] = run.instructions - kinds.total()
    return dict(kinds.most_common())


def wanted(network: str, target: str, board: str) -> int:
    """What an inference must not take more of."""
    return int(WANTED[network][board] * (NPU_SHARE if target == NPU else 1))


def measure(network: str, target: str, build: Path, board: str, toolchain: Toolchain) -> Result:
    """One network for one target on one board."""
    data = api.seeded_inputs(api.read_manifest(build), 1)
    machine = boards.load(board)
    firmware = image.build(build, machine, FirmwareOptions(), toolchain)
    with tempfile.TemporaryDirectory() as scratch:
        image.write(firmware, Path(scratch) / "firmware", force=False)
        report = qemu.run(Path(scratch) / "firmware", firmware.record, machine, data)
    identical = compare(board, [run.outputs for run in report.runs], list(api.run_each(build, data))).passed
    kinds = kinds_of(report.runs[0], [step.title for step in firmware.record.steps])
    return Result(network, target, board, report.runs[0].instructions, kinds, wanted(network, target, board), identical)


def report(results: Sequence[Result]) -> None:
    """Prints a table per network."""
    for r in results:
        print(f"{r.title:<48}{r.instructions:>13,}{r.wanted:>13,}{r.instructions / r.wanted:>6.2f}")
        for kind, count in r.kinds.items():
            print(f"  {kind:<46}{count:>13,}{count / r.instructions:>13.1%}")


def main() -> int:
    """0 when every output is the host's and no network takes more than is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--builds", type=Path, help="directory of builds, <network>-<target>, used where there is one")
    parser.add_argument("networks", nargs="*", help="names of networks; all by default")
    options = parser.parse_args()
    toolchain = Toolchain.find(image.OBJECTS)
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as scratch:
        for network in options.networks or WANTED:
            for target, machines in TARGETS.items():
                build = (options.builds or Path(scratch)) / f"{network}-{target}"
                if not build.is_dir():
                    api.build_model(network, target=target, output=build)
                results += [measure(network, target, build, board, toolchain) for board in machines]
    report(results)
    data = {"kind": "counted", "compiler": toolchain.version, "results": [asdict(result) for result in results]}
    return finish(data, [problem for result in results for problem in result.problems()], options.json)


if __name__ == "__main__":
    sys.exit(main())

"""What activations of 16 bits gain and cost: the digits network, and the keyword network ds_cnn, with 8 and 16.

Digits: the share of held-back images that are read right. ds_cnn has seeded weights, so that there is nothing to be
right about: the share of seeded inputs for which the largest output is the float model's. SQNR is the signal of the
float model's outputs to what quantisation adds to it. Both are measured on ExecuTorch's own runtime. Instructions of
one inference are counted on the emulated boards, where outputs must be those of the host. Weights have 8 bits in both
cases, and bound what 16 bits of activations can gain; these must lose nothing to 8.

make bench-activations
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from ending import finish
from networks import sqnr
from torch import Tensor

from deuteron import api
from deuteron.board import boards, image, qemu
from deuteron.board.record import FirmwareOptions
from deuteron.board.toolchain import Toolchain
from deuteron.frontend import loader
from deuteron.frontend.examples import FOLDER
from deuteron.views.compare.board import compare

sys.path.insert(0, str(FOLDER))
import digits

BOARDS = {"cortex-m33": "an505", "cortex-m55": "an547"}
NETWORKS = ("digits", "ds_cnn")
SAMPLES = 400


@dataclass(frozen=True, slots=True)
class Row:
    """A network with one kind of activations.

    Attributes:
        network: its name.
        activations: their dtype, or float32.
        right: the share of samples that are read right, 0..1, or as float reads them.
        sqnr: in dB; 0 for float.
        program: bytes of the `.pte`.
        instructions: of one inference, by board.
        differing: the boards whose outputs are not the host's.
    """

    network: str
    activations: str
    right: float
    sqnr: float = 0.0
    program: int = 0
    instructions: dict[str, int] | None = None
    differing: tuple[str, ...] = ()


def samples_of(network: str, shape: Sequence[int]) -> tuple[list[tuple[Tensor]], Tensor | None]:
    """What is shown to a network, and what is right if anything is."""
    if network == "digits":
        held_back = digits.data()[1]
        return [(x,) for x in held_back.images[:SAMPLES].split(1)], held_back.labels[:SAMPLES]
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(*shape, generator=generator),) for _ in range(SAMPLES // 4)], None


def counted(build: Path, board: str, toolchain: Toolchain) -> tuple[int, bool]:
    """The instructions of an inference on a board, and whether its outputs are the host's."""
    data = api.seeded_inputs(api.read_manifest(build), 1)
    machine = boards.load(board)
    firmware = image.build(build, machine, FirmwareOptions(), toolchain)
    with tempfile.TemporaryDirectory() as scratch:
        image.write(firmware, Path(scratch) / "firmware", force=False)
        report = qemu.run(Path(scratch) / "firmware", firmware.record, machine, data)
    same = compare(board, [run.outputs for run in report.runs], list(api.run_each(build, data))).passed
    return report.runs[0].instructions, same


def rows(network: str, toolchain: Toolchain, targets: Sequence[str]) -> list[Row]:
    """Float, 8 bits and 16."""
    model = loader.load(network)
    samples, labels = samples_of(network, model.example_inputs[0].shape)
    with torch.no_grad():
        best = torch.cat([model.module(*sample).argmax(1) for sample in samples])
    wanted = best if labels is None else labels
    found = [Row(network, "float32", float((best == wanted).double().mean()))]
    for activations in api.Activations:
        row, counts, differing = Row(network, activations.value, 0.0), dict[str, int](), list[str]()
        for target in targets:
            with tempfile.TemporaryDirectory() as folder:
                build, options = Path(folder) / "build", api.BuildOptions(activations=activations)
                made = api.build_model(network, target=target, output=build, options=options)
                outputs = list(api.run_each(build, [[x.numpy() for x in sample] for sample in samples]))
                board = BOARDS[target]
                counts[board], same = counted(build, board, toolchain)
            differing += [] if same else [board]
            right = np.array([y[0].argmax() for y in outputs]) == wanted.numpy()
            row = replace(
                row, right=float(right.mean()), sqnr=sqnr(model.module, samples, outputs), program=len(made.pte)
            )
        found.append(replace(row, instructions=counts, differing=tuple(differing)))
    return found


def problems(found: Sequence[Row]) -> list[str]:
    """A sentence for whatever is not as it must be."""
    _, narrow, wide = found
    listed = [
        f"{row.network} with {row.activations}: {board} gives other outputs" for row in found for board in row.differing
    ]
    if wide.right < narrow.right:
        listed.append(f"{wide.network}: 16 bits are right for {wide.right:.2%}, 8 are for {narrow.right:.2%}")
    if wide.sqnr < narrow.sqnr:
        listed.append(f"{wide.network}: 16 bits have {wide.sqnr:.1f} dB, 8 have {narrow.sqnr:.1f}")
    return listed


def report(found: Sequence[Row]) -> None:
    """Prints the rows."""
    for row in found:
        counts = "".join(f"{board:>9}{count:>12,}" for board, count in (row.instructions or {}).items())
        print(f"{row.network:<10}{row.activations:<9}{row.right:>9.2%}{row.sqnr:>8.1f} dB{row.program:>10,} B{counts}")


def main() -> int:
    """1 when 16 bits are not worth what they must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--target", action="append", choices=BOARDS, help="these only; may be repeated")
    parser.add_argument("networks", nargs="*", help="names of networks; all by default")
    options = parser.parse_args()
    toolchain = Toolchain.find(image.OBJECTS)
    measured = [rows(name, toolchain, options.target or list(BOARDS)) for name in options.networks or NETWORKS]
    for found in measured:
        report(found)
    data = {"kind": "measured and counted", "rows": [asdict(row) for found in measured for row in found]}
    return finish(data, [problem for found in measured for problem in problems(found)], options.json)


if __name__ == "__main__":
    sys.exit(main())

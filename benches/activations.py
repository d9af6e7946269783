"""Gain and cost of 16-bit activations: the digits network and the keyword network ds_cnn, with 8 and 16 bits.

Digits: the share of held-back images that are right. ds_cnn has seeded weights, so its figure is the share of seeded
inputs whose largest output is the float model's. SQNR is the float model's signal against the quantization noise. Both
are measured in ExecuTorch's runtime. Instructions of one inference are counted on the emulated boards, with the host's
outputs. 16 bits must lose nothing against 8.

make bench-activations
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from cortex_m_networks import run_on_board
from harness import Results, main, only, option, progress, table
from networks_on_targets import sqnr
from torch import Tensor

from deuteron import api
from deuteron.board import image
from deuteron.board.toolchain import Toolchain
from deuteron.frontend import loader
from deuteron.frontend.examples import FOLDER

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
    """Return the inputs of a network, and the right labels if there are any."""
    if network == "digits":
        held_back = digits.data()[1]
        return [(x,) for x in held_back.images[:SAMPLES].split(1)], held_back.labels[:SAMPLES]
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(*shape, generator=generator),) for _ in range(SAMPLES // 4)], None


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
                run, _, same = run_on_board(build, board, toolchain)
                counts[board] = run.instructions
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


def results(options: argparse.Namespace) -> Results:
    """The rows of all networks."""
    toolchain = Toolchain.find(image.OBJECTS)
    found = [progress(rows(name, toolchain, options.target or list(BOARDS))) for name in options.networks or NETWORKS]
    listed = [row for each in found for row in each]
    columns = {"network": "network", "activations": "activations", "right": "right:.2%", "SQNR, dB": "sqnr:.1f"}
    columns |= {"program B": "program"}
    counts = {board: lambda row, board=board: (row.instructions or {}).get(board) for board in BOARDS.values()}
    shown = table(listed, {**columns, **counts})
    return Results("measured and counted", listed, [shown], [problem for each in found for problem in problems(each)])


if __name__ == "__main__":
    sys.exit(main(results, only("--target", BOARDS), option("networks", nargs="*", help="all by default")))

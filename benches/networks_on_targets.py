"""Ordinary networks on every target whose CPU has int8 operators: built, checked, run on the host and on a board.

"float" are operators that read or give float numbers, except quantization of inputs and outputs; "differs" are
numbers of ExecuTorch's runtime on the host that are not those of the lowered program in PyTorch
(`exact_execution.py`). Both must be zero. The build checks each operator's rounding on all samples. "SQNR" is int8
against the float model with random weights, which depends on the network more than on the compiler. The bench takes
most of an hour.

make bench-networks-on-targets ARGS="--rows build/benches/networks"
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import harness
import numpy as np
import torch
from harness import ROWS, Results, main, only, progress, table
from npu_and_cortex_m import checked, unlike
from torch import Tensor, nn
from zoo import NAMES, NETWORKS, Network

from deuteron import api
from deuteron.builds.manifest import PROGRAM
from deuteron.errors import DeuteronError
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.runtime import pte
from deuteron.runtime.program import KernelCall, TensorValue
from deuteron.views.compare.board import compare

BOARDS = {"cortex-m33": "an505", "cortex-m55": "an547", "imxrt700cm": "an505"}
"""The targets, and a board with the core of each."""

SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Row:
    """One network for one target.

    Attributes:
        network: its name.
        target: for what.
        refused: why it is not built or does not run; empty when it does.
        operators: what the CPU runs.
        floats: those of them that read or give float, except the edges' quantization.
        differs: numbers of the host's runtime that are not those of the lowered program run by PyTorch.
        on_board: whether the board gave the host's bits.
        sqnr: of the outputs, in dB.
    """

    network: str
    target: str
    refused: str = ""
    operators: int = 0
    floats: tuple[str, ...] = ()
    differs: int = 0
    on_board: bool = False
    sqnr: float = 0.0

    @property
    def problem(self) -> str:
        """The broken bound; empty if there is none."""
        if self.refused:
            return f"fails: {self.refused}"
        found = [f"computes {', '.join(self.floats)} in float"] if self.floats else []
        found += [f"gives {self.differs} numbers unlike its reference"] if self.differs else []
        found += [] if self.on_board else ["gives other bits on the board than on the host"]
        return " and ".join(found)


def floats(program: Path) -> Iterator[str]:
    """Yield the operators that read or give float numbers, except the quantization of inputs and outputs."""
    method = pte.read(program.read_bytes(), str(program)).methods[0]
    for instruction in chain.from_iterable(method.chains):
        if isinstance(instruction, KernelCall):
            name = method.operators[instruction.operator]
            values = [method.values[index] for index in instruction.args]
            tensors = [value for value in values if isinstance(value, TensorValue)]
            if "quantize_per_" not in name and any(value.spec.dtype.startswith("float") for value in tensors):
                yield name


def row(network: Network, target: str) -> Row:
    """One build, run on the host and on a board, or what it fails with: other networks are still to come."""
    try:
        return measured(network, target)
    except DeuteronError as e:
        return Row(network.name, target, str(e))
    except Exception as e:  # noqa: BLE001 - a network may find any defect
        return Row(network.name, target, f"{type(e).__name__}: {e}")


def measured(network: Network, target: str) -> Row:
    """One build, run on the host and on a board."""
    module, samples = network.module(), network.samples(SAMPLES, seed=1)
    arrays = [[x.numpy() for x in sample] for sample in samples]
    with tempfile.TemporaryDirectory() as folder, checked(samples) as replays:
        build = Path(folder) / "build"
        manifest = api.build(
            module, samples[0], target=target, calibration=network.samples(16, seed=2), output=build
        ).manifest
        host = list(api.run_each(build, arrays))
        board = list(api.run_each(build, arrays, on=BOARDS[target]))
        return Row(
            network.name,
            target,
            "",
            len(manifest.cpu_ops),
            tuple(dict.fromkeys(floats(build / PROGRAM))),
            unlike(build / PROGRAM, samples, *replays),
            compare(BOARDS[target], board, host).passed,
            sqnr(module, samples, host),
        )


def sqnr(module: nn.Module, samples: Sequence[tuple[Tensor, ...]], outputs: Sequence[Sequence[np.ndarray]]) -> float:
    """The signal to noise of all outputs together, in dB."""
    signal = noise = 0.0
    for sample, actual in zip(samples, outputs, strict=True):
        with torch.no_grad():
            wanted = [x.double().numpy() for x in flat(module(*sample))]
        signal += sum(float((x**2).sum()) for x in wanted)
        noise += sum(float(((x - y) ** 2).sum()) for x, y in zip(wanted, actual, strict=True))
    return 10 * float(np.log10(signal / max(noise, 1e-30)))


def kept(network: Network, target: str, folder: Path | None) -> Row:
    """The row of a build: from the folder where it is there, else made and kept there."""
    return harness.kept(folder, f"{network.name}.{target}", Row, lambda: row(network, target))


def results(options: argparse.Namespace) -> Results:
    """Each network for each target."""
    rows = [
        progress(kept(network, target, options.rows))
        for network in NETWORKS
        for target in options.target or BOARDS
        if network.name in (options.network or NAMES)
    ]
    columns = {"network": "network", "target": "target", "runs": lambda r: not r.refused, "operators": "operators"}
    columns |= {"float": "floats", "differs": "differs", "same bits on the board": "on_board", "SQNR, dB": "sqnr:.1f"}
    problems = [f"{r.network} on {r.target} {r.problem}" for r in rows if r.problem]
    return Results("counted and measured", rows, [table(rows, columns)], problems)


if __name__ == "__main__":
    sys.exit(main(results, only("--network", NAMES), only("--target", BOARDS), ROWS))

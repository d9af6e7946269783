"""Ordinary networks on every target whose CPU has int8 operators: built, checked, run on the host and on a board.

The networks (`ordinary_images.py`, `ordinary_sequences.py`) are plain PyTorch with seeded weights, as a user would
bring them. Of each build: "float" are the operators of the program that read or give float numbers, beside what
quantises inputs and dequantises outputs; none may be. "differs" are the numbers that ExecuTorch's runtime on the host
gives unlike the lowered program run by PyTorch (`replay.py`); none may be, and no operator of it is further off the
quantised model than its rounding, which the build checks on all these samples. "board" says whether the emulated board
gives the host's bits. "SQNR" is the signal of the float model's outputs to what int8 adds to it, of random weights:
a number to compare with itself, which depends on the network more than on the compiler.

It takes most of an hour. With `--rows` each row is kept in a folder when it is there, and is not made again, so that
the bench can be stopped and goes on, or several share it, each with networks of its own.

make bench-networks
make bench-networks ARGS="--rows build/benches/networks"
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import ending
import numpy as np
import ordinary_images as images
import ordinary_sequences as sequences
import torch
from combined import checked, unlike
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from deuteron import api
from deuteron.builds.manifest import PROGRAM
from deuteron.errors import DeuteronError
from deuteron.frontend.cortex_m.lowering_check import flat
from deuteron.runtime import pte
from deuteron.runtime.program import KernelCall, TensorValue
from deuteron.views.compare.board import compare

BOARDS = {"cortex-m33": "an505", "cortex-m55": "an547", "imxrt700cm": "an505"}
"""The targets, and a board with the core of each."""

SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Network:
    """A network by name: how it is made, and the shapes of its inputs; `tokens` are numbers below that instead."""

    name: str
    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    tokens: int = 0

    def module(self) -> nn.Module:
        """The module with seeded weights, whose batch norms have seen samples."""
        torch.manual_seed(0)
        module = self.make().train()
        norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
        for norm in norms:
            norm.momentum = None  # a plain average
            nn.init.uniform_(norm.weight, 0.8, 1.2)
            nn.init.uniform_(norm.bias, -0.3, 0.6)
        if norms:
            with torch.no_grad():
                for sample in self.samples(16, seed=7):
                    module(*sample)
        return module.eval()

    def samples(self, count: int, seed: int) -> list[tuple[Tensor, ...]]:
        """Seeded inputs."""
        generator = torch.Generator().manual_seed(seed)

        def draw(shape: tuple[int, ...]) -> Tensor:
            if self.tokens:
                return torch.randint(self.tokens, shape, generator=generator)
            return torch.randn(shape, generator=generator)

        return [tuple(draw(shape) for shape in self.shapes) for _ in range(count)]


NETWORKS = (
    Network("accelerometer", sequences.Accelerometer, ((1, 3, 64),)),
    Network("tcn", sequences.TemporalConvolutions, ((1, 4, 48),)),
    Network("gru", partial(sequences.Recurrent, nn.GRU), ((1, 12, 10),)),
    Network("lstm", partial(sequences.Recurrent, nn.LSTM), ((1, 12, 10),)),
    Network("transformer", sequences.TransformerEncoder, ((1, 16, 8),)),
    Network("causal_attention", sequences.CausalAttention, ((1, 12, 16),)),
    Network("mlp_mixer", sequences.Mixer, ((1, 1, 16, 16),)),
    Network("two_in_two_out", sequences.TwoInTwoOut, ((1, 1, 16, 16), (1, 6))),
    Network("embedding_mean", sequences.EmbeddingMean, ((1, 12),), tokens=sequences.EmbeddingMean.VOCABULARY),
    Network("rms_norm", sequences.RootMeanSquare, ((1, 24),)),
    Network("gated", sequences.Gated, ((1, 1, 64),)),
    Network("squeeze_excite", images.SqueezeExcite, ((1, 3, 24, 24),)),
    Network("inception", images.Inception, ((1, 3, 20, 20),)),
    Network("unet_bilinear", partial(images.UNet, bilinear=True), ((1, 1, 24, 24),)),
    Network("unet_transposed", partial(images.UNet, bilinear=False), ((1, 1, 24, 24),)),
    Network("shuffle_net", images.ShuffleNet, ((1, 3, 24, 24),)),
    Network(
        "group_norm",
        lambda: images.Normalised(nn.GroupNorm(4, 16), nn.GroupNorm(1, 24)),
        ((1, 3, 16, 16),),
    ),
    Network(
        "instance_norm",
        lambda: images.Normalised(nn.InstanceNorm2d(16, affine=True), nn.InstanceNorm2d(24)),
        ((1, 3, 16, 16),),
    ),
    Network("autoencoder", images.TransposedAutoencoder, ((1, 1, 14, 14),)),
    Network("dense_block", images.DenseBlock, ((1, 3, 16, 16),)),
    Network("mobilenet_v3", images.MobileNetV3Block, ((1, 3, 24, 24),)),
    Network("dilated_separable", images.DilatedSeparable, ((1, 1, 20, 20),)),
    Network("pooled_shortcut", images.PooledShortcut, ((1, 3, 23, 23),)),
    Network("super_resolution", images.SuperResolution, ((1, 1, 12, 12),)),
    Network("segmentation", images.Segmentation, ((1, 3, 20, 20),)),
    Network("siamese", images.Siamese, ((1, 1, 16, 16), (1, 1, 16, 16))),
)
NAMES = tuple(network.name for network in NETWORKS)


@dataclass(frozen=True, slots=True)
class Row:
    """One network for one target.

    Attributes:
        network: its name.
        target: for what.
        refused: why it is not built or does not run; empty when it does.
        operators: what the CPU runs.
        floats: those of them that read or give float, beside the edges' quantisation.
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
        """What is not as it must be; empty if all is."""
        if self.refused:
            return f"fails: {self.refused}"
        found = [f"computes {', '.join(self.floats)} in float"] if self.floats else []
        found += [f"gives {self.differs} numbers unlike its reference"] if self.differs else []
        found += [] if self.on_board else ["gives other bits on the board than on the host"]
        return " and ".join(found)


def floats(program: Path) -> Iterator[str]:
    """The operators of a program, beside the quantisation of inputs and outputs, that read or give float numbers."""
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
    """Of all outputs together, in dB."""
    signal = noise = 0.0
    for sample, actual in zip(samples, outputs, strict=True):
        with torch.no_grad():
            wanted = [x.double().numpy() for x in flat(module(*sample))]
        signal += sum(float((x**2).sum()) for x in wanted)
        noise += sum(float(((x - y) ** 2).sum()) for x, y in zip(wanted, actual, strict=True))
    return 10 * float(np.log10(signal / max(noise, 1e-30)))


def kept(network: Network, target: str, folder: Path | None) -> Row:
    """The row of a build: from the folder where it is there, else made and kept there."""
    return ending.kept(folder, f"{network.name}.{target}", Row, lambda: row(network, target))


def report(rows: Sequence[Row]) -> Table:
    """The rows as a table."""
    table = Table("network", "target", "runs")
    for title in ("operators", "float", "differs", "board", "SQNR, dB"):
        table.add_column(title, justify="right")
    for r in rows:
        if r.refused:
            table.add_row(r.network, r.target, "no", "", "", "", "", "")
        else:
            counts = (str(r.operators), str(len(r.floats)), str(r.differs), "same bits" if r.on_board else "differs")
            table.add_row(r.network, r.target, "yes", *counts, f"{r.sqnr:.1f}")
    return table


def main() -> int:
    """1 when a row is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--network", action="append", choices=NAMES, help="of these only; may be repeated")
    parser.add_argument("--target", action="append", choices=[*BOARDS], help="of these only; may be repeated")
    parser.add_argument("--rows", type=Path, help="keep each row in this folder, and take from it what is there")
    options = parser.parse_args()
    rows: list[Row] = []
    for network in NETWORKS:
        for target in options.target or BOARDS:
            if network.name in (options.network or NAMES):
                rows.append(kept(network, target, options.rows))
                print(rows[-1], file=sys.stderr, flush=True)
    Console(width=140).print(report(rows))
    problems = [f"{r.network} on {r.target} {r.problem}" for r in rows if r.problem]
    return ending.finish({"schema": 1, "rows": [asdict(r) for r in rows]}, problems, options.json)


if __name__ == "__main__":
    sys.exit(main())

"""Streams of 1,000 hops: the board's bits against the host's, SQNR at both ends, and what a stream saves.

A row is one network on one target, built for a window of 100 frames and for hops of 2 new ones. SQNR is of the host's
outputs in the first and the last 100 hops, against the float module stepped in the same order, and against quantized
PyTorch. The last must be within 1 dB of the first. On an emulated board with the target's core all outputs must be the
host's bit for bit; it counts the instructions of a window and of a hop. A multiply-accumulate is of the float graph.

make bench-streams ARGS="--target cortex-m55 --network tcn"
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import ROWS, Results, kept, main, only, progress, table
from zoo.streams import HOP, NETWORKS, WINDOW, recording

from deuteron import api
from deuteron.arch import cores, targets
from deuteron.board import boards, firmware_record, image, qemu
from deuteron.board.toolchain import Toolchain
from deuteron.builds.options import BuildOptions, StreamOptions
from deuteron.builds.quality import decibels
from deuteron.errors import DeuteronError
from deuteron.frontend.eager import capture
from deuteron.frontend.streaming import model as streaming

TARGETS = ("cortex-m33", "cortex-m55", "imxrt700", "imxrt700cm", "ethos-u55-128", "ethos-u55-128cm", "ethos-u85-256")
STEPS, PART, ALLOWED = 1000, 100, 1.0
STREAM = StreamOptions(1, HOP)


@dataclass(frozen=True, slots=True)
class Row:
    """One network on one target.

    Attributes:
        macs: of a window and of a hop.
        sram: bytes of the bundle's memories, with the state, for a window and for a hop.
        state: bytes of the state memory.
        board: the emulated board; empty if the image does not fit.
        instructions: on it, of a window and of a hop; 0 without one.
        is_equal: whether all outputs of the board are the host's.
        floats: SQNR (dB) against the float module in the first and the last hops.
        quantized: SQNR (dB) against quantized PyTorch.
        problem: why there is no program.
    """

    network: str
    target: str
    macs: tuple[int, ...] = (0, 0)
    sram: tuple[int, ...] = (0, 0)
    state: int = 0
    board: str = ""
    instructions: tuple[int, ...] = (0, 0)
    is_equal: bool = True
    floats: tuple[float, ...] = (0.0, 0.0)
    quantized: tuple[float, ...] = (0.0, 0.0)
    problem: str = ""

    def problems(self) -> list[str]:
        """Return the broken bounds."""
        found = [self.problem] if self.problem else []
        found += [] if self.is_equal else [f"`{self.board}` has other bits than the host"]
        if self.floats[1] < self.floats[0] - ALLOWED:
            found.append(f"drifts from {self.floats[0]:.1f} to {self.floats[1]:.1f} dB")
        return [f"{self.network} on {self.target}: {one}" for one in found]


def board_of(target: str) -> str:
    """Return the smallest board with the instructions of a target's core."""
    wanted = cores.load(targets.load(target).cpu.name).inner
    return next(name for name in ("an505", "an547") if cores.load(boards.load(name).cpu).inner.has(wanted))


def counted(build: Path, board: str, samples: list[tuple[np.ndarray, ...]]) -> tuple[int, list[np.ndarray]]:
    """Return the instructions of the last run, and the outputs on a board."""
    with tempfile.TemporaryDirectory() as scratch:
        found = boards.load(board)
        made = image.build(build, found, firmware_record.FirmwareOptions(), Toolchain.find(image.OBJECTS))
        image.write(made, Path(scratch) / "firmware", force=False)
        runs = qemu.run(Path(scratch) / "firmware", made.record, found, samples, resets=(0,)).runs
    return runs[-1].instructions, [run.outputs[0] for run in runs]


def sram(build: Path) -> tuple[int, int]:
    """Return the bytes of all memories of a bundle, and of its state."""
    bundle = image.bundle_of(build)
    return sum(memory.bytes for memory in bundle.memories), bundle.state_bytes


def parts(ours: np.ndarray, wanted: np.ndarray) -> tuple[float, float]:
    """Return the SQNR of both ends of a stream."""
    ends = (slice(PART), slice(-PART, None))
    first, last = (
        decibels(float(np.square(wanted[i]).sum()), float(np.square(ours[i] - wanted[i]).sum())) for i in ends
    )
    return first, last


def measure(network: str, target: str, folder: Path) -> Row:
    """Return one row."""
    torch.manual_seed(0)
    module = NETWORKS[network]().eval()
    recordings = [recording(WINDOW, seed) for seed in range(4)]
    try:
        for name, stream in (("window", None), ("hop", STREAM)):
            options, x = BuildOptions(stream=stream), recordings[0]
            api.build(module, x, target=target, calibration=recordings, options=options, output=folder / name)
    except DeuteronError as error:
        return Row(network, target, problem=error.message)
    frames = recording(STEPS * HOP, 100)
    hops = [(frames[:, at : at + HOP].contiguous(),) for at in range(0, STEPS * HOP, HOP)]
    samples: list[tuple[np.ndarray, ...]] = [(x.numpy(),) for (x,) in hops]
    subject: Any = api.subject(folder / "hop")
    subject.resets = (0,)
    host = np.stack([y for (y,) in subject.run(samples)])
    observed, graph = capture.captured(module, [(recordings[0],)])
    made = streaming.streamed(observed, graph, observed.samples, STREAM)
    floats = np.stack([y.numpy() for (y,) in made.observed.run(hops)])
    compared = subject.compare(samples)
    info = api.read_manifest(folder / "hop").stream
    assert info is not None
    board, counts, is_equal = board_of(target), (0, 0), True
    try:
        now, outputs = counted(folder / "hop", board, samples)
        is_equal = all(map(np.array_equal, outputs, host))
        whole, _ = counted(folder / "window", board, [(recordings[0].numpy(),)])
        counts = whole, now
    except DeuteronError as error:
        print(f"{network} on {target}: {error.message}", file=sys.stderr)
        board = board if counts[1] else ""
    (whole, _), (hop, state) = sram(folder / "window"), sram(folder / "hop")
    return Row(
        network,
        target,
        (info.window_macs, info.macs),
        (whole, hop),
        state,
        board,
        counts,
        is_equal,
        parts(host, floats),
        next((out.first, out.last) for out in compared.outputs),
    )


def results(options: argparse.Namespace) -> Results:
    """Each network on each target."""
    found: list[Row] = []
    for target in options.target or TARGETS:
        for network in options.network or NETWORKS:
            with tempfile.TemporaryDirectory() as scratch:
                name = f"{network}-{target}"
                row = kept(options.rows, name, Row, lambda: measure(network, target, Path(scratch)))  # noqa: B023
            found.append(progress(row))

    def pair(name: str, pattern: str = ",") -> Callable[[Any], str]:
        return lambda row: ", ".join(format(value, pattern) for value in getattr(row, name))

    columns = {
        "network": "network",
        "target": "target",
        "MACs: window, hop": pair("macs"),
        "SRAM: window, hop": pair("sram"),
        "state B": "state",
        "board": "board",
        "instructions: window, hop": pair("instructions"),
        "host bits": "is_equal",
        "dB to float: first, last": pair("floats", ".1f"),
        "dB to quantized": pair("quantized", ".1f"),
    }
    rows = [row for row in found if not row.problem]
    return Results("counted", found, [table(rows, columns)], [one for row in found for one in row.problems()])


if __name__ == "__main__":
    sys.exit(main(results, only("--target", TARGETS), only("--network", NETWORKS), ROWS))

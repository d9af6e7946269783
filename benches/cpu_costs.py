"""Costs of the Cortex-M operators: instructions per element and term, against the figures in use.

Each kind of work runs at several sizes on the emulated boards, in images like those of `deuteron firmware`. A line
through the counts (least squares of relative errors, with a fixed cost per call) gives the figures of
`src/deuteron/arch/cores/`. The last column is the error of the closed form. Instructions are not cycles.

make bench-cpu-costs
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cortex_m
import cpu_costs_custom_ops as added
import numpy as np
import numpy.typing as npt
from cortex_m import Call, Layer, Maker
from harness import Results, main, table

from deuteron.arch import cores
from deuteron.arch.cores import PARTS, Work
from deuteron.board import boards, firmware_record, image, qemu
from deuteron.board.boards import Board
from deuteron.board.link import link
from deuteron.board.toolchain import Toolchain
from deuteron.operators import compressed_weights
from deuteron.operators.cortex_m import (
    DECOMPRESS_BYTES,
    QuantizedAddParams,
    QuantizedMulParams,
    QuantizedSoftmaxParams,
    RegionCopyParams,
)
from deuteron.operators.kernel_params import AveragePoolParams, KernelParams, LutParams, MaxPoolParams
from deuteron.operators.operation_counts import work_of

Weights = npt.NDArray[np.float64]

MORE_LAYERS = (
    Layer("depthwise 5x5 16, 16x16", (16, 16), (16, 16), {}, (5, 5), 1, (2, 2), depthwise=True),
    Layer("depthwise 1x1 16, 16x16", (16, 16), (16, 16), {}, depthwise=True),
    Layer("depthwise 3x3 32 /2, 16x16", (16, 16), (32, 32), {}, (3, 3), 2, (1, 1), depthwise=True),
    Layer("conv 1x1 16->16, 4x4", (4, 4), (16, 16), {}),
    Layer("linear 16->4", (0, 0), (16, 4), {}),
)
SIZES = (64, 1024, 8192)
BOARDS = ("an500", *cortex_m.BOARDS)
WORST = 0.55
"""How far the closed form may be off a count."""


@dataclass(frozen=True, slots=True)
class Words(KernelParams):
    """Parameter words of an operator without a record."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A call to count: what it is, its work, and the call."""

    name: str
    work: Work
    elements: int
    terms: int
    call: Call


@dataclass(frozen=True, slots=True)
class Result:
    """A count and the closed form."""

    case: str
    board: str
    work: str
    elements: int
    terms: int
    instructions: int
    estimate: int

    @property
    def error(self) -> float:
        """The error of the estimate, relative to the count."""
        return self.estimate / self.instructions - 1


def layers(board: Board) -> Iterator[Case]:
    """Convolutions and matrix products."""
    generator = np.random.default_rng(1)
    for layer in (*cortex_m.layers_of(board), *cortex_m.with_weights_of(MORE_LAYERS, board)):
        if layer.size[0]:
            work, call = _work(layer), cortex_m.convolution(layer, generator)
        else:
            work, call = Work.LINEAR, cortex_m.linear(layer, generator)
        elements, terms = call.expected.size, call.macs
        if layer.winograd:
            _, elements, terms = work_of(call.function, call.params, elements)
        yield Case(layer.name, work, elements, terms, call)


def _work(layer: Layer) -> Work:
    if layer.winograd:
        return Work.WINOGRAD
    if layer.depthwise:
        return Work.DEPTHWISE if layer.kernel[1] == 3 and layer.stride == 1 else Work.APART
    return Work.POINTS if layer.kernel == (1, 1) else Work.CONVOLUTION


def elementwise(size: int) -> Iterator[Case]:
    """Calls over `size` elements."""
    x, y = np.arange(size, dtype=np.int8), np.zeros(size, np.int8)
    add = QuantizedAddParams(1, 1 << 30, 0, 2, 1 << 30, 0, 3, 1 << 30, -19, -128, 127)
    scale = int(np.float32(0.05).view(np.uint32))
    table, real = np.arange(256, dtype=np.uint8).view(np.int8), np.zeros(size, np.float32)
    rows, depth = 4, size // 4
    run = RegionCopyParams(0, 0, (1, 1, 1, 1, rows, depth), (0, 0, 0, 0, depth, 1), (0, 0, 0, 0, depth, 1))
    turned = RegionCopyParams(0, 0, (1, 1, 1, 1, rows, depth), (0, 0, 0, 0, depth, 1), (0, 0, 0, 0, 1, rows))
    softmax = QuantizedSoftmaxParams(rows, depth, 1, 1 << 30, 25)
    for name, work, function, inputs, params, like in (
        ("sum", Work.SUM, "dtn_cm_quantized_add", (x, x), add, y),
        ("product", Work.PRODUCT, "dtn_cm_quantized_mul", (x, x), QuantizedMulParams(1, 2, 3, 1 << 30, -6), y),
        ("table", Work.TABLE, "dtn_cm_quantized_activation", (x, table), LutParams(size), y),
        ("softmax", Work.SOFTMAX, "dtn_cm_softmax", (x,), softmax, y),
        ("rows", Work.MOVE, "dtn_cm_copy", (x,), run, y),
        ("turned copy", Work.TRANSPOSE, "dtn_cm_copy", (x,), turned, y),
        ("transpose", Work.TRANSPOSE, "dtn_op_transpose", (x,), Words((1, rows, depth)), y),
        ("quantize", Work.QUANTIZE, "dtn_op_quantize_per_tensor", (real,), Words((scale, 0, -128, 127)), y),
        ("dequantize", Work.DEQUANTIZE, "dtn_op_dequantize_per_tensor", (x,), Words((scale, 0)), real),
    ):
        yield Case(f"{name} of {size:,}", work, size, 0, Call(function, inputs, params, None, like, 0))


def decompression() -> Iterator[Case]:
    """Weights as trained layers have them, compressed by a Huffman code."""
    for size in (600, 4096, 20_000):
        weights = np.random.default_rng(size).normal(0, 30, size).round().clip(-127, 127).astype(np.int8)
        record, stream = compressed_weights.compressed(weights.tobytes())
        _, elements, terms = work_of("dtn_cm_decompress", record, size)
        inputs = (np.frombuffer(stream, np.uint8),)
        call = Call("dtn_cm_decompress", inputs, record, DECOMPRESS_BYTES, weights, 0)
        yield Case(f"decompression of {size:,}", Work.DECODE, elements, terms, call)


def pools() -> Iterator[Case]:
    """Average and maximum of windows, and of a whole image."""
    for side, channels, window in ((16, 16, 2), (16, 16, 4), (8, 32, 8)):
        out = side // window
        shape = (1, side, side, channels, out, out, window, window, window, window, 0, 0)
        x, y = np.zeros((1, side, side, channels), np.int8), np.zeros((1, out, out, channels), np.int8)
        average = AveragePoolParams(*shape, 0, 2, 1, 0, -128, 127)
        largest = MaxPoolParams(*shape, -128, 127)
        for work, function, params, scratch in (
            (Work.AVERAGE, "dtn_cm_quantized_avg_pool2d", average, 0),
            (Work.LARGEST, "dtn_cm_quantized_max_pool2d", largest, None),
        ):
            name = f"{work.value} of {window}x{window}, {side}x{side}x{channels}"
            yield Case(name, work, y.size, x.size, Call(function, (x,), params, scratch, y, 0))


def measure(board: Board, toolchain: Toolchain) -> list[Result]:
    """A row per call."""
    cases = [*layers(board), *pools(), *decompression(), *(Case(*row) for row in added.layers())]
    cases += [case for size in SIZES for case in (*elementwise(size), *(Case(*row) for row in added.elementwise(size)))]
    maker = Maker()
    for case in cases:
        maker.add(case.call, case.name)
    bundle = replace(maker.bundle(), outputs=tuple(maker.outputs[:1]))  # the others are not read
    with tempfile.TemporaryDirectory() as scratch:
        link(bundle, board, firmware_record.FirmwareOptions(), (), toolchain, Path(scratch))
        run = qemu.run(Path(scratch), cortex_m.recorded(bundle, board), board, [[]]).runs[0]
    steps = [event.instructions for event in run.events if event.kind is qemu.EventKind.STEP]
    core = cores.load(board.cpu)
    return [
        Result(case.name, board.name, case.work.value, case.elements, case.terms, count,
               core.instructions(case.work, case.elements, case.terms) or 0)
        for case, count in zip(cases, steps, strict=True)
    ]  # fmt: skip


def fitted(results: Sequence[Result], call: int) -> Iterator[tuple[str, str, list[float]]]:
    """Per board and kind of work: instructions per element and per term, with a fixed cost per call."""
    for board, work in dict.fromkeys((result.board, result.work) for result in results):
        rows = [r for r in results if (r.board, r.work) == (board, work)]
        columns = [[r.elements for r in rows], *([[r.terms for r in rows]] if any(r.terms for r in rows) else [])]
        weights = np.array([1 / r.instructions for r in rows])
        wanted = np.array([r.instructions - call for r in rows])
        found = _line(columns, weights, wanted)
        if min(found) < 0:
            found = [*_line(columns[:1], weights, wanted), 1 / PARTS]  # terms that cost nothing
        yield board, work, found


def _line(columns: list[list[int]], weights: Weights, wanted: Weights) -> list[float]:
    """Solve for the factors of the columns by weighted least squares."""
    found = np.linalg.lstsq(np.array(columns).T * weights[:, None], wanted * weights, rcond=None)[0]
    return [float(number) for number in found]


def results(_: argparse.Namespace) -> Results:
    """All calls on all boards, and the figures that fit them."""
    toolchain = Toolchain.find(image.OBJECTS)
    rows = [row for name in BOARDS for row in measure(boards.load(name), toolchain)]
    columns = {"call": "case", "board": "board", "work": "work", "elements": "elements", "terms": "terms"}
    columns |= {"counted": "instructions", "estimate": "estimate", "error": "error:.0%"}
    figures = fitted(rows, cores.load("cortex-m33").call.value)
    fit = {
        "board": lambda f: f[0],
        "work": lambda f: f[1],
        "figures, 1/1000": lambda f: [f"{PARTS * n:.0f}" for n in f[2]],
    }
    wrong = [f"{r.case} on {r.board}: the estimate is off by {r.error:.0%}" for r in rows if abs(r.error) > WORST]
    tables = [table(rows, columns), table(figures, fit, "fitted")]
    return Results("counted", rows, tables, wrong, data={"compiler": toolchain.version})


if __name__ == "__main__":
    sys.exit(main(results))

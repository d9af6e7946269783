"""Instructions of the Cortex-M operators other than layers: elementwise operators and pools.

As `cortex_m.py`, with shapes of MLPerf Tiny's networks. Published counts of CMSIS-NN are the bar: sums (77.8
instructions per element on a Cortex-M33, 13.8 on a Cortex-M55), the average pool, and the stem. The network ds_cnn
lowers the stem as a depthwise layer of one channel, and bundles make a convolution of it.

make bench-cortex-m-elements
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cortex_m
import numpy as np
from cortex_m import Call, Layer, Maker
from harness import Results, main, table

from deuteron.board import boards, firmware_record, image, qemu
from deuteron.board.boards import Board
from deuteron.board.link import link
from deuteron.board.operators import lower
from deuteron.board.operators.lowering import Argument, Tensor
from deuteron.board.toolchain import Toolchain
from deuteron.operators.cortex_m import (
    PadParams,
    QuantizedAddParams,
    QuantizedMulParams,
    QuantizedSoftmaxParams,
)
from deuteron.operators.kernel_params import AveragePoolParams, KernelParams, LutParams, MaxPoolParams
from deuteron.runtime.program import Constant, Place, TensorSpec, TensorValue

STEM = "1->64 10x4 as ds_cnn lowers it"
PEERS: dict[str, dict[str, float]] = {
    "add, 32x32x16": {"an505": 77.8 * 16384, "an547": 13.8 * 16384},
    "average pool, 25x5x64": {"an505": 50994, "an547": 9358},
    STEM: {"an505": 1105766, "an547": 289051},
}


@dataclass(frozen=True, slots=True)
class Words(KernelParams):
    """Parameter words of an operator without a record."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A call on a board: instructions of ours and of CMSIS-NN, if it has any; whether the output is right."""

    call: str
    board: str
    elements: int
    instructions: int
    cmsis_nn: int | None
    right: bool

    def problems(self) -> list[str]:
        """Return the broken bounds."""
        found = [] if self.right else ["the output is wrong"]
        if self.cmsis_nn is not None and self.instructions > self.cmsis_nn:
            found.append(f"{self.instructions:,} instructions, CMSIS-NN takes {self.cmsis_nn:,}")
        return [f"{self.call} on {self.board}: {problem}" for problem in found]


def rounded(values: cortex_m.Whole, multiplier: int, shift: int) -> cortex_m.Whole:
    """Values times a factor with a shift to the right, rounded twice."""
    high = (values * multiplier + (1 << 30)) >> 31
    half = 1 << -shift - 1 if shift else 0
    return np.where(high < 0, -((-high + half) >> -shift), (high + half) >> -shift)


def tensor(index: int, like: cortex_m.Array, order: Sequence[int], *, constant: bool) -> Tensor:
    """A tensor of a program."""
    data = like.tobytes()
    content = Constant(data, 0, len(data)) if constant else None
    place = None if constant else Place(1, 0)
    spec = TensorSpec(like.shape, like.dtype.name, tuple(order))
    return Tensor(index, TensorValue(spec, len(data), place, content, dynamic=False, external=False))


def lowered(operator: str, args: Sequence[Argument], data: Sequence[cortex_m.Array], expected: cortex_m.Array) -> Call:
    """The call that a bundle makes of an operator; tensors have the index of their data."""
    (call,) = lower(operator, args)
    inputs: list[cortex_m.Array] = []
    for value in call.inputs:
        if value.index is None and value.value.constant:
            kept = np.frombuffer(value.value.constant.data, np.dtype(value.spec.dtype))
            inputs.append(kept.reshape(value.spec.shape))
        else:
            inputs.append(data[value.index or 0])
    scratch = call.outputs[0].bytes if len(call.outputs) > 1 else None
    return Call(call.function, tuple(inputs), Words(call.params), scratch, expected, 0)


def stem(generator: np.random.Generator) -> Call:
    """The first layer of ds_cnn: depthwise by name, with no scratch memory planned."""
    layer = Layer(STEM, (49, 10), (1, 64), {}, (10, 4), 2, (5, 1))
    call = cortex_m.convolution(layer, generator)
    x, rows, multipliers, shifts, sums = call.inputs
    bias = (sums - 5 * rows.reshape(64, -1).sum(axis=1)).astype(np.int32)
    stored = np.ascontiguousarray(rows.reshape(64, 10, 4, 1).transpose(3, 1, 2, 0))
    data = (x, stored, bias, multipliers, shifts)
    values = [tensor(i, array, range(array.ndim), constant=i > 0) for i, array in enumerate(data)]
    y = tensor(5, call.expected[None], range(4), constant=False)
    scratch = tensor(6, np.zeros(0, np.uint8), (0,), constant=False)
    numbers = ((2, 2), (5, 1), (1, 1), 64, 5, -3, values[3], values[4], -128, 127, scratch, y, y)
    args = (values[0], values[1], values[2], *numbers)
    return lowered("cortex_m::quantized_depthwise_conv2d_nhwc.out", args, data, call.expected)


def softmax(x: cortex_m.Array) -> Call:
    """A softmax of rows, whose steps are 1/16."""
    params = QuantizedSoftmaxParams(*x.shape, 1, 1 << 30, 57 - 34)
    powers = np.exp((x - x.max(axis=1, keepdims=True).astype(np.float64)) / 16)
    shares = np.rint(256 * powers / powers.sum(axis=1, keepdims=True))
    expected = np.clip(shares - 128, -128, 127).astype(np.int8)
    return Call("dtn_cm_softmax", (x,), params, None, expected, 0)


def calls(generator: np.random.Generator) -> Iterator[tuple[str, Call]]:
    """Each with its name."""
    size = 16384
    a, b = (generator.integers(-128, 128, size).astype(np.int8) for _ in range(2))
    wide = a.astype(np.int64), b.astype(np.int64)
    multiplier, shift = 1518500250, -1
    both = (wide[0] - 3 << 19) + rounded(wide[1] + 7 << 20, multiplier, shift)
    total = np.clip(rounded(both, 1431655765, -19) - 5, -128, 127).astype(np.int8)
    add = QuantizedAddParams(3, 1 << 30, 0, -7, multiplier, shift, -5, 1431655765, -19, -128, 127)
    yield "add, 32x32x16", Call("dtn_cm_quantized_add", (a, b), add, None, total, 0)
    product = np.clip(rounded((wide[0] - 3) * (wide[1] + 7), multiplier, -7) - 5, -128, 127).astype(np.int8)
    mul = QuantizedMulParams(3, -7, -5, multiplier, -7)
    yield "mul, 32x32x16", Call("dtn_cm_quantized_mul", (a, b), mul, None, product, 0)
    table = generator.integers(-128, 128, 256).astype(np.int8)
    found = table[wide[0] + 128]
    yield "table, 32x32x16", Call("dtn_cm_quantized_activation", (a, table), LutParams(size), None, found, 0)
    x = generator.integers(-128, 128, (1, 25, 5, 64)).astype(np.int8)
    whole = (1, 25, 5, 64, 1, 1, 25, 5, 1, 1, 0, 0)
    mean = np.rint(x.mean(axis=(1, 2), dtype=np.float64)).astype(np.int8)
    average = AveragePoolParams(*whole, -3, 2, 1, -3, -128, 127)
    yield "average pool, 25x5x64", Call("dtn_cm_quantized_avg_pool2d", (x,), average, 0, mean, 0)
    image_of = a.reshape(1, 32, 32, 16)
    largest = image_of.reshape(1, 16, 2, 16, 2, 16).max(axis=(2, 4))
    pool = MaxPoolParams(1, 32, 32, 16, 16, 16, 2, 2, 2, 2, 0, 0, -128, 127)
    yield "max pool 2x2, 32x32x16", Call("dtn_cm_quantized_max_pool2d", (image_of,), pool, None, largest, 0)
    real = generator.normal(0, 2, (1, 3, 96, 96)).astype(np.float32)
    inverse = np.float32(1) / np.float32(0.05)
    stored = np.clip(np.rint(real * inverse) - 4, -128, 127).astype(np.int8)
    scale = int(np.float32(0.05).view(np.uint32))
    words = Words((scale, -4 & 0xFFFFFFFF, -128 & 0xFFFFFFFF, 127))
    yield "quantize, 96x96x3", Call("dtn_op_quantize_per_tensor", (real,), words, None, stored, 0)
    back = (a[:640].astype(np.float32) + np.float32(4)) * np.float32(0.05)
    words = Words((scale, -4 & 0xFFFFFFFF))
    yield "dequantize, 640", Call("dtn_op_dequantize_per_tensor", (a[:640],), words, None, back, 0)
    turned = np.ascontiguousarray(stored.transpose(0, 2, 3, 1))
    to = tensor(1, stored, (0, 2, 3, 1), constant=False)
    args = (tensor(0, stored, range(4), constant=False), False, (0, 2, 3, 1), to, to)
    yield "layout copy, 96x96x3", lowered("dim_order_ops::_clone_dim_order.out", args, (stored,), turned)
    padded = np.pad(image_of, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-5)
    pad = PadParams((1, 32, 32, 16), (0, 1, 1, 0), (0, 1, 1, 0), -5)
    yield "pad by 1, 32x32x16", Call("dtn_cm_pad", (image_of,), pad, None, padded, 0)
    matrix = a.reshape(64, 256)
    turn = Words((1, *matrix.shape))
    yield "transpose, 64x256", Call("dtn_op_transpose", (matrix,), turn, None, np.ascontiguousarray(matrix.T), 0)
    yield "softmax, 10", softmax(a[:10].reshape(1, 10))
    yield "softmax, 64 of 64", softmax(b[:4096].reshape(64, 64))
    yield STEM, stem(generator)


def measure(board: Board, toolchain: Toolchain) -> list[Result]:
    """A row per call."""
    maker = Maker()
    named = list(calls(np.random.default_rng(1)))
    for name, call in named:
        maker.add(call, name)
    bundle = maker.bundle()
    with tempfile.TemporaryDirectory() as scratch:
        link(bundle, board, firmware_record.FirmwareOptions(), (), toolchain, Path(scratch))
        run = qemu.run(Path(scratch), cortex_m.recorded(bundle, board), board, [[]]).runs[0]
    steps = [event.instructions for event in run.events if event.kind is qemu.EventKind.STEP]
    return [
        Result(
            name, board.name, call.expected.size, count,
            round(PEERS[name][board.name]) if name in PEERS else None,
            np.array_equal(found.ravel(), call.expected.ravel()),
        )
        for (name, call), count, found in zip(named, steps, run.outputs, strict=True)
    ]  # fmt: skip


def results(_: argparse.Namespace) -> Results:
    """All calls on both boards."""
    toolchain = Toolchain.find(image.OBJECTS)
    rows = [row for name in cortex_m.BOARDS for row in measure(boards.load(name), toolchain)]
    columns = {"call": "call", "board": "board", "instructions": "instructions"}
    columns |= {"per element": lambda r: f"{r.instructions / r.elements:.2f}", "CMSIS-NN": "cmsis_nn", "right": "right"}
    data = {"compiler": toolchain.version}
    return Results(
        "counted", rows, [table(rows, columns)], [problem for row in rows for problem in row.problems()], data=data
    )


if __name__ == "__main__":
    sys.exit(main(results))

"""Instructions of the Cortex-M operators, layer by layer, against CMSIS-NN's.

Layers are those of MLPerf Tiny's networks and some more, in images made like any other: operators with -O3, the rest
with -Os. The emulator counts instructions. CMSIS-NN is commit 99f736a6 of 2026-07-15, with the same compiler and -O3:
DSP instructions on the Cortex-M33 and vectors on the Cortex-M55. The last column is plain C that gathers windows and
computes four channels at a time. No layer may exceed the bar of its board, a share of CMSIS-NN's instructions, nor may
the geometric mean of the shares. Layers with packed weights of four bits have a bar of their own: a share of the int8
layer's instructions. Outputs must equal integer arithmetic in NumPy. Cycles are estimated.

make bench-cortex-m
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean

import cortex_m_cycles
import numpy as np
import numpy.typing as npt
from cortex_m_cycles import Counter, disassembled, estimate
from harness import Results, main, table

from deuteron.arch import cores
from deuteron.arch.cores import InnerWork
from deuteron.board import boards, firmware_record, image, qemu
from deuteron.board.boards import Board
from deuteron.board.bundle import MEMORY_CONSTANT, Bundle, ElementType, Memory, Step, StepKind, Value
from deuteron.board.flash import Flash
from deuteron.board.link import link
from deuteron.board.size import Sizes
from deuteron.board.stack import Bound
from deuteron.board.toolchain import Toolchain
from deuteron.operators import interleaved_weights, packed_weights, winograd
from deuteron.operators.cortex_m import (
    InterleavedConvolutionParams,
    InterleavedLinearParams,
    PackedConvolutionParams,
    PackedLinearParams,
    QuantizedConvolutionParams,
    QuantizedLinearParams,
    WinogradConvolutionParams,
    winograd_bytes,
)
from deuteron.operators.kernel_params import KernelParams

Array = npt.NDArray[np.generic]
Whole = npt.NDArray[np.int64]
Pair = tuple[int, int]

TYPES = {
    "int8": ElementType.S8,
    "int16": ElementType.S16,
    "int32": ElementType.S32,
    "int64": ElementType.S64,
    "uint8": ElementType.U8,
    "float32": ElementType.F32,
    "bool": ElementType.BOOL,
}
BOARDS = ("an505", "an547")


@dataclass(frozen=True, slots=True)
class Bar:
    """The largest share of CMSIS-NN's instructions that a layer may take, and that of the geometric mean.

    `packed` is the largest share of the int8 layer's instructions that a layer with packed weights may take.
    """

    layer: float
    mean: float
    packed: float


BARS = {"an505": Bar(0.85, 0.43, 1.95), "an547": Bar(0.80, 0.42, 1.30)}


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of a network.

    Attributes:
        name: what it is, and the network.
        size: of its input; (0, 0) for a fully connected layer.
        channels: of input and output.
        peers: per board, instructions of CMSIS-NN and of the plain C, where they have been counted.
    """

    name: str
    size: Pair
    channels: Pair
    peers: dict[str, Pair] = field(default_factory=dict[str, Pair])
    kernel: Pair = (1, 1)
    stride: int = 1
    pad: Pair = (0, 0)
    depthwise: bool = False
    winograd: bool = False
    """By Winograd's algorithm, which only cores with DSP instructions have."""
    passes: Pair = (0, 0)
    """With weights that are transformed in each run: of so many channels at a time; and 1 if inputs are kept."""
    interleaved: bool = False
    """With interleaved weights if they are faster, which bundles for cores with DSP instructions have."""
    bits: int = 8
    """Bits of a weight; weights of 4 bits are packed, those of 16 bits interleaved."""


def peers(m33: Pair, m55: Pair) -> dict[str, Pair]:
    """The peers' instructions by board."""
    return dict(zip(BOARDS, (m33, m55), strict=True))


THREE, ONE = (3, 3), (1, 1)
LAYERS = (
    Layer("conv 3x3 3->8 /2, 96x96 (VWW)", (96, 96), (3, 8), peers((3036863, 3413347), (990662, 3300321)),
          THREE, 2, ONE),
    Layer("conv 3x3 3->16, 32x32 (ResNet8)", (32, 32), (3, 16), peers((2122845, 2551901), (599476, 2452242)),
          THREE, 1, ONE),
    Layer("conv 3x3 16->16, 32x32 (ResNet8)", (32, 32), (16, 16), peers((5493878, 7896683), (914864, 7315919)),
          THREE, 1, ONE),
    Layer("conv 3x3 32->64 /2, 16x16 (ResNet8)", (16, 16), (32, 64), peers((2190046, 3572913), (279610, 3262846)),
          THREE, 2, ONE),
    Layer("conv 10x4 1->64 /2, 49x10 (DS-CNN)", (49, 10), (1, 64), peers((1105766, 1525617), (289051, 1449217)),
          (10, 4), 2, (5, 1)),
    Layer("conv 1x1 64->64, 25x5 (DS-CNN)", (25, 5), (64, 64), peers((1064903, 1847544), (202885, 1721608))),
    Layer("conv 1x1 8->16, 48x48 (VWW)", (48, 48), (8, 16), peers((1945727, 2840062), (641836, 2791667))),
    Layer("conv 1x1 128->128, 6x6 (VWW)", (6, 6), (128, 128), peers((1076871, 1930353), (166439, 1770457))),
    Layer("depthwise 3x3 8, 48x48 (VWW)", (48, 48), (8, 8), peers((1627545, 2996917), (863821, 2853246)),
          THREE, 1, ONE, depthwise=True),
    Layer("depthwise 3x3 64, 25x5 (DS-CNN)", (25, 5), (64, 64), peers((593948, 937572), (166882, 854092)),
          THREE, 1, ONE, depthwise=True),
    Layer("depthwise 3x3 128, 6x6 (VWW)", (6, 6), (128, 128), peers((331328, 510760), (96110, 463910)),
          THREE, 1, ONE, depthwise=True),
    Layer("linear 640->128 (AD)", (0, 0), (640, 128), peers((160045, 561404), (40160, 459616))),
    Layer("linear 128->128 (AD)", (0, 0), (128, 128), peers((37165, 119017), (9439, 99151))),
    Layer("linear 64->10 (ResNet8)", (0, 0), (64, 10), peers((1832, 5402), (717, 4562))),
    Layer("depthwise 3x3 128 /2, 6x6", (6, 6), (128, 128), {}, THREE, 2, ONE, depthwise=True),
    Layer("depthwise 3x3 256, 3x3", (3, 3), (256, 256), {}, THREE, 1, ONE, depthwise=True),
    Layer("conv 3x3 256->256, 3x3", (3, 3), (256, 256), {}, THREE, 1, ONE),
    Layer("conv 3x3 16->16, 32x32, Winograd", (32, 32), (16, 16), {"an505": (5493878, 7896683)},
          THREE, 1, ONE, winograd=True),
    Layer("conv 3x3 32->32, 16x16, Winograd", (16, 16), (32, 32), {}, THREE, 1, ONE, winograd=True),
    Layer("conv 3x3 64->64, 8x8, Winograd", (8, 8), (64, 64), {}, THREE, 1, ONE, winograd=True),
    Layer("conv 3x3 5->7, 9x9, Winograd", (9, 9), (5, 7), {}, THREE, 1, ONE, winograd=True),
    *(
        Layer(f"conv 3x3 {c}->{c}, {side}x{side}, Winograd, weights of {passes[0]} channels in each run",
              (side, side), (c, c), {}, THREE, 1, ONE, winograd=True, passes=passes)
        for c, side, passes in ((16, 32, (16, 0)), (16, 32, (6, 0)), (32, 16, (3, 1)), (64, 8, (2, 1)))
    ),
    Layer("conv 1x1 24->144, 28x28", (28, 28), (24, 144)),
    Layer("conv 1x1 16->32 /2, 32x32", (32, 32), (16, 32), {}, (1, 1), 2),
)  # fmt: skip

PACKED = tuple(replace(layer, name=f"{layer.name}, 4 bits", peers={}, bits=4) for layer in LAYERS if not layer.winograd)
"""The same layers with packed weights of four bits."""

UNPACKED = tuple(
    replace(layer, name=f"{layer.name}, 16 bits", peers={}, bits=16)
    for layer in LAYERS
    if layer.size[0] and not layer.winograd and not layer.depthwise and layer.channels != (256, 256)
)
"""The same layers with interleaved weights of 16 bits, which only cores with DSP instructions have."""


@dataclass(frozen=True, slots=True)
class Call:
    """The call of a layer, and the output that it must give."""

    function: str
    inputs: tuple[Array, ...]
    params: KernelParams
    scratch: int | None
    expected: Array
    macs: int


def requantized(sums: Whole, multipliers: Array, shifts: Array, offset: int) -> Array:
    """int8 outputs of sums, channels last, with right shifts only: rounded after the product, and after the shift."""
    high = (sums * multipliers.astype(np.int64) + (1 << 30)) >> 31
    powers = np.int64(1) << -shifts.astype(np.int64)
    rounded = np.where(high < 0, -((-high + powers // 2) // powers), (high + powers // 2) // powers)
    return np.clip(rounded + offset, -128, 127).astype(np.int8)


def convolution(layer: Layer, generator: np.random.Generator) -> Call:
    """The call of a convolution, with the scratch memory that ExecuTorch plans at least, and with a kernel sum."""
    (in_h, in_w), (in_c, out_c), (kernel_h, kernel_w) = layer.size, layer.channels, layer.kernel
    out_h, out_w = (
        (n + 2 * p - k) // layer.stride + 1 for n, p, k in zip(layer.size, layer.pad, layer.kernel, strict=True)
    )
    groups = in_c if layer.depthwise else 1
    seen = in_c // groups
    in_offset, out_offset = 5, -3
    x = generator.integers(-128, 128, (1, in_h, in_w, in_c)).astype(np.int8)
    most = 7 if layer.bits == 4 else 127
    weights = generator.integers(-most, most + 1, (out_c, kernel_h, kernel_w, seen)).astype(np.int8)
    bias = generator.integers(-3000, 3000, out_c).astype(np.int32)
    multipliers = generator.integers(1 << 30, 1 << 31, out_c).astype(np.int32)
    products = kernel_h * kernel_w * seen
    shifts = (generator.integers(-1, 2, out_c) - int(np.log2(64 * np.sqrt(products)))).astype(np.int32)
    padded = np.pad(x[0].astype(np.int64) + in_offset, ((layer.pad[0],) * 2, (layer.pad[1],) * 2, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, layer.kernel, (0, 1))[:: layer.stride, :: layer.stride]
    equation = "hwcyx,cyxi->hwc" if layer.depthwise else "hwiyx,cyxi->hwc"
    sums = np.einsum(equation, windows, weights.astype(np.int64)) + bias
    folded = (bias + in_offset * weights.sum(axis=(1, 2, 3), dtype=np.int64)).astype(np.int32)
    params = QuantizedConvolutionParams(
        1, in_h, in_w, in_c, out_h, out_w, out_c, groups, kernel_h, kernel_w, layer.stride, layer.stride, *layer.pad,
        1, 1, in_offset, out_offset, -128, 127, int(layer.depthwise), int(not layer.depthwise),
    )  # fmt: skip
    stored = np.ascontiguousarray(weights.transpose(1, 2, 3, 0)) if layer.depthwise else weights
    expected = requantized(sums, multipliers, shifts, out_offset)
    macs = out_h * out_w * out_c * products
    if layer.interleaved and not layer.winograd and not layer.depthwise and interleaved_weights.fits(params):
        own = InterleavedConvolutionParams(*astuple(params))
        pairs: Array = interleaved_weights.interleaved(weights.reshape(out_c, kernel_h, -1))
        if layer.bits == 16:
            pairs = interleaved_weights.of_16_bits(pairs)
        return Call("dtn_cm_interleaved_conv2d", (x, pairs, multipliers, shifts, folded), own, 0, expected, macs)
    if layer.winograd:
        channels, keeps_tiles = layer.passes
        own = replace(WinogradConvolutionParams(*astuple(params)), channels=channels, keeps_tiles=keeps_tiles)
        inputs = (x, weights if own.channels else winograd.transformed(weights), multipliers, shifts, folded)
        return Call("dtn_cm_winograd_conv2d", inputs, own, winograd_bytes(own), expected, macs)
    function = "dtn_cm_quantized_depthwise_conv2d" if layer.depthwise else "dtn_cm_quantized_conv2d"
    if layer.bits == 4:
        function, params = f"{function}_s4", PackedConvolutionParams(*astuple(params))
        stored = packed(stored.reshape(packed_weights.rows_of(params, depthwise=layer.depthwise)))
    return Call(
        function,
        (x, stored, multipliers, shifts, bias if layer.depthwise else folded),
        params,
        0 if layer.depthwise or layer.kernel == (1, 1) else 4 * products,
        expected,
        macs,
    )


def packed(rows: npt.NDArray[np.int8]) -> Array:
    """Return weights [groups, rows, elements] packed to four bits."""
    data = packed_weights.packed(rows)
    if data is None:
        raise ValueError("the weights need more than four bits")
    return data


def linear(layer: Layer, generator: np.random.Generator) -> Call:
    """The call of a fully connected layer, with a kernel sum as bundles have it."""
    features, outputs = layer.channels
    in_offset, out_offset = 5, -3
    x = generator.integers(-128, 128, (1, features)).astype(np.int8)
    most = 7 if layer.bits == 4 else 127
    weights = generator.integers(-most, most + 1, (outputs, features)).astype(np.int8)
    bias = generator.integers(-3000, 3000, outputs).astype(np.int32)
    multiplier, shift = int(generator.integers(1 << 30, 1 << 31)), -int(np.log2(64 * np.sqrt(features)))
    folded = (bias + in_offset * weights.sum(axis=1, dtype=np.int64)).astype(np.int32)
    sums = x.astype(np.int64) @ weights.T.astype(np.int64) + folded
    params = QuantizedLinearParams(
        1,
        features,
        outputs,
        in_offset,
        0,
        out_offset,
        multiplier,
        shift,
        -128,
        127,
        0,
        1,
    )
    expected = requantized(sums, np.array([multiplier]), np.array([shift]), out_offset)
    macs = features * outputs
    if layer.interleaved and interleaved_weights.fits(params):
        pairs = interleaved_weights.interleaved(weights[:, None])
        own = InterleavedLinearParams(*astuple(params))
        return Call("dtn_cm_interleaved_linear", (x, pairs, folded), own, None, expected, macs)
    if layer.bits == 4:
        own = PackedLinearParams(*astuple(params))
        return Call("dtn_cm_quantized_linear_s4", (x, packed(weights), folded), own, None, expected, macs)
    return Call("dtn_cm_quantized_linear", (x, weights, folded), params, None, expected, macs)


@dataclass(slots=True)
class Maker:
    """Makes a bundle of calls: their inputs are constants, and their outputs follow each other in memory."""

    values: list[Value] = field(default_factory=list)
    constants: list[bytes] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    memory: int = 0

    def _value(self, like: Array, place: int, offset: int, note: str) -> int:
        order = tuple(range(like.ndim))
        self.values.append(Value(place, offset, like.nbytes, TYPES[like.dtype.name], like.shape, order, note))
        return len(self.values) - 1

    def _constant(self, data: Array) -> int:
        self.constants.append(data.tobytes())
        return self._value(data, MEMORY_CONSTANT + len(self.constants) - 1, 0, "a constant")

    def _written(self, like: Array) -> int:
        offset = self.memory
        self.memory += -(-like.nbytes // 16) * 16
        return self._value(like, 0, offset, "what a step writes")

    def add(self, call: Call, title: str) -> None:
        """Adds a step."""
        if call.function not in self.operators:
            self.operators.append(call.function)
        inputs = tuple(self._constant(data) for data in call.inputs)
        scratch = () if call.scratch is None else (self._written(np.zeros(call.scratch, np.uint8)),)
        self.outputs.append(self._written(call.expected))
        words = tuple(word & 0xFFFFFFFF for word in call.params.words())
        index = self.operators.index(call.function)
        outputs, number = (*scratch, self.outputs[-1]), len(self.steps)
        self.steps.append(Step(StepKind.OPERATOR, index, inputs, outputs, words, title, "", number))

    def bundle(self) -> Bundle:
        """The bundle."""
        return Bundle(
            "layers", tuple(self.values), tuple(self.steps), (), tuple(self.outputs),
            (Memory(self.memory, "what steps write"), Memory(0, "no delegates")), tuple(self.operators),
            tuple(self.constants), (),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """A layer on a board: counted instructions of ours, and where they are known of CMSIS-NN and of the plain C.

    Attributes:
        cycles: of ours, estimated.
    """

    layer: str
    board: str
    macs: int
    instructions: int
    cycles: int
    cmsis_nn: int | None
    plain_c: int | None
    right: bool

    @property
    def share(self) -> float | None:
        """The share of CMSIS-NN's instructions."""
        return None if self.cmsis_nn is None else self.instructions / self.cmsis_nn

    @property
    def most(self) -> int | None:
        """Instructions that are allowed."""
        return None if self.cmsis_nn is None else int(BARS[self.board].layer * self.cmsis_nn)

    def problems(self) -> list[str]:
        """Return the broken bounds."""
        found = [] if self.right else ["the output is wrong"]
        if self.most is not None and self.instructions > self.most:
            found.append(f"{self.instructions:,} instructions, {self.most:,} are allowed")
        return [f"{self.layer} on {self.board}: {problem}" for problem in found]


def mean_share(results: Sequence[Result]) -> float:
    """The geometric mean of the shares of CMSIS-NN's instructions."""
    return geometric_mean(share for result in results if (share := result.share) is not None)


@dataclass(frozen=True, slots=True)
class Compared:
    """A layer with packed weights of four bits, and the same with int8 weights."""

    layer: str
    board: str
    int8: int
    int4: int

    @property
    def share(self) -> float:
        """The share of the int8 layer's instructions."""
        return self.int4 / self.int8


def compared(results: Sequence[Result]) -> list[Compared]:
    """Layers with weights of either form."""
    plain = {(result.layer, result.board): result.instructions for result in results}
    return [
        Compared(layer.name, board, plain[layer.name, board], plain[four.name, board])
        for four in PACKED
        for layer in LAYERS
        for board in BOARDS
        if four.name == f"{layer.name}, 4 bits" and (four.name, board) in plain
    ]


def problems(results: Sequence[Result]) -> list[str]:
    """Return the broken bounds of layers and of their means."""
    found = [problem for result in results for problem in result.problems()]
    found += [
        f"{pair.layer} on {pair.board}: 4 bits take {pair.share:.2f} of the instructions, {most} are allowed"
        for pair in compared(results)
        if pair.share > (most := BARS[pair.board].packed)
    ]
    for board, bar in BARS.items():
        own = [result for result in results if result.board == board]
        if own and mean_share(own) > bar.mean:
            found.append(f"{board}: {mean_share(own):.3f} of CMSIS-NN's instructions, {bar.mean} are allowed")
    return found


def recorded(bundle: Bundle, board: Board) -> firmware_record.Firmware:
    """The part of an image's record that an emulator's run needs; the rest is empty."""
    return firmware_record.Firmware(
        deuteron="", compiler="", board=board.name, options=firmware_record.FirmwareOptions(), model=bundle.name,
        program_sha256="", tables_crc=0, weights="", arenas="", kernels=(), inputs=(),
        outputs=tuple(bundle.values[i] for i in bundle.outputs),
        steps=tuple(firmware_record.StepInfo(step.title, step.source) for step in bundle.steps),
        memories=bundle.memories, state=None, regions=(),
        sizes=Sizes((), {}, 0, 0), stack=Bound(0, 0, (), (), ()), flash=Flash(0, 1), files={},
    )  # fmt: skip


def measure(board: Board, toolchain: Toolchain) -> list[Result]:
    """A row per layer."""
    generator = np.random.default_rng(1)
    own = layers_of(board)
    unpacked = with_weights_of(UNPACKED, board) if has_dsp(board) else []
    parts = [layers[at : at + MOST] for layers in (own, PACKED, unpacked) for at in range(0, len(layers), MOST)]
    return [row for layers in parts for row in _image(layers, board, toolchain, generator)]


def layers_of(board: Board) -> Sequence[Layer]:
    """Return the layers that the board's core has inner loops for."""
    return with_weights_of([layer for layer in LAYERS if not layer.winograd or has_dsp(board)], board)


def with_weights_of(layers: Sequence[Layer], board: Board) -> list[Layer]:
    """Return the layers with the weights that bundles for the board have."""
    return [replace(layer, interleaved=has_dsp(board)) for layer in layers]


def has_dsp(board: Board) -> bool:
    """Return true if the board's core has inner loops with DSP instructions."""
    return cores.load(board.cpu).inner is InnerWork.DSP


MOST = 12
"""Layers of an image, which has up to 16 outputs."""


def _image(layers: Sequence[Layer], board: Board, toolchain: Toolchain, generator: np.random.Generator) -> list[Result]:
    """The rows of layers that share an image: it has up to 16 outputs."""
    calls = [convolution(layer, generator) if layer.size[0] else linear(layer, generator) for layer in layers]
    maker = Maker()
    for layer, call in zip(layers, calls, strict=True):
        maker.add(call, layer.name)
    bundle = maker.bundle()
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        link(bundle, board, firmware_record.FirmwareOptions(), (), toolchain, work)
        counter = Counter(work / firmware_record.ELF, work)
        run = qemu.run(work, recorded(bundle, board), board, [[]], options=counter.options).runs[0]
        code = disassembled(work / firmware_record.ELF)
        counts = counter.steps(len(layers), len(bundle.outputs))
        cycles = [estimate(board.cpu, code, step) for step in counts]
    steps = [event.instructions for event in run.events if event.kind is qemu.EventKind.STEP]
    return [
        Result(
            layer.name, board.name, call.macs, count, estimated, *layer.peers.get(board.name, (None, None)),
            np.array_equal(found.ravel(), call.expected.ravel()),
        )
        for layer, call, count, estimated, found in zip(layers, calls, steps, cycles, run.outputs, strict=True)
    ]  # fmt: skip


def results(_: argparse.Namespace) -> Results:
    """All layers on both boards, and the check of the cycle model."""
    toolchain = Toolchain.find(image.OBJECTS)
    rows = [row for name in BOARDS for row in measure(boards.load(name), toolchain)]
    columns = {"layer": "layer", "board": "board", "instructions": "instructions"}
    columns |= {"per MAC": lambda r: f"{r.instructions / r.macs:.2f}", "cycles": "cycles", "CMSIS-NN": "cmsis_nn"}
    columns |= {"ratio": "share:.2f", "plain C": "plain_c", "right": "right"}
    notes = [
        f"geometric mean on {name}: {mean_share([r for r in rows if r.board == name]):.3f} of CMSIS-NN's instructions"
        for name in BOARDS
    ]
    four = {"layer": "layer", "board": "board", "8 bits": "int8", "4 bits": "int4", "ratio": "share:.2f"}
    tables = [table(rows, columns), table(compared(rows), four), cortex_m_cycles.report()]
    silicon = [asdict(row) for row in cortex_m_cycles.PUBLISHED]
    data = {"compiler": toolchain.version, "silicon": silicon}
    return Results("counted; cycles are estimated", rows, tables, problems(rows), notes, data)


if __name__ == "__main__":
    sys.exit(main(results))

"""Some rows of what an operator writes, computed from the rows that they depend on alone: those of the whole call."""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import cast

import numpy as np
import pytest
from tests.cortex_m.convolutions import Call, factors, random_conv, random_depthwise, random_transposed
from tests.cortex_m.operator_library import Array, OperatorLibrary
from tests.cortex_m.test_custom_ops import resize_bilinear
from tests.cortex_m.test_pools import axis

from deuteron.board.row_dependencies import COPY, CPU, DECOMPRESS, ELEMENTWISE, RECORDS, CpuParams, Words
from deuteron.operators import interleaved_weights, packed_weights, winograd
from deuteron.operators.cortex_m import (
    InterleavedConvolutionParams,
    InterleavedLinearParams,
    PackedConvolutionParams,
    PackedLinearParams,
    PadParams,
    QuantizedAddParams,
    QuantizedLinearParams,
    QuantizedSoftmaxParams,
    RegionCopyParams,
    WinogradConvolutionParams,
    winograd_bytes,
)
from deuteron.operators.kernel_params import (
    AveragePoolParams,
    CopyParams,
    ExtremumParams,
    KernelParams,
    LutParams,
    MaxPoolParams,
    ResizeBilinearParams,
)

SEEDS = range(12)
Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class Case:
    """A call, the bytes of a row of its output, and what it reads; scratch memory is empty or has some bytes."""

    function: str
    record: KernelParams
    nbytes: int
    inputs: Sequence[Array]
    size: int
    scratch: int = 0
    element: type[np.generic] = np.int8
    scratch_bytes: int = 0

    def params(self) -> CpuParams:
        """The call as chains know it."""
        sizes = (*(x.nbytes for x in self.inputs), self.size, *[0] * self.scratch)
        return CpuParams(self.function, self.record, sizes, len(self.inputs))

    def run(self, c_operators: OperatorLibrary, params: CpuParams, inputs: Sequence[bytes]) -> bytes:
        """The output of a part of the call."""
        arrays = [np.frombuffer(data, x.dtype) for data, x in zip(inputs, self.inputs, strict=True)]
        output = np.zeros(params.sizes[params.output] // np.dtype(self.element).itemsize, self.element)
        words = (0, *params.words()) if self.function == COPY else params.words()
        scratch = [np.zeros(self.scratch_bytes, np.uint8)] * self.scratch
        return c_operators.call(self.function, words, arrays, scratch, output).tobytes()


def _convolution(call: Call, scratch: int = 1) -> Case:
    p = replace(call.params, batches=1)
    inputs = (call.input[:1], call.weights, call.multipliers, call.shifts, *([] if call.bias is None else [call.bias]))
    return Case(f"dtn_cm_{call.operator}", p, p.out_w * p.out_c, inputs, p.out_h * p.out_w * p.out_c, scratch)


def _packed(rng: Rng) -> Case:
    """A convolution with weights of four bits."""
    call = random_conv(rng)
    p = replace(call.params, batches=1, has_bias=0, has_kernel_sum=1)
    groups, rows, elements = packed_weights.rows_of(p, depthwise=False)
    sums = rng.integers(-9000, 9000, p.out_c).astype(np.int32)
    inputs = (call.input[:1], _map(rng, groups, -(-rows // 2), elements), call.multipliers, call.shifts, sums)
    record = PackedConvolutionParams(*astuple(p))
    return Case("dtn_cm_quantized_conv2d_s4", record, p.out_w * p.out_c, inputs, p.out_h * p.out_w * p.out_c, 1)


def _packed_depthwise(rng: Rng) -> Case:
    p, channels = random_depthwise(rng).params, int(rng.integers(1, 20))
    p = replace(p, batches=1, in_c=channels, out_c=channels, groups=channels, has_bias=0)
    taps = p.kernel_h * p.kernel_w
    inputs = (
        _map(rng, 1, p.in_h, p.in_w, channels),
        _map(rng, 1, -(-taps // 2), channels),
        *factors(rng, channels, taps),
    )
    record = PackedConvolutionParams(*astuple(p))
    size = p.out_h * p.out_w * channels
    return Case("dtn_cm_quantized_depthwise_conv2d_s4", record, p.out_w * channels, inputs, size, 1)


def _interleaved(rng: Rng) -> Case:
    """A convolution with interleaved weights."""
    p = random_conv(rng).params
    p = replace(p, batches=1, groups=1, out_c=2 * p.groups, has_bias=0, has_kernel_sum=1)
    words = interleaved_weights.words_of(p.kernel_w * p.in_c)
    weights = _map(rng, p.out_c // 2, p.kernel_h, words, 4)
    sums = rng.integers(-9000, 9000, p.out_c).astype(np.int32)
    inputs = (_map(rng, 1, p.in_h, p.in_w, p.in_c), weights, *factors(rng, p.out_c, p.kernel_h * 2 * words), sums)
    record = InterleavedConvolutionParams(*astuple(p))
    return Case("dtn_cm_interleaved_conv2d", record, p.out_w * p.out_c, inputs, p.out_h * p.out_w * p.out_c, 1)


def _interleaved_linear(rng: Rng) -> Case:
    rows = int(rng.integers(1, 5)) * 2
    record = InterleavedLinearParams(rows, 8, 6, 3, 0, -1, 1 << 30, -8, -128, 127, 0, 1)
    inputs = [_map(rng, rows, 8), _map(rng, 3, 1, 4, 4), rng.integers(-99, 99, 6).astype(np.int32)]
    return Case("dtn_cm_interleaved_linear", record, 12, inputs, rows * 6)


def _winograd(rng: Rng) -> Case:
    h, w, in_c, out_c = (int(rng.integers(1, high)) for high in (12, 8, 6, 5))
    record = WinogradConvolutionParams(
        1, h, w, in_c, h, w, out_c, 1, 3, 3, 1, 1, 1, 1, 1, 1, 9, -3, -128, 127, 0, 1
    )  # fmt: skip
    weights = winograd.transformed(_map(rng, out_c, 3, 3, in_c))
    numbers = [np.full(out_c, number, np.int32) for number in (1 << 30, -9, 500)]
    inputs = (_map(rng, 1, h, w, in_c), weights, *numbers)
    size = winograd_bytes(record)
    return Case("dtn_cm_winograd_conv2d", record, w * out_c, inputs, h * w * out_c, 1, scratch_bytes=size)


def _map(rng: Rng, *shape: int) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _pool(rng: Rng, *, average: bool) -> Case:
    (h, out_h, kh, sh, ph), (w, out_w, kw, sw, pw) = (axis(rng, ceil=average) for _ in range(2))
    sizes = (1, h, w, 3, out_h, out_w, kh, kw, sh, sw, ph, pw)
    record = AveragePoolParams(*sizes, 3, 2, 1, 3, -128, 127) if average else MaxPoolParams(*sizes, -128, 127)
    name = "dtn_cm_quantized_avg_pool2d" if average else "dtn_cm_quantized_max_pool2d"
    return Case(name, record, out_w * 3, [_map(rng, h, w, 3)], out_h * out_w * 3, int(average))


def _linear(rng: Rng) -> Case:
    rows = int(rng.integers(1, 5)) * 2
    record = QuantizedLinearParams(rows, 7, 5, 3, 0, -1, 1 << 30, -8, -128, 127, 1, 0)
    bias = rng.integers(-99, 99, 5).astype(np.int32)
    return Case("dtn_cm_quantized_linear", record, 10, [_map(rng, rows, 7), _map(rng, 5, 7), bias], rows * 5)


def _packed_linear(rng: Rng) -> Case:
    whole = _linear(rng)
    record = PackedLinearParams(
        *astuple(replace(cast(QuantizedLinearParams, whole.record), has_bias=0, has_kernel_sum=1))
    )
    inputs = [whole.inputs[0], _map(rng, 3, 7), whole.inputs[2]]
    return replace(whole, function="dtn_cm_quantized_linear_s4", record=record, inputs=inputs)


def _sum(rng: Rng) -> Case:
    rows, width = (int(n) for n in rng.integers(1, 6, 2))
    record = QuantizedAddParams(1, 1 << 30, 0, 2, 1 << 30, 0, 3, 1 << 30, -18, -128, 127)
    whole, other = (rows, width, 4), [(rows, width, 4), (4,), (width, 4)][int(rng.integers(3))]
    inputs = [_map(rng, *whole), _map(rng, *other)]
    if rng.integers(2):
        inputs.reverse()
    return Case("dtn_cm_quantized_add", Words(record.words()), width * 4, inputs, rows * width * 4)


def _extremum(rng: Rng, name: str) -> Case:
    rows, width = (int(n) for n in rng.integers(1, 6, 2))
    dims = (1, 1, rows, width, 4)
    record = ExtremumParams(dims, (0, 0, width * 4, 4, 1), (0, 0, 0, 0, 1), int(name == "dtn_cm_maximum"))
    return Case(name, record, width * 4, [_map(rng, rows, width, 4), _map(rng, 4)], rows * width * 4)


def _table(rng: Rng) -> Case:
    return Case("dtn_cm_quantized_activation", LutParams(60), 12, [_map(rng, 60), _map(rng, 256)], 60)


def _quantize(rng: Rng) -> Case:
    record = Words((0x3F000000, 3, -128, 127))
    x = rng.standard_normal(60).astype(np.float32) * 40
    return Case("dtn_op_quantize_per_tensor", record, 12, [x], 60)


def _dequantize(rng: Rng) -> Case:
    return Case("dtn_op_dequantize_per_tensor", Words((0x3F000000, 3)), 48, [_map(rng, 60)], 240, element=np.float32)


def _copy(rng: Rng) -> Case:
    """Planes as pixels, or pixels as they are."""
    rows, width, channels = (int(n) for n in rng.integers(2, 6, 3))
    out = (0, 0, 0, width * channels, channels, 1)
    read = (0, 0, 0, width, 1, rows * width) if rng.integers(2) else out
    record = CopyParams(0, (1, 1, 1, rows, width, channels), read, out)
    return Case(COPY, record, width * channels, [_map(rng, rows * width * channels)], rows * width * channels)


def _softmax(rng: Rng) -> Case:
    """A softmax over the innermost dimension, or over an earlier one."""
    outer, depth, inner = (int(n) for n in rng.integers(1, 5, 3))
    record = QuantizedSoftmaxParams(outer * 2, depth, inner, 1 << 30, 20)
    size = depth * inner * int(rng.integers(1, 3))
    return Case("dtn_cm_softmax", record, size, [_map(rng, outer * 2, depth, inner)], outer * 2 * depth * inner)


def _pad(rng: Rng) -> Case:
    """More above and below than a stripe may have rows."""
    rows, width, channels, *pads = (int(n) for n in rng.integers((1, 1, 1, 0, 0, 0, 0), 5))
    record = PadParams((1, rows, width, channels), (0, pads[0], pads[1], 0), (0, pads[2], pads[3], 1), -7)
    row = (width + pads[1] + pads[3]) * (channels + 1)
    return Case("dtn_cm_pad", record, row, [_map(rng, rows, width, channels)], row * (rows + pads[0] + pads[2]))


def _resize(rng: Rng) -> Case:
    record, inputs, output = resize_bilinear(rng)
    assert isinstance(record, ResizeBilinearParams)
    record = replace(record, batches=1)
    row = record.out_w * record.channels
    return Case("dtn_cm_resize_bilinear", record, row, [inputs[0][:1]], output[:1].nbytes)


CASES: dict[str, Callable[[Rng], Case]] = {
    "dtn_cm_quantized_conv2d": lambda rng: _convolution(random_conv(rng)),
    "dtn_cm_quantized_depthwise_conv2d": lambda rng: _convolution(random_depthwise(rng)),
    "dtn_cm_quantized_linear": _linear,
    "dtn_cm_quantized_conv2d_s4": _packed,
    "dtn_cm_quantized_depthwise_conv2d_s4": _packed_depthwise,
    "dtn_cm_quantized_linear_s4": _packed_linear,
    "dtn_cm_interleaved_conv2d": _interleaved,
    "dtn_cm_interleaved_linear": _interleaved_linear,
    "dtn_cm_quantized_avg_pool2d": lambda rng: _pool(rng, average=True),
    "dtn_cm_quantized_max_pool2d": lambda rng: _pool(rng, average=False),
    "dtn_cm_quantized_add": _sum,
    "dtn_cm_minimum": lambda rng: _extremum(rng, "dtn_cm_minimum"),
    "dtn_cm_maximum": lambda rng: _extremum(rng, "dtn_cm_maximum"),
    "dtn_cm_quantized_activation": _table,
    "dtn_op_quantize_per_tensor": _quantize,
    "dtn_op_dequantize_per_tensor": _dequantize,
    COPY: _copy,
    "dtn_cm_quantized_transpose_conv2d": lambda rng: _convolution(random_transposed(rng), scratch=2),
    "dtn_cm_winograd_conv2d": _winograd,
    "dtn_cm_softmax": _softmax,
    "dtn_cm_pad": _pad,
    "dtn_cm_resize_bilinear": _resize,
}
ALIKE = {"dtn_cm_quantized_mul", "dtn_cm_quantized_div"}
"""Elementwise as the sum is."""


def test_every_operator_with_rows_is_held_against_its_whole_call() -> None:
    assert CASES.keys() | ALIKE == (RECORDS.keys() | ELEMENTWISE.keys()) - {DECOMPRESS}  # which is never split


@pytest.mark.parametrize("name", CASES)
def test_rows_are_those_of_the_whole_call(c_operators: OperatorLibrary, name: str) -> None:
    cut = 0
    for seed in SEEDS:
        rng = np.random.default_rng([27, seed])
        case = CASES[name](rng)
        params = case.params()
        rows = CPU.rowwise(params, case.nbytes)
        if rows is None:  # windows beside the map
            continue
        whole = case.run(c_operators, params, [x.tobytes() for x in case.inputs])
        for first in range(rows.count):
            last = int(rng.integers(first + 1, rows.count + 1))
            part = rows.narrowed(first, last)
            assert isinstance(part, CpuParams)
            inputs: list[bytes] = []
            for size, x, window in zip(part.sizes, case.inputs, rows.reads, strict=False):
                low = 0 if window is None else window.rows(first, last)[0] * window.nbytes
                inputs.append(x.tobytes()[low:][:size])
            assert case.run(c_operators, part, inputs) == whole[first * case.nbytes : last * case.nbytes], (
                seed,
                first,
                last,
            )
            cut += (first, last) != (0, rows.count)
    assert cut > len(SEEDS)


def test_what_mixes_rows_has_none() -> None:
    map_ = np.zeros((2, 3, 4), np.int8)
    batches = replace(_convolution(random_conv(np.random.default_rng(0))).record, batches=2)
    for case in (
        Case("dtn_cm_quantized_conv2d", batches, 4, [map_], 24),
        Case("dtn_cm_quantized_add", Words(()), 5, [map_, map_], 24),
        Case("dtn_cm_quantized_add", Words(()), 12, [map_, np.zeros(8, np.int8)], 24),
        Case("dtn_cm_softmax", Words(()), 12, [map_], 24),
    ):
        assert CPU.rowwise(case.params(), case.nbytes) is None


def test_a_region_is_a_copy_behind_an_offset() -> None:
    """Return the changes that make a record of one operator readable as that of the other."""
    assert RegionCopyParams.field_words()[1:] == CopyParams.field_words()

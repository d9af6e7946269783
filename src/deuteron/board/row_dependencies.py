"""Row dependencies of CPU operators, and the cost of their calls.

The records of operators are those of `deuteron.operators`; their windows and strides are read as those of the NPU's
kernels (`deuteron.operators.row_dependencies`). Records do not contain operand sizes; callers pass them.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from deuteron.arch.cores import Core, Work
from deuteron.operators import interleaved_weights, row_dependencies, rules
from deuteron.operators import kernel_params as p
from deuteron.operators.cortex_m import (
    DecompressParams,
    InterleavedConvolutionParams,
    InterleavedLinearParams,
    PackedConvolutionParams,
    PackedLinearParams,
    PadParams,
    QuantizedConvolutionParams,
    QuantizedLinearParams,
    QuantizedSoftmaxParams,
    WinogradConvolutionParams,
)
from deuteron.operators.kernel_params import KernelParams, row_copy
from deuteron.operators.limits import ALIGNMENT
from deuteron.operators.operation_counts import DEPTHWISE, PACKED_DEPTHWISE, TRANSPOSED, work_of
from deuteron.operators.program import Kernel, KernelCall
from deuteron.operators.row_dependencies import Rowwise, Window

COPY = "dtn_cm_copy"
CONVOLUTION = "dtn_cm_quantized_conv2d"
LINEAR = "dtn_cm_quantized_linear"
WINOGRAD = "dtn_cm_winograd_conv2d"
DECOMPRESS = "dtn_cm_decompress"
PACKED = {
    CONVOLUTION: "dtn_cm_quantized_conv2d_s4",
    DEPTHWISE: PACKED_DEPTHWISE,
    LINEAR: "dtn_cm_quantized_linear_s4",
}
"""The operator with packed weights of four bits for each that has int8 weights."""

INTERLEAVED = {CONVOLUTION: "dtn_cm_interleaved_conv2d", LINEAR: "dtn_cm_interleaved_linear"}
"""The operator with interleaved weights for each that has rows of weights."""

RECORDS: dict[str, type[KernelParams]] = {
    DECOMPRESS: DecompressParams,  # it has no rows, but scratch memory
    COPY: p.CopyParams,  # its first word is the offset of the operand
    CONVOLUTION: QuantizedConvolutionParams,
    WINOGRAD: WinogradConvolutionParams,
    DEPTHWISE: QuantizedConvolutionParams,
    TRANSPOSED: QuantizedConvolutionParams,
    LINEAR: QuantizedLinearParams,
    INTERLEAVED[CONVOLUTION]: InterleavedConvolutionParams,
    INTERLEAVED[LINEAR]: InterleavedLinearParams,
    PACKED[CONVOLUTION]: PackedConvolutionParams,
    PACKED[DEPTHWISE]: PackedConvolutionParams,
    PACKED[LINEAR]: PackedLinearParams,
    "dtn_cm_quantized_avg_pool2d": p.AveragePoolParams,
    "dtn_cm_quantized_max_pool2d": p.MaxPoolParams,
    "dtn_cm_quantized_activation": p.LutParams,
    "dtn_cm_minimum": p.ExtremumParams,
    "dtn_cm_maximum": p.ExtremumParams,
    "dtn_cm_softmax": QuantizedSoftmaxParams,
    "dtn_cm_pad": PadParams,
    "dtn_cm_resize_bilinear": p.ResizeBilinearParams,
}
"""Operators whose record determines the rows of their output."""

ELEMENTWISE = {
    "dtn_cm_quantized_add": Work.SUM,
    "dtn_cm_quantized_mul": Work.PRODUCT,
    "dtn_cm_quantized_div": Work.PRODUCT,
    "dtn_op_quantize_per_tensor": Work.QUANTIZE,
    "dtn_op_dequantize_per_tensor": Work.DEQUANTIZE,
}
"""Operators with as many elements as their values; a smaller operand repeats along the outer dimensions."""


@dataclass(frozen=True, slots=True)
class Words(KernelParams):
    """A record without information on rows."""

    numbers: tuple[int, ...]

    def words(self) -> tuple[int, ...]:
        """Return the words."""
        return self.numbers


@dataclass(frozen=True, slots=True)
class CpuParams(KernelParams):
    """Parameters of a call of a CPU operator.

    Attributes:
        function: the operator's C function.
        record: its parameter words.
        sizes: bytes of each operand: inputs, output, scratch memory.
        output: index of the output among them.
    """

    function: str
    record: KernelParams
    sizes: tuple[int, ...]
    output: int

    def words(self) -> tuple[int, ...]:
        """Return the words."""
        return self.record.words()


def _cpu(params: KernelParams) -> CpuParams:
    if not isinstance(params, CpuParams):
        raise TypeError(f"{type(params).__name__} is not the record of a CPU operator call")
    return params


class CpuKernels:
    """The CPU operators of firmware."""

    def natural_rows(self, params: KernelParams) -> int | None:
        """Return the bytes of a row of a window operator's output, None for other operators."""
        match _cpu(params).record:
            case QuantizedConvolutionParams() as record:
                return record.out_w * record.out_c
            case PadParams() as record:
                return math.prod(_padded(record)[2:])
            case record:
                return row_dependencies.natural_rows(record)

    def rowwise(self, params: KernelParams, nbytes: int) -> Rowwise | None:
        """Return the call as rows of `nbytes` bytes; None if it has no such rows."""
        own = _cpu(params)
        match own.record:
            case QuantizedConvolutionParams() as record if own.function == TRANSPOSED:
                return _transposed(own, record, nbytes)
            case QuantizedConvolutionParams() as record:
                return _convolution(own, record, nbytes)
            case QuantizedLinearParams() as record:
                return _linear(own, record, nbytes)
            case QuantizedSoftmaxParams() as record:
                return _softmax(own, record, nbytes)
            case PadParams() as record:
                return _pad(own, record, nbytes)
            case Words():
                return _elementwise(own, nbytes) if own.function in ELEMENTWISE else None
            case record:
                return _like_kernel(own, record, nbytes)

    def operand_bytes(self, params: KernelParams) -> tuple[int, ...]:
        """Return the size of each operand of a call."""
        return _cpu(params).sizes

    def may_write_onto(self, params: KernelParams, operand: int) -> bool:
        """Return false: no value of a step overlaps its output."""
        del params, operand
        return False

    def supports(self, call: KernelCall, anywhere: Collection[str]) -> bool:
        """Return true if values start at multiples of the alignment, or the operator accepts an offset."""
        own = _cpu(call.params)
        return own.function == COPY or all(
            ref.buffer in anywhere or ref.offset % ALIGNMENT == 0 for ref in call.operands
        )

    def copy(self, count: int, nbytes: int) -> tuple[Kernel, KernelParams]:
        """Return the call that copies `count` rows of `nbytes` bytes."""
        size = count * nbytes
        return Kernel(0, COPY, ("input",), CpuParams), CpuParams(COPY, row_copy(count, nbytes), (size, size), 1)


CPU = CpuKernels()
"""The CPU operators of firmware."""


def _convolution(own: CpuParams, record: QuantizedConvolutionParams, nbytes: int) -> Rowwise | None:
    """Handle windows over one map; rows outside it are padding, but every window has a row of the map."""
    span = (record.kernel_h - 1) * record.dilation_h + 1
    is_on_map = record.pad_h < span and (record.out_h - 1) * record.stride_h - record.pad_h < record.in_h
    if record.batches != 1 or nbytes != record.out_w * record.out_c or not is_on_map:
        return None
    window = Window(record.in_w * record.in_c, record.in_h, -record.pad_h, record.stride_h, span)

    def narrowed(first: int, last: int) -> KernelParams:
        low, high = window.rows(first, last)
        above = max(0, record.pad_h - first * record.stride_h)
        part = replace(record, in_h=high - low, out_h=last - first, pad_h=above)
        return _sized(own, part, {0: (high - low) * window.nbytes, own.output: (last - first) * nbytes})

    return Rowwise(record.out_h, (window, *(None,) * (own.output - 1)), narrowed)


def _transposed(own: CpuParams, record: QuantizedConvolutionParams, nbytes: int) -> Rowwise | None:
    """Handle transposed windows: input row i adds to output rows from i * stride - pad, as many as the kernel has."""
    kernel, stride, pad = record.kernel_h, record.stride_h, record.pad_h
    if record.batches != 1 or nbytes != record.out_w * record.out_c or kernel < stride:
        return None
    window = Window(
        record.in_w * record.in_c, record.in_h, pad - kernel + stride, length=kernel - stride + 1, unit=stride
    )

    def narrowed(first: int, last: int) -> KernelParams:
        low, high = window.rows(first, last)
        part = replace(record, in_h=high - low, out_h=last - first, pad_h=pad + first - low * stride)
        return _sized(own, part, {0: (high - low) * window.nbytes, own.output: (last - first) * nbytes})

    return Rowwise(record.out_h, (window, *(None,) * (own.output - 1)), narrowed)


def _padded(record: PadParams) -> tuple[int, ...]:
    """Return the dimensions of a pad's output."""
    return tuple(sum(each) for each in zip(record.before, record.dims, record.after, strict=True))


def _pad(own: CpuParams, record: PadParams, nbytes: int) -> Rowwise | None:
    """Handle rows along the second dimension; calls for padding only crop the row that they have."""
    out = _padded(record)
    if out[0] != 1 or nbytes != math.prod(out[2:]):
        return None
    window = Window(math.prod(record.dims[2:]), record.dims[1], -record.before[1])

    def narrowed(first: int, last: int) -> KernelParams:
        low, high = window.rows(first, last)
        above = record.before[1] - first + low
        below = (last - first) - above - (high - low)
        part = replace(
            record,
            dims=(1, high - low, *record.dims[2:]),
            before=(0, above, *record.before[2:]),
            after=(0, below, *record.after[2:]),
        )
        return _sized(own, part, {0: (high - low) * window.nbytes, own.output: (last - first) * nbytes})

    return Rowwise(out[1], (window,), narrowed)


def _softmax(own: CpuParams, record: QuantizedSoftmaxParams, nbytes: int) -> Rowwise | None:
    size = record.depth * record.inner
    if nbytes % size or record.outer % (nbytes // size):
        return None
    each = nbytes // size
    window = Window(nbytes, record.outer // each)

    def narrowed(first: int, last: int) -> KernelParams:
        part = replace(record, outer=(last - first) * each)
        return _sized(own, part, dict.fromkeys((0, own.output), (last - first) * nbytes))

    return Rowwise(window.count, (window,), narrowed)


def _linear(own: CpuParams, record: QuantizedLinearParams, nbytes: int) -> Rowwise | None:
    if nbytes % record.out_features or record.rows % (nbytes // record.out_features):
        return None
    each = nbytes // record.out_features
    count, size = record.rows // each, each * record.in_features

    def narrowed(first: int, last: int) -> KernelParams:
        part = replace(record, rows=(last - first) * each)
        return _sized(own, part, {0: (last - first) * size, own.output: (last - first) * nbytes})

    return Rowwise(count, (Window(size, count), *(None,) * (own.output - 1)), narrowed)


def _elementwise(own: CpuParams, nbytes: int) -> Rowwise | None:
    """Handle as many elements of each operand as of the output; a repeated operand must divide a row."""
    whole = own.sizes[own.output]
    count = whole // nbytes
    reads: list[Window | None] = []
    for size in own.sizes[: own.output]:
        is_repeated = own.output > 1 and size < whole
        if whole % nbytes or (nbytes % size if is_repeated else size % count):
            return None
        reads.append(None if is_repeated else Window(size // count, count))

    def narrowed(first: int, last: int) -> KernelParams:
        sizes = {at: (last - first) * window.nbytes for at, window in enumerate(reads) if window is not None}
        return _sized(own, own.record, {**sizes, own.output: (last - first) * nbytes})

    return Rowwise(count, tuple(reads), narrowed)


def _like_kernel(own: CpuParams, record: KernelParams, nbytes: int) -> Rowwise | None:
    """Handle as the NPU's kernel with the same record."""
    inner = row_dependencies.rowwise(record, nbytes)
    if inner is None:
        return None

    def narrowed(first: int, last: int) -> KernelParams:
        part = inner.narrowed(first, last)
        return _sized(own, part, dict(enumerate(rules.operand_bytes(part))))

    return replace(inner, narrowed=narrowed)


def _sized(own: CpuParams, record: KernelParams, sizes: dict[int, int]) -> CpuParams:
    """Return the call with another record, and other sizes of some operands."""
    return replace(own, record=record, sizes=tuple(sizes.get(at, size) for at, size in enumerate(own.sizes)))


@dataclass(frozen=True, slots=True)
class Counted(CpuKernels):
    """Instruction counts of the operators on a core, from measurements."""

    core: Core

    @property
    def dispatch(self) -> int:
        """Return the instructions to dispatch a call."""
        return self.core.call.value

    def work(self, params: KernelParams) -> int:
        """Return the instructions of a call's work; 0 if it was not counted; such calls are never split."""
        own = _cpu(params)
        kind, elements, terms = _work(own)
        count = self.core.instructions(kind, elements, terms)
        return 0 if count is None else count - self.core.call.value - _saved(own)

    def is_counted(self, params: KernelParams) -> bool:
        """Return true if the work of a call was counted."""
        return self.core.instructions(*_work(_cpu(params))) is not None

    def copied(self, nbytes: int) -> int:
        """Return the instructions of a copy."""
        count = self.core.instructions(Work.MOVE, nbytes)
        return 0 if count is None else count - self.core.call.value

    def fetched(self, nbytes: int, fetches: int) -> int:
        """Return 0: weights are read in place."""
        del nbytes, fetches
        return 0


def macs(params: KernelParams) -> int:
    """Return the multiply-accumulates of a call, by Winograd's algorithm too those of the convolution."""
    own = _cpu(params)
    if isinstance(own.record, WinogradConvolutionParams):
        return own.sizes[own.output] * own.record.kernel_h * own.record.kernel_w * own.record.in_c
    kind, _, terms = _work(own)
    return terms if kind.multiplies else 0


def _saved(own: CpuParams) -> int:
    """Return the instructions that weights of 16 bits save; the count is that of weights of 8 bits."""
    match own.record:
        case InterleavedConvolutionParams() as record if own.sizes[1] == interleaved_weights.bytes_of_16_bits(record):
            return interleaved_weights.saved_by_16_bits(record)
        case _:
            return 0


def _work(own: CpuParams) -> tuple[Work, int, int]:
    """Return the kind of work, the number of output elements, and the terms of each."""
    return work_of(own.function, own.record, own.sizes[own.output])

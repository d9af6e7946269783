"""How rows of what a CPU operator writes depend on rows of what it reads, and what its calls cost.

The records of operators are those of `deuteron.operators`. Their windows and strides are read as those of the NPU's
kernels (`deuteron.npu.neutron.kernels.row_dependencies`). Records leave out the sizes of operands; callers pass them.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from deuteron.arch.cores import Core, Work
from deuteron.npu.neutron.kernels import params as p
from deuteron.npu.neutron.kernels import row_dependencies, rules
from deuteron.npu.neutron.kernels.catalogue import Kernel
from deuteron.npu.neutron.kernels.limits import ALIGNMENT
from deuteron.npu.neutron.kernels.params import KernelParams
from deuteron.npu.neutron.kernels.program import KernelCall
from deuteron.npu.neutron.kernels.row_dependencies import Rowwise, Window
from deuteron.operators.cortex_m import (
    PadParams,
    QuantizedConvolutionParams,
    QuantizedLinearParams,
    QuantizedSoftmaxParams,
)
from deuteron.planner.processor_model import row_copy

COPY = "dtn_cm_copy"
CONVOLUTION = "dtn_cm_quantized_conv2d"
DEPTHWISE = "dtn_cm_quantized_depthwise_conv2d"
TRANSPOSED = "dtn_cm_quantized_transpose_conv2d"

RECORDS: dict[str, type[KernelParams]] = {
    COPY: p.CopyParams,  # its first word is the offset of the operand
    CONVOLUTION: QuantizedConvolutionParams,
    DEPTHWISE: QuantizedConvolutionParams,
    TRANSPOSED: QuantizedConvolutionParams,
    "dtn_cm_quantized_linear": QuantizedLinearParams,
    "dtn_cm_quantized_avg_pool2d": p.AveragePoolParams,
    "dtn_cm_quantized_max_pool2d": p.MaxPoolParams,
    "dtn_cm_quantized_activation": p.LutParams,
    "dtn_cm_minimum": p.ExtremumParams,
    "dtn_cm_maximum": p.ExtremumParams,
    "dtn_cm_softmax": QuantizedSoftmaxParams,
    "dtn_cm_pad": PadParams,
    "dtn_cm_resize_bilinear": p.ResizeBilinearParams,
}
"""Operators whose record says which rows their output has."""

ELEMENTWISE = {
    "dtn_cm_quantized_add": Work.SUM,
    "dtn_cm_quantized_mul": Work.PRODUCT,
    "dtn_cm_quantized_div": Work.PRODUCT,
    "dtn_op_quantize_per_tensor": Work.QUANTISE,
    "dtn_op_dequantize_per_tensor": Work.DEQUANTISE,
}
"""Operators that have as many elements as their values; a smaller operand is repeated along the outer dimensions."""

_WORKS = {
    COPY: Work.MOVE,
    "dtn_cm_quantized_linear": Work.LINEAR,
    "dtn_cm_quantized_avg_pool2d": Work.AVERAGE,
    "dtn_cm_quantized_max_pool2d": Work.LARGEST,
    "dtn_cm_quantized_activation": Work.TABLE,
    "dtn_cm_minimum": Work.SUM,
    "dtn_cm_maximum": Work.SUM,
    "dtn_cm_softmax": Work.SOFTMAX,
    "dtn_cm_pad": Work.MOVE,
    "dtn_cm_resize_bilinear": Work.RESIZE,
    **ELEMENTWISE,
}


@dataclass(frozen=True, slots=True)
class Words(KernelParams):
    """A record that says nothing of rows."""

    numbers: tuple[int, ...]

    def words(self) -> tuple[int, ...]:
        """The words."""
        return self.numbers


@dataclass(frozen=True, slots=True)
class CpuParams(KernelParams):
    """What a call of a CPU operator is asked for.

    Attributes:
        function: the operator in C.
        record: its words.
        sizes: bytes of each operand: those read, the output, scratch memory.
        output: which of them is the output.
    """

    function: str
    record: KernelParams
    sizes: tuple[int, ...]
    output: int

    def words(self) -> tuple[int, ...]:
        """The words."""
        return self.record.words()


def _cpu(params: KernelParams) -> CpuParams:
    if not isinstance(params, CpuParams):
        raise TypeError(f"{type(params).__name__} is not the record of a CPU operator's call")
    return params


class CpuKernels:
    """The CPU operators of firmware."""

    def natural_rows(self, params: KernelParams) -> int | None:
        """Bytes of a row of the output of a window, None for other operators."""
        match _cpu(params).record:
            case QuantizedConvolutionParams() as record:
                return record.out_w * record.out_c
            case PadParams() as record:
                return math.prod(_padded(record)[2:])
            case record:
                return row_dependencies.natural_rows(record)

    def rowwise(self, params: KernelParams, nbytes: int) -> Rowwise | None:
        """The call as rows of `nbytes` bytes; None where it has no such rows."""
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
        """Size of each operand of a call."""
        return _cpu(params).sizes

    def may_write_onto(self, params: KernelParams, operand: int) -> bool:
        """False: no value of a step overlaps its output."""
        del params, operand
        return False

    def takes(self, call: KernelCall, anywhere: Collection[str]) -> bool:
        """True where values start at multiples of the alignment, or the operator takes an offset from one."""
        own = _cpu(call.params)
        return own.function == COPY or all(
            ref.buffer in anywhere or ref.offset % ALIGNMENT == 0 for ref in call.operands
        )

    def copy(self, count: int, nbytes: int) -> tuple[Kernel, KernelParams]:
        """The call that copies `count` rows of `nbytes` bytes."""
        size = count * nbytes
        return Kernel(0, COPY, ("input",), CpuParams), CpuParams(COPY, row_copy(count, nbytes), (size, size), 1)


CPU = CpuKernels()
"""The CPU operators of firmware."""


def _convolution(own: CpuParams, record: QuantizedConvolutionParams, nbytes: int) -> Rowwise | None:
    """Windows over one map; rows above and below it are padding, but no window lies there alone."""
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
    """Row i of the input adds to those of the output from i * stride - pad on, as many as the kernel has."""
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
    """Dimensions of what a pad writes."""
    return tuple(sum(each) for each in zip(record.before, record.dims, record.after, strict=True))


def _pad(own: CpuParams, record: PadParams, nbytes: int) -> Rowwise | None:
    """Rows along the second dimension; those of padding alone leave out the row that they have, too."""
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
    """As many elements of each operand as of the output; one that is repeated must fit into a row, again and again."""
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
    """As the NPU's kernel of the same record."""
    inner = row_dependencies.rowwise(record, nbytes)
    if inner is None:
        return None

    def narrowed(first: int, last: int) -> KernelParams:
        part = inner.narrowed(first, last)
        return _sized(own, part, dict(enumerate(rules.operand_bytes(part))))

    return replace(inner, narrowed=narrowed)


def _sized(own: CpuParams, record: KernelParams, sizes: dict[int, int]) -> CpuParams:
    """The call with another record, and other sizes of some operands."""
    return replace(own, record=record, sizes=tuple(sizes.get(at, size) for at, size in enumerate(own.sizes)))


@dataclass(frozen=True, slots=True)
class Counted:
    """Instructions of the operators on a core, by the counts that its figures come from."""

    core: Core

    @property
    def dispatch(self) -> int:
        """Of each call."""
        return self.core.call.value

    def work(self, params: KernelParams) -> int:
        """Of what a call computes; 0 for what nobody has counted, which is never cut."""
        own = _cpu(params)
        kind, elements, terms = _work(own)
        count = self.core.instructions(kind, elements, terms)
        return 0 if count is None else count - self.core.call.value

    def is_counted(self, params: KernelParams) -> bool:
        """Whether anybody has counted what a call computes."""
        return self.core.instructions(*_work(_cpu(params))) is not None

    def copied(self, nbytes: int) -> int:
        """Of a copy."""
        count = self.core.instructions(Work.MOVE, nbytes)
        return 0 if count is None else count - self.core.call.value

    def fetched(self, nbytes: int, fetches: int) -> int:
        """None: weights are read where they are."""
        del nbytes, fetches
        return 0


def macs(params: KernelParams) -> int:
    """Multiply-accumulates of a call."""
    kind, _, terms = _work(_cpu(params))
    return terms if kind.multiplies else 0


def _work(own: CpuParams) -> tuple[Work, int, int]:
    """What the operator does, how many elements it writes, and how many terms they have."""
    elements = own.sizes[own.output]
    match own.record:
        case QuantizedConvolutionParams() as record:
            taps = record.kernel_h * record.kernel_w
            if own.function == TRANSPOSED:
                each = taps * record.in_c * record.out_c
                return Work.CONVOLUTION, elements, record.in_h * record.in_w * each
            if own.function == DEPTHWISE:
                plain = (record.kernel_w, record.stride_w, record.dilation_w) == (3, 1, 1)
                return (Work.DEPTHWISE if plain else Work.APART), elements, elements * taps
            depth = taps * (record.in_c // record.groups)
            points = (taps, record.pad_h, record.pad_w) == (1, 0, 0)
            return (Work.POINTS if points else Work.CONVOLUTION), elements, elements * depth
        case QuantizedLinearParams() as record:
            return Work.LINEAR, elements, elements * record.in_features
        case p.AveragePoolParams() | p.MaxPoolParams() as record:
            return _WORKS[own.function], elements, elements * record.kernel_h * record.kernel_w
        case p.CopyParams() as record:
            return Work.MOVE, math.prod(record.dims), 0
        case _:
            return _WORKS.get(own.function, Work.UNKNOWN), elements, 0

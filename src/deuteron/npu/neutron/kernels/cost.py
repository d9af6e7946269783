"""Cost of kernel calls: closed forms over their parameters.

The array has R x C multipliers, each holding one output (output stationary). A dense convolution of P output positions
and F filters has a reduction over T elements. It takes ceil(P / R) * ceil(F / C) * (R + C + T - 2) cycles: tiles times
the length of the reduction, and the time to fill and drain the array. This is the closed form of the systolic array
simulator SCALE-Sim. A depthwise filter sums over no channels, so that each channel uses one column of the array alone.
Other kernels process a number of elements per cycle. A call takes at least the cycles in which its operands pass the
SRAM port once.
"""

import math
from typing import Protocol

from deuteron.npu.timeline import Cost
from deuteron.operators import kernel_params as p
from deuteron.operators.rules import operand_bytes


class Rates(Protocol):
    """The hardware parameters of the closed forms."""

    @property
    def rows(self) -> int:
        """Rows of the array."""
        ...

    @property
    def columns(self) -> int:
        """Columns of the array."""
        ...

    @property
    def elementwise(self) -> int:
        """Elements per cycle of kernels without the array."""
        ...

    @property
    def sram_port(self) -> int:
        """Bytes per cycle between NPU and SRAM."""
        ...


def cost(params: p.KernelParams, rates: Rates) -> Cost:
    """Return the cost of a call."""
    nbytes = _moved(params)
    macs, compute = _array(params, rates) or (0, _ceil(_elements(params), rates.elementwise))
    return Cost(macs, compute, nbytes, _ceil(nbytes, rates.sram_port))


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def systolic(positions: int, filters: int, reduction: int, rows: int, columns: int) -> int:
    """Return the cycles of a matrix product on an output stationary array (SCALE-Sim's closed form)."""
    return _ceil(positions, rows) * _ceil(filters, columns) * (rows + columns + reduction - 2)


def _array(params: p.KernelParams, rates: Rates) -> tuple[int, int] | None:
    """Return multiply-accumulates and cycles of a kernel on the array, or None."""
    match params:
        case p.Conv2DParams():
            positions = params.batches * params.out_h * params.out_w
            patch = params.kernel_h * params.kernel_w * params.in_c
            cycles = systolic(positions, params.out_c, patch, rates.rows, rates.columns)
            return positions * params.out_c * patch, cycles
        case p.DepthwiseConv2DParams():
            positions = params.batches * params.out_h * params.out_w
            patch = params.kernel_h * params.kernel_w
            return positions * params.out_c * patch, params.out_c * systolic(positions, 1, patch, rates.rows, 1)
        case p.FullyConnectedParams():
            cycles = systolic(params.rows, params.out_features, params.in_features, rates.rows, rates.columns)
            return params.rows * params.out_features * params.in_features, cycles
        case p.MatMulParams():
            cycles = params.batches * systolic(params.rows, params.columns, params.depth, rates.rows, rates.columns)
            return params.batches * params.rows * params.columns * params.depth, cycles
        case _:
            return None


def _elements(params: p.KernelParams) -> int:
    """Return the elements that a call without the array reads, with repetitions."""
    match params:
        case p.PoolParams():
            outputs = params.batches * params.out_h * params.out_w * params.channels
            return outputs * params.kernel_h * params.kernel_w
        case p.ReductionParams():
            return params.outer * params.reduced * params.inner
        case p.ResizeBilinearParams():
            return 4 * params.batches * params.out_h * params.out_w * params.channels
        case p.SoftmaxParams():
            return 3 * params.rows * params.depth  # largest, sum, quotient: three passes over a row
        case p.CopyParams() | p.BinaryParams():
            return math.prod(params.dims)
        case p.FillParams() | p.LutParams():
            return params.size
        case _:
            raise TypeError(f"{type(params).__name__} has no cost")


def _moved(params: p.KernelParams) -> int:
    """Return the bytes of all operands except workspace; a strided operand counts only its accessed bytes."""
    match params:
        case p.CopyParams():
            return 2 * math.prod(params.dims)
        case p.Conv2DParams():
            written = params.batches * params.out_h * params.out_w * params.out_c
            return sum(operand_bytes(params)[:4]) + written
        case _:
            return sum(operand_bytes(params))

"""Kernel selection: lowers a graph to a program of kernel calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Never, cast

from deuteron.errors import UnsupportedError, all_refused
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.kernels.catalogue import (
    ADD,
    AVERAGE_POOL,
    CONV2D,
    COPY,
    DEPTHWISE_CONV2D,
    EXTREMUM,
    FILL,
    FULLY_CONNECTED,
    LUT,
    MATMUL,
    MAX_POOL,
    MUL,
    PRELU,
    REDUCE_EXTREMUM,
    REDUCE_SUM,
    RESIZE_BILINEAR,
    SOFTMAX,
    Kernel,
)  # fmt: skip
from deuteron.npu.neutron.passes.constraints import check
from deuteron.npu.neutron.passes.copy_outputs import copy_outputs
from deuteron.npu.neutron.passes.lowering import convolution, elementwise, matmul, movement, reduction, resize
from deuteron.npu.neutron.passes.lowering.buffer_aliasing import find_aliases
from deuteron.npu.neutron.passes.lowering.builder import Builder
from deuteron.operators.program import Program


def select(graph: Graph) -> Program:
    """Return the program that computes the graph.

    Raises:
        UnsupportedError: ops violate constraints of the NPU; it names each of them and its TFLite index.
    """
    graph = copy_outputs(graph)
    build = Builder(graph, find_aliases(graph))
    refused: list[UnsupportedError] = []
    for op in graph.ops:
        try:
            _lower(build, op)
        except UnsupportedError as error:
            refused.append(error if error.where else build.unsupported(op, error.message, error.hint))
    if refused:
        raise all_refused(refused)
    return build.program()


@dataclass(frozen=True, slots=True)
class Lowering:
    """Lowering of one kind of operator to kernel calls.

    Attributes:
        lower: appends the calls of an op of that kind to the program.
        kernels: every kernel that it may call.
    """

    lower: Callable[[Builder, Never], None]
    kernels: tuple[Kernel, ...]


LOWERINGS: Mapping[type[ops.Op], Lowering] = MappingProxyType(
    {
        ops.Conv2D: Lowering(convolution.conv2d, (CONV2D,)),
        ops.DepthwiseConv2D: Lowering(convolution.depthwise_conv2d, (DEPTHWISE_CONV2D,)),
        ops.TransposeConv: Lowering(convolution.transpose_conv, (FILL, COPY, CONV2D)),
        ops.FullyConnected: Lowering(convolution.fully_connected, (FULLY_CONNECTED,)),
        ops.BatchMatMul: Lowering(matmul.batch_matmul, (COPY, MATMUL)),
        ops.Add: Lowering(elementwise.add, (ADD,)),
        ops.Sub: Lowering(elementwise.add, (ADD,)),
        ops.Mul: Lowering(elementwise.mul, (MUL,)),
        ops.Maximum: Lowering(elementwise.extremum, (LUT, EXTREMUM)),
        ops.Minimum: Lowering(elementwise.extremum, (LUT, EXTREMUM)),
        ops.Prelu: Lowering(elementwise.prelu, (PRELU,)),
        ops.Unary: Lowering(elementwise.table, (LUT,)),
        ops.LeakyRelu: Lowering(elementwise.table, (LUT,)),
        ops.Quantize: Lowering(elementwise.table, (LUT,)),
        ops.Lookup: Lowering(elementwise.table, (LUT,)),
        ops.Softmax: Lowering(elementwise.softmax, (SOFTMAX,)),
        ops.AveragePool2D: Lowering(reduction.average_pool, (AVERAGE_POOL,)),
        ops.MaxPool2D: Lowering(reduction.max_pool, (MAX_POOL,)),
        ops.Mean: Lowering(reduction.mean, (COPY, REDUCE_SUM)),
        ops.Sum: Lowering(reduction.mean, (COPY, REDUCE_SUM)),
        ops.ReduceMax: Lowering(reduction.extremum, (COPY, REDUCE_EXTREMUM)),
        ops.ReduceMin: Lowering(reduction.extremum, (COPY, REDUCE_EXTREMUM)),
        ops.ResizeBilinear: Lowering(resize.bilinear, (RESIZE_BILINEAR,)),
        ops.ResizeNearest: Lowering(resize.nearest, (COPY,)),
        ops.Reshape: Lowering(movement.reshape, (COPY,)),
        ops.Transpose: Lowering(movement.transpose, (COPY,)),
        ops.Slice: Lowering(movement.slice_, (COPY,)),
        ops.Concat: Lowering(movement.concat, (COPY,)),
        ops.Pad: Lowering(movement.pad, (FILL, COPY)),
        ops.MirrorPad: Lowering(movement.mirror_pad, (COPY,)),
    }
)
"""Lowerings by operator; the table of `deuteron ops` prints them."""


def _lower(build: Builder, op: ops.Op) -> None:
    check(op, build.graph)
    lower = cast(Callable[[Builder, ops.Op], None], LOWERINGS[type(op)].lower)
    lower(build, op)
